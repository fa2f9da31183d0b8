#include "kernels/elementwise/hot_table.h"

#include <utility>
#include <vector>

#include "kernels/common/isa.h"

namespace troupe::math {
namespace {

#define TROUPE_FILL(ns)            \
  [](HotLoops* loops) {            \
    ns::FillArithmetic(loops);     \
    ns::FillComparisons(loops);    \
    ns::FillGradients(loops);      \
    ns::FillUnary(loops);          \
    ns::FillTranscendental(loops); \
    ns::FillReductions(loops);     \
    ns::FillConversions(loops);    \
  }

struct Filler {
  std::string_view isa;
  void (*fill)(HotLoops*);
};
constexpr Filler kFillers[] = {
#if defined(__x86_64__)
    {"v2", TROUPE_FILL(v2)},
    {"v3", TROUPE_FILL(v3)},
    {"v4", TROUPE_FILL(v4)},
#else
    {"v0", TROUPE_FILL(v0)},
#endif
};

// Filling a table is storing addresses only, but the functions that do it are compiled for their
// level: only those of levels that the machine has are called.
const std::vector<std::pair<std::string_view, HotLoops>>& Tables() {
  static const auto* tables = [] {
    auto* t = new std::vector<std::pair<std::string_view, HotLoops>>;
    for (const std::string_view isa : AvailableIsas()) {
      for (const Filler& f : kFillers) {
        if (f.isa == isa) f.fill(&t->emplace_back(isa, HotLoops{}).second);
      }
    }
    return t;
  }();
  return *tables;
}

}  // namespace

const HotLoops* HotLoopsOf(std::string_view isa) {
  for (const auto& [name, loops] : Tables()) {
    if (name == isa) return &loops;
  }
  return nullptr;
}

const HotLoops& Hot() {
  static const HotLoops& loops = *HotLoopsOf(IsaName());
  return loops;
}

}  // namespace troupe::math
