#include "kernels/elementwise/element_loop.h"

#include <cstring>

#include "kernels/common/isa.h"
#include "kernels/elementwise/activation_loops.h"
#include "kernels/elementwise/cast_loops.h"
#include "kernels/elementwise/hot_table.h"

TROUPE_ISA_TABLE(ActivationTable, kActivations, PickActivations)

namespace troupe::math {
namespace {

// The activation of an op's name without "Grad", or -1.
int ActivationIndex(std::string_view op) {
  if (op == "Relu") return static_cast<int>(Activation::kRelu);
  if (op == "Relu6") return static_cast<int>(Activation::kRelu6);
  return op == "Elu" ? static_cast<int>(Activation::kElu) : -1;
}

template <class T, bool kMean>
void FoldSum(const void* row, int64_t n, void* out) {
  double sum = 0;
  Hot().reduce[static_cast<int>(HotReduce::kSum)][sizeof(T) == 4 ? 0 : 1].row(row, n, &sum);
  *static_cast<T*>(out) = static_cast<T>(kMean ? sum / static_cast<double>(n) : sum);
}

bool FoldOf(const Node& node, ElementLoop* loop) {
  if (const auto keeps = node.Attr<bool>("keep_dims"); !keeps.ok() || !*keeps) return false;
  const bool mean = node.op().name == "Mean";
  loop->num_inputs = 1;
  loop->cost = 0.3;
  if (node.input_type(0) == DType::kFloat) {
    loop->fold = mean ? FoldSum<float, true> : FoldSum<float, false>;
  } else if (node.input_type(0) == DType::kDouble) {
    loop->fold = mean ? FoldSum<double, true> : FoldSum<double, false>;
  }
  return loop->fold != nullptr;
}

bool ActivationOf(const Node& node, ElementLoop* loop) {
  const std::string& name = node.op().name;
  const DType type = node.input_type(0);
  const bool grad = name.ends_with("Grad");
  const int which = ActivationIndex(grad ? std::string_view(name).substr(0, name.size() - 4) : std::string_view(name));
  if (which < 0 || (type != DType::kFloat && type != DType::kDouble)) return false;
  const int column = type == DType::kFloat ? 0 : 1;
  if (which == static_cast<int>(Activation::kElu)) loop->cost = 0.8;
  loop->same_shape = grad;
  if (grad) {
    loop->activation_grad = PickActivations().backward[which][column];
  } else {
    loop->activation = PickActivations().forward[which][column];
  }
  return grad ? loop->activation_grad != nullptr : loop->activation != nullptr;
}

}  // namespace

ElementLoop::Bare ElementLoop::BareLoop(const bool* fixed) const {
  if (activation != nullptr || activation_grad != nullptr || is_copy) return {};
  if (num_inputs == 1) return {.unary = loops.unary.v};
  return {.binary = fixed[0] == fixed[1] ? loops.binary.vv : fixed[0] ? loops.binary.sv : loops.binary.vs};
}

void ElementLoop::Run(const void* const* in, const bool* fixed, void* out, int64_t n) const {
  if (activation != nullptr) return activation(in[0], out, n, 0);
  if (activation_grad != nullptr) return activation_grad(in[0], in[1], out, n, 0);
  if (is_copy) {
    if (out != in[0]) std::memcpy(out, in[0], static_cast<size_t>(n) * static_cast<size_t>(out_size));
    return;
  }
  const Bare bare = BareLoop(fixed);
  if (bare.unary != nullptr) return bare.unary(in[0], out, n);
  bare.binary(in[0], in[1], out, n);
}

bool LoopOf(const Node& node, const PreparedKernel& kernel, ElementLoop* loop) {
  loop->num_inputs = node.num_inputs();
  if (loop->num_inputs > 2) return false;
  loop->out_size = static_cast<int>(SizeOf(node.output_type(0)));
  for (int i = 0; i < loop->num_inputs; ++i) loop->in_size[i] = static_cast<int>(SizeOf(node.input_type(i)));
  const std::string& name = node.op().name;
  if (name == "Sum" || name == "Mean") return FoldOf(node, loop);
  if (name == "StopGradient") {
    loop->is_copy = true;
    loop->cost = 0.1;
    return true;
  }
  if (LoopsOf(kernel, &loop->loops)) {
    loop->same_shape = loop->loops.same_shape;
    loop->cost = loop->num_inputs == 1 ? loop->loops.unary.cost : loop->loops.binary.cost;
    return loop->num_inputs == 1 ? loop->loops.unary.v != nullptr : loop->loops.binary.vv != nullptr;
  }
  if (name == "Cast") {
    loop->loops.unary.v = DirectCast(node.input_type(0), node.output_type(0));
    return loop->loops.unary.v != nullptr;
  }
  return ActivationOf(node, loop);
}

}  // namespace troupe::math
