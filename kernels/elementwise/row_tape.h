// A group of nodes that broadcast or reduce rows, as a tape over pieces that stay in the cache.
//
// element_tape.h runs a group whose arguments are scalars or have one shape. Here they may have any
// shapes that broadcast, a bias behind a matrix or one number a row, say; and values may be folded
// over the last dimension, as the mean and the variance of a layer normalisation. Values that are
// smaller than the result and do not come from such a fold are computed first, once, by their own
// kernels (RowPlan::early); the rest goes through the tape, row by row where there are folds, else
// by pieces in which every argument advances or stands still. Short vectors that come again and
// again, one number a channel, are written as often as a piece has room for, so that pieces need
// not be as short as they are.
//
// The bits are those of the separate kernels: each op is the same loop over the same elements, and
// the tape refuses rows that a reduction would share among threads.
//
// Thread rule: immutable after Compile; Plan and Run may be called from several threads. A RowPlan
// belongs to its call.
#ifndef TROUPE_KERNELS_ELEMENTWISE_ROW_TAPE_H_
#define TROUPE_KERNELS_ELEMENTWISE_ROW_TAPE_H_

#include <array>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/elementwise/tape_ops.h"

namespace troupe::math {

// How a tape runs for arguments of certain shapes. Ops are numbered as in the body's topological
// order; masks have a bit for each.
struct RowPlan {
  static constexpr int kRank = 6;  // more dimensions have no plan
  // A shape, its dimensions at the end of d and ones before them.
  struct Dims {
    int rank = 0;
    std::array<int64_t, kRank> d{1, 1, 1, 1, 1, 1};
    int64_t elements() const;  // the largest number where there are more
    friend bool operator==(const Dims&, const Dims&) = default;
  };
  struct External {  // an argument, or the value of an early op, that the loop reads
    TapeOp::Operand from;
    int64_t size;  // bytes of an element
    Dims dims;
  };
  struct Dim {
    int64_t size;
    absl::InlinedVector<int64_t, 8> stride;  // by external, in elements; 0: it stands still
  };
  TensorShape shape;    // of the result
  uint32_t early = 0;   // what its own kernel computes beforehand
  uint32_t single = 0;  // what has one element a row
  int64_t total = 0;    // elements that the loop passes
  int64_t row = 0;      // elements of a row; 0: no folds
  int64_t piece = 0;    // elements of a register
  absl::InlinedVector<External, 8> externals;
  absl::InlinedVector<Dim, 4> dims;                              // innermost first
  std::array<std::array<int8_t, 2>, kMaxTapeOps> external_of{};  // by op and input; -1: an op's value
  // Externals that begin again after `period` elements of the innermost dimension, as a mask.
  uint64_t repeated = 0;
  int64_t period = 0;
  bool Repeated(int external) const { return (repeated >> external & 1) != 0; }
  bool Early(size_t op) const { return (early >> op & 1) != 0; }
  bool Single(size_t op) const { return (single >> op & 1) != 0; }
};

class RowTape {
 public:
  // As TapeOps::Compile.
  bool Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels) {
    return tape_.Compile(body, kernels);
  }
  // False when the group must be computed node by node.
  bool Plan(const Tensor* args, const ComputeThreads& threads, RowPlan* plan) const;
  // `early`: by op, the values of those of plan.early. `out` may be the buffer of an argument of
  // the result's shape and type.
  void Run(ComputeThreads* threads, const RowPlan& plan, const Tensor* args, const Tensor* early, void* out) const;

 private:
  class Planner;
  class Walk;
  class Steps;

  TapeOps tape_;
};

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_ROW_TAPE_H_
