#include "kernels/elementwise/hot_table.h"

#include <utility>
#include <vector>

#include "kernels/common/isa.h"

namespace troupe::math {
using HotFill = void (*)(HotLoops*);
}
TROUPE_ISA_TABLE(math::HotFill, kHotFill, PickHotFill)

namespace troupe::math {

// Filling a table is storing addresses only, but the functions that do it are compiled for their
// level: only those of levels that the machine has are called.
const HotLoops* HotLoopsOf(std::string_view isa) {
  static const auto* tables = [] {
    auto* t = new std::vector<std::pair<std::string_view, HotLoops>>;
    for (const std::string_view level : AvailableIsas()) {
      PickHotFill(LevelOf(level))(&t->emplace_back(level, HotLoops{}).second);
    }
    return t;
  }();
  for (const auto& [name, loops] : *tables) {
    if (name == isa) return &loops;
  }
  return nullptr;
}

const HotLoops& Hot() {
  static const HotLoops& loops = *HotLoopsOf(IsaName());
  return loops;
}

}  // namespace troupe::math
