#include "kernels/elementwise/elementwise.h"

namespace troupe {
namespace {

struct InvertFn {
  template <class T>
  static T Do(T x) {
    return static_cast<T>(~x);
  }
};
const math::UnaryTable& Table() {
  static const math::UnaryTable table = [] {
    math::UnaryTable t = math::ULoops<InvertFn, uint32_t, uint64_t>(0.3);
    math::AddSmallWrapping<InvertFn>(&t);
    t[DType::kInt32] = t[DType::kUint32];
    t[DType::kInt64] = t[DType::kUint64];
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("Invert")
    .Input("x: T")
    .Output("y: T")
    .Attr(TROUPE_T_INTEGERS)
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it works on bits")
    .Doc("All bits of x flipped.");

TROUPE_KERNEL("Invert").Device("CPU").Types("T", math::kIntegers).Factory(math::UnaryFactory<Table>);

}  // namespace troupe
