// The common include of op files that move elements: definition, shapes, gradient, kernel, elements
// and integer arguments.
//
// An op that only hands its input on uses PassOn: no byte is copied, and the consumer may become
// the buffer's only owner.
//
// Thread rule: PassOn and the like belong to the thread of their context.
#ifndef TROUPE_KERNELS_COMMON_OP_FILE_H_
#define TROUPE_KERNELS_COMMON_OP_FILE_H_

#include <utility>
#include <vector>

#include "kernels/common/elements.h"
#include "kernels/common/int_args.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::array {

// Kernel: output 0 is input 0.
inline absl::Status PassOn(KernelContext& ctx) {
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
// Output 0 is input 0 under another shape of as many elements.
inline absl::Status PassOnReshaped(KernelContext& ctx, const TensorShape& shape) {
  ctx.set_output(0, ctx.TakeInput(0).ReshapedMove(shape));
  return absl::OkStatus();
}
// Gradient: what arrives at output 0 flows to input 0 as it is.
inline absl::Status PassOnGradient(GradientContext& g) {
  g.Set(0, g.Grad(0));
  return g.status();
}
// Gradient: what arrives at output 0, in the shape of input 0.
inline absl::Status ReshapedGradient(GradientContext& g) {
  g.Set(0, g.Op("Reshape", {g.Grad(0), g.Op("Shape", {g.Input(0)})}));
  return g.status();
}
// The shape of `x` as a vector of dtype `type` (int32 or int64).
inline NodeOut ShapeOf(GradientContext& g, NodeOut x, DType type = DType::kInt32) {
  return g.Op("Shape", {x}, {{"out_type", type}});
}
// An int32 vector constant.
inline NodeOut IntVector(GradientContext& g, std::initializer_list<int32_t> values) {
  return g.Const(Tensor::Vector<int32_t>(values));
}
inline NodeOut Int(GradientContext& g, int32_t value) { return g.Const(Tensor::Scalar<int32_t>(value)); }
// True when rows of dimension 0 may be handed on as slices of the buffer: every one begins at a
// multiple of 64 bytes.
inline bool RowsAreAligned(const Tensor& t, int64_t rows_each) {
  if (t.rank() == 0 || t.dim(0) == 0 || !IsPlainBytes(t.dtype())) return false;
  const int64_t bytes = static_cast<int64_t>(t.bytes()) / t.dim(0) * rows_each;
  return bytes > 0 && bytes % 64 == 0;
}

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_COMMON_OP_FILE_H_
