#include "kernels/elementwise/tape_ops.h"

#include <algorithm>

#include "kernels/elementwise/hot_table.h"

namespace troupe::math {

bool TapeOps::Compile(const std::vector<Node*>& body, const std::vector<PreparedKernel>& kernels) {
  std::vector<std::pair<const Node*, TapeOp::Operand>> known;
  std::vector<const Node*> nodes;  // by op
  const auto operand = [&known](const Node* n) {
    return std::find_if(known.begin(), known.end(), [n](const auto& k) { return k.first == n; })->second;
  };
  for (const Node* n : body) {
    if (n->op().Has(OpTrait::kArgument)) {
      const auto index = n->Attr<int64_t>("index");
      known.push_back({n, {true, index.ok() ? static_cast<int>(*index) : 0}});
      ++num_args;
      continue;
    }
    TapeOp op;
    if (ops.size() == kMaxTapeOps || !LoopOf(*n, kernels[ops.size()], &op)) return false;
    for (int i = 0; i < op.num_inputs; ++i) op.in[i] = operand(n->input(i).node);
    AbsorbSigmoid(*n, nodes, &op);
    if (op.fold != nullptr) {
      op.axes = operand(n->input(1).node);
      if (!op.axes.is_arg) return false;
    }
    known.push_back({n, {false, static_cast<int>(ops.size())}});
    cost += op.cost;
    widest = std::max(widest, static_cast<size_t>(op.out_size));
    has_fold |= op.fold != nullptr;
    ops.push_back(op);
    nodes.push_back(n);
  }
  AssignRegisters();
  return !ops.empty() && num_registers <= kMaxTapeRegisters;
}

void TapeOps::AbsorbSigmoid(const Node& n, const std::vector<const Node*>& nodes, TapeOp* op) {
  if (n.op().name != "Mul" || n.output_type(0) != DType::kFloat) return;
  const UnaryLoops& swish = Hot().unary[static_cast<int>(HotUnary::kSwish)][static_cast<int>(HotType::kFloat)];
  for (int k = 0; k < 2 && swish.v != nullptr; ++k) {
    if (op->in[k].is_arg) continue;
    const auto gate = static_cast<size_t>(op->in[k].index);
    const auto readers = std::count_if(nodes[gate]->out_edges().begin(), nodes[gate]->out_edges().end(),
                                       [](const Edge* e) { return e->dst->IsOp(); });
    const TapeOp::Operand &x = ops[gate].in[0], &other = op->in[1 - k];
    if (nodes[gate]->op().name != "Sigmoid" || readers != 1 || x.is_arg != other.is_arg || x.index != other.index) {
      continue;
    }
    ops[gate].absorbed = true;
    cost -= ops[gate].cost;
    op->num_inputs = 1;
    op->in[0] = x;
    op->loops = {.unary = swish};
    op->cost = swish.cost;
    return;
  }
}

int64_t TapeOps::Block(int64_t most) const {
  const size_t registers = static_cast<size_t>(std::max(num_registers, 1));
  return std::min(most, static_cast<int64_t>(kTapeRegisterBytes / (registers * widest) / 64 * 64));
}

void TapeOps::AssignRegisters() {
  std::vector<int> last_use(ops.size(), -1);
  for (size_t i = 0; i < ops.size(); ++i) {
    for (int k = 0; k < ops[i].num_inputs; ++k) {
      if (!ops[i].in[k].is_arg) last_use[static_cast<size_t>(ops[i].in[k].index)] = static_cast<int>(i);
    }
  }
  std::vector<int> free;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].absorbed) continue;
    // A register that is read for the last time here may be written here only by a result of the
    // same size: loops work in place, but not across sizes.
    const auto release = [&](bool same_size) {
      for (size_t j = 0; j < i; ++j) {
        if (last_use[j] != static_cast<int>(i) || (ops[j].out_size == ops[i].out_size) != same_size) continue;
        if (std::find(free.begin(), free.end(), ops[j].reg) == free.end()) free.push_back(ops[j].reg);
      }
    };
    release(true);
    if (i + 1 == ops.size()) {
      ops[i].reg = -1;
    } else if (free.empty()) {
      ops[i].reg = num_registers++;
    } else {
      ops[i].reg = free.back();
      free.pop_back();
    }
    release(false);
  }
}

}  // namespace troupe::math
