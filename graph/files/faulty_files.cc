#include "troupe/faulty_files.h"

#include <cerrno>

#include "graph/files/file_error.h"
#include "graph/files/memory_files.h"

namespace troupe::files {

struct FaultyFiles::Impl {
  // Under the lock of `files`, whose open files keep it.
  struct State {
    int64_t done = 0, fail_at = 0, bytes_left = -1;
    Fault fault = Fault::kError;

    absl::Status Gate(const std::string& path, size_t* append) {
      ++done;
      if (fail_at > 0 && (fault == Fault::kDie ? done >= fail_at : done == fail_at)) {
        if (append != nullptr && fault == Fault::kShortWrite) *append /= 2;
        return FileError(fault == Fault::kDie ? EIO : ENOSPC, path, "changing it");
      }
      if (append == nullptr || bytes_left < 0) return absl::OkStatus();
      if (static_cast<uint64_t>(bytes_left) < *append) {
        *append = static_cast<size_t>(bytes_left);
        bytes_left = 0;
        return FileError(ENOSPC, path, "writing");
      }
      bytes_left -= static_cast<int64_t>(*append);
      return absl::OkStatus();
    }
  };
  std::shared_ptr<State> state = std::make_shared<State>();
  std::shared_ptr<MemoryFiles> files = std::make_shared<MemoryFiles>(
      [state = state](const std::string& path, size_t* append) { return state->Gate(path, append); });
};

FaultyFiles::FaultyFiles() : impl_(std::make_shared<Impl>()) {}
FaultyFiles::~FaultyFiles() = default;

void FaultyFiles::FailAt(int64_t n, Fault fault) {
  std::lock_guard<std::mutex> lock(impl_->files->mutex());
  impl_->state->fail_at = n > 0 ? impl_->state->done + n : 0;
  impl_->state->fault = fault;
}
void FaultyFiles::LimitBytes(int64_t bytes) {
  std::lock_guard<std::mutex> lock(impl_->files->mutex());
  impl_->state->bytes_left = bytes;
}
int64_t FaultyFiles::operations() const {
  std::lock_guard<std::mutex> lock(impl_->files->mutex());
  return impl_->state->done;
}
void FaultyFiles::Crash(Names names) {
  impl_->files->Crash(names == Names::kKept);
  std::lock_guard<std::mutex> lock(impl_->files->mutex());
  impl_->state->fail_at = 0;
  impl_->state->bytes_left = -1;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFiles::OpenToRead(const std::string& path) {
  return impl_->files->OpenToRead(path);
}
absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFiles::OpenToWrite(const std::string& path, WriteMode mode) {
  return impl_->files->OpenToWrite(path, mode);
}
absl::StatusOr<FileStat> FaultyFiles::Stat(const std::string& path) { return impl_->files->Stat(path); }
absl::StatusOr<std::vector<std::string>> FaultyFiles::List(const std::string& path) { return impl_->files->List(path); }
absl::Status FaultyFiles::MakeDirectory(const std::string& path) { return impl_->files->MakeDirectory(path); }
absl::Status FaultyFiles::Rename(const std::string& from, const std::string& to) {
  return impl_->files->Rename(from, to);
}
absl::Status FaultyFiles::Delete(const std::string& path) { return impl_->files->Delete(path); }
absl::Status FaultyFiles::SyncDirectory(const std::string& path) { return impl_->files->SyncDirectory(path); }

}  // namespace troupe::files
