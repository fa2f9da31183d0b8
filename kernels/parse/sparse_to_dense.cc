// SparseToDense: a tensor of a default value, with some elements of their own.
#include "kernels/common/op_file.h"

namespace troupe::parse {
namespace {

TROUPE_OP("SparseToDense")
    .Input("sparse_indices: Tindices")
    .Input("output_shape: Tindices")
    .Input("sparse_values: T")
    .Input("default_value: T")
    .Output("dense: T")
    .Attr("validate_indices: bool = true")
    .Attr("T: type")
    .Attr("Tindices: {int32, int64}")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(3, 0).status());
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.InputAsShape(1));
      c.set_output(0, std::move(out));
      return absl::OkStatus();
    })
    .Gradient([](GradientContext& g) {
      // What stands at the indices is the gradient of the values; the rest is the default's.
      // Of an index that comes twice the last value counts, but each gets the gradient: such
      // indices are refused unless validate_indices is false.
      const NodeOut width = g.Op("Size", {g.Input(1)});
      const NodeOut rows = g.Op("Pack", std::vector<GradArg>{GradArg(std::vector<NodeOut>{array::Int(g, -1), width})});
      const NodeOut picked = g.Op("GatherNd", {g.Grad(0), g.Op("Reshape", {g.Input(0), rows})});
      const auto sum = [&g](NodeOut x) {
        return g.Op("Sum", {x, g.Op("Range", {array::Int(g, 0), g.Op("Rank", {x}), array::Int(g, 1)})});
      };
      // One value may stand at all indices.
      const NodeOut shape = array::ShapeOf(g, g.Input(2));
      const NodeOut spread = g.Op("BroadcastGradientArgs", {array::ShapeOf(g, picked), shape});
      if (!spread.valid()) return g.status();
      g.Set(2, g.Op("Reshape", {g.Op("Sum", {picked, NodeOut{spread.node, 1}}), shape}));
      g.Set(3, g.Op("Sub", {sum(g.Grad(0)), sum(picked)}));
      return g.status();
    })
    .Doc(
        "A tensor of shape output_shape, filled with default_value, in which sparse_values stand at sparse_indices (a "
        "row for each value; a vector for a tensor of rank 1; a scalar for one element). validate_indices: they must "
        "be in ascending order, none twice.");

class SparseToDenseKernel {
 public:
  explicit SparseToDenseKernel(KernelInit& init) : validate_(init.Attr<bool>("validate_indices")) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor &indices = ctx.input(0), &values = ctx.input(2), &fill = ctx.input(3);
    if (indices.rank() > 2) {
      return InvalidArgument("sparse_indices must be a scalar, a vector or a matrix, but has shape ",
                             indices.shape().DebugString());
    }
    if (ctx.input(1).rank() != 1) {
      return InvalidArgument("output_shape must be a vector, but has shape ", ctx.input(1).shape().DebugString());
    }
    if (fill.rank() != 0) {
      return InvalidArgument("default_value must be a scalar, but has shape ", fill.shape().DebugString());
    }
    const int64_t n = indices.rank() > 0 ? indices.dim(0) : 1, width = indices.rank() > 1 ? indices.dim(1) : 1;
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, array::ReadShape(ctx.input(1)));
    if (shape.rank() != width) {
      return InvalidArgument("output_shape has ", shape.rank(), " elements, but an index has ", width);
    }
    if (values.rank() > 1 || (values.rank() == 1 && values.dim(0) != n)) {
      return InvalidArgument("sparse_values must be a scalar or have one element for each of ", n,
                             " indices, but has shape ", values.shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const DType type = fill.dtype();
    array::FillElements(ctx.threads(), type, out->raw(), fill.raw(), out->num_elements());
    int64_t before = -1;
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = 0;
      for (int d = 0; d < width; ++d) {
        const int64_t index = array::IntAt(indices, i * width + d);
        if (index < 0 || index >= shape.dim(d)) {
          return InvalidArgument("sparse_indices[", i, "] is out of bounds: index ", index, " of dimension ", d, " of ",
                                 shape.DebugString());
        }
        at = at * shape.dim(d) + index;
      }
      if (validate_ && at <= before) {
        return InvalidArgument("sparse_indices[", i, "] is ", at == before ? "repeated" : "out of order");
      }
      before = at;
      array::CopyElements(ctx.threads(), type, array::ElementAt(type, out->raw(), at),
                          array::ElementAt(type, values.raw(), values.rank() == 0 ? 0 : i), 1);
    }
    return absl::OkStatus();
  }

 private:
  const bool validate_;
};
TROUPE_KERNEL("SparseToDense").Device("CPU").Types("T", array::MovableTypes()).Class<SparseToDenseKernel>();

}  // namespace
}  // namespace troupe::parse
