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

#include "kernels/elementwise/bare_loops.h"

namespace troupe::math {

class ElementTape {
 public:
  // `body`: _Arg nodes and element-wise ones, the last of which gives the result; `kernels` are
  // those of the others in the body's topological order. False when some node has no loop that
  // could run by itself.
  bool Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels);
  // True when Run may be called for arguments of these ranks and shapes: each is a scalar, or has
  // the shape of the result, *shape.
  bool Fits(const Tensor* args, TensorShape* shape) const;
  // REQUIRES: Fits. `out` has the result's type and n elements, and may be the buffer of an
  // argument with as many elements of that type.
  void Run(ComputeThreads* threads, const Tensor* args, int64_t n, void* out) const;

 private:
  struct Operand {
    bool is_arg = false;
    int index = 0;  // of the argument, or of the step that computes it
  };
  struct Op {
    BareLoops loops;
    // Functions with a parameter that no other family has: (x, y, n, alpha), and (dy, x, dx, n,
    // alpha).
    void (*activation)(const void*, void*, int64_t, float) = nullptr;
    void (*activation_grad)(const void*, const void*, void*, int64_t, float) = nullptr;
    int num_inputs = 1;
    Operand in[2];
    int in_size[2] = {}, out_size = 0;
    int reg = 0;  // where the result of a block goes; -1: to the output
    bool same_shape = false;
    double cost = 0.25;
  };
  bool LoopOf(const Node& node, const PreparedKernel& kernel, Op* op) const;
  void AssignRegisters();
  // By step: its result is a scalar, given which arguments are.
  void FindScalars(const Tensor* args, bool* scalar) const;
  static void RunOp(const Op& op, const void* const* in, const bool* scalar, void* out, int64_t n);

  std::vector<Op> ops_;
  int num_args_ = 0, num_registers_ = 0;
  int64_t block_ = 0;  // elements that go through the tape at once
  size_t register_bytes_ = 0;
  double cost_ = 0;  // nanoseconds an element
};

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ELEMENT_TAPE_H_
