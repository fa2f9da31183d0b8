#include "troupe/kernels/nn/isa_pick.h"

#include "troupe/kernels/math/isa_dispatch.h"

namespace troupe {

int IsaLevelForTables() {
  static const int level = math::IsaName()[1] - '0';  // "v2", "v3", ...
  return level;
}

}  // namespace troupe
