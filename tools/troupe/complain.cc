#include <cstdio>

#include "tools/troupe/commands.h"

namespace troupe::tool {

int Complain(int code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "troupe: %s\n", message.c_str());
  return code;
}

int Complain(int code, const absl::Status& status) {
  return Complain(code, StrCat(absl::StatusCodeToString(status.code()), ": ", status.message()));
}

}  // namespace troupe::tool
