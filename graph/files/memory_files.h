// Files in memory, with what of them a crash would leave.
//
// A file only grows, so what is safe of its bytes is a length. A name belongs to a file in two
// maps: as it is now, and as it was when its folder was last synced.
//
// Thread rule: as troupe/files.h says. Crash may be called by any thread, too.
#ifndef TROUPE_GRAPH_FILES_MEMORY_FILES_H_
#define TROUPE_GRAPH_FILES_MEMORY_FILES_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "troupe/files.h"

namespace troupe::files {

class MemoryFiles : public FileSystem, public std::enable_shared_from_this<MemoryFiles> {
 public:
  // Asked, under the lock, before each operation that changes something. `append`: the bytes that
  // are to be appended, of which fewer are when it makes the number smaller and returns an error;
  // null for other operations.
  using Gate = std::function<absl::Status(const std::string& path, size_t* append)>;
  explicit MemoryFiles(Gate gate = nullptr) : gate_(std::move(gate)) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) override;
  absl::StatusOr<FileStat> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Delete(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;

  // Back to what was synced: the bytes, and the names too unless `keep_names`. Files that are open
  // to write fail from here on.
  void Crash(bool keep_names);
  // The lock under which the gate is asked, for whoever changes what it reads.
  std::mutex& mutex() { return mu_; }

 private:
  struct File;
  class Readable;
  class Writable;
  // A null pointer is a folder.
  using Names = std::map<std::string, std::shared_ptr<File>>;
  absl::Status Ask(const std::string& path, size_t* append = nullptr) {
    return gate_ == nullptr ? absl::OkStatus() : gate_(path, append);
  }
  bool IsDirectory(const std::string& key) const;
  absl::Status NeedParent(const std::string& key, const std::string& path, const char* doing) const;

  std::mutex mu_;
  const Gate gate_;
  Names now_, safe_;
  uint64_t life_ = 0;  // grows with each crash
};

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_MEMORY_FILES_H_
