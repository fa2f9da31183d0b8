// The loops inside a kernel made by the factories of elementwise.h, for who runs several of them
// over blocks.
//
// Thread rule: a pure function.
#ifndef TROUPE_KERNELS_ELEMENTWISE_BARE_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_BARE_LOOPS_H_

#include "kernels/elementwise/hot_loops.h"
#include "troupe/kernel.h"

namespace troupe::math {

struct BareLoops {
  BinaryLoops binary{};
  UnaryLoops unary{};
  bool same_shape = false;  // the binary loop's inputs must have one shape
};
// False for a kernel of another make, and for one that does more than its loop: 16-bit floats,
// checks of the values.
bool LoopsOf(const PreparedKernel& kernel, BareLoops* loops);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_BARE_LOOPS_H_
