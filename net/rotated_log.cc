#include "net/rotated_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "graph/core/log.h"
#include "troupe/strings.h"

namespace troupe {

RotatedLog::RotatedLog(std::string path, int64_t most_bytes, int files)
    : path_(std::move(path)), most_bytes_(most_bytes), files_(files) {}

RotatedLog::~RotatedLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RotatedLog::Complain(const char* what) {
  if (!std::exchange(complained_, true)) LogWarning("log ", path_, ": ", what, ": ", std::strerror(errno));
}

void RotatedLog::Open(bool anew) {
  if (descriptor_ >= 0) ::close(descriptor_);
  size_ = 0;
  if (anew) {
    // The oldest one is overwritten. One that is not there yet is none to move.
    for (int i = files_ - 1; i >= 1; --i) {
      const std::string from = i == 1 ? path_ : StrCat(path_, ".", i - 1);
      if (std::rename(from.c_str(), StrCat(path_, ".", i).c_str()) != 0 && errno != ENOENT) Complain("cannot be moved");
    }
  }
  const bool cut = anew && files_ == 1;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (cut ? O_TRUNC : 0), 0644);
  if (descriptor_ < 0) return Complain("cannot be opened");
  struct stat s {};
  if (::fstat(descriptor_, &s) == 0) size_ = s.st_size;
}

void RotatedLog::Append(std::string_view text) {
  if (path_.empty()) return;
  while (!text.empty()) {
    if (descriptor_ < 0) Open(false);
    if (descriptor_ < 0) return;
    if (size_ >= most_bytes_ || (size_ > 0 && size_ + static_cast<int64_t>(text.size()) > most_bytes_)) Open(true);
    // A file that could not be moved away is not continued for ever.
    if (descriptor_ < 0 || size_ >= most_bytes_) return;
    const std::string_view piece = text.substr(0, static_cast<size_t>(most_bytes_ - size_));
    const ssize_t n = ::write(descriptor_, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Complain("cannot be written");
    size_ += n;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace troupe
