// Reshape: the same elements in the same order under another shape; one size may be -1 and is
// computed from the others.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ReshapeShape(InferenceContext& c) {
  const PartialTensorShape& in = c.input(0);
  if (c.input(1).known_rank() && c.input(1).rank() > 1) {
    return InvalidArgument("the shape to reshape to must be a vector, got shape ", c.input(1).DebugString());
  }
  if (c.input(1).known_rank() && c.input(1).rank() == 0) {
    c.set_output(0, PartialTensorShape::OfRank(1));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(1));
  if (const Tensor* sizes = c.input_tensor(1)) {
    const Ints dims = ReadInts(*sizes);
    if (std::count(dims.begin(), dims.end(), -1) > 1)
      return InvalidArgument("only one size of a reshape may be -1, not several of ", sizes->DebugString());
  }
  if (out.known_rank() && in.IsFullyDefined()) {
    const int64_t n = in.num_elements();
    int64_t known = 1;
    int unknown = -1, num_unknown = 0;
    for (int i = 0; i < out.rank(); ++i) {
      if (out.dim(i) >= 0) {
        known *= out.dim(i);
      } else {
        unknown = i;
        ++num_unknown;
      }
    }
    if (num_unknown == 0 && known != n) {
      return InvalidArgument("cannot reshape a tensor with ", n, " elements to shape ", out.DebugString(), " (", known,
                             " elements)");
    }
    if (num_unknown == 1 && known > 0) {
      if (n % known != 0) {
        return InvalidArgument("cannot reshape a tensor with ", n, " elements to shape ", out.DebugString(), ": ",
                               known, " does not divide it");
      }
      out.set_dim(unknown, n / known);
    }
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status ComputeReshape(KernelContext& ctx) {
  const Tensor& sizes = ctx.input(1);
  // A scalar size stands for a vector of one: old graphs have it.
  if (sizes.rank() > 1)
    return InvalidArgument("the shape to reshape to must be a vector, got shape ", sizes.shape().DebugString());
  const Tensor& in = ctx.input(0);
  const int64_t n = in.num_elements();
  Ints dims = ReadInts(sizes);
  int unknown = -1;
  bool has_zero = false;
  int64_t known = 1;  // product of the known sizes but 0
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == -1) {
      if (unknown >= 0) return InvalidArgument("only one size of a reshape may be -1, not both ", unknown, " and ", i);
      unknown = static_cast<int>(i);
    } else if (dims[i] < 0) {
      return InvalidArgument("size ", i, " must be non-negative, not ", dims[i]);
    } else if (dims[i] == 0) {
      has_zero = true;
    } else if ((known = MultiplyWithoutOverflow(known, dims[i])) < 0) {
      return InvalidArgument("the shape to reshape to has too many elements: [", StrJoin(dims, ","), "]");
    }
  }
  if (unknown >= 0) {
    // Zeros on both sides cancel: [0, 3] as [0, -1] is [0, 3] again.
    int64_t rest = 1;
    for (int i = 0; i < in.rank(); ++i) rest *= has_zero && in.dim(i) == 0 ? 1 : in.dim(i);
    if (rest % known != 0) {
      return InvalidArgument("input to reshape is a tensor with ", n,
                             " values, but the requested shape requires a multiple of ", known);
    }
    dims[static_cast<size_t>(unknown)] = rest / known;
  }
  TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
  if (shape.num_elements() != n) {
    return InvalidArgument("input to reshape is a tensor with ", n, " values, but the requested shape ",
                           shape.DebugString(), " has ", shape.num_elements());
  }
  return PassOnReshaped(ctx, shape);
}

TROUPE_OP("Reshape")
    .Input("tensor: T")
    .Input("shape: Tshape")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tshape: {int32, int64} = DT_INT32")
    .Shape(ReshapeShape)
    .Trait(OpTrait::kSharesInput)
    .Gradient(ReshapedGradient)
    .Doc(
        "The elements of `tensor` under `shape`. One size of `shape` may be -1: it is what makes the number of "
        "elements equal.");
TROUPE_KERNEL("Reshape").Device("CPU").HostMemory("shape").Function<ComputeReshape, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::array
