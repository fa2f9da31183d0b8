// Bias and activation over the rows of a matrix.
#include "kernels/common/vector_math.h"
#include "kernels/product/bias_activation.h"

namespace troupe::TROUPE_ISA {
namespace {

// As in activation_isa.cc.
struct None {
  static float F(float x, float) { return x; }
};
struct Relu {
  static float F(float x, float) { return x < 0.0f ? 0.0f : x; }
};
struct Relu6 {
  static float F(float x, float) { return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x; }
};
struct Elu {
  static float F(float x, float) { return x < 0.0f ? Expm1(x) : x; }
};
struct LeakyRelu {
  static float F(float x, float alpha) { return x > 0.0f ? x : x * alpha; }
};

template <class Op>
void Run(const float* __restrict__ bias, float* __restrict__ y, int64_t rows, int64_t columns, float alpha) {
  for (int64_t r = 0; r < rows; ++r, y += columns) {
    for (int64_t c = 0; c < columns; ++c) y[c] = Op::F(y[c] + bias[c], alpha);
  }
}

}  // namespace

extern const BiasActivationTable kBiasActivations;
const BiasActivationTable kBiasActivations = {{&Run<None>, &Run<Relu>, &Run<Relu6>, &Run<Elu>, &Run<LeakyRelu>}};

}  // namespace troupe::TROUPE_ISA
