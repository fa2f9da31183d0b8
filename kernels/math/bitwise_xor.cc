#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

struct BitsFn {
  template <class T> static T Do(T x, T y) { return static_cast<T>(x ^ y); }
};
const math::BinaryTable& Table() {
  static const math::BinaryTable table = [] {
    math::BinaryTable t = math::Loops<BitsFn, uint32_t, uint64_t>(0.3);
    math::AddSmallWrapping<BitsFn>(&t);
    t[DType::kInt32] = t[DType::kUint32];
    t[DType::kInt64] = t[DType::kUint64];
    return t;
  }();
  return table;
}

}  // namespace

TROUPE_OP("BitwiseXor")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr(TROUPE_T_INTEGERS)
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("it works on bits")
    .Doc("The bitwise exclusive or of x and y, with broadcasting.");

TROUPE_KERNEL("BitwiseXor").Device("CPU").Types("T", math::kIntegers).Factory(math::BinaryFactory<Table>);

}  // namespace troupe
