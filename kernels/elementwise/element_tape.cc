#include "kernels/elementwise/element_tape.h"

#include <algorithm>

namespace troupe::math {
namespace {

constexpr int64_t kBlock = 1024;  // elements at most

}  // namespace

bool ElementTape::Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels) {
  if (!tape_.Compile(body, kernels) || tape_.has_fold) return false;
  block_ = tape_.Block(kBlock);
  register_bytes_ = static_cast<size_t>(block_) * tape_.widest;
  return true;
}

void ElementTape::FindScalars(const Tensor* args, bool* scalar) const {
  for (size_t i = 0; i < tape_.ops.size(); ++i) {
    scalar[i] = true;
    for (int k = 0; k < tape_.ops[i].num_inputs; ++k) {
      const TapeOp::Operand& o = tape_.ops[i].in[k];
      scalar[i] &= o.is_arg ? args[o.index].rank() == 0 : scalar[o.index];
    }
  }
}

bool ElementTape::Fits(const Tensor* args, TensorShape* shape) const {
  const Tensor* like = nullptr;
  for (int i = 0; i < tape_.num_args; ++i) {
    if (args[i].rank() == 0) continue;
    if (like == nullptr) {
      like = &args[i];
    } else if (!args[i].SameShape(*like)) {
      return false;
    }
  }
  *shape = like == nullptr ? TensorShape() : like->shape();
  if (like == nullptr) return true;
  bool scalar[kMaxTapeOps];
  FindScalars(args, scalar);
  for (const TapeOp& op : tape_.ops) {
    if (!op.same_shape) continue;
    const auto is_scalar = [&](const TapeOp::Operand& o) {
      return o.is_arg ? args[o.index].rank() == 0 : scalar[o.index];
    };
    if (is_scalar(op.in[0]) != is_scalar(op.in[1])) return false;
  }
  return true;
}

void ElementTape::Run(ComputeThreads* threads, const Tensor* args, int64_t n, void* out) const {
  bool scalar[kMaxTapeOps];
  alignas(16) char scalars[kMaxTapeOps][sizeof(double) * 2];
  FindScalars(args, scalar);
  for (size_t i = 0; i < tape_.ops.size(); ++i) {
    if (!scalar[i] || tape_.ops[i].absorbed) continue;
    const void* in[2] = {};
    for (int k = 0; k < tape_.ops[i].num_inputs; ++k) {
      const TapeOp::Operand& o = tape_.ops[i].in[k];
      in[k] = o.is_arg ? args[o.index].raw() : scalars[o.index];
    }
    const bool both[2] = {true, true};
    tape_.ops[i].Run(in, both, i + 1 == tape_.ops.size() ? out : scalars[i], 1);
  }
  if (scalar[tape_.ops.size() - 1]) return;
  threads->ParallelFor(n, tape_.cost, [&](int64_t begin, int64_t end) {
    alignas(64) char registers[kTapeRegisterBytes];
    const auto at_register = [&](int reg) { return registers + static_cast<size_t>(reg) * register_bytes_; };
    for (int64_t at = begin; at < end; at += block_) {
      const int64_t m = std::min(block_, end - at);
      for (size_t i = 0; i < tape_.ops.size(); ++i) {
        const TapeOp& op = tape_.ops[i];
        if (scalar[i] || op.absorbed) continue;
        const void* in[2] = {};
        bool fixed[2] = {};
        for (int k = 0; k < op.num_inputs; ++k) {
          const TapeOp::Operand& o = op.in[k];
          fixed[k] = o.is_arg ? args[o.index].rank() == 0 : scalar[o.index];
          if (o.is_arg) {
            in[k] = static_cast<const char*>(args[o.index].raw()) + (fixed[k] ? 0 : at * op.in_size[k]);
          } else {
            in[k] = fixed[k] ? scalars[o.index] : at_register(tape_.ops[static_cast<size_t>(o.index)].reg);
          }
        }
        op.Run(in, fixed, op.reg < 0 ? static_cast<char*>(out) + at * op.out_size : at_register(op.reg), m);
      }
    }
  });
}

}  // namespace troupe::math
