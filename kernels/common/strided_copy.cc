#include "kernels/common/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/common/elements.h"

namespace troupe::array {
namespace {

// Walks the outer axes of a copy in row-major order and keeps both offsets.
class Odometer {
 public:
  Odometer(absl::Span<const CopyAxis> axes, int64_t start) : axes_(axes), index_(axes.size()) {
    for (size_t k = axes.size(); k-- > 0;) {
      index_[k] = start % axes[k].size;
      start /= axes[k].size;
      dst += index_[k] * axes[k].dst_stride;
      src += index_[k] * axes[k].src_stride;
    }
  }
  void Next() {
    for (size_t k = axes_.size(); k-- > 0;) {
      dst += axes_[k].dst_stride;
      src += axes_[k].src_stride;
      if (++index_[k] < axes_[k].size) return;
      dst -= axes_[k].size * axes_[k].dst_stride;
      src -= axes_[k].size * axes_[k].src_stride;
      index_[k] = 0;
    }
  }
  int64_t dst = 0, src = 0;

 private:
  absl::Span<const CopyAxis> axes_;
  absl::InlinedVector<int64_t, 8> index_;
};

int64_t Product(absl::Span<const CopyAxis> axes) {
  int64_t n = 1;
  for (const CopyAxis& a : axes) n *= a.size;
  return n;
}

template <class E>
inline void CopyRun(E* dst, int64_t dst_stride, const E* src, int64_t src_stride, int64_t n) {
  if (dst_stride == 1 && src_stride == 1) {
    // Short runs are common (a slice of few columns) and cheaper than a call.
    if (std::is_trivially_copyable_v<E> && n * sizeof(E) > 64) {
      std::memcpy(static_cast<void*>(dst), src, static_cast<size_t>(n) * sizeof(E));
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
    }
  } else if (dst_stride == 1 && src_stride == 0) {
    const E v = *src;
    std::fill(dst, dst + n, v);
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = src[i * src_stride];
  }
}

// One run after the other along the last axis; ranges are cut by elements, so that a few long runs
// are shared as well as many short ones.
template <class E>
void CopyRuns(ComputeThreads* threads, absl::Span<const CopyAxis> axes, E* dst, const E* src) {
  const CopyAxis run = axes.back();
  const auto outer = axes.subspan(0, axes.size() - 1);
  const double run_cost =
      3.0 + static_cast<double>(run.size) * (std::is_trivially_copyable_v<E> ? 0.1 * sizeof(E) : 20.0);
  threads->ParallelFor(Product(axes), run_cost / static_cast<double>(run.size), [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / run.size);
    int64_t skip = begin % run.size;
    for (int64_t i = begin; i < end;) {
      const int64_t n = std::min(run.size - skip, end - i);
      CopyRun(dst + at.dst + skip * run.dst_stride, run.dst_stride, src + at.src + skip * run.src_stride,
              run.src_stride, n);
      i += n;
      skip = 0;
      at.Next();
    }
  });
}

// The last axis is contiguous in the destination, axis `row` in the source: square tiles, so that a
// cache line fetched from either side is used up.
template <class E>
void CopyTiles(ComputeThreads* threads, absl::Span<const CopyAxis> axes, size_t row, E* dst, const E* src) {
  constexpr int64_t kTile = sizeof(E) >= 16 ? 16 : 32;
  const CopyAxis rows = axes[row], columns = axes.back();
  CopyAxes outer;
  for (size_t k = 0; k + 1 < axes.size(); ++k) {
    if (k != row) outer.push_back(axes[k]);
  }
  const int64_t bands = (rows.size + kTile - 1) / kTile;
  const double band_cost =
      static_cast<double>(std::min(kTile, rows.size) * columns.size) * (std::is_trivially_copyable_v<E> ? 1.0 : 25.0);
  threads->ParallelFor(Product(outer) * bands, band_cost, [&](int64_t begin, int64_t end) {
    Odometer at(outer, begin / bands);
    int64_t band = begin % bands;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t r0 = band * kTile, r1 = std::min(r0 + kTile, rows.size);
      for (int64_t c0 = 0; c0 < columns.size; c0 += kTile) {
        const int64_t c1 = std::min(c0 + kTile, columns.size);
        for (int64_t r = r0; r < r1; ++r) {
          E* d = dst + at.dst + r * rows.dst_stride;
          const E* s = src + at.src + r;
          for (int64_t c = c0; c < c1; ++c) d[c] = s[c * columns.src_stride];
        }
      }
      if (++band == bands) {
        band = 0;
        at.Next();
      }
    }
  });
}

template <class E>
void CopyBox(ComputeThreads* threads, const CopyAxes& axes, E* dst, const E* src) {
  const CopyAxis& last = axes.back();
  if (last.dst_stride == 1 && last.src_stride != 1 && last.src_stride != 0) {
    for (size_t k = axes.size() - 1; k-- > 0;) {
      if (axes[k].src_stride == 1 && axes[k].size >= 4 && last.size >= 4) return CopyTiles(threads, axes, k, dst, src);
    }
  }
  CopyRuns<E>(threads, axes, dst, src);
}

}  // namespace

CopyAxes SimplifyAxes(const CopyAxes& axes) {
  CopyAxes out;
  for (const CopyAxis& a : axes) {
    if (a.size == 1) continue;
    if (!out.empty() && out.back().dst_stride == a.size * a.dst_stride &&
        out.back().src_stride == a.size * a.src_stride) {
      out.back() = {out.back().size * a.size, a.dst_stride, a.src_stride};
    } else {
      out.push_back(a);
    }
  }
  if (out.empty()) out.push_back({1, 1, 1});
  return out;
}

Strides DenseStrides(absl::Span<const int64_t> dims) {
  Strides strides(dims.size());
  int64_t n = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    strides[k] = n;
    n *= dims[k];
  }
  return strides;
}

void StridedCopy::Run(ComputeThreads* threads, DType t, void* dst, const void* src) const {
  for (const CopyAxis& a : axes) {
    if (a.size == 0) return;
  }
  const CopyAxes simple = SimplifyAxes(axes);
  VisitElement(t, false, [&]<class E>() {
    CopyBox(threads, simple, static_cast<E*>(dst) + dst_offset, static_cast<const E*>(src) + src_offset);
    return true;
  });
}

}  // namespace troupe::array
