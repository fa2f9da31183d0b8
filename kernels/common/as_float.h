// Helpers for kernels of float16 and bfloat16, which widen their inputs to float32, run the float32
// code, and round the result once.
//
// Thread rule: thread safe on tensors that the caller owns.
#ifndef TROUPE_KERNELS_COMMON_AS_FLOAT_H_
#define TROUPE_KERNELS_COMMON_AS_FLOAT_H_

#include "troupe/kernel.h"

namespace troupe {

constexpr bool IsSmallFloat(DType t) { return t == DType::kHalf || t == DType::kBfloat16; }
// The type to compute in: float32 for the small floats, the type itself otherwise.
constexpr DType ComputeType(DType t) { return IsSmallFloat(t) ? DType::kFloat : t; }

// Copies come from the device's memory; std::bad_alloc when there is none.
//
// `t` itself, or a float32 copy of a small float tensor.
Tensor Widened(const KernelContext& ctx, const Tensor& t);
// A tensor of `dtype` with the shape and the values of float32 tensor `t`; `t` itself when it has
// that type.
Tensor Narrowed(const KernelContext& ctx, Tensor t, DType dtype);

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_AS_FLOAT_H_
