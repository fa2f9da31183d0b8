#include "kernels/nn/layout.h"

#include <algorithm>
#include <new>

namespace troupe {
namespace {

struct Wide {
  uint64_t a, b;
};

template <class T>
void Swap(int64_t rows, int64_t columns, const T* from, T* to) {
  constexpr int64_t kTile = 16;  // a tile's rows and columns stay in the first-level cache
  for (int64_t r = 0; r < rows; r += kTile) {
    for (int64_t c = 0; c < columns; c += kTile) {
      const int64_t re = std::min(r + kTile, rows), ce = std::min(c + kTile, columns);
      for (int64_t j = c; j < ce; ++j) {
        for (int64_t i = r; i < re; ++i) to[j * rows + i] = from[i * columns + j];
      }
    }
  }
}

template <class T>
void SwapAll(ComputeThreads* threads, int64_t n, int64_t rows, int64_t columns, const void* from, void* to) {
  threads->ParallelFor(n, 0.7 * static_cast<double>(rows * columns), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      Swap(rows, columns, static_cast<const T*>(from) + i * rows * columns, static_cast<T*>(to) + i * rows * columns);
    }
  });
}

Tensor New(const KernelContext& ctx, DType dtype, const TensorShape& shape) {
  Tensor t(ctx.allocator(), dtype, shape);
  if (!t.valid()) throw std::bad_alloc();
  return t;
}

}  // namespace

void SwapLastTwo(ComputeThreads* threads, size_t element, int64_t n, int64_t rows, int64_t columns, const void* from,
                 void* to) {
  switch (element) {
    case 1:
      return SwapAll<uint8_t>(threads, n, rows, columns, from, to);
    case 2:
      return SwapAll<uint16_t>(threads, n, rows, columns, from, to);
    case 4:
      return SwapAll<uint32_t>(threads, n, rows, columns, from, to);
    case 8:
      return SwapAll<uint64_t>(threads, n, rows, columns, from, to);
    case 16:
      return SwapAll<Wide>(threads, n, rows, columns, from, to);
  }
}

Tensor ChannelsLast(const KernelContext& ctx, const Tensor& t) {
  Tensor out = New(ctx, t.dtype(), TensorShape({t.dim(0), t.dim(2), t.dim(3), t.dim(1)}));
  SwapLastTwo(ctx.threads(), SizeOf(t.dtype()), t.dim(0), t.dim(1), t.dim(2) * t.dim(3), t.raw(), out.raw());
  return out;
}

Tensor ChannelsToFront(const KernelContext& ctx, const Tensor& t) {
  Tensor out = New(ctx, t.dtype(), TensorShape({t.dim(0), t.dim(3), t.dim(1), t.dim(2)}));
  SwapLastTwo(ctx.threads(), SizeOf(t.dtype()), t.dim(0), t.dim(1) * t.dim(2), t.dim(3), t.raw(), out.raw());
  return out;
}

}  // namespace troupe
