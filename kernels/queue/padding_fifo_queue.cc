// PaddingFIFOQueue, PaddingFIFOQueueV2: a FIFOQueue whose elements may differ in shape.
#include "kernels/queue/fifo_queue.h"
#include "kernels/queue/queue_handle.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

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

class PaddingHandle : public QueueHandle {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit PaddingHandle(KernelInit& init) : PaddingHandle(init, SpecOf(init, kKind)) {}

 private:
  PaddingHandle(KernelInit& init, QueueSpec spec) : QueueHandle(init, spec, KnownRanks(spec)) {}
};

TROUPE_OP("PaddingFIFOQueueV2")
    .Output("handle: resource")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .Attr("capacity: int = -1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc(
        "FIFOQueueV2, whose `shapes` may have unknown dimensions. Where elements are dequeued together, each is filled "
        "up with zeros (empty strings) to the largest size of each such dimension.");
TROUPE_OP("PaddingFIFOQueue")
    .Output("handle: Ref(string)")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .Attr("capacity: int = -1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc("PaddingFIFOQueueV2 with a handle as old graphs have it.");

TROUPE_KERNEL("PaddingFIFOQueueV2").Device("CPU").Class<PaddingHandle>();
TROUPE_KERNEL("PaddingFIFOQueue").Device("CPU").Class<PaddingHandle>();

}  // namespace
}  // namespace troupe::queue
