#include "tools/troupe/write_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

namespace troupe::tool {
namespace {

// 0, or errno.
int WriteAll(int fd, absl::Span<const std::string_view> pieces) {
  for (std::string_view rest : pieces) {
    while (!rest.empty()) {
      const ssize_t n = ::write(fd, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      rest.remove_prefix(static_cast<size_t>(n));
    }
  }
  return 0;
}

// Of close() too: some file systems tell only then that the disk is full.
int Close(int fd, int error) { return ::close(fd) != 0 && error == 0 ? errno : error; }

absl::Status Failed(const std::string& path, int error) {
  return Internal(path, ": cannot be written: ", std::strerror(error));
}

}  // namespace

absl::Status WriteFile(const std::string& path, absl::Span<const std::string_view> pieces) {
  std::error_code ignored;
  // The file that a link leads to is replaced, not the link.
  std::string target = path;
  if (std::filesystem::is_symlink(path, ignored)) {
    if (const auto real = std::filesystem::canonical(path, ignored); !ignored) target = real.string();
  }
  const auto kind = std::filesystem::status(target, ignored).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular) {
    const int fd = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return Failed(path, errno);
    const int error = Close(fd, WriteAll(fd, pieces));
    return error == 0 ? absl::OkStatus() : Failed(path, error);
  }
  // A process writes one file at a time, so its number makes the name its own.
  const std::string temporary = StrCat(target, ".", ::getpid(), ".part");
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return Failed(path, errno);
  int error = Close(fd, WriteAll(fd, pieces));
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  ::unlink(temporary.c_str());
  return Failed(path, error);
}

}  // namespace troupe::tool
