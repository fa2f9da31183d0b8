#include "actors/same_host/same_host.h"

namespace troupe {

bool IsSameHost(const caf::node_id& a, const caf::node_id& b) noexcept {
  if (a == b) return true;
  if (!a || !b) return false;
  const auto* const x = dynamic_cast<const caf::node_id::default_data*>(a.operator->());
  const auto* const y = dynamic_cast<const caf::node_id::default_data*>(b.operator->());
  if (x == nullptr || y == nullptr) return x == nullptr && y == nullptr;
  return x->host_id() == y->host_id();
}

}  // namespace troupe
