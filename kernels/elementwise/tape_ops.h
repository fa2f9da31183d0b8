// A group of nodes as a list of loops with numbered operands and registers: what the tapes run
// (element_tape.h, row_tape.h).
//
// Thread rule: immutable once compiled.
#ifndef TROUPE_KERNELS_ELEMENTWISE_TAPE_OPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_TAPE_OPS_H_

#include <vector>

#include "kernels/elementwise/element_loop.h"

namespace troupe::math {

inline constexpr size_t kMaxTapeOps = 32;
inline constexpr int kMaxTapeRegisters = 12;
// All registers of a tape together: they stay in the first-level cache, and the caller's thread may
// have a small stack.
inline constexpr size_t kTapeRegisterBytes = 24 << 10;

struct TapeOp : ElementLoop {
  struct Operand {
    bool is_arg = false;
    int index = 0;  // of the argument, or of the op that computes it
  };
  Operand in[2];
  Operand axes;  // of a fold: an argument
  int reg = 0;   // where the result goes; -1: to the output
  // Its only reader computes it, too, and reads what it reads: it is not run.
  bool absorbed = false;
};

struct TapeOps {
  std::vector<TapeOp> ops;
  int num_args = 0, num_registers = 0;
  bool has_fold = false;
  size_t widest = 1;  // bytes of the largest element that an op makes
  double cost = 0;    // nanoseconds an element

  // `body`: _Arg nodes and others, the last of which gives the result; `kernels` are those of the
  // others in the body's topological order. False when some node has no loop that could run by
  // itself, or when they are too many.
  bool Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels);
  // Elements that go through the tape at once, at most `most`: a multiple of 64, so that each
  // register begins on a cache line and the loops meet their tails at the end alone.
  int64_t Block(int64_t most) const;

 private:
  // Makes `op`, which is of node n and will be the next, x sigmoid(x) where it is.
  void AbsorbSigmoid(const Node& n, const std::vector<const Node*>& nodes, TapeOp* op);
  void AssignRegisters();
};

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_TAPE_OPS_H_
