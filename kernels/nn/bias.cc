#include "kernels/nn/bias.h"

#include <algorithm>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/nn/bias_loops.h"

TROUPE_ISA_TABLE(BiasTable, kBias, PickBias)

namespace troupe {
namespace {

constexpr int64_t kPattern = 256;  // elements of a pattern, about
constexpr int64_t kRun = 64;       // additions per lane before the lanes are folded into wide sums

template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<float> {
  using type = double;
};

// `channels` values repeated to about kPattern elements (once when there are more).
template <class T>
std::vector<T> Repeat(const T* values, int64_t channels) {
  std::vector<T> p(channels * std::max<int64_t>(1, kPattern / channels));
  for (size_t i = 0; i < p.size(); i += channels) std::copy(values, values + channels, p.begin() + i);
  return p;
}

template <class T>
void Add(ComputeThreads* threads, const BiasLoops<T>& loops, const ChannelView& v, const T* x, const T* bias, T* y,
         int64_t parts) {
  // `parts` values make one element (2 for complex numbers).
  const double cost = 0.25 * sizeof(T) / 4 * static_cast<double>(parts);
  if (v.inner == 1) {
    const std::vector<T> pattern = Repeat(bias, v.channels * parts);
    const int64_t row = v.channels * parts;
    threads->ParallelFor(v.outer, cost * static_cast<double>(v.channels), [&](int64_t b, int64_t e) {
      loops.add(x + b * row, pattern.data(), y + b * row, (e - b) * row, pattern.size());
    });
    return;
  }
  const int64_t plane = v.inner * parts;
  threads->ParallelFor(v.outer * v.channels, cost * static_cast<double>(v.inner), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      const std::vector<T> pattern = Repeat(bias + i % v.channels * parts, parts);
      loops.add(x + i * plane, pattern.data(), y + i * plane, plane, pattern.size());
    }
  });
}

// sums[0, channels) += x summed by its index modulo `channels`.
template <class T>
void SumRun(const BiasLoops<T>& loops, const T* x, int64_t n, int64_t channels, std::vector<T>* lanes,
            typename WideOf<T>::type* sums) {
  const int64_t period = channels * std::max<int64_t>(1, kPattern / channels);
  for (int64_t i = 0; i < n; i += period * kRun) {
    const int64_t len = std::min(n - i, period * kRun);
    lanes->assign(std::min(period, len), T(0));
    loops.sum(x + i, lanes->data(), len, period);
    for (size_t j = 0; j < lanes->size(); j += channels) {
      for (int64_t c = 0; c < channels; ++c) sums[c] += (*lanes)[j + c];
    }
  }
}

template <class T>
void Sum(ComputeThreads* threads, const BiasLoops<T>& loops, const ChannelView& v, const T* x, T* out, int64_t parts) {
  using Wide = typename WideOf<T>::type;
  const double cost = 0.25 * sizeof(T) / 4 * static_cast<double>(parts);
  const int64_t row = v.channels * parts;
  if (row == 0) return;  // no channels: no sums
  // Each range of the outer dimension has sums of its own, which are added in order: the result
  // does not depend on who was faster.
  const int64_t ranges =
      std::max<int64_t>(1, threads->NumRanges(v.outer, cost * static_cast<double>(v.channels * v.inner)));
  std::vector<Wide> partial(ranges * row, Wide(0));
  threads->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t limit) {
    std::vector<T> lanes;
    for (int64_t r = first; r < limit; ++r) {
      int64_t b, e;
      ComputeThreads::Range(v.outer, ranges, r, &b, &e);
      Wide* sums = partial.data() + r * row;
      if (v.inner == 1) {
        SumRun(loops, x + b * row, (e - b) * row, row, &lanes, sums);
        continue;
      }
      for (int64_t i = b * v.channels; i < e * v.channels; ++i) {
        SumRun(loops, x + i * v.inner * parts, v.inner * parts, parts, &lanes, sums + i % v.channels * parts);
      }
    }
  });
  for (int64_t c = 0; c < row; ++c) {
    Wide s(0);
    for (int64_t r = 0; r < ranges; ++r) s += partial[r * row + c];
    out[c] = static_cast<T>(s);
  }
}

// Calls f(loops, a T, parts) for the type that carries `dtype`'s additions.
template <class F>
void Dispatch(DType dtype, F&& f) {
  const BiasTable& t = PickBias();
  switch (dtype) {
    case DType::kFloat:
      return f(t.f32, float(), 1);
    case DType::kComplex64:
      return f(t.f32, float(), 2);
    case DType::kDouble:
      return f(t.f64, double(), 1);
    case DType::kComplex128:
      return f(t.f64, double(), 2);
    case DType::kInt8:
    case DType::kUint8:
      return f(t.u8, uint8_t(), 1);
    case DType::kInt16:
    case DType::kUint16:
      return f(t.u16, uint16_t(), 1);
    case DType::kInt32:
    case DType::kUint32:
      return f(t.u32, uint32_t(), 1);
    case DType::kInt64:
    case DType::kUint64:
      return f(t.u64, uint64_t(), 1);
    default:
      return;
  }
}

}  // namespace

ChannelView ViewChannels(const Tensor& t, bool channels_first) {
  ChannelView v;
  const int at = channels_first && t.rank() > 1 ? 1 : t.rank() - 1;
  for (int i = 0; i < t.rank(); ++i) (i < at ? v.outer : i == at ? v.channels : v.inner) *= t.dim(i);
  return v;
}

void AddBias(ComputeThreads* threads, DType dtype, const ChannelView& view, const void* x, const void* bias, void* y) {
  if (view.outer * view.channels * view.inner == 0) return;
  Dispatch(dtype, [&](const auto& loops, auto zero, int64_t parts) {
    using T = decltype(zero);
    Add<T>(threads, loops, view, static_cast<const T*>(x), static_cast<const T*>(bias), static_cast<T*>(y), parts);
  });
}

void SumChannels(ComputeThreads* threads, DType dtype, const ChannelView& view, const void* x, void* sums) {
  Dispatch(dtype, [&](const auto& loops, auto zero, int64_t parts) {
    using T = decltype(zero);
    Sum<T>(threads, loops, view, static_cast<const T*>(x), static_cast<T*>(sums), parts);
  });
}

}  // namespace troupe
