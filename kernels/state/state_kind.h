// What the nodes of all kinds of resources with state share: queues, readers, tables, accumulators,
// barriers. A kind says how one is made and what it may be shared with; here are the handle of its
// node, the two forms of each op, and how a kernel asks.
//
// Old graphs have such a handle as a reference to a string, newer ones as a resource. Both hold a
// ResourceHandle, so one kernel serves the two forms.
//
//   class Fifo : public StateKind { explicit Fifo(KernelInit& init); ... };
//   const OpForms op("FIFOQueue", "FIFOQueueV2", OpForms::kMakes, [](OpBuilder& op, std::string_view handle) {
//     op.Output(StrCat("handle: ", handle)).Attr("capacity: int = -1")...Doc("...");
//   });
//   const KernelForms<HandleOf<Fifo>> kernel("FIFOQueue", "FIFOQueueV2");
//
// Thread rule: Compute may be called from any thread; the rest is for the start of the program.
#ifndef TROUPE_KERNELS_STATE_STATE_KIND_H_
#define TROUPE_KERNELS_STATE_STATE_KIND_H_

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/state/state_machine.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::state {

class StateKind {
 public:
  virtual ~StateKind() = default;
  // A new one, for a node that finds none. `name`: of the resource.
  virtual absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext& ctx,
                                                              const std::string& name) const = 0;
  // INVALID_ARGUMENT when the node cannot share this one.
  virtual absl::Status CheckShared(const StateResource& there) const = 0;
};

// The one handle of a node.
class StateHandle {
 public:
  explicit StateHandle(KernelInit& init);
  absl::Status Compute(KernelContext& ctx, const StateKind& kind);

 private:
  const DType handle_type_;
  const std::pair<std::string, std::string> key_;
  std::mutex mu_;
  Tensor handle_;
  int64_t epoch_ = -1;
};

// The kernel of a node that names a resource of a kind.
template <class Kind>
class HandleOf {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit HandleOf(KernelInit& init) : kind_(init), handle_(init) {}
  absl::Status Compute(KernelContext& ctx) { return handle_.Compute(ctx, kind_); }

 private:
  const Kind kind_;
  StateHandle handle_;
};

// Defines an op in its two forms; an object of static storage. Without `with_resource` there is
// only the old one. Those that make a resource are stateful in both forms, those that use one in
// the newer: this is what TensorFlow says of them.
struct OpForms {
  // kMakes: a resource; kMakesElements: one with OpTrait::kElementsHandle.
  enum Role { kMakes, kMakesElements, kUses };
  using Define = void (*)(OpBuilder& op, std::string_view handle);
  OpForms(std::string_view with_reference, std::string_view with_resource, Role role, Define define);
};

// The kernel that is one function, for KernelForms.
template <absl::Status (*compute)(KernelContext&), Cost cost = Cost::kMeasured>
struct KernelOf {
  static constexpr Cost kCost = cost;
  explicit KernelOf(KernelInit&) {}
  absl::Status Compute(KernelContext& ctx) { return compute(ctx); }
};

// Registers a kernel for both forms.
template <class K>
struct KernelForms {
  KernelForms(std::string_view with_reference, std::string_view with_resource) {
    for (const std::string_view op : {with_reference, with_resource}) {
      if (!op.empty())
        KernelRegistrar registrar(KernelBuilder(op, KernelOrigin::kLibrary).Device("CPU").template Class<K>());
    }
  }
};

// Asks the resource behind input 0. `fill`: absl::Status(const Resource&, Request*), called once,
// before the request is sent. The answered request, or the status to return.
template <class R, class Request, class F>
absl::StatusOr<std::shared_ptr<Request>> AskAs(KernelContext& ctx, F&& fill) {
  TROUPE_ASSIGN_OR_RETURN(const R* const resource, ctx.resource<R>(0));
  return AskState(ctx, 0, *resource, [&]() -> absl::StatusOr<std::shared_ptr<Request>> {
    auto request = std::make_shared<Request>();
    TROUPE_RETURN_IF_ERROR(fill(*resource, request.get()));
    return request;
  });
}

// For shape functions: the node that made the handle of input `i`, in a loop or a branch, too; null
// when it is not known here.
const Node* HandleNode(const InferenceContext& c, int i);

// What a machine keeps of its settings among its tensors, and takes from there. INVALID_ARGUMENT
// for a key that is missing or has another type; `least`: for a number that is smaller.
void PutNumber(ResourceState* to, const std::string& key, int64_t value);
absl::StatusOr<int64_t> TakeNumber(const ResourceState& from, const std::string& key, int64_t least);
void PutText(ResourceState* to, const std::string& key, std::string text);
absl::StatusOr<std::string> TakeText(const ResourceState& from, const std::string& key);
void PutTypes(ResourceState* to, const std::string& key, absl::Span<const DType> types);
absl::StatusOr<std::vector<DType>> TakeTypes(const ResourceState& from, const std::string& key);
void PutShape(ResourceState* to, const std::string& key, const PartialTensorShape& shape);
absl::StatusOr<PartialTensorShape> TakeShape(const ResourceState& from, const std::string& key);

}  // namespace troupe::state

#endif  // TROUPE_KERNELS_STATE_STATE_KIND_H_
