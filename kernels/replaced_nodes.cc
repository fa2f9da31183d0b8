#include "kernels/replaced_nodes.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "graph/passes/fuse.h"

namespace troupe {

ReplacedNodes::ReplacedNodes(const Node& node) {
  const auto names = node.Attr<std::vector<std::string>>(kReplacesAttr),
             ops = node.Attr<std::vector<std::string>>(kReplacedOpsAttr);
  if (!names.ok() || !ops.ok() || names->size() != ops->size()) return;
  names_ = *names;
  ops_ = *ops;
  if (const auto places = node.Attr<std::vector<std::string>>(kReplacedAtAttr);
      places.ok() && places->size() == names_.size()) {
    for (const std::string& place : *places) {
      Line line;
      const size_t colon = place.rfind(':');
      if (colon != std::string::npos &&
          std::from_chars(place.data() + colon + 1, place.data() + place.size(), line.number).ec == std::errc())
        line.file = place.substr(0, colon);
      lines_.push_back(std::move(line));
    }
  }
  bias_first_ = node.Attr<bool>(kBiasFirstAttr).value_or(false);
}

absl::Status ReplacedNodes::At(const absl::Status& status, std::string_view op, const KernelNode& node) const {
  const auto it = std::find(ops_.begin(), ops_.end(), op);
  if (it == ops_.end()) return status;
  return AtPart(status, static_cast<int>(it - ops_.begin()), node);
}

absl::Status ReplacedNodes::AtNamed(const absl::Status& status, std::string_view name, const KernelNode& node) const {
  if (status.ok()) return status;
  const auto it = std::find(names_.begin(), names_.end(), name);
  return AtPart(status, static_cast<int>(it - names_.begin()), node);
}

absl::Status ReplacedNodes::AtPart(const absl::Status& status, int place, const KernelNode& node) const {
  const auto i = static_cast<size_t>(place);
  if (status.ok() || i >= ops_.size()) return status;
  const SourceLocation made = lines_.empty() ? node.location : SourceLocation{lines_[i].file.c_str(), lines_[i].number};
  return WithAddress(status, names_[i], ops_[i], node.device->name(), made);
}

}  // namespace troupe
