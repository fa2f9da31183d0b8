// The loops of the activation functions (Relu and its kin) and of their gradients, one per element
// type and instruction level.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ACTIVATION_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_ACTIVATION_LOOPS_H_

#include <cstdint>

namespace troupe {

enum class Activation : uint8_t { kRelu, kRelu6, kElu, kSelu, kLeakyRelu, kSoftplus, kSoftsign };
inline constexpr int kNumActivations = 7;
// The element types that have loops, in the order of the tables below. Integers have Relu and Relu6
// only.
inline constexpr int kNumActivationTypes = 10;  // float double int32 uint8 int16 int8 int64 uint16 uint32 uint64

struct ActivationTable {
  using Forward = void (*)(const void* x, void* y, int64_t n, float alpha);
  // dx = dy * f'. x is the op's input (Relu, Relu6, LeakyRelu, Softplus, Softsign) or output (Elu,
  // Selu). May work in place.
  using Backward = void (*)(const void* dy, const void* x, void* dx, int64_t n, float alpha);
  Forward forward[kNumActivations][kNumActivationTypes];
  Backward backward[kNumActivations][kNumActivationTypes];
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_ELEMENTWISE_ACTIVATION_LOOPS_H_
