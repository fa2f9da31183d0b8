#include "actors/wire/part_messages.h"

#include <algorithm>

namespace troupe {

uint32_t EdgeTable::Add(const std::string& name) {
  const auto [it, is_new] = numbers_.try_emplace(name, static_cast<uint32_t>(edges_.size()));
  if (is_new) edges_.emplace_back().name = name;
  return it->second;
}

bool EdgeTable::Live() const {
  return std::all_of(edges_.begin(), edges_.end(), [](const Edge& e) { return e.Lives(); });
}

absl::Status EdgeTable::Outdated(const Edge& edge, uint64_t incarnation) {
  return absl::AbortedError(StrCat("a message on edge '", edge.name, "' is refused: it comes from incarnation ",
                                   incarnation, " of its device, which is not the one that lives now"));
}

int64_t EdgeTable::Find(const std::string& name) const {
  const auto it = numbers_.find(name);
  return it == numbers_.end() ? -1 : it->second;
}

caf::error inspect(caf::serializer& f, abort_step& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.step, status);
}
caf::error inspect(caf::deserializer& f, abort_step& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.step, status)) return e;
  x.status = wire::StatusOf(status);
  // A part that is told to end must have a reason.
  if (x.status.ok()) return caf::sec::invalid_argument;
  return caf::none;
}

caf::error inspect(caf::serializer& f, part_done& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.step, status, x.results, x.statistics);
}
caf::error inspect(caf::deserializer& f, part_done& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.step, status, x.results, x.statistics)) return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}

absl::StatusOr<part_message> ThroughBytes(caf::actor_system& system, part_message message) {
  return std::visit(
      [&](auto& m) -> absl::StatusOr<part_message> {
        auto copy = wire::ThroughBytes(system, m);
        if (!copy.ok()) return copy.status();
        return part_message(*std::move(copy));
      },
      message);
}

void BindResources(Tensor* value, const std::function<ResourceContainers*(const std::string& device)>& find) {
  if (!value->valid() || value->dtype() != DType::kResource) return;
  auto* handles = static_cast<ResourceHandle*>(value->raw());
  for (int64_t i = 0; i < value->num_elements(); ++i) {
    ResourceHandle& h = handles[i];
    ResourceContainers* containers = h.object() == nullptr ? find(h.device()) : nullptr;
    if (containers == nullptr) continue;
    auto object = containers->LookUp<Resource>(h.container(), h.name());
    if (object.ok()) h = ResourceHandle(h.device(), h.container(), h.name(), *std::move(object));
  }
}

}  // namespace troupe
