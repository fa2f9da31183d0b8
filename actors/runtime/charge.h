// Tensors that come to a device from elsewhere and stay on it: from an actor's answer, a snapshot.
//
// Problem: what was made outside of a device is charged to nobody, so that a device with a memory
// limit would hold more than that.
//
// Thread rule: a pure function.
#ifndef TROUPE_ACTORS_RUNTIME_CHARGE_H_
#define TROUPE_ACTORS_RUNTIME_CHARGE_H_

#include "troupe/device.h"
#include "troupe/tensor.h"

namespace troupe {

// Makes `tensor` a copy that is charged to the device, as what its kernels make, where it is in
// host memory, and so is the device's. What is charged to it already stays as it is. False: the
// limit or the memory is exhausted, and the tensor is what it was.
inline bool ChargeTo(const Device& device, Tensor* tensor) {
  Allocator* const allocator = device.allocator();
  if (allocator == Allocator::Cpu() || device.memory() != MemoryKind::kHost || !tensor->valid() ||
      tensor->memory() != MemoryKind::kHost || allocator->ChargeOf(*tensor->buffer()) > 0) {
    return true;
  }
  Tensor own = tensor->Clone(allocator);
  if (!own.valid()) return false;
  *tensor = std::move(own);
  return true;
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_RUNTIME_CHARGE_H_
