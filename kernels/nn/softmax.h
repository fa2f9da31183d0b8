// What the ops of the softmax family share: the computing half, over rows split among the threads.
#ifndef TROUPE_KERNELS_NN_SOFTMAX_H_
#define TROUPE_KERNELS_NN_SOFTMAX_H_

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {

// Kernel and shape function of Softmax and LogSoftmax: the last dimension of a tensor of rank 1 or
// more.
absl::Status ComputeSoftmax(KernelContext& ctx, bool log);
absl::Status SoftmaxShape(InferenceContext& c);

// The gradient of a loss op with outputs (loss, backprop) with respect to its logits: d(loss) *
// backprop, and for a gradient d that arrives at backprop (a second derivative) also (d - sum(d *
// softmax)) * softmax.
NodeOut LogitsGradient(GradientContext& g);

// `logits` and `labels`: dense [rows, columns] of float32 or float64 (`dtype`).
void CrossEntropy(ComputeThreads* threads, DType dtype, const void* logits, const void* labels, void* loss,
                  void* backprop, int64_t rows, int64_t columns);
void SparseCrossEntropy(ComputeThreads* threads, DType dtype, const void* logits, const int64_t* labels, void* loss,
                        void* backprop, int64_t rows, int64_t columns);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_SOFTMAX_H_
