#include "troupe/node_properties.h"

namespace troupe {

NodeProperties::NodeProperties() = default;
NodeProperties::NodeProperties(const NodeProperties&) = default;
NodeProperties::~NodeProperties() = default;

SharedProperties::Counted* SharedProperties::New() { return new Counted; }

void SharedProperties::Drop(Counted* p) {
  // Who is alone need not say so. Acquire: what the others read was read before it goes.
  if (p->shares.load(std::memory_order_acquire) == 1 || p->shares.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete p;
}

NodeProperties* SharedProperties::Own() {
  // Nobody can join a share that is alone but through this object, which its one writer has.
  // Acquire: those who left read before we write.
  if (!alone()) *this = SharedProperties(new Counted(static_cast<const NodeProperties&>(*p_)));
  return p_;
}

}  // namespace troupe
