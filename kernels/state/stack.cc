// Stacks of values that live as long as their step, which loops push for their gradients: Stack,
// StackPush, StackPop and StackClose. The V2 ops, with resource handles, and those with handles as
// old graphs have them differ only in their definitions.
#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/state/variable_owner.h"
#include "troupe/kernel.h"
#include "troupe/resource.h"
#include "troupe/shape_inference.h"

namespace troupe::state {
namespace {

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
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const override;

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

constexpr char kContainer[] = "stacks";

absl::Status Stack::Push(Tensor value) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return InvalidArgument("stack '", name_, "' has been closed");
  if (value.dtype() != element_type_) {
    return InvalidArgument("stack '", name_, "' holds ", Name(element_type_), ", not ", Name(value.dtype()));
  }
  if (max_size_ >= 0 && static_cast<int64_t>(values_.size()) >= max_size_) {
    return InvalidArgument("stack '", name_, "' overflowed its max_size (", max_size_, ")");
  }
  values_.push_back(std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Stack::Pop() {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return InvalidArgument("stack '", name_, "' has been closed");
  if (values_.empty()) return InvalidArgument("stack '", name_, "' is empty");
  Tensor value = std::move(values_.back());
  values_.pop_back();
  return value;
}

void Stack::Close() {
  std::vector<Tensor> dropped;  // freed outside of the lock
  std::lock_guard<std::mutex> lock(mu_);
  dropped.swap(values_);
  closed_ = true;
}

std::string Stack::DebugString() const {
  std::lock_guard<std::mutex> lock(mu_);
  return StrCat("stack '", name_, "' of ", values_.size(), " x ", Name(element_type_));
}

void Stack::VisitTensors(const std::function<void(const Tensor&)>& visit) const {
  std::lock_guard<std::mutex> lock(mu_);
  for (const Tensor& t : values_) visit(t);
}

StackKernel::StackKernel(KernelInit& init)
    : element_type_(init.Attr<DType>("elem_type")),
      handle_type_(init.node().output_type(0)),
      name_(init.Attr<std::string>("stack_name")) {
  if (name_.empty()) name_ = init.node().name();
}

absl::Status StackKernel::Compute(KernelContext& ctx) {
  int64_t max_size = -1;
  if (ctx.num_inputs() > 0) {
    if (ctx.input(0).rank() != 0) {
      return InvalidArgument("max_size must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    }
    max_size = ctx.input(0).scalar<int32_t>();
  }
  // Each run makes another stack: an inner loop has one per iteration of the outer one.
  static std::atomic<int64_t> counter{0};
  std::string key = StrCat(name_, "_", counter.fetch_add(1, std::memory_order_relaxed));
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Stack> stack,
                          ctx.step()->resources.LookUpOrCreate<Stack>(kContainer, key, [&] {
                            return std::make_shared<Stack>(name_, element_type_, max_size);
                          }));
  ctx.set_output(
      0, MakeHandle(handle_type_, ResourceHandle(ctx.device()->name(), kContainer, std::move(key), std::move(stack))));
  return absl::OkStatus();
}

absl::Status ComputeStackPush(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Stack* const stack, ctx.resource<Stack>(0));
  TROUPE_RETURN_IF_ERROR(stack->Push(ctx.input(1)));
  ctx.set_output(0, ctx.TakeInput(1));
  return absl::OkStatus();
}

absl::Status ComputeStackPop(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Stack* const stack, ctx.resource<Stack>(0));
  if (stack->element_type() != ctx.output_type(0)) {
    return InvalidArgument("stack '", stack->name(), "' holds ", Name(stack->element_type()), ", not ",
                           Name(ctx.output_type(0)));
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor value, stack->Pop());
  ctx.set_output(0, std::move(value));
  return absl::OkStatus();
}

absl::Status ComputeStackClose(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(Stack* const stack, ctx.resource<Stack>(0));
  stack->Close();
  const absl::Status s =
      ctx.step()->resources.Delete(kContainer, static_cast<const ResourceHandle*>(ctx.input(0).raw())->name());
  return absl::IsNotFound(s) ? absl::OkStatus() : s;
}

TROUPE_OP("StackV2")
    .Input("max_size: int32")
    .Output("handle: resource")
    .Attr("elem_type: type")
    .Attr("stack_name: string = ''")
    .Stateful()
    .Trait(OpTrait::kStackHandle)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc(
        "A handle of a new stack of values of `elem_type`, which lives until the step ends and holds at most "
        "`max_size` of them (any number when negative).");

TROUPE_OP("Stack")
    .Output("handle: Ref(string)")
    .Attr("elem_type: type")
    .Attr("stack_name: string = ''")
    .Stateful()
    .Trait(OpTrait::kStackHandle)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc("StackV2 without a bound, with a handle as old graphs have it.");

TROUPE_KERNEL("StackV2").Device("CPU").Class<StackKernel>();
TROUPE_KERNEL("Stack").Device("CPU").Class<StackKernel>();

TROUPE_OP("StackPushV2")
    .Input("handle: resource")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Stateful()
    .Trait(OpTrait::kStackPush)
    .Shape([](InferenceContext& c) -> absl::Status {
      c.set_output(0, c.input(1));
      return absl::OkStatus();
    })
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("Puts `elem` on the stack and passes it on; INVALID_ARGUMENT when the stack is full.");

TROUPE_OP("StackPush")
    .Input("handle: Ref(string)")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("swap_memory: bool = false")
    .Trait(OpTrait::kStackPush)
    .Shape([](InferenceContext& c) -> absl::Status {
      c.set_output(0, c.input(1));
      return absl::OkStatus();
    })
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("StackPushV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackPushV2").Device("CPU").Function<ComputeStackPush, Cost::kTrivial>();
TROUPE_KERNEL("StackPush").Device("CPU").Function<ComputeStackPush, Cost::kTrivial>();

TROUPE_OP("StackPopV2")
    .Input("handle: resource")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Stateful()
    .Trait(OpTrait::kStackPop)
    .Shape(shape_fn::Unknown)
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("Takes the value on top off the stack; INVALID_ARGUMENT when there is none.");

TROUPE_OP("StackPop")
    .Input("handle: Ref(string)")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Trait(OpTrait::kStackPop)
    .Shape(shape_fn::Unknown)
    .NotDifferentiable("stacks are made by the pass that differentiates loops")
    .Doc("StackPopV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackPopV2").Device("CPU").Function<ComputeStackPop, Cost::kTrivial>();
TROUPE_KERNEL("StackPop").Device("CPU").Function<ComputeStackPop, Cost::kTrivial>();

TROUPE_OP("StackCloseV2")
    .Input("handle: resource")
    .Stateful()
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc("Drops what is on the stack.");

TROUPE_OP("StackClose")
    .Input("handle: Ref(string)")
    .Shape(shape_fn::NoOutputs)
    .NotDifferentiable("it has no outputs")
    .Doc("StackCloseV2 with a handle as old graphs have it.");

TROUPE_KERNEL("StackCloseV2").Device("CPU").Function<ComputeStackClose, Cost::kTrivial>();
TROUPE_KERNEL("StackClose").Device("CPU").Function<ComputeStackClose, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::state
