#include "tools/troupe/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace troupe::tool {
namespace {

int first_error = 0;

}  // namespace

void PrepareStandardStreams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of the shell: an error of write(), too
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() gives the least free number, which is this one. Opened the wrong way round, so that
    // its use stays an error.
    const int opened = ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

void Print(std::string_view text) {
  if (first_error != 0 || text.empty()) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) first_error = errno != 0 ? errno : EIO;
}

std::string Fixed(double v, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, v);
  return text;
}

bool PrintWorks() { return first_error == 0; }

absl::Status FinishPrinting() {
  errno = 0;
  if (std::fflush(stdout) != 0 && first_error == 0) first_error = errno != 0 ? errno : EIO;
  if (first_error == 0) return absl::OkStatus();
  return Internal("standard output: ", std::strerror(first_error), "; what was printed is lost or incomplete");
}

}  // namespace troupe::tool
