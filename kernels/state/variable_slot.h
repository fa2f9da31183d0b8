// One variable: a value with updates that run one at a time, and snapshot reads.
//
// Read returns a snapshot: a tensor that shares the value's buffer and that no later update
// changes. Update runs its function on a buffer that no snapshot shares: in place when no snapshot
// is alive, otherwise on a copy. Of several updates that wait for a running one, any may be next;
// where the order matters, the graph's edges fix it.
//
// Thread rule: all methods are thread safe, except those that are declared after mu(), whose caller
// holds it. Read waits for a running update or assignment.
#ifndef TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_
#define TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "troupe/resource.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

class VariableSlot : public Resource {
 public:
  VariableSlot(std::string name, DType dtype, PartialTensorShape shape)
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  // The shape that every value must fit: the shapes of all nodes that name the variable, merged.
  PartialTensorShape shape() const {
    std::lock_guard<std::mutex> lock(mu_);
    return shape_;
  }
  // Registers one more node that names the variable, with this type and shape. INVALID_ARGUMENT
  // when no value could fit both, or the present value does not fit.
  absl::Status Join(DType dtype, const PartialTensorShape& shape);
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // Counts the successful updates and assignments.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // FAILED_PRECONDITION naming the variable while it has no value; DATA_LOSS after a lost update.
  absl::StatusOr<Tensor> Read() const {
    std::lock_guard<std::mutex> lock(mu_);
    TROUPE_RETURN_IF_ERROR(CheckReadable());
    return value_;
  }
  // Sets the value. INVALID_ARGUMENT when dtype or (with validate_shape) shape do not fit the
  // variable's.
  absl::Status Assign(Tensor value, bool validate_shape = true) {
    if (value.dtype() != dtype_) {
      return InvalidArgument("variable '", name_, "' holds ", Name(dtype_), ", not ", Name(value.dtype()));
    }
    std::lock_guard<std::mutex> lock(mu_);
    if (validate_shape && !shape_.IsCompatibleWith(value.shape())) {
      return InvalidArgument("variable '", name_, "' has shape ", shape_.DebugString(),
                             ", which does not fit a value of shape ", value.shape().DebugString());
    }
    value_ = std::move(value);
    lost_ = false;
    Commit();
    return absl::OkStatus();
  }
  // Calls f(Tensor& value) -> absl::Status on the initialised value, whose buffer is unique. If f
  // returns an error, it must not have written.
  template <class F>
  absl::Status Update(F&& f) {
    std::lock_guard<std::mutex> lock(mu_);
    TROUPE_RETURN_IF_ERROR(CheckReadable());
    if (!value_.BufferUnique()) {
      Tensor copy = value_.Clone();
      if (!copy.valid()) return ResourceExhausted("no memory for a copy of variable '", name_, "'");
      value_ = std::move(copy);
    }
    // If f throws, the value may be half written: it is lost until it is assigned again.
    lost_ = true;
    absl::Status s = f(value_);
    lost_ = false;
    if (s.ok()) Commit();
    return s;
  }
  // Forgets the value.
  void Clear() {
    std::lock_guard<std::mutex> lock(mu_);
    value_ = Tensor();
    initialized_.store(false, std::memory_order_release);
  }
  std::string DebugString() const override {
    return StrCat("variable '", name_, "' ", Name(dtype_), " ", shape().DebugString());
  }
  // For updates that touch several slots at once: the caller locks all (in address order) and uses
  // the *Locked forms.
  std::mutex& mu() const { return mu_; }
  absl::Status CheckReadable() const {
    if (lost_)
      return DataLoss("variable '", name_, "' lost its value in an update that did not finish; assign it again");
    if (!value_.valid()) return FailedPrecondition("attempting to use uninitialized value of variable '", name_, "'");
    return absl::OkStatus();
  }
  Tensor& value_locked() { return value_; }
  // Makes the value's buffer unique (a copy when a snapshot is out).
  absl::Status MakeUniqueLocked() {
    if (value_.BufferUnique()) return absl::OkStatus();
    Tensor copy = value_.Clone();
    if (!copy.valid()) return ResourceExhausted("no memory for a copy of variable '", name_, "'");
    value_ = std::move(copy);
    return absl::OkStatus();
  }
  void CommitLocked() { Commit(); }

 private:
  void Commit() {
    initialized_.store(true, std::memory_order_release);
    version_.fetch_add(1, std::memory_order_release);
  }
  const std::string name_;
  const DType dtype_;
  mutable std::mutex mu_;
  PartialTensorShape shape_;
  Tensor value_;
  bool lost_ = false;
  std::atomic<bool> initialized_{false};
  std::atomic<uint64_t> version_{0};
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_
