// PriorityQueue, PriorityQueueV2: a queue that gives the element of the smallest number first.
#include <map>

#include "kernels/queue/queue_handle.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

constexpr char kKind[] = "PriorityQueue";

// Elements of one priority leave in the order in which they came.
class PriorityMachine final : public QueueMachine {
 public:
  using QueueMachine::QueueMachine;

 protected:
  int64_t Count() const override { return static_cast<int64_t>(elements_.size()); }
  void Put(Element&& element) override {
    const int64_t priority = element[0].scalar<int64_t>();
    elements_.emplace(priority, std::move(element));
  }
  void Take(int64_t n, Elements* to) override {
    for (; n > 0; --n) {
      to->push_back(std::move(elements_.begin()->second));
      elements_.erase(elements_.begin());
    }
  }
  // Before its equals.
  void PutBack(Element&& element) override {
    const int64_t priority = element[0].scalar<int64_t>();
    elements_.emplace_hint(elements_.lower_bound(priority), priority, std::move(element));
  }
  void VisitElements(const std::function<void(const Element&)>& visit) const override {
    for (const auto& [priority, e] : elements_) visit(e);
  }

 private:
  std::multimap<int64_t, Element> elements_;
};

const QueueKind kind(kKind, [](QueueSpec spec) -> std::shared_ptr<QueueMachine> {
  return std::make_shared<PriorityMachine>(std::move(spec));
});
const ResourceKind saved(kKind, MakeSavedQueue);

class PriorityNode : public QueueNode {
 public:
  explicit PriorityNode(KernelInit& init) : PriorityNode(init, Spec(init)) {}

 private:
  PriorityNode(KernelInit& init, QueueSpec spec) : QueueNode(init, spec, Check(spec)) {}
  static QueueSpec Spec(KernelInit& init) {
    QueueSpec spec = SpecOf(init, kKind);
    spec.types.insert(spec.types.begin(), DType::kInt64);
    spec.shapes.insert(spec.shapes.begin(), PartialTensorShape(TensorShape()));
    return spec;
  }
  static absl::Status Check(const QueueSpec& spec) {
    if (spec.shapes.size() != spec.types.size()) {
      return InvalidArgument("a ", kKind, " of ", spec.types.size() - 1,
                             " components beside the priority must have as many shapes, but has ",
                             spec.shapes.size() - 1);
    }
    return AllDefined(spec);
  }
};

const state::OpForms op(
    kKind, "PriorityQueueV2", state::OpForms::kMakesElements, [](OpBuilder& op, std::string_view handle) {
      op.Output(StrCat("handle: ", handle))
          .Attr("component_types: list(type) >= 0 = []")
          .Attr("shapes: list(shape) >= 0")
          .Attr("capacity: int = -1")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Shape(shape_fn::Scalar)
          .NotDifferentiable("its value is a handle")
          .Doc(
              "FIFOQueueV2, but the element of the smallest priority leaves first. The priority is the first "
              "component, an int64 scalar, which `component_types` and `shapes` do not name. Of equal ones the first "
              "to come leaves first.");
    });
const state::KernelForms<state::HandleOf<PriorityNode>> kernel(kKind, "PriorityQueueV2");

}  // namespace
}  // namespace troupe::queue
