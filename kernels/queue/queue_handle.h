// What the ops that name a queue share: attrs, checks, and the one handle of the node.
//
// The V1 ops give a reference to a string, the V2 ops a resource; both hold a ResourceHandle.
//
// Thread rule: Compute may be called from any thread.
#ifndef TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_
#define TROUPE_KERNELS_QUEUE_QUEUE_HANDLE_H_

#include <mutex>
#include <string>
#include <utility>

#include "kernels/queue/queue.h"
#include "troupe/kernel.h"

namespace troupe::queue {

// The spec that the attrs of a node ask for. `kind`: the op without "V2".
QueueSpec SpecOf(KernelInit& init, std::string kind);

class QueueHandle {
 public:
  // Refuses the node unless spec.Check(), and `check` too, is OK.
  QueueHandle(KernelInit& init, QueueSpec spec, absl::Status check);
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType handle_type_;
  QueueSpec spec_;
  const std::pair<std::string, std::string> key_;
  std::mutex mu_;
  Tensor handle_;
  int64_t epoch_ = -1;
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
