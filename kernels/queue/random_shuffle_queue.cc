// RandomShuffleQueue, RandomShuffleQueueV2: a queue that gives its elements in random order.
//
// Equal seeds give TensorFlow's draws: each dequeue takes the element whose place is the next
// word of the stream modulo their number, and the last element takes that place.
#include "kernels/queue/queue_handle.h"
#include "kernels/random/philox.h"
#include "troupe/resource_state.h"
#include "troupe/shape_inference.h"

namespace troupe::queue {
namespace {

constexpr char kKind[] = "RandomShuffleQueue";

class ShuffleMachine final : public QueueMachine {
 public:
  explicit ShuffleMachine(QueueSpec spec) : QueueMachine(std::move(spec)) { GoTo(this->spec().stream, 0); }

 protected:
  int64_t Count() const override { return static_cast<int64_t>(elements_.size()); }
  void Put(Element&& element) override { elements_.push_back(std::move(element)); }
  void Take(int64_t n, Elements* to) override {
    for (; n > 0; --n) {
      ++drawn_;
      Element& place = elements_[words_() % elements_.size()];
      to->push_back(std::move(place));
      if (&place != &elements_.back()) place = std::move(elements_.back());
      elements_.pop_back();
    }
  }
  void PutBack(Element&& element) override { elements_.push_back(std::move(element)); }
  int64_t HeldBack() const override { return spec().min_after_dequeue; }
  void VisitElements(const std::function<void(const Element&)>& visit) const override {
    for (const Element& e : elements_) visit(e);
  }
  void SaveMore(ResourceState* state) const override {
    state->tensors.emplace_back("stream", Tensor::Vector<uint64_t>({stream_[0], stream_[1], drawn_}));
  }
  absl::Status RestoreMore(const ResourceState& state) override {
    TROUPE_ASSIGN_OR_RETURN(const Tensor stream, state.Get("stream", DType::kUint64, TensorShape({3})));
    GoTo(stream.data<uint64_t>(), stream.data<uint64_t>()[2]);
    return absl::OkStatus();
  }

 private:
  void GoTo(const uint64_t* seeds, uint64_t drawn) {
    stream_[0] = seeds[0], stream_[1] = seeds[1];
    random::Philox philox(stream_[0], stream_[1]);
    philox.Skip(drawn / random::Philox::kWords);
    words_ = random::PhiloxWords(philox);
    for (uint64_t i = 0; i < drawn % random::Philox::kWords; ++i) words_();
    drawn_ = drawn;
  }

  std::vector<Element> elements_;
  uint64_t stream_[2] = {0, 0}, drawn_ = 0;
  random::PhiloxWords words_{random::Philox()};
};

const QueueKind kind(kKind, [](QueueSpec spec) -> std::shared_ptr<QueueMachine> {
  return std::make_shared<ShuffleMachine>(std::move(spec));
});
const ResourceKind saved(kKind, MakeSavedQueue);

class ShuffleNode : public QueueNode {
 public:
  explicit ShuffleNode(KernelInit& init) : ShuffleNode(init, Spec(init)) {}

 private:
  ShuffleNode(KernelInit& init, QueueSpec spec) : QueueNode(init, spec, Check(spec)) {}
  static QueueSpec Spec(KernelInit& init) {
    QueueSpec spec = SpecOf(init, kKind);
    spec.min_after_dequeue = init.Attr<int64_t>("min_after_dequeue");
    spec.seed = init.Attr<int64_t>("seed");
    spec.seed2 = init.Attr<int64_t>("seed2");
    return spec;
  }
  static absl::Status Check(const QueueSpec& spec) {
    if (spec.min_after_dequeue < 0)
      return InvalidArgument("min_after_dequeue ", spec.min_after_dequeue, " must be at least 0");
    if (spec.capacity >= 0 && spec.min_after_dequeue >= spec.capacity) {
      return InvalidArgument("min_after_dequeue ", spec.min_after_dequeue, " must be less than capacity ",
                             spec.capacity);
    }
    return AllDefined(spec);
  }
};

const state::OpForms op(
    kKind, "RandomShuffleQueueV2", state::OpForms::kMakesElements, [](OpBuilder& op, std::string_view handle) {
      op.Output(StrCat("handle: ", handle))
          .Attr("component_types: list(type) >= 1")
          .Attr("shapes: list(shape) >= 0 = []")
          .Attr("capacity: int = -1")
          .Attr("min_after_dequeue: int = 0")
          .Attr("seed: int = 0")
          .Attr("seed2: int = 0")
          .Attr("container: string = ''")
          .Attr("shared_name: string = ''")
          .Shape(shape_fn::Scalar)
          .NotDifferentiable("its value is a handle")
          .Doc(
              "FIFOQueueV2, but a dequeue takes a random element. Until the queue is closed, dequeues wait while no "
              "more than `min_after_dequeue` elements are there. Seeds of 0 stand for ones that nobody can foresee.");
    });
const state::KernelForms<state::HandleOf<ShuffleNode>> kernel(kKind, "RandomShuffleQueueV2");

}  // namespace
}  // namespace troupe::queue
