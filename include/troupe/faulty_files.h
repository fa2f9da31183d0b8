// A file system in memory that fails as a test asks it to: at the n-th operation, with a short
// write, with a full disk, or by a crash that takes all that was not synced.
//
//   auto disk = std::make_shared<files::FaultyFiles>();
//   absl::Status s = files::RegisterFileSystem("faulty", disk);
//   if (s.ok()) s = files::Write("faulty://notes", "old");
//   disk->FailAt(3, files::FaultyFiles::Fault::kDie);  // the third write, sync, rename ... from now on
//   absl::Status stopped = files::Write("faulty://notes", "new");
//   disk->Crash(files::FaultyFiles::Names::kLost);     // the machine starts again
//   absl::StatusOr<std::string> text = files::Read("faulty://notes");  // "old"
//
// Operations that are counted are those that change something: opening to write, appending, syncing
// a file or a folder, making a folder, renaming, deleting. Reading never fails by itself.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_FAULTY_FILES_H_
#define TROUPE_FAULTY_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/files.h"

namespace troupe {
namespace TROUPE_EXPORT files {

class FaultyFiles : public FileSystem {
 public:
  FaultyFiles();
  ~FaultyFiles() override;

  enum class Fault {
    kError,       // this operation fails and changes nothing
    kShortWrite,  // half of the bytes are appended, then it fails; other operations as kError
    kDie,         // this operation and all later ones fail, as if the process had been killed before it
  };
  // What happens to names (made, renamed, deleted) whose folder was not synced. Bytes that were not
  // synced are lost in any case: both are what disks do.
  enum class Names { kLost, kKept };

  // The `n`-th operation from now on (1 is the next) fails; RESOURCE_EXHAUSTED "no space left on
  // device". Replaces an earlier request; 0 takes it back.
  void FailAt(int64_t n, Fault fault);
  // Files may have so many bytes more in all; negative: no limit.
  void LimitBytes(int64_t bytes);
  // The operations so far, failed ones included.
  int64_t operations() const;
  // Back to what was synced. Open files fail from here on; faults and limits are forgotten.
  void Crash(Names names);

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) override;
  absl::StatusOr<FileStat> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Delete(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;

  struct TROUPE_HIDDEN Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace files
}  // namespace troupe

#endif  // TROUPE_FAULTY_FILES_H_
