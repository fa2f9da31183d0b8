// The loops of pooling over NHWC images, one image at a time; one function per element type and
// instruction level. The channels, which lie side by side, are the lanes.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_POOL_LOOPS_H_
#define TROUPE_KERNELS_NN_POOL_LOOPS_H_

#include <cstdint>

namespace troupe {

// x, dx: [h, w, c]; y, dy: [oh, ow, c]. Window (i, j) covers rows [i * stride_h - top, ... + kh)
// that are inside of the image, and columns alike.
struct PoolShape {
  int64_t h = 0, w = 0, c = 0, oh = 0, ow = 0;
  int64_t kh = 1, kw = 1, stride_h = 1, stride_w = 1, top = 0, left = 0;
};

template <class T>
struct PoolLoops {
  void (*max)(const PoolShape& s, const T* x, T* y);
  // dx[the first largest element of window p] += dy[p]. `index` is scratch for c numbers, `best`
  // for c values.
  void (*max_grad)(const PoolShape& s, const T* x, const T* dy, T* dx, int32_t* index, T* best);
  // ddy[p] = ddx[the first largest element of window p].
  void (*max_grad_grad)(const PoolShape& s, const T* x, const T* ddx, T* ddy, int32_t* index, T* best);
};
template <class T>
struct AvgPoolLoops {
  // y = the mean over the part of the window that is inside of the image.
  void (*avg)(const PoolShape& s, const T* x, T* y);
  // dx += the share of each window's dy.
  void (*avg_grad)(const PoolShape& s, const T* dy, T* dx);
};

struct PoolTable {
  PoolLoops<float> f32;
  PoolLoops<double> f64;
  PoolLoops<int8_t> i8;
  PoolLoops<uint8_t> u8;
  PoolLoops<int16_t> i16;
  PoolLoops<uint16_t> u16;
  PoolLoops<int32_t> i32;
  PoolLoops<uint32_t> u32;
  PoolLoops<int64_t> i64;
  PoolLoops<uint64_t> u64;
  AvgPoolLoops<float> avg_f32;
  AvgPoolLoops<double> avg_f64;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_POOL_LOOPS_H_
