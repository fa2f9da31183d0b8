#include "troupe/kernels/nn/isa_pick.h"

#include <cstdlib>

namespace troupe {
namespace {

int Detect() {
#if defined(__x86_64__)
  int level = 2;
  if (__builtin_cpu_supports("x86-64-v4")) {
    level = 4;
  } else if (__builtin_cpu_supports("x86-64-v3")) {
    level = 3;
  }
  if (const char* wish = std::getenv("TROUPE_ISA"); wish != nullptr && wish[0] != '\0') {
    const int asked = wish[0] == 'v' ? wish[1] - '0' : wish[0] - '0';
    if (asked >= 2 && asked < level) level = asked;
  }
  return level;
#else
  return 0;
#endif
}

}  // namespace

int IsaLevelForTables() {
  static const int level = Detect();
  return level;
}

}  // namespace troupe
