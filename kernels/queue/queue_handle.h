// What the ops that name a queue share: attrs, checks, and how a queue is made.
//
// Thread rule: Compute may be called from any thread.
#ifndef TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_
#define TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/queue/queue.h"
#include "kernels/state/state_kind.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"

namespace troupe::queue {

// What the definitions of all kinds have: a handle, types and shapes of the components (`types` and
// `shapes`: how many, and their defaults), capacity, the kind's own attrs, and where the queue
// lives. Returns `op`.
OpBuilder& DefineQueue(OpBuilder& op, std::string_view handle, std::string_view types = ">= 1",
                       std::string_view shapes = ">= 0 = []", std::initializer_list<std::string_view> own = {});

// The spec that the attrs of a node ask for. `kind`: the op without "V2".
QueueSpec SpecOf(KernelInit& init, std::string kind);

// The node of a kind of queue.
class QueueNode : public state::StateKind {
 public:
  // Refuses the node unless spec.Check(), and `check` too, is OK.
  QueueNode(KernelInit& init, QueueSpec spec, const absl::Status& check);
  absl::StatusOr<std::shared_ptr<StateResource>> Make(const KernelContext& ctx, const std::string& name) const override;
  absl::Status CheckShared(const StateResource& there) const override;

 private:
  const QueueSpec spec_;
};

// INVALID_ARGUMENT unless the shapes of all components are known: what most kinds ask for.
absl::Status AllDefined(const QueueSpec& spec);

// Shape function of ops that dequeue: the shapes of the components; of kExactly and kUpTo with a
// leading dimension, which is input 1 where kExactly knows it, else unknown.
enum class Rows : uint8_t { kOne, kExactly, kUpTo };
template <Rows rows>
absl::Status DequeueShape(InferenceContext& c);

// The queue behind input 0.
absl::StatusOr<Queue*> QueueOf(const KernelContext& ctx);

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_
