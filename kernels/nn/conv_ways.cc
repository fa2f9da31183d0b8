#include "kernels/nn/conv_ways.h"

#include <algorithm>
#include <numeric>

#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_pointwise.h"
#include "troupe/strings.h"

namespace troupe {
namespace {

// A range of images has at least this many multiplications (some 10 us of work).
constexpr double kRangeWork = 1e6;
// Ranges with less than this are not tried either, and a convolution with more than that is not
// tried in one piece when there are threads for it.
constexpr double kLeastRange = 200e3, kMostInOnePiece = 10e6;

int64_t Groups(const ConvShape& s) { return (s.n + kConvTogether - 1) / kConvTogether; }

}  // namespace

int64_t ConvUnits(ConvPass pass, const ConvShape& s, ConvLoops loops, int64_t bands) {
  if (loops != ConvLoops::kDirect) return s.n * bands;
  return pass == ConvPass::kBackwardFilter ? Groups(s) : 2 * Groups(s);
}

ConvShape WithBands(const ConvShape& s) { return TakesPointwiseConv(s) ? s.AsColumn() : s; }

int64_t ConvBands(ConvPass pass, const ConvShape& shape, int64_t threads) {
  constexpr int64_t kManyImages = 8;  // a thread: one image more or less makes no odds
  if (pass == ConvPass::kBackwardFilter || threads == 1 || shape.n >= kManyImages * threads) return 1;
  const ConvShape s = WithBands(shape);
  const int64_t rows = s.rows(pass), bands = std::min(threads / std::gcd(s.n, threads), rows);
  for (int64_t b = 0, first; b < bands; ++b) {
    const int64_t begin = rows * b / bands, limit = rows * (b + 1) / bands;
    if (pass == ConvPass::kForward ? s.Rows(begin, limit, &first).h == 0 : s.InputRows(begin, limit, &first).oh == 0)
      return 1;
  }
  return bands;
}

int64_t ConvRanges(const ConvShape& s, int64_t units, int64_t wanted, double cost) {
  return std::max<int64_t>(1, std::min({wanted, units, static_cast<int64_t>(s.work() * cost / kRangeWork)}));
}

namespace {

// The rule for given loops.
ConvWay SplitByRule(int threads, ConvPass pass, const ConvShape& s, ConvLoops loops) {
  ConvWay w{loops};
  if (loops != ConvLoops::kDirect) w.bands = ConvBands(pass, s, threads);
  int64_t wanted = threads;
  // An input's gradient is computed while another thread computes the filter's; whoever is done
  // first helps. Each range packs the weights for itself.
  if (pass == ConvPass::kBackwardInput && loops == ConvLoops::kDirect && threads > 1) wanted *= 2;
  // A channel by itself waits for memory: its multiplications take several times as long.
  w.ranges = ConvRanges(s, ConvUnits(pass, s, loops, w.bands), wanted, s.groups == s.c && s.c > 1 ? 6 : 1);
  return w;
}

}  // namespace

ConvWay ConvWayByRule(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e) {
  const ConvLoops loops = PreferPointwiseConv(pass, s, e) ? ConvLoops::kPointwise
                          : PreferDirectConv(pass, s)     ? ConvLoops::kDirect
                                                          : ConvLoops::kLibrary;
  return SplitByRule(threads, pass, s, loops);
}

tune::Key ConvKey(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e, bool constant_filter) {
  static constexpr const char* kNumbers[] = {"n",    "h",   "w",      "c",    "kh",       "kw",     "oc", "groups",
                                             "sh",   "sw",  "dh",     "dw",   "top",      "left",   "oh", "ow",
                                             "bias", "act", "behind", "relu", "constant", "threads"};
  static constexpr tune::Problem kByPass[] = {{"conv", kNumbers}, {"conv_input", kNumbers}, {"conv_filter", kNumbers}};
  const int64_t bias = e.bias != nullptr || e.bias_gradient != nullptr, act = static_cast<int64_t>(e.activation),
                behind = (e.norm != nullptr) + 2 * (e.addend != nullptr), relu = e.relu_output != nullptr;
  return {&kByPass[static_cast<int>(pass)],
          {s.n,          s.h,   s.w,    s.c,  s.kh, s.kw, s.oc, s.groups, s.stride_h, s.stride_w,      s.dilation_h,
           s.dilation_w, s.top, s.left, s.oh, s.ow, bias, act,  behind,   relu,       constant_filter, threads}};
}

ConvWays::ConvWays(int threads, ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e) : pass_(pass) {
  Add(ConvWayByRule(threads, pass, s, e));
  AddSplits(threads, ConvLoops::kLibrary, s);
  if (TakesPointwiseConv(s)) AddSplits(threads, ConvLoops::kPointwise, s);
  if (TakesDirectConv(s)) AddSplits(threads, ConvLoops::kDirect, s);
}

void ConvWays::AddSplits(int threads, ConvLoops loops, const ConvShape& s) {
  Add(SplitByRule(threads, pass_, s, loops));
  if (threads == 1) return;
  // Whole images, and bands twice as small, or ranges that the rule finds too small.
  for (const bool whole : {true, false}) {
    ConvWay w{loops, whole || loops == ConvLoops::kDirect ? 1 : ConvBands(pass_, s, 2 * threads)};
    w.ranges = std::min<int64_t>(ConvUnits(pass_, s, loops, w.bands), whole ? threads : 2 * threads);
    if (w.ranges > 1 && s.work() >= kLeastRange * static_cast<double>(w.ranges)) Add(w);
  }
  if (s.work() < kMostInOnePiece) Add({loops, 1, 1});
}

void ConvWays::Add(const ConvWay& w) {
  for (int i = 0; i < count; ++i) {
    if (way[i].loops == w.loops && way[i].bands == w.bands && way[i].ranges == w.ranges) return;
  }
  if (count < static_cast<int>(way.size())) way[count++] = w;
}

std::vector<tune::Way> ConvWays::Names() const {
  std::vector<tune::Way> names;
  for (int i = 0; i < count; ++i) {
    const ConvWay& w = way[i];
    // Sums over images depend on how these are shared out; the library may choose other blocks for
    // another number of rows or images.
    tune::Way named{w.loops == ConvLoops::kPointwise ? "pointwise"
                    : w.loops == ConvLoops::kDirect  ? "direct"
                                                     : "library",
                    w.loops != ConvLoops::kLibrary && w.loops == way[0].loops && pass_ != ConvPass::kBackwardFilter};
    if (w.bands > 1) StrAppend(&named.name, ":bands:", w.bands);
    if (w.ranges > 1) StrAppend(&named.name, ":ranges:", w.ranges);
    names.push_back(std::move(named));
  }
  return names;
}

}  // namespace troupe
