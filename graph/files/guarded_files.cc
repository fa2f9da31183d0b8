#include "graph/files/guarded_files.h"

#include "graph/core/guarded.h"

namespace troupe::files {
namespace {

template <class F>
std::invoke_result_t<F> Call(const std::string& path, F&& f) {
  try {
    return f();
  } catch (...) {
    return ThrownStatus(StrCat(path, ": its file system"));
  }
}

class SafeReadable : public ReadableFile {
 public:
  SafeReadable(std::string path, std::unique_ptr<ReadableFile> file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t n, char* to) const override {
    return Call(path_, [&] { return file_->ReadAt(offset, n, to); });
  }
  absl::StatusOr<uint64_t> Size() const override {
    return Call(path_, [&] { return file_->Size(); });
  }

 private:
  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
};

class SafeWritable : public WritableFile {
 public:
  SafeWritable(std::string path, std::unique_ptr<WritableFile> file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status Append(std::string_view bytes) override {
    return Call(path_, [&] { return file_->Append(bytes); });
  }
  absl::Status Sync() override {
    return Call(path_, [&] { return file_->Sync(); });
  }
  absl::Status Close() override {
    return Call(path_, [&] { return file_->Close(); });
  }

 private:
  const std::string path_;
  const std::unique_ptr<WritableFile> file_;
};

template <class Safe, class File>
absl::StatusOr<std::unique_ptr<File>> Opened(const std::string& path, absl::StatusOr<std::unique_ptr<File>> file) {
  if (!file.ok()) return file;
  if (*file == nullptr) return Internal(path, ": its file system gave no file, and no error");
  return std::make_unique<Safe>(path, *std::move(file));
}

class SafeFileSystem : public FileSystem {
 public:
  explicit SafeFileSystem(std::shared_ptr<FileSystem> system) : system_(std::move(system)) {}
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    return Opened<SafeReadable>(path, Call(path, [&] { return system_->OpenToRead(path); }));
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) override {
    return Opened<SafeWritable>(path, Call(path, [&] { return system_->OpenToWrite(path, mode); }));
  }
  absl::StatusOr<FileStat> Stat(const std::string& path) override {
    return Call(path, [&] { return system_->Stat(path); });
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    return Call(path, [&] { return system_->List(path); });
  }
  absl::Status MakeDirectory(const std::string& path) override {
    return Call(path, [&] { return system_->MakeDirectory(path); });
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Call(from, [&] { return system_->Rename(from, to); });
  }
  absl::Status Delete(const std::string& path) override {
    return Call(path, [&] { return system_->Delete(path); });
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return Call(path, [&] { return system_->SyncDirectory(path); });
  }

 private:
  const std::shared_ptr<FileSystem> system_;
};

}  // namespace

std::shared_ptr<FileSystem> GuardedFileSystem(std::shared_ptr<FileSystem> system) {
  return std::make_shared<SafeFileSystem>(std::move(system));
}

}  // namespace troupe::files
