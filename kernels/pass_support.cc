#include "troupe/kernels/pass_support.h"

#include "troupe/kernels/evaluate.h"

namespace troupe {

bool RegistryKernelLookup::HasKernel(const Node& node, const std::string& device_type) const {
  for (const auto& f : finders_) {
    if (f->device_type() == device_type) return f->Find(node) != nullptr;
  }
  return finders_.emplace_back(std::make_unique<KernelFinder>(device_type))->Find(node) != nullptr;
}

int RegistryKernelLookup::Priority(const Node&, const std::string& device_type) const {
  return device_type == "GPU" ? 1 : 0;
}

absl::StatusOr<std::vector<Tensor>> KernelEvaluator::Evaluate(const Node& node, absl::Span<const Tensor> inputs) {
  Device* device = EvaluationDevice(1);
  TROUPE_ASSIGN_OR_RETURN(const PreparedKernel kernel, PrepareKernel(node, device, SessionScope("fold"), &finder_));
  if (kernel.compute == nullptr) return Unimplemented("the kernel of '", node.name(), "' waits for others");
  StepContext step;
  return EvaluateKernel(kernel, DescribeNode(node, device), std::vector<Tensor>(inputs.begin(), inputs.end()), &step);
}

bool KernelEvaluator::CanEvaluate(const Node& node) {
  for (const AttrDef& attr : node.op().attrs) {
    if (attr.kind == "func" || attr.kind == "list(func)") return false;
  }
  return finder_.Find(node) != nullptr;
}

}  // namespace troupe
