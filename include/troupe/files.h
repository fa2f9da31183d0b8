// Files, behind one small interface, wherever they are: on disk, in memory, or in a system of the
// program's own.
//
//   absl::Status s = files::Write("mem://notes", "loss 0.25");  // whole, or not at all
//   absl::StatusOr<std::string> text = files::Read("mem://notes");
//
// The scheme in front of a path chooses the file system: "file://", or no scheme at all, is the
// disk; "mem://" is memory that the whole process shares; others are those of RegisterFileSystem.
//
// What a crash leaves. Bytes are safe when Sync of their file has returned, names when
// SyncDirectory of their folder has. Rename replaces the target in one step. So a file that must
// never be seen half written is written under a temporary name, synced and renamed: Write does
// that.
//
// Errors are statuses with the path and the system's own text ("no space left on device"):
// NOT_FOUND, ALREADY_EXISTS, PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk full, too many files),
// DATA_LOSS (the device failed), FAILED_PRECONDITION (a folder where a file should be, a folder
// that is not empty), UNIMPLEMENTED for a scheme that nobody has registered.
//
// Thread rule: a FileSystem and a ReadableFile may be used by any number of threads at once, a
// WritableFile by one at a time.
#ifndef TROUPE_FILES_H_
#define TROUPE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"

namespace troupe {
namespace TROUPE_EXPORT files {

struct FileStat {
  uint64_t size = 0;
  int64_t modified_ns = 0;  // since 1970
  bool is_directory = false;
};

class ReadableFile {
 public:
  virtual ~ReadableFile();
  // Reads up to `n` bytes from `offset` on; fewer only where the file ends.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t n, char* to) const = 0;
  virtual absl::StatusOr<uint64_t> Size() const = 0;
};

class WritableFile {
 public:
  virtual ~WritableFile();  // closes the file; errors are not told
  // All of `bytes`, or an error; after an error a part of them may have been written.
  virtual absl::Status Append(std::string_view bytes) = 0;
  // Returns when what was appended survives a crash of the machine.
  virtual absl::Status Sync() = 0;
  // Nothing may be appended afterwards. Does not sync.
  virtual absl::Status Close() = 0;
};

enum class WriteMode {
  kReplace,  // a new, empty file
  kAppend,   // what is there stays
  kCreate,   // ALREADY_EXISTS when there is one
};

// Paths are given as the user wrote them, with their scheme. What a registered file system or one
// of its files throws becomes INTERNAL with the path.
class FileSystem {
 public:
  virtual ~FileSystem();
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) = 0;
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) = 0;
  virtual absl::StatusOr<FileStat> Stat(const std::string& path) = 0;
  // The names in a folder, without their folder, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // With the folders above it; one that exists is no error.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // Replaces a file `to`.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // A file, or an empty folder.
  virtual absl::Status Delete(const std::string& path) = 0;
  // Returns when the names in the folder survive a crash.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
};

// From now on `scheme` ("s3", without "://") is this file system. ALREADY_EXISTS when the scheme
// has one, INVALID_ARGUMENT when it is no scheme (letters, digits, '+', '-', '.', a letter first).
absl::Status RegisterFileSystem(const std::string& scheme, std::shared_ptr<FileSystem> system);
// The file system that a path belongs to; one that was registered is reached through another
// object, which throws nothing. It lives as long as the process.
absl::StatusOr<FileSystem*> SystemOf(std::string_view path);
// A file system in memory, empty. Its paths may have any scheme, which it ignores.
std::shared_ptr<FileSystem> NewMemoryFileSystem();

// Each of these looks the file system up.
absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path);
absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path,
                                                          WriteMode mode = WriteMode::kReplace);
absl::StatusOr<FileStat> Stat(const std::string& path);
// False when there is nothing, or nothing that may be looked at.
bool Exists(const std::string& path);
absl::StatusOr<std::vector<std::string>> List(const std::string& path);
absl::Status MakeDirectory(const std::string& path);
// INVALID_ARGUMENT when the two belong to different file systems.
absl::Status Rename(const std::string& from, const std::string& to);
absl::Status Delete(const std::string& path);
absl::Status SyncDirectory(const std::string& path);

// The whole file.
absl::StatusOr<std::string> Read(const std::string& path);
// Replaces the file in one step: written under a temporary name beside it, synced, renamed, the
// folder synced. After an error, and after a crash at any instant, the file is the old one or the
// new one.
absl::Status Write(const std::string& path, std::string_view bytes);
// The paths that fit `pattern`, sorted: '*' and '?' stand for any characters but '/', "[a-c]" for
// one of a set, '\' takes the next character as it is. Nothing fitting is no error; a folder that
// cannot be listed is.
absl::StatusOr<std::vector<std::string>> Match(const std::string& pattern);

// "mem://a/b/c" -> "mem://a/b"; "c" -> "."; "/c" -> "/".
std::string DirectoryOf(std::string_view path);
// "mem://a/b/c" -> "c".
std::string NameOf(std::string_view path);
// "a" and "b" -> "a/b"; a `name` that begins with '/' or a scheme stands alone.
std::string Join(std::string_view directory, std::string_view name);

}  // namespace files
}  // namespace troupe

#endif  // TROUPE_FILES_H_
