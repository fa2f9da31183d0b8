// In which ways a float32 product may be computed: by which loops, and how it is shared among
// threads.
//
// A rule chooses by the shape (docs/matmul.md). Where tuning is on (troupe/tuning.h), the other
// ways compete with it.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_PRODUCT_GEMM_WAYS_H_
#define TROUPE_KERNELS_PRODUCT_GEMM_WAYS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/product/gemm.h"
#include "kernels/tune/choice_table.h"

namespace troupe {

// Ranges of the rows of a product, or of its columns, in multiples of `unit`. At most one range:
// the product is not split.
struct GemmSplit {
  bool by_rows = true;
  int64_t unit = 8, ranges = 1;
};
// `relative_cost`: how much slower one multiplication is than of float32.
GemmSplit SplitByRule(int threads, const GemmShape& s, double relative_cost);

// kOwn and kPanels have equal bits however they are split: no sum depends on the split.
enum class GemmLoops : uint8_t { kOwn, kPanels, kLibrary };
struct GemmWay {
  GemmLoops loops = GemmLoops::kOwn;
  GemmSplit split;
};
// Whether our own loops compute a product rather than the library, by the rule.
bool Middling(const GemmShape& s);
// `panels`: B is given in panels, too.
GemmWay WayByRule(int threads, const GemmShape& s, bool panels);

// All ways that are worth trying, that of the rule first.
struct GemmWays {
  GemmWays(int threads, const GemmShape& s, bool panels);
  std::vector<tune::Way> Names() const;

  std::array<GemmWay, 12> way;
  int count = 0;

 private:
  void Add(const GemmWay& w);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_GEMM_WAYS_H_
