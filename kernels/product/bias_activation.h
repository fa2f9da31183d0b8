// A vector added to the rows of a matrix and a function of the sum, in one pass: what follows a
// product in a fused node.
//
// Thread rule: any thread; the work is shared out among `threads`, and done when the call returns.
// A loop of the table runs on the calling thread.
#ifndef TROUPE_KERNELS_PRODUCT_BIAS_ACTIVATION_H_
#define TROUPE_KERNELS_PRODUCT_BIAS_ACTIVATION_H_

#include <cstdint>
#include <string_view>

#include "troupe/compute_threads.h"

namespace troupe {

enum class FusedActivation : uint8_t { kNone, kRelu, kRelu6, kElu, kLeakyRelu, kTanh, kSigmoid };

// The activation of an op's name ("Relu"); false for any other word.
bool ParseFusedActivation(std::string_view op, FusedActivation* activation);

// y[r][c] = f(y[r][c] + bias[c]), with the bits that BiasAdd and the activation's own op give.
// `alpha` is LeakyRelu's.
void AddBiasActivation(ComputeThreads* threads, FusedActivation f, float alpha, int64_t rows, int64_t columns,
                       const float* bias, float* y);

// The loops, by activation; Tanh and Sigmoid have kNone's, and one of the element-wise loops after
// it.
struct BiasActivationTable {
  void (*run[5])(const float* bias, float* y, int64_t rows, int64_t columns, float alpha);
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PRODUCT_BIAS_ACTIVATION_H_
