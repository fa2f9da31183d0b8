// Shape and ShapeN: the dimensions of a value, as a vector; Size and Rank: their product and their
// number. None looks at the elements.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status RankVectors(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) c.set_output(i, PartialTensorShape{c.input(i).rank()});
  return absl::OkStatus();
}

absl::Status ComputeShape(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const TensorShape shape = ctx.input(i).shape();
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(i, TensorShape({shape.rank()})));
    TROUPE_RETURN_IF_ERROR(WriteInts(shape.dims(), out));
  }
  return absl::OkStatus();
}

absl::Status ComputeSize(KernelContext& ctx) {
  const int64_t size = ctx.input(0).num_elements();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape()));
  return WriteInts({size}, out);
}

absl::Status ComputeRank(KernelContext& ctx) {
  const int rank = ctx.input(0).rank();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape()));
  return WriteInts({rank}, out);
}

TROUPE_OP("Shape")
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kShape)
    .Shape(RankVectors)
    .NotDifferentiable("a shape does not depend on values")
    .Doc("The shape of `input` as a vector.");
TROUPE_KERNEL("Shape").Device("CPU").Function<ComputeShape, Cost::kTrivial>();

TROUPE_OP("ShapeN")
    .Input("input: N * T")
    .Output("output: N * out_type")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kShape)
    .Shape(RankVectors)
    .NotDifferentiable("a shape does not depend on values")
    .Doc("The shapes of the N inputs, each as a vector.");
TROUPE_KERNEL("ShapeN").Device("CPU").Function<ComputeShape, Cost::kTrivial>();

TROUPE_OP("Size")
    .Input("input: T")
    .Output("output: out_type")
    .Attr("T: type")
    .Attr("out_type: {int32, int64} = DT_INT32")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kSize)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("a shape does not depend on values")
    .Doc("The number of elements of `input`.");
TROUPE_KERNEL("Size").Device("CPU").Function<ComputeSize, Cost::kTrivial>();

TROUPE_OP("Rank")
    .Input("input: T")
    .Output("output: int32")
    .Attr("T: type")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kRank)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("a shape does not depend on values")
    .Doc("The number of dimensions of `input`.");
TROUPE_KERNEL("Rank").Device("CPU").Function<ComputeRank, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
