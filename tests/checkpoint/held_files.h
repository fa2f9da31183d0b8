// A file system in memory that calls a test before each operation: the test may wait there, or
// throw.
//
// Thread rule: all methods are thread safe, if the function is.
#ifndef TROUPE_TESTS_CHECKPOINT_HELD_FILES_H_
#define TROUPE_TESTS_CHECKPOINT_HELD_FILES_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/files.h"

namespace troupe {

// Open once, for all.
class FileGate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mu_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mu_);
    opened_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = false;
};

class HeldFiles : public files::FileSystem {
 public:
  // `op` is the name of the method.
  using Before = std::function<void(std::string_view op, const std::string& path)>;
  explicit HeldFiles(Before before) : before_(std::make_shared<Before>(std::move(before))) {}

  absl::StatusOr<std::unique_ptr<files::ReadableFile>> OpenToRead(const std::string& path) override {
    (*before_)("OpenToRead", path);
    return memory_->OpenToRead(path);
  }
  absl::StatusOr<std::unique_ptr<files::WritableFile>> OpenToWrite(const std::string& path,
                                                                   files::WriteMode mode) override {
    (*before_)("OpenToWrite", path);
    auto file = memory_->OpenToWrite(path, mode);
    if (!file.ok()) return file.status();
    return std::make_unique<File>(before_, path, *std::move(file));
  }
  absl::StatusOr<files::FileStat> Stat(const std::string& path) override { return memory_->Stat(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override { return memory_->List(path); }
  absl::Status MakeDirectory(const std::string& path) override {
    (*before_)("MakeDirectory", path);
    return memory_->MakeDirectory(path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    (*before_)("Rename", from);
    absl::Status renamed = memory_->Rename(from, to);
    (*before_)("Renamed", to);
    return renamed;
  }
  absl::Status Delete(const std::string& path) override {
    (*before_)("Delete", path);
    return memory_->Delete(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    (*before_)("SyncDirectory", path);
    return memory_->SyncDirectory(path);
  }

 private:
  class File : public files::WritableFile {
   public:
    File(std::shared_ptr<Before> before, std::string path, std::unique_ptr<files::WritableFile> file)
        : before_(std::move(before)), path_(std::move(path)), file_(std::move(file)) {}
    absl::Status Append(std::string_view bytes) override {
      (*before_)("Append", path_);
      return file_->Append(bytes);
    }
    absl::Status Sync() override {
      (*before_)("Sync", path_);
      return file_->Sync();
    }
    absl::Status Close() override { return file_->Close(); }

   private:
    const std::shared_ptr<Before> before_;
    const std::string path_;
    const std::unique_ptr<files::WritableFile> file_;
  };

  const std::shared_ptr<Before> before_;
  const std::shared_ptr<files::FileSystem> memory_ = files::NewMemoryFileSystem();
};

}  // namespace troupe

#endif  // TROUPE_TESTS_CHECKPOINT_HELD_FILES_H_
