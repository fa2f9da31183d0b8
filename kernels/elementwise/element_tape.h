// A few element-wise nodes run as a tape over blocks that stay in the first-level cache, with the
// loops of their own kernels.
//
// Every step's result goes into a block-sized register; all of them together are 24 KiB of the
// running thread's stack. The last step's result goes to the output. A value of rank 0 is computed
// once and not block by block. The bits are those of the separate kernels: each step is the same
// loop over the same elements.
//
// Thread rule: immutable after Compile; Run may be called from several threads.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ELEMENT_TAPE_H_
#define TROUPE_KERNELS_ELEMENTWISE_ELEMENT_TAPE_H_

#include <vector>

#include "kernels/elementwise/tape_ops.h"

namespace troupe::math {

class ElementTape {
 public:
  // `body`: _Arg nodes and element-wise ones, the last of which gives the result; `kernels` are
  // those of the others in the body's topological order. False when some node has no loop that
  // could run by itself, or is a reduction.
  bool Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels);
  // True when Run may be called for arguments of these ranks and shapes: each is a scalar, or has
  // the shape of the result, *shape.
  bool Fits(const Tensor* args, TensorShape* shape) const;
  // REQUIRES: Fits. `out` has the result's type and n elements, and may be the buffer of an
  // argument with as many elements of that type.
  void Run(ComputeThreads* threads, const Tensor* args, int64_t n, void* out) const;

 private:
  // By step: its result is a scalar, given which arguments are.
  void FindScalars(const Tensor* args, bool* scalar) const;

  TapeOps tape_;
  int64_t block_ = 0;  // elements that go through the tape at once
  size_t register_bytes_ = 0;
};

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ELEMENT_TAPE_H_
