#include "kernels/elementwise/element_tape.h"

#include <algorithm>

#include "kernels/common/isa.h"
#include "kernels/elementwise/activation_loops.h"
#include "kernels/elementwise/cast_loops.h"

TROUPE_ISA_TABLE(ActivationTable, kActivations, PickActivations)

namespace troupe::math {
namespace {

constexpr int64_t kBlock = 1024;  // elements at most
constexpr int kMaxRegisters = 12;
constexpr size_t kMaxOps = 32;
// All registers of a tape together: they stay in the first-level cache, and the caller's thread may
// have a small stack.
constexpr size_t kRegisterBytes = 24 << 10;

// The activation of an op's name without "Grad", or -1.
int ActivationIndex(std::string_view op) {
  if (op == "Relu") return static_cast<int>(Activation::kRelu);
  if (op == "Relu6") return static_cast<int>(Activation::kRelu6);
  return op == "Elu" ? static_cast<int>(Activation::kElu) : -1;
}

}  // namespace

bool ElementTape::LoopOf(const Node& node, const PreparedKernel& kernel, Op* op) const {
  op->num_inputs = node.num_inputs();
  op->out_size = static_cast<int>(SizeOf(node.output_type(0)));
  for (int i = 0; i < op->num_inputs; ++i) op->in_size[i] = static_cast<int>(SizeOf(node.input_type(i)));
  if (LoopsOf(kernel, &op->loops)) {
    op->same_shape = op->loops.same_shape;
    op->cost = op->num_inputs == 1 ? op->loops.unary.cost : op->loops.binary.cost;
    return op->num_inputs == 1 ? op->loops.unary.v != nullptr : op->loops.binary.vv != nullptr;
  }
  const std::string& name = node.op().name;
  const DType type = node.input_type(0);
  if (name == "Cast") {
    op->loops.unary.v = DirectCast(type, node.output_type(0));
    return op->loops.unary.v != nullptr;
  }
  const bool grad = name.ends_with("Grad");
  const int which = ActivationIndex(grad ? std::string_view(name).substr(0, name.size() - 4) : std::string_view(name));
  if (which < 0 || (type != DType::kFloat && type != DType::kDouble)) return false;
  const int column = type == DType::kFloat ? 0 : 1;
  if (which == static_cast<int>(Activation::kElu)) op->cost = 0.8;
  op->same_shape = grad;
  if (grad) {
    op->activation_grad = PickActivations().backward[which][column];
  } else {
    op->activation = PickActivations().forward[which][column];
  }
  return grad ? op->activation_grad != nullptr : op->activation != nullptr;
}

bool ElementTape::Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels) {
  std::vector<std::pair<const Node*, Operand>> known;
  const auto operand = [&known](const Node* n) {
    return std::find_if(known.begin(), known.end(), [n](const auto& k) { return k.first == n; })->second;
  };
  for (const Node* n : body) {
    if (n->op().Has(OpTrait::kArgument)) {
      const auto index = n->Attr<int64_t>("index");
      known.push_back({n, {true, index.ok() ? static_cast<int>(*index) : 0}});
      ++num_args_;
      continue;
    }
    Op op;
    if (ops_.size() == kMaxOps || n->num_inputs() > 2 || !LoopOf(*n, kernels[ops_.size()], &op)) return false;
    for (int i = 0; i < op.num_inputs; ++i) op.in[i] = operand(n->input(i).node);
    known.push_back({n, {false, static_cast<int>(ops_.size())}});
    cost_ += op.cost;
    ops_.push_back(op);
  }
  AssignRegisters();
  if (ops_.empty() || num_registers_ > kMaxRegisters) return false;
  size_t widest = 1;
  for (const Op& op : ops_) widest = std::max(widest, static_cast<size_t>(op.out_size));
  // A multiple of 64 elements: each register begins on a cache line, and the loops meet their tails
  // at the end alone.
  const size_t registers = static_cast<size_t>(std::max(num_registers_, 1));
  block_ = std::min<int64_t>(kBlock, static_cast<int64_t>(kRegisterBytes / (registers * widest) / 64 * 64));
  register_bytes_ = static_cast<size_t>(block_) * widest;
  return true;
}

