// Conversions between all plain numeric types.
//
// Floats become integers by truncation, as x86 does it: 32-bit and 64-bit results of NaN and of
// numbers that do not fit are the lowest number, and narrower ones are the low bits of the 32-bit
// result. uint32 is the low half of the 64-bit result. Integers keep their low bits; a complex
// number gives its real part; a number is true when it is not zero. Nothing here is undefined
// behaviour.
//
// Thread rule: pure functions; a loop runs on the calling thread.
#ifndef TROUPE_KERNELS_ELEMENTWISE_CAST_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_CAST_LOOPS_H_

#include "kernels/elementwise/hot_loops.h"
#include "troupe/dtype.h"

namespace troupe::math {

// The loop from one type to the other for the types float, double, integers and bool; null for any
// other.
UnaryLoop DirectCast(DType from, DType to);
// The parts of it, each by source type.
UnaryLoop CastFromFloat(DType to);
UnaryLoop CastFromDouble(DType to);
UnaryLoop CastFromInteger(DType from, DType to);

// A conversion of any two plain numeric types: a chain of loops over blocks. With `truncate`, the
// bits of the mantissa that do not fit into a floating-point result are cut off instead of rounded.
// No steps: the types cannot be converted.
struct CastPlan {
  UnaryLoop step[4] = {};
  int steps = 0;
  size_t from_size = 0, to_size = 0;
  void Run(const void* x, void* out, int64_t n) const;
};
CastPlan PlanCast(DType from, DType to, bool truncate);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_CAST_LOOPS_H_
