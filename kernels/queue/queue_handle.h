// What the ops that name a queue share: attrs, checks, and how a queue is made.
//
// Thread rule: Compute may be called from any thread.
#ifndef TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_
#define TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_

#include <memory>
#include <string>

#include "kernels/queue/queue.h"
#include "kernels/state/state_kind.h"
#include "troupe/kernel.h"

namespace troupe::queue {

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

// Shape function of ops that dequeue: the shapes of the components, with a leading dimension of
// `rows` (-1: unknown) for each when `many`.
enum class Rows : uint8_t { kOne, kExactly, kUpTo };
template <Rows rows>
absl::Status DequeueShape(InferenceContext& c);

// The queue behind input 0.
absl::StatusOr<Queue*> QueueOf(const KernelContext& ctx);

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_
