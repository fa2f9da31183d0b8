// FIFOQueue, FIFOQueueV2: a queue whose elements leave it in the order in which they came.
#include "kernels/queue/fifo_queue.h"

#include "kernels/queue/queue_handle.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

constexpr char kKind[] = "FIFOQueue";
const QueueKind kind(kKind, MakeFifo);
const ResourceKind saved(kKind, MakeSavedQueue);

class FifoHandle : public QueueHandle {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit FifoHandle(KernelInit& init) : FifoHandle(init, SpecOf(init, kKind)) {}

 private:
  FifoHandle(KernelInit& init, QueueSpec spec) : QueueHandle(init, spec, AllDefined(spec)) {}
};

TROUPE_OP("FIFOQueueV2")
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
        "A handle of the queue `shared_name` (or the node's name) of `container`, which gives its elements in the "
        "order "
        "in which they came. An element is a tuple of tensors of `component_types` and, unless that list is empty, of "
        "`shapes`. Enqueues wait while there are `capacity` elements (negative: they never do).");
TROUPE_OP("FIFOQueue")
    .Output("handle: Ref(string)")
    .Attr("component_types: list(type) >= 1")
    .Attr("shapes: list(shape) >= 0 = []")
    .Attr("capacity: int = -1")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a handle")
    .Doc("FIFOQueueV2 with a handle as old graphs have it.");

TROUPE_KERNEL("FIFOQueueV2").Device("CPU").Class<FifoHandle>();
TROUPE_KERNEL("FIFOQueue").Device("CPU").Class<FifoHandle>();

}  // namespace
}  // namespace troupe::queue
