// Ops from shared libraries.
#include <csignal>
#include <cstring>

#include <dlfcn.h>
#include <unistd.h>

#include "commands.h"

namespace troupe::tool {
namespace {

// A definition that contradicts one that there is ends the process by abort() while the library is
// being opened, after a line that says what is wrong. Only what a signal handler may call.
void AbortedWhileLoading(int) {
  static constexpr char kSentence[] =
      "troupe: --load: the library's ops cannot be registered; the reason stands above\n";
  [[maybe_unused]] const ssize_t n = ::write(2, kSentence, sizeof(kSentence) - 1);
  ::_exit(kFailed);
}

}  // namespace

absl::Status LoadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    // A name without a folder is a file here, too, as for every other argument, and not one of the
    // system's libraries.
    const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
    const auto before = std::signal(SIGABRT, &AbortedWhileLoading);
    // Never closed: kernels of a library are used until the process ends.
    void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::signal(SIGABRT, before);
    if (library == nullptr) {
      const char* why = ::dlerror();
      return InvalidArgument("--load ", path, ": ", why != nullptr ? why : "it cannot be opened");
    }
  }
  return absl::OkStatus();
}

}  // namespace troupe::tool
