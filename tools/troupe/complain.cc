#include <cstdio>

#include "tools/troupe/commands.h"
#include "troupe/import_export.h"

namespace troupe::tool {

int Complain(int code, const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "troupe: %s\n", message.c_str());
  return code;
}

int Complain(int code, const absl::Status& status) {
  if (IsUnknownOps(status)) code = kUnknownOps;
  return Complain(code, StrCat(absl::StatusCodeToString(status.code()), ": ", status.message()));
}

}  // namespace troupe::tool
