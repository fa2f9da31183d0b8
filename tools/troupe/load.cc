// Ops from shared libraries.
#include <dlfcn.h>

#include "tools/troupe/commands.h"
#include "troupe/registration.h"

namespace troupe::tool {

absl::Status LoadLibraries(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    // A name without a folder is a file here, too, as for every other argument, and not one of the
    // system's libraries.
    const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
    const size_t before = RegistrationErrors().size();
    // Never closed: kernels of a library are used until the process ends.
    if (::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      const char* why = ::dlerror();
      return InvalidArgument("--load ", path, ": ", why != nullptr ? why : "it cannot be opened");
    }
    const std::vector<std::string> errors = RegistrationErrors();
    if (errors.size() > before) {
      return AlreadyExists("--load ", path, ": its ops cannot be registered: ",
                           StrJoin(std::vector<std::string>(errors.begin() + before, errors.end()), "; "));
    }
  }
  return absl::OkStatus();
}

}  // namespace troupe::tool
