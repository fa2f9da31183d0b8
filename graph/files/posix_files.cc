#include "graph/files/posix_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "graph/files/file_error.h"

namespace troupe::files {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EIO:
      return absl::StatusCode::kDataLoss;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case EXDEV:
    case EBUSY:
    case ETXTBSY:
      return absl::StatusCode::kFailedPrecondition;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return absl::StatusCode::kInvalidArgument;
    default:
      return absl::StatusCode::kUnknown;
  }
}

// Without the scheme.
std::string Plain(const std::string& path) { return path.rfind("file://", 0) == 0 ? path.substr(7) : path; }

class PosixReadable : public ReadableFile {
 public:
  explicit PosixReadable(std::string path) : path_(std::move(path)) {}
  ~PosixReadable() override {
    if (fd_ >= 0) ::close(fd_);
  }
  void Take(int fd) { fd_ = fd; }
  absl::StatusOr<size_t> ReadAt(uint64_t offset, size_t n, char* to) const override {
    size_t have = 0;
    while (have < n) {
      if (offset + have > static_cast<uint64_t>(std::numeric_limits<off_t>::max())) break;
      const ssize_t got = ::pread(fd_, to + have, n - have, static_cast<off_t>(offset + have));
      if (got > 0) {
        have += static_cast<size_t>(got);
      } else if (got == 0) {
        break;
      } else if (errno != EINTR) {
        return FileError(errno, path_, "reading");
      }
    }
    return have;
  }
  absl::StatusOr<uint64_t> Size() const override {
    struct stat s;
    if (::fstat(fd_, &s) != 0) return FileError(errno, path_, "looking at it");
    return static_cast<uint64_t>(s.st_size);
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

class PosixWritable : public WritableFile {
 public:
  explicit PosixWritable(std::string path) : path_(std::move(path)) {}
  void Take(int fd) { fd_ = fd; }
  ~PosixWritable() override {
    if (fd_ >= 0) ::close(fd_);
  }
  absl::Status Append(std::string_view bytes) override {
    if (fd_ < 0) return FailedPrecondition(path_, ": writing: it has been closed");
    while (!bytes.empty()) {
      // One call writes at most 2 GiB, and says so by its result.
      const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
      if (put >= 0) {
        bytes.remove_prefix(static_cast<size_t>(put));
      } else if (errno != EINTR) {
        return FileError(errno, path_, "writing");
      }
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    if (fd_ < 0) return FailedPrecondition(path_, ": syncing: it has been closed");
    // A pipe or a device cannot be synced, and keeps nothing.
    if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) return FileError(errno, path_, "syncing");
    return absl::OkStatus();
  }
  absl::Status Close() override {
    if (fd_ < 0) return absl::OkStatus();
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0 && errno != EINTR) return FileError(errno, path_, "closing");
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

class PosixFiles : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenToRead(const std::string& path) override {
    auto file = std::make_unique<PosixReadable>(path);  // first: it closes what was opened
    const int fd = ::open(Plain(path).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FileError(errno, path, "opening to read");
    file->Take(fd);
    struct stat s;
    if (::fstat(fd, &s) != 0) return FileError(errno, path, "looking at it");
    if (S_ISDIR(s.st_mode)) return FileError(EISDIR, path, "opening to read");
    return file;
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenToWrite(const std::string& path, WriteMode mode) override {
    const int how = mode == WriteMode::kReplace ? O_TRUNC : mode == WriteMode::kAppend ? O_APPEND : O_EXCL;
    auto file = std::make_unique<PosixWritable>(path);
    const int fd = ::open(Plain(path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    if (fd < 0) return FileError(errno, path, "opening to write");
    file->Take(fd);
    return file;
  }
  absl::StatusOr<FileStat> Stat(const std::string& path) override {
    struct stat s;
    if (::stat(Plain(path).c_str(), &s) != 0) return FileError(errno, path, "looking for it");
    FileStat out;
    out.is_directory = S_ISDIR(s.st_mode);
    out.size = out.is_directory ? 0 : static_cast<uint64_t>(s.st_size);
    out.modified_ns = static_cast<int64_t>(s.st_mtim.tv_sec) * 1'000'000'000 + s.st_mtim.tv_nsec;
    return out;
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    DIR* const dir = ::opendir(Plain(path).c_str());
    if (dir == nullptr) return FileError(errno, path, "listing");
    const std::unique_ptr<DIR, int (*)(DIR*)> closes(dir, &::closedir);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(dir);
      if (entry == nullptr) break;
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    if (errno != 0) return FileError(errno, path, "listing");
    std::sort(names.begin(), names.end());
    return names;
  }
  absl::Status MakeDirectory(const std::string& path) override {
    const std::string plain = Plain(path);
    for (size_t at = 0; at != std::string::npos;) {
      at = plain.find('/', at + 1);
      const std::string part = plain.substr(0, at);
      if (part.empty() || ::mkdir(part.c_str(), 0777) == 0) continue;
      const int error = errno;
      // Of a folder that exists on a disk that may not be written, either is said.
      struct stat s;
      if (::stat(part.c_str(), &s) != 0) return FileError(error, path, "making the folder");
      if (!S_ISDIR(s.st_mode)) return FileError(ENOTDIR, path, "making the folder");
    }
    return absl::OkStatus();
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(Plain(from).c_str(), Plain(to).c_str()) == 0) return absl::OkStatus();
    return FileError(errno, from, StrCat("renaming to ", to));
  }
  absl::Status Delete(const std::string& path) override {
    const std::string plain = Plain(path);
    if (::unlink(plain.c_str()) == 0) return absl::OkStatus();
    const int error = errno;
    if ((error == EISDIR || error == EPERM) && ::rmdir(plain.c_str()) == 0) return absl::OkStatus();
    return FileError(error == EISDIR ? errno : error, path, "deleting");
  }
  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = ::open(Plain(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FileError(errno, path, "opening to sync");
    const int result = ::fsync(fd);
    const int error = errno;
    ::close(fd);
    // Some file systems keep names safe by themselves and say EINVAL.
    if (result != 0 && error != EINVAL && error != EROFS) return FileError(error, path, "syncing");
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status FileError(int error_number, std::string_view path, std::string_view doing) {
  return internal::MakeStatus(CodeOf(error_number),
                              {path, ": ", doing, ": ", std::generic_category().message(error_number)});
}

std::shared_ptr<FileSystem> NewPosixFileSystem() { return std::make_shared<PosixFiles>(); }

}  // namespace troupe::files
