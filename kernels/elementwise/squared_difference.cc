#include <complex>
#include <vector>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

using namespace math;  // NOLINT: the gradient is a formula

struct SquaredDifferenceFn {
  template <class T>
  static T Do(T x, T y) {
    return (x - y) * std::conj(x - y);
  }
};
const std::vector<DType> kTypes = {DType::kHalf,  DType::kBfloat16, DType::kFloat,     DType::kDouble,
                                   DType::kInt32, DType::kInt64,    DType::kComplex64, DType::kComplex128};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::HotTable(math::HotBinary::kSquaredDifference);
    math::AddLoopsTo<SquaredDifferenceFn, void, std::complex<float>, std::complex<double>>(&t, 2);
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("SquaredDifference")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value gx = 2.0 * (Grad(g) * (In(g, 0) - In(g, 1)));
      return SetBroadcast(g, gx, -gx);
    })
    .Doc("(x - y) * conj(x - y) with broadcasting.");

TROUPE_KERNEL("SquaredDifference").Device("CPU").Types("T", kTypes).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
