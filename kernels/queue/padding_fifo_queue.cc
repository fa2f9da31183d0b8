// PaddingFIFOQueue, PaddingFIFOQueueV2: a FIFOQueue whose elements may differ in shape.
#include "kernels/queue/fifo_queue.h"
#include "kernels/queue/queue_handle.h"
#include "troupe/resource_state.h"

namespace troupe::queue {
namespace {

constexpr char kKind[] = "PaddingFIFOQueue";
const QueueKind kind(kKind, MakeFifo);
const ResourceKind saved(kKind, MakeSavedQueue);

absl::Status KnownRanks(const QueueSpec& spec) {
  if (spec.shapes.size() != spec.types.size()) {
    return InvalidArgument("a ", kKind, " of ", spec.types.size(), " components must have as many shapes, but has ",
                           spec.shapes.size());
  }
  for (const PartialTensorShape& s : spec.shapes) {
    if (!s.known_rank()) return InvalidArgument("each component of a ", kKind, " must have a known rank");
  }
  return absl::OkStatus();
}

class PaddingNode : public QueueNode {
 public:
  explicit PaddingNode(KernelInit& init) : PaddingNode(init, SpecOf(init, kKind)) {}

 private:
  PaddingNode(KernelInit& init, QueueSpec spec) : QueueNode(init, spec, KnownRanks(spec)) {}
};

const state::OpForms op(kKind, "PaddingFIFOQueueV2", state::OpForms::kMakesElements,
                        [](OpBuilder& op, std::string_view handle) {
                          DefineQueue(op, handle)
                              .Doc(
                                  "FIFOQueueV2, whose `shapes` may have unknown dimensions. Where elements are "
                                  "dequeued together, each is filled "
                                  "up with zeros (empty strings) to the largest size of each such dimension.");
                        });
const state::KernelForms<state::HandleOf<PaddingNode>> kernel(kKind, "PaddingFIFOQueueV2");

}  // namespace
}  // namespace troupe::queue
