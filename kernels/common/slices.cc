#include "kernels/common/slices.h"

#include "troupe/slices_mark.h"

namespace troupe {

NodeOut RowsGradient(GradientContext& g, NodeOut grad, NodeOut indices, NodeOut shape,
                     const PartialTensorShape& known) {
  const DType type = BaseType(shape.dtype());
  const auto number = [&](int64_t v) {
    return g.Const(type == DType::kInt64 ? Tensor::Vector<int64_t>({v})
                                         : Tensor::Vector<int32_t>({static_cast<int32_t>(v)}));
  };
  const NodeOut all = g.Const(Tensor::Vector<int32_t>({-1}));
  const NodeOut flat = g.Op("Reshape", {indices, all});
  const NodeOut count = g.Op("Shape", {flat}, {{"out_type", type}});
  const NodeOut row = g.Op("Slice", {shape, number(1), number(-1)});
  const NodeOut rows_shape =
      g.Op("ConcatV2", {GradArg(std::vector<NodeOut>{count, row}), GradArg(g.Const(Tensor::Scalar<int32_t>(0)))});
  NodeOut num_rows;
  if (known.known_rank() && known.rank() > 0 && known.dim(0) >= 0) {
    num_rows = g.Const(Tensor::Scalar<int64_t>(known.dim(0)));
  } else {
    num_rows = g.Op("Reshape",
                    {g.Op("Slice", {shape, number(0), number(1)}), g.Const(Tensor(DType::kInt32, TensorShape({0})))});
  }
  return g.Op("UnsortedSegmentSum", {g.Op("Reshape", {grad, rows_shape}), flat, num_rows}, {{kSlicesAttr, true}});
}

}  // namespace troupe
