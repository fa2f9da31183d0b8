// The loop of one node of a fused group: its kernel's own, called on a block of elements.
//
// A reduction over the last dimension (Sum and Mean of floats that keep their dimensions) has a
// `fold` instead, which makes one element of a row. Its bits are those of the op's kernel where
// that folds a row by one thread.
//
// Thread rule: immutable once made; Run may be called from several threads.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ELEMENT_LOOP_H_
#define TROUPE_KERNELS_ELEMENTWISE_ELEMENT_LOOP_H_

#include "kernels/elementwise/bare_loops.h"

namespace troupe::math {

struct ElementLoop {
  BareLoops loops;
  // Functions with a parameter that no other family has: (x, y, n, alpha), and (dy, x, dx, n,
  // alpha).
  void (*activation)(const void*, void*, int64_t, float) = nullptr;
  void (*activation_grad)(const void*, const void*, void*, int64_t, float) = nullptr;
  void (*fold)(const void* row, int64_t n, void* out) = nullptr;
  bool is_copy = false;  // StopGradient
  int num_inputs = 1;    // without the axes of a fold
  int in_size[2] = {}, out_size = 0;
  bool same_shape = false;
  double cost = 0.25;  // nanoseconds an element

  // n elements; an input that is `fixed` has one. REQUIRES: no fold; not all inputs are fixed
  // unless n is 1.
  void Run(const void* const* in, const bool* fixed, void* out, int64_t n) const;
  // What Run calls for such inputs, for who looks it up once; both null: Run must be called.
  struct Bare {
    UnaryLoop unary = nullptr;
    BinaryLoop binary = nullptr;
  };
  Bare BareLoop(const bool* fixed) const;
};

// False when the node has no loop that could run by itself.
bool LoopOf(const Node& node, const PreparedKernel& kernel, ElementLoop* loop);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ELEMENT_LOOP_H_
