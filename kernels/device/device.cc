#include "troupe/device.h"

#include "troupe/tensor.h"

namespace troupe {

Device::Device(std::string name, std::string type, uint64_t incarnation, Allocator* allocator,
               std::shared_ptr<ComputeThreads> threads, std::shared_ptr<ResourceContainers> containers, Env* env)
    : name_(std::move(name)),
      type_(std::move(type)),
      incarnation_(incarnation),
      allocator_(allocator),
      threads_(std::move(threads)),
      containers_(std::move(containers)),
      env_(env) {}

Device::~Device() = default;

void Device::Copy(const Tensor& from, MemoryKind to, CopyDone done) {
  if (from.memory() == to) return done(from);
  done(Unimplemented("device ", name_, " does not say how tensors are copied between its memory and the host's"));
}

absl::Status Device::Run(absl::Status (*compute)(KernelContext&), KernelContext& ctx) { return compute(ctx); }

absl::Status Device::Sync() { return absl::OkStatus(); }

}  // namespace troupe
