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

class FifoNode : public QueueNode {
 public:
  explicit FifoNode(KernelInit& init) : FifoNode(init, SpecOf(init, kKind)) {}

 private:
  FifoNode(KernelInit& init, QueueSpec spec) : QueueNode(init, spec, AllDefined(spec)) {}
};

const state::OpForms op(
    kKind, "FIFOQueueV2", state::OpForms::kMakesElements, [](OpBuilder& op, std::string_view handle) {
      op.Output(StrCat("handle: ", handle))
          .Attr("component_types: list(type) >= 1")
          .Attr("shapes: list(shape) >= 0 = []")
          .Attr("capacity: int = -1")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Shape(shape_fn::Scalar)
          .NotDifferentiable("its value is a handle")
          .Doc(
              "A handle of the queue `shared_name` (or the node's name) of `container`, which gives its elements in "
              "the order in which they came. An element is a tuple of tensors of `component_types` and, unless that "
              "list is empty, of `shapes`. Enqueues wait while there are `capacity` elements (negative: they never "
              "do).");
    });
const state::KernelForms<state::HandleOf<FifoNode>> kernel(kKind, "FIFOQueueV2");

}  // namespace
}  // namespace troupe::queue
