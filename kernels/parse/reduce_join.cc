// ReduceJoin: texts joined along axes.
#include <algorithm>

#include "kernels/common/op_file.h"

namespace troupe::parse {
namespace {

TROUPE_OP("ReduceJoin")
    .Input("inputs: string")
    .Input("reduction_indices: int32")
    .Output("output: string")
    .Attr("keep_dims: bool = false")
    .Attr("separator: string = ''")
    .Shape(shape_fn::Reduction)
    .NotDifferentiable("its output is text")
    .Doc("Texts joined along the axes, first along the one that is named first; along none: as they are.");

class ReduceJoinKernel {
 public:
  explicit ReduceJoinKernel(KernelInit& init)
      : keep_dims_(init.Attr<bool>("keep_dims")), separator_(init.Attr<std::string>("separator")) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor &in = ctx.input(0), &axes = ctx.input(1);
    if (axes.rank() > 1) return InvalidArgument("reduction_indices must be a scalar or a vector");
    const int rank = in.rank();
    std::vector<int> order;
    std::vector<bool> joined(static_cast<size_t>(rank));
    for (int64_t i = 0; i < axes.num_elements(); ++i) {
      TROUPE_ASSIGN_OR_RETURN(const int axis, array::NormalizeAxis(array::IntAt(axes, i), rank, "reduction_indices"));
      if (joined[static_cast<size_t>(axis)]) return InvalidArgument("axis ", axis, " is named twice");
      joined[static_cast<size_t>(axis)] = true;
      order.push_back(axis);
    }
    // Of two axes, the one that is named first is joined first, so its elements stand together.
    std::reverse(order.begin(), order.end());
    std::vector<int64_t> strides(static_cast<size_t>(rank), 1);
    for (int d = rank - 2; d >= 0; --d) strides[d] = strides[d + 1] * in.dim(d + 1);
    TensorShape shape;
    std::vector<int> kept;
    for (int d = 0; d < rank; ++d) {
      if (!joined[d]) kept.push_back(d);
      if (!joined[d]) shape.AddDim(in.dim(d));
      if (joined[d] && keep_dims_) shape.AddDim(1);
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    int64_t pieces = 1;
    for (const int d : order) pieces *= in.dim(d);
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      const int64_t base = At(in, kept, strides, i);
      std::string& to = out->data<std::string>()[i];
      for (int64_t k = 0; k < pieces; ++k) {
        if (k > 0) to += separator_;
        to += in.data<std::string>()[base + At(in, order, strides, k)];
      }
    }
    return absl::OkStatus();
  }

 private:
  // Where element `i` of the dimensions `dims` (the last one runs fastest) stands.
  static int64_t At(const Tensor& t, const std::vector<int>& dims, const std::vector<int64_t>& strides, int64_t i) {
    int64_t at = 0;
    for (auto d = dims.rbegin(); d != dims.rend(); ++d) {
      at += i % t.dim(*d) * strides[static_cast<size_t>(*d)];
      i /= t.dim(*d);
    }
    return at;
  }

  const bool keep_dims_;
  const std::string separator_;
};
TROUPE_KERNEL("ReduceJoin").Device("CPU").Class<ReduceJoinKernel>();

}  // namespace
}  // namespace troupe::parse
