#include "troupe/kernels/state/variable_slot.h"

#include "troupe/kernels/kernel.h"

namespace troupe {

VariableSlot* KernelContext::ref(int i) const {
  return static_cast<const ResourceHandle*>(inputs_[i].raw())->As<VariableSlot>();
}

}  // namespace troupe
