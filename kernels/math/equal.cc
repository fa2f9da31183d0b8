#include <complex>
#include <string>
#include <vector>

#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct CompareFn {
  template <class T> static bool Do(const T& x, const T& y) { return x == y; }
};

const std::vector<DType> kTypes = {DType::kBool,  DType::kString, DType::kHalf,   DType::kBfloat16, DType::kFloat,  DType::kDouble, DType::kComplex64,
                                   DType::kComplex128, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16,
                                   DType::kUint32, DType::kUint64, DType::kQint8, DType::kQint16, DType::kQint32, DType::kQuint8, DType::kQuint16};

const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kEqual, true);
    math::AddLoopsTo<CompareFn, bool, uint8_t, uint16_t>(&t, 0.3f);
    math::AddLoopsTo<CompareFn, bool, std::complex<float>, std::complex<double>>(&t, 1);
    math::AddLoopsTo<CompareFn, bool, std::string>(&t, 10);
    // Equality does not ask for signs.
    for (DType d : {DType::kInt8, DType::kBool, DType::kQint8, DType::kQuint8}) t[d] = t[DType::kUint8];
    for (DType d : {DType::kInt16, DType::kQint16, DType::kQuint16}) t[d] = t[DType::kUint16];
    t[DType::kQint32] = t[DType::kInt32];
    return t;
  }();
  return table;
}

absl::StatusOr<PreparedKernel> Make(KernelInit& init) {
  const bool strict = init.Attr<bool>("incompatible_shape_error");
  return math::MakeBinary(init, Table(), nullptr, strict ? math::BinaryShapes::kBroadcast : math::BinaryShapes::kFalseIfNot);
}

// Without incompatible_shape_error the shapes may turn out not to broadcast, and the output to be a scalar.
absl::Status Shape(InferenceContext& c) {
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

TROUPE_OP("Equal")
    .Input("x: T")
    .Input("y: T")
    .Output("z: bool")
    .Attr("T: type")
    .Attr("incompatible_shape_error: bool = true")
    .Commutative()
    .Shape(Shape)
    .NotDifferentiable("its output is bool")
    .Doc("x == y, with broadcasting. Shapes that do not broadcast are an error, or with incompatible_shape_error = false give false.");

TROUPE_KERNEL("Equal").Device("CPU").Types("T", kTypes).Factory(Make);

}  // namespace troupe
