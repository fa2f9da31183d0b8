#include "kernels/pass_support.h"

#include "kernels/run_kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// What the op's shape function tells of a node with these inputs; nothing when it refuses.
std::vector<PartialTensorShape> ShapesFor(const Node& node, absl::Span<const Tensor> inputs) {
  if (node.op().shape_fn == nullptr) return {};
  std::vector<PartialTensorShape> shapes;
  for (const Tensor& t : inputs) shapes.emplace_back(t.shape());
  InferenceContext c(node, std::move(shapes));
  for (size_t i = 0; i < inputs.size(); ++i) c.set_input_tensor(static_cast<int>(i), inputs[i]);
  try {
    if (!node.op().shape_fn(c).ok()) return {};
  } catch (...) {
    return {};
  }
  std::vector<PartialTensorShape> outputs;
  for (int i = 0; i < c.num_outputs(); ++i) outputs.push_back(c.output(i));
  return outputs;
}

}  // namespace

KernelFinder& RegistryKernelLookup::FinderOf(const std::string& device_type) const {
  for (const auto& f : finders_) {
    if (f->device_type() == device_type) return *f;
  }
  return *finders_.emplace_back(std::make_unique<KernelFinder>(device_type));
}

bool RegistryKernelLookup::HasKernel(const Node& node, const std::string& device_type) const {
  return FinderOf(device_type).Find(node) != nullptr;
}

bool RegistryKernelLookup::HasAnyKernel(const Node& node) const {
  return !KernelRegistry::Global().List(node.op().name).empty();
}

bool RegistryKernelLookup::InHostMemory(const Node& node, const std::string& device_type, bool output,
                                        int index) const {
  const DType type = output ? node.output_type(index) : node.input_type(index);
  if (!IsPlainBytes(type)) return true;
  const KernelDef* const kernel = FinderOf(device_type).Find(node);
  if (kernel == nullptr) return false;
  for (const std::string& arg : kernel->host_memory) {
    const absl::StatusOr<std::pair<int, int>> range =
        ArgRange(output ? node.op().outputs : node.op().inputs, node.attrs(), arg);
    if (range.ok() && index >= range->first && index < range->second) return true;
  }
  return false;
}

int RegistryKernelLookup::Priority(const Node&, const std::string& device_type) const {
  return device_type == "GPU" ? 1 : 0;
}

absl::StatusOr<std::vector<Tensor>> KernelEvaluator::Evaluate(const Node& node, absl::Span<const Tensor> inputs) {
  Device* device = EvaluationDevice(1);
  TROUPE_ASSIGN_OR_RETURN(const PreparedKernel kernel, PrepareKernel(node, device, SessionScope("fold"), &finder_));
  if (kernel.compute == nullptr) return Unimplemented("the kernel of '", node.name(), "' waits for others");
  StepContext step;
  const KernelNode described = DescribeNode(node, device);
  TROUPE_ASSIGN_OR_RETURN(
      std::vector<Tensor> outputs,
      EvaluateKernel(kernel, described, std::vector<Tensor>(inputs.begin(), inputs.end()), &step, nullptr, wanted_));
  if (!kernel.library) {
    const absl::Status fits = CheckKernelOutputs(described, outputs.data(), ShapesFor(node, inputs));
    if (!fits.ok()) return node.At(fits);
  }
  return outputs;
}

bool KernelEvaluator::CanEvaluate(const Node& node) {
  for (const AttrDef& attr : node.op().attrs) {
    if (attr.kind == "func" || attr.kind == "list(func)") return false;
  }
  return finder_.Find(node) != nullptr;
}

}  // namespace troupe
