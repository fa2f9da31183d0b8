// Squeeze: without dimensions of size 1, all of them or those that are named.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

// Which of `rank` dimensions `squeeze_dims` names.
absl::StatusOr<std::vector<bool>> Named(absl::Span<const int64_t> squeeze_dims, int rank) {
  std::vector<bool> named(static_cast<size_t>(rank));
  for (int64_t d : squeeze_dims) {
    if (d < -rank || d >= rank)
      return InvalidArgument("tried to squeeze dim index ", d, " for a tensor with ", rank, " dimensions");
    named[static_cast<size_t>(d < 0 ? d + rank : d)] = true;
  }
  return named;
}

absl::Status SqueezeShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> squeeze, c.Attr<std::vector<int64_t>>("squeeze_dims"));
  const PartialTensorShape& in = c.input(0);
  if (!in.known_rank()) return shape_fn::Unknown(c);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<bool> named, Named(squeeze, in.rank()));
  Ints dims;
  for (int i = 0; i < in.rank(); ++i) {
    if (squeeze.empty()) {
      // An unknown dimension may be a 1 that goes or a number that stays.
      if (in.dim(i) < 0) return shape_fn::Unknown(c);
      if (in.dim(i) == 1) continue;
    } else if (named[static_cast<size_t>(i)]) {
      if (in.dim(i) >= 0 && in.dim(i) != 1)
        return InvalidArgument("cannot squeeze dim[", i, "], expected a dimension of 1, got ", in.dim(i));
      continue;
    }
    dims.push_back(in.dim(i));
  }
  c.set_output(0, PartialTensorShape(absl::MakeConstSpan(dims)));
  return absl::OkStatus();
}

class SqueezeKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit SqueezeKernel(KernelInit& init) : squeeze_(init.Attr<std::vector<int64_t>>("squeeze_dims")) {}
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    TensorShape shape;
    if (squeeze_.empty()) {
      for (int i = 0; i < in.rank(); ++i) {
        if (in.dim(i) != 1) shape.AddDim(in.dim(i));
      }
    } else {
      TROUPE_ASSIGN_OR_RETURN(const std::vector<bool> named, Named(squeeze_, in.rank()));
      for (int i = 0; i < in.rank(); ++i) {
        if (!named[static_cast<size_t>(i)]) {
          shape.AddDim(in.dim(i));
        } else if (in.dim(i) != 1) {
          return InvalidArgument("cannot squeeze dim[", i, "], expected a dimension of 1, got ", in.dim(i));
        }
      }
    }
    return PassOnReshaped(ctx, shape);
  }

 private:
  std::vector<int64_t> squeeze_;
};

TROUPE_OP("Squeeze")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("squeeze_dims: list(int) >= 0 = []")
    .Shape(SqueezeShape)
    .Trait(OpTrait::kSharesInput)
    .Gradient(ReshapedGradient)
    .Doc(
        "`input` without the dimensions `squeeze_dims`, which must have size 1; without all dimensions of size 1 when "
        "the list is empty.");
TROUPE_KERNEL("Squeeze").Device("CPU").Class<SqueezeKernel>();

}  // namespace
}  // namespace troupe::array
