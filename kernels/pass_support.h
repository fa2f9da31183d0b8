// Answers the questions of the graph passes about kernels: which device types can run a node, and
// the values of nodes that depend on constants alone.
#ifndef TROUPE_KERNELS_PASS_SUPPORT_H_
#define TROUPE_KERNELS_PASS_SUPPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/passes/device_set.h"
#include "graph/passes/fold.h"
#include "troupe/kernel.h"

namespace troupe {

// Looks kernels up in KernelRegistry, once for each op. A GPU is preferred where it has a kernel.
// Thread rule: one thread.
class RegistryKernelLookup : public KernelLookup {
 public:
  bool HasKernel(const Node& node, const std::string& device_type) const override;
  bool HasAnyKernel(const Node& node) const override;
  int Priority(const Node& node, const std::string& device_type) const override;
  // What its kernel declares (KernelBuilder::HostMemory); strings, handles and references always.
  bool InHostMemory(const Node& node, const std::string& device_type, bool output, int index) const override;

 private:
  KernelFinder& FinderOf(const std::string& device_type) const;

  mutable std::vector<std::unique_ptr<KernelFinder>> finders_;  // by device type: few
};

// Evaluates nodes with the CPU's kernels, on the calling thread. Thread rule: always the same
// thread.
class KernelEvaluator : public ConstantEvaluator {
 public:
  // An evaluation that is not wanted any more ends between two ranges of its loops.
  explicit KernelEvaluator(StillWanted wanted = nullptr) : wanted_(wanted) {}
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> inputs) override;
  // True when the node has a synchronous CPU kernel and calls no function (those take a runtime).
  bool CanEvaluate(const Node& node) override;

 private:
  const StillWanted wanted_;
  KernelFinder finder_{"CPU"};
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_PASS_SUPPORT_H_
