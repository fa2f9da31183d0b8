#include "kernels/elementwise/comparisons.h"

namespace troupe::math {
namespace {

absl::Status EqualityShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const bool strict, c.Attr<bool>("incompatible_shape_error"));
  if (strict) return shape_fn::BroadcastBinary(c);
  const absl::StatusOr<PartialTensorShape> shape = BroadcastPartialShapes(c.input(0), c.input(1));
  if (!shape.ok()) {
    c.set_output(0, PartialTensorShape(TensorShape()));
  } else if (c.input(0).IsFullyDefined() && c.input(1).IsFullyDefined()) {
    c.set_output(0, *shape);
  }
  return absl::OkStatus();
}

}  // namespace

const std::vector<DType>& EqualityTypes() {
  static const std::vector<DType> types = {
      DType::kBool,      DType::kString,     DType::kHalf,   DType::kBfloat16, DType::kFloat, DType::kDouble,
      DType::kComplex64, DType::kComplex128, DType::kInt8,   DType::kInt16,    DType::kInt32, DType::kInt64,
      DType::kUint8,     DType::kUint16,     DType::kUint32, DType::kUint64,   DType::kQint8, DType::kQint16,
      DType::kQint32,    DType::kQuint8,     DType::kQuint16};
  return types;
}

OpBuilder EqualityOp(std::string_view name) {
  return OpBuilder(name)
      .Input("x: T")
      .Input("y: T")
      .Output("z: bool")
      .Attr("T: type")
      .Attr("incompatible_shape_error: bool = true")
      .Commutative()
      .Shape(EqualityShape)
      .NotDifferentiable("its output is bool");
}

absl::StatusOr<PreparedKernel> MakeEquality(KernelInit& init, const BinaryTable& table, BinaryShapes if_not) {
  const bool strict = init.Attr<bool>("incompatible_shape_error");
  return MakeBinary(init, table, nullptr, strict ? BinaryShapes::kBroadcast : if_not);
}

}  // namespace troupe::math