void ElementTape::AssignRegisters() {
  std::vector<int> last_use(ops_.size(), -1);
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (int k = 0; k < ops_[i].num_inputs; ++k) {
      if (!ops_[i].in[k].is_arg) last_use[static_cast<size_t>(ops_[i].in[k].index)] = static_cast<int>(i);
    }
  }
  std::vector<int> free;
  for (size_t i = 0; i < ops_.size(); ++i) {
    // A register that is read for the last time here may be written here only by a result of the
    // same size: loops work in place, but not across sizes.
    const auto release = [&](bool same_size) {
      for (size_t j = 0; j < i; ++j) {
        if (last_use[j] != static_cast<int>(i) || (ops_[j].out_size == ops_[i].out_size) != same_size) continue;
        if (std::find(free.begin(), free.end(), ops_[j].reg) == free.end()) free.push_back(ops_[j].reg);
      }
    };
    release(true);
    if (i + 1 == ops_.size()) {
      ops_[i].reg = -1;
    } else if (free.empty()) {
      ops_[i].reg = num_registers_++;
    } else {
      ops_[i].reg = free.back();
      free.pop_back();
    }
    release(false);
  }
}

void ElementTape::FindScalars(const Tensor* args, bool* scalar) const {
  for (size_t i = 0; i < ops_.size(); ++i) {
    scalar[i] = true;
    for (int k = 0; k < ops_[i].num_inputs; ++k) {
      const Operand& o = ops_[i].in[k];
      scalar[i] &= o.is_arg ? args[o.index].rank() == 0 : scalar[o.index];
    }
  }
}

bool ElementTape::Fits(const Tensor* args, TensorShape* shape) const {
  const Tensor* like = nullptr;
  for (int i = 0; i < num_args_; ++i) {
    if (args[i].rank() == 0) continue;
    if (like == nullptr) {
      like = &args[i];
    } else if (!args[i].SameShape(*like)) {
      return false;
    }
  }
  *shape = like == nullptr ? TensorShape() : like->shape();
  if (like == nullptr) return true;
  bool scalar[kMaxOps];
  FindScalars(args, scalar);
  for (const Op& op : ops_) {
    if (!op.same_shape) continue;
    const auto is_scalar = [&](const Operand& o) { return o.is_arg ? args[o.index].rank() == 0 : scalar[o.index]; };
    if (is_scalar(op.in[0]) != is_scalar(op.in[1])) return false;
  }
  return true;
}

void ElementTape::RunOp(const Op& op, const void* const* in, const bool* scalar, void* out, int64_t n) {
  if (op.activation != nullptr) return op.activation(in[0], out, n, 0);
  if (op.activation_grad != nullptr) return op.activation_grad(in[0], in[1], out, n, 0);
  if (op.num_inputs == 1) return op.loops.unary.v(in[0], out, n);
  const BinaryLoop loop = scalar[0] == scalar[1] ? op.loops.binary.vv
                          : scalar[0]            ? op.loops.binary.sv
                                                 : op.loops.binary.vs;
  loop(in[0], in[1], out, n);
}

void ElementTape::Run(ComputeThreads* threads, const Tensor* args, int64_t n, void* out) const {
  bool scalar[kMaxOps];
  alignas(16) char scalars[kMaxOps][sizeof(double) * 2];
  FindScalars(args, scalar);
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (!scalar[i]) continue;
    const void* in[2] = {};
    for (int k = 0; k < ops_[i].num_inputs; ++k) {
      const Operand& o = ops_[i].in[k];
      in[k] = o.is_arg ? args[o.index].raw() : scalars[o.index];
    }
    const bool both[2] = {true, true};
    RunOp(ops_[i], in, both, i + 1 == ops_.size() ? out : scalars[i], 1);
  }
  if (scalar[ops_.size() - 1]) return;
  threads->ParallelFor(n, cost_, [&](int64_t begin, int64_t end) {
    alignas(64) char registers[kRegisterBytes];
    const auto at_register = [&](int reg) { return registers + static_cast<size_t>(reg) * register_bytes_; };
    for (int64_t at = begin; at < end; at += block_) {
      const int64_t m = std::min(block_, end - at);
      for (size_t i = 0; i < ops_.size(); ++i) {
        if (scalar[i]) continue;
        const Op& op = ops_[i];
        const void* in[2] = {};
        bool fixed[2] = {};
        for (int k = 0; k < op.num_inputs; ++k) {
          const Operand& o = op.in[k];
          fixed[k] = o.is_arg ? args[o.index].rank() == 0 : scalar[o.index];
          if (o.is_arg) {
            in[k] = static_cast<const char*>(args[o.index].raw()) + (fixed[k] ? 0 : at * op.in_size[k]);
          } else {
            in[k] = fixed[k] ? scalars[o.index] : at_register(ops_[static_cast<size_t>(o.index)].reg);
          }
        }
        RunOp(op, in, fixed, op.reg < 0 ? static_cast<char*>(out) + at * op.out_size : at_register(op.reg), m);
      }
    }
  });
}

}  // namespace troupe::math
