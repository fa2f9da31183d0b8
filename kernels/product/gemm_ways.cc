#include "kernels/product/gemm_ways.h"

#include <algorithm>

#include "kernels/common/isa.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

// Below this many multiplications our loops beat the library, which packs both operands first:
// measured, with the operands in the second- and in the third-level cache, on shapes of 10 to 1200
// rows and columns; with fewer rows than kSomeRows the lower bound holds. With vectors of 256 bits
// the library packs less.
constexpr int64_t kMiddlingProduct512 = 25 * 1000 * 1000, kMiddlingFewRows512 = 2200 * 1000,
                  kMiddlingProduct256 = 30 * 1000;
constexpr int64_t kSomeRows = 16;
// And above it with so few rows that a packed B would be used too seldom, or so few columns that
// packing A costs more than it brings: fewer when B is read in place than when our loops turn it
// round, and with A transposed only where it is short.
constexpr int64_t kFewRows = 128, kFewColumns = 112, kFewColumnsTurned = 512, kShort = 128;
// A range of a split product has at least this many multiplications (about 5 us of float32 work; a
// hand-over costs about that).
constexpr double kRangeWork = 400e3;
// Ranges with less than this are not tried either, and a product with more than that is not tried
// in one piece when there are threads for it.
constexpr double kLeastRange = 100e3, kMostInOnePiece = 4e6;
// And this many rows or columns when there are more ranges than threads: each packs the other
// operand for itself.
constexpr int64_t kSlackRange = 128;

double Work(const GemmShape& s) {
  return static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

// Rows of a tile; or columns of one where there are many, half a vector where there are few.
int64_t Unit(bool by_rows, int64_t size) { return by_rows || size < 512 ? 8 : 48; }

// What is split of a product by B in panels: columns.
GemmShape OfPanels(const GemmShape& s) { return {.m = 1, .n = s.n, .k = s.k * s.m}; }

const char* Name(GemmLoops loops) {
  return loops == GemmLoops::kOwn ? "own" : loops == GemmLoops::kPanels ? "panels" : "library";
}

}  // namespace

GemmSplit SplitByRule(int threads, const GemmShape& s, double relative_cost) {
  GemmSplit split;
  split.by_rows = s.m >= s.n;
  const int64_t size = split.by_rows ? s.m : s.n;
  split.unit = Unit(split.by_rows, size);
  if (threads == 1) return split;
  const double work = Work(s) * relative_cost;
  const int64_t units = (size + split.unit - 1) / split.unit;
  // Smaller ones where that costs little, for a thread that comes when others have begun.
  const int64_t each = std::clamp<int64_t>(size / (threads * kSlackRange), 1, 4);
  split.ranges = std::min({threads * each, units, static_cast<int64_t>(work / kRangeWork)});
  return split;
}

bool Middling(const GemmShape& s) {
  const int64_t work = s.m * s.n * s.k;
  if (IsaLevel() < 4) return work <= kMiddlingProduct256;
  if (s.m < kSomeRows) return work <= kMiddlingFewRows512;
  if (work <= kMiddlingProduct512 || s.m <= kFewRows) return true;
  return s.n <= (s.transpose_b ? kFewColumnsTurned : kFewColumns) && (!s.transpose_a || s.k <= kShort);
}

GemmWay WayByRule(int threads, const GemmShape& s, bool panels) {
  if (panels) return {GemmLoops::kPanels, SplitByRule(threads, OfPanels(s), 1)};
  return {Middling(s) ? GemmLoops::kOwn : GemmLoops::kLibrary, SplitByRule(threads, s, 1)};
}

GemmWays::GemmWays(int threads, const GemmShape& s, bool panels) {
  Add(WayByRule(threads, s, panels));
  if (panels) Add({GemmLoops::kPanels, SplitByRule(threads, OfPanels(s), 1)});
  for (const GemmLoops loops : {GemmLoops::kOwn, GemmLoops::kLibrary}) {
    Add({loops, SplitByRule(threads, s, 1)});
    for (const bool by_rows : {true, false}) {
      const int64_t size = by_rows ? s.m : s.n, unit = Unit(by_rows, size);
      if (threads > 1 && (size + unit - 1) / unit >= threads && Work(s) >= kLeastRange * threads)
        Add({loops, {by_rows, unit, threads}});
    }
    if (Work(s) < kMostInOnePiece) Add({loops, {}});
  }
}

void GemmWays::Add(const GemmWay& w) {
  for (int i = 0; i < count; ++i) {
    const GemmWay& known = way[i];
    const bool whole = known.split.ranges <= 1 && w.split.ranges <= 1;
    if (known.loops == w.loops &&
        (whole || (known.split.ranges == w.split.ranges && known.split.by_rows == w.split.by_rows)))
      return;
  }
  if (count < static_cast<int>(way.size())) way[count++] = w;
}

std::vector<tune::Way> GemmWays::Names() const {
  std::vector<tune::Way> names;
  for (int i = 0; i < count; ++i) {
    tune::Way w{Name(way[i].loops), way[i].loops != GemmLoops::kLibrary && way[0].loops != GemmLoops::kLibrary};
    if (way[i].split.ranges > 1) StrAppend(&w.name, way[i].split.by_rows ? ":rows:" : ":columns:", way[i].split.ranges);
    names.push_back(std::move(w));
  }
  return names;
}

}  // namespace troupe
