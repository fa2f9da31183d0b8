// What a step of a model cannot be faster than: the multiplications of its matrix products, at the
// rate at which the processor multiplies and adds numbers that lie in its registers.
//
// Problem: a goal in times of a rival says nothing of how much faster anybody could be. Where both
// sides are near this limit, the products have to be fewer, not faster.
//
// Thread rule: for main() only.
#ifndef TROUPE_TOOLS_BENCHMARKS_LIMIT_H_
#define TROUPE_TOOLS_BENCHMARKS_LIMIT_H_

#include "troupe/scope.h"

namespace troupe::bench {

// Pairs of a multiplication and an addition in a training step of the scope's graph: those of each
// MatMul, BatchMatMul, Conv2D and DepthwiseConv2dNative (windows at the rim as if they were full),
// and as many again for the gradient of each of its operands that is not fed; nodes below
// "gradients/" are not counted themselves, since their shapes need not be known. 0: the shape of
// another one is not known.
double MultiplyAdds(const Scope& scope);

// So many such pairs of float32 do `threads` threads together in a second; the best of some tries
// that take about `seconds` together. 0 on other processors than x86-64.
double MultiplyAddRate(int threads, double seconds);

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_LIMIT_H_
