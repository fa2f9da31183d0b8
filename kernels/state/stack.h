// A stack of values that lives as long as its step: what loops push for their gradients.
//
// Thread rule: all methods are thread safe.
#ifndef TROUPE_KERNELS_STATE_STACK_H_
#define TROUPE_KERNELS_STATE_STACK_H_

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/resource.h"

namespace troupe::state {

class Stack : public Resource {
 public:
  // max_size < 0: no bound.
  Stack(std::string name, DType element_type, int64_t max_size)
      : name_(std::move(name)), element_type_(element_type), max_size_(max_size) {}
  DType element_type() const { return element_type_; }
  const std::string& name() const { return name_; }
  // INVALID_ARGUMENT when the stack is full, closed, or holds another type.
  absl::Status Push(Tensor value);
  // INVALID_ARGUMENT when the stack is empty or closed.
  absl::StatusOr<Tensor> Pop();
  // Drops the values; later calls fail.
  void Close();
  std::string DebugString() const override;

 private:
  const std::string name_;
  const DType element_type_;
  const int64_t max_size_;
  mutable std::mutex mu_;
  std::vector<Tensor> values_;
  bool closed_ = false;
};

// Kernels of the v1 ops (handles are string references) and the V2 ops (resources), which differ
// only in their definitions.
class StackKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit StackKernel(KernelInit& init);
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType element_type_;
  const DType handle_type_;
  std::string name_;
};
absl::Status ComputeStackPush(KernelContext& ctx);
absl::Status ComputeStackPop(KernelContext& ctx);
absl::Status ComputeStackClose(KernelContext& ctx);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_STACK_H_
