// Softmax and its losses, row by row; one function per element type and instruction level. In every
// function a matrix is dense [rows, columns] with columns >= 1, and x may be y.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_NN_SOFTMAX_LOOPS_H_
#define TROUPE_KERNELS_NN_SOFTMAX_LOOPS_H_

#include <cstdint>

namespace troupe {

template <class T>
struct SoftmaxLoops {
  // y = exp(x) / sum(exp(x)) of each row.
  void (*softmax)(const T* x, T* y, int64_t rows, int64_t columns);
  // y = x - log(sum(exp(x))).
  void (*log_softmax)(const T* x, T* y, int64_t rows, int64_t columns);
  // loss = sum(labels * (log(sum(exp(x))) - x)); backprop = softmax(x) - labels.
  void (*cross_entropy)(const T* x, const T* labels, T* loss, T* backprop, int64_t rows, int64_t columns);
  // The same for labels that are 1 at column label[row] and 0 elsewhere. A label outside of [0,
  // columns) gives NaN.
  void (*sparse_cross_entropy)(const T* x, const int64_t* label, T* loss, T* backprop, int64_t rows, int64_t columns);
};

struct SoftmaxTable {
  SoftmaxLoops<float> f32;
  SoftmaxLoops<double> f64;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_SOFTMAX_LOOPS_H_
