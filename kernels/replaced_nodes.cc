#include "kernels/replaced_nodes.h"

#include <algorithm>

#include "graph/passes/fuse.h"

namespace troupe {

ReplacedNodes::ReplacedNodes(const Node& node) {
  const auto names = node.Attr<std::vector<std::string>>(kReplacesAttr),
             ops = node.Attr<std::vector<std::string>>(kReplacedOpsAttr);
  if (!names.ok() || !ops.ok() || names->size() != ops->size()) return;
  names_ = *names;
  ops_ = *ops;
  bias_first_ = node.Attr<bool>(kBiasFirstAttr).value_or(false);
}

absl::Status ReplacedNodes::At(const absl::Status& status, std::string_view op, const KernelNode& node) const {
  const auto it = std::find(ops_.begin(), ops_.end(), op);
  if (it == ops_.end()) return status;
  return AtPart(status, static_cast<int>(it - ops_.begin()), node);
}

absl::Status ReplacedNodes::AtPart(const absl::Status& status, int place, const KernelNode& node) const {
  const auto i = static_cast<size_t>(place);
  if (status.ok() || i >= ops_.size()) return status;
  return WithAddress(status, names_[i], ops_[i], node.device->name(), node.location);
}

}  // namespace troupe
