// A queue of elements, each a tuple of tensors: what all kinds of queues do.
//
// The rules are TensorFlow's. Enqueues and dequeues wait in two lines, and each line is served in
// the order of asking. Only the head of a line makes progress: a dequeue of many takes elements as
// they come, an enqueue of many puts them in as there is room. A close (without cancelling) stands
// in the line of the enqueues, so those that were asked for before it are still done.
//
//   queue    request                      1st in its line, and                action
//   open     enqueue                      there is room                       put elements in; answer when all are in
//   closed   enqueue                                                          CANCELLED
//   any      dequeue n                    elements are there                  take them; answer when it has n
//   closed   dequeue n                    fewer than n are left               what it took goes back; OUT_OF_RANGE
//   closed   dequeue up to n              at least one is left                answer with all that are left
//   open     close                                                            closed
//   closed   close                                                            CANCELLED
//   any      close, cancelling            (at once)                           closed; enqueues that wait are CANCELLED
//   any      size, is closed              (at once)                           answer
//
// A dequeue that is withdrawn or aborted gives back what it took. So does one that was answered
// when its step had gone. (TensorFlow loses these elements.)
//
// Elements keep the buffers of the tensors that were enqueued. A queue is bounded by its capacity
// in elements and, if the node has the attr _capacity_bytes, in bytes; an element that is larger
// than that still goes into an empty queue.
//
// Thread rule: as for StateMachine; a QueueSpec does not change.
#ifndef TROUPE_KERNELS_QUEUE_QUEUE_H_
#define TROUPE_KERNELS_QUEUE_QUEUE_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/state/state_machine.h"

namespace troupe::queue {

// One tensor for each component.
using Element = absl::InlinedVector<Tensor, 2>;
using Elements = absl::InlinedVector<Element, 1>;

struct QueueSpec {
  std::string kind;  // the op: "FIFOQueue"
  std::string name;
  std::vector<DType> types;
  std::vector<PartialTensorShape> shapes;  // of the components; empty: any
  int64_t capacity = -1;                   // elements; negative: any number
  int64_t capacity_bytes = 0;              // 0: any number
  // Of kinds that have them.
  int64_t min_after_dequeue = 0, seed = 0, seed2 = 0;
  uint64_t stream[2] = {0, 0};  // the seeds that count: those of the node, or ones that nobody can foresee

  bool has_shapes() const { return !shapes.empty(); }
  std::string What() const { return StrCat(kind, " '", name, "'"); }
  // INVALID_ARGUMENT when a component has another type or shape; `many`: each has a leading
  // dimension, and they are equal.
  absl::Status CheckElement(absl::Span<const Tensor> components, bool many) const;
  // INVALID_ARGUMENT unless these are the types of the components.
  absl::Status CheckTypes(absl::Span<const DType> components) const;
  // INVALID_ARGUMENT when a node that asks for `other` cannot share a queue of this.
  absl::Status CheckShared(const QueueSpec& other) const;
  absl::Status Check() const;
};

struct QueueRequest : StateRequest {
  enum class Kind : uint8_t { kEnqueue, kDequeue, kDequeueUpTo, kClose, kCloseAndCancel, kSize, kIsClosed };
  explicit QueueRequest(Kind k) : kind(k) {}
  const Kind kind;
  // Of an enqueue: what is to be put in, and how many of them are. Of a dequeue: what was taken.
  Elements elements;
  size_t done = 0;
  bool restored = false;  // nobody asks: it waited when the queue was saved, and its step counts as done
  int64_t wanted = 1;     // of a dequeue
  int64_t number = 0;     // the answer of kSize and kIsClosed
};
using QueueRequestPtr = std::shared_ptr<QueueRequest>;

class QueueMachine : public StateMachine {
 public:
  explicit QueueMachine(QueueSpec spec) : spec_(std::move(spec)) {}
  const QueueSpec& spec() const { return spec_; }

 protected:
  // How a kind keeps its elements.
  virtual int64_t Count() const = 0;
  virtual void Put(Element&& element) = 0;
  // The next `n`, behind those in `to`. REQUIRES: so many are there.
  virtual void Take(int64_t n, Elements* to) = 0;
  // An element that was taken last, to where it was.
  virtual void PutBack(Element&& element) = 0;
  // In an order in which Put gives the same queue again.
  virtual void VisitElements(const std::function<void(const Element&)>& visit) const = 0;
  // While the queue is open, so many elements stay in it.
  virtual int64_t HeldBack() const { return 0; }
  // What a kind saves beside its elements, and takes over from what was saved.
  virtual void SaveMore(ResourceState*) const {}
  virtual absl::Status RestoreMore(const ResourceState&) { return absl::OkStatus(); }

  void Handle(const StateRequestPtr& request, StateAnswers* answers) final;
  void Withdraw(const StateRequestPtr& request, StateAnswers* answers) final;
  void AbortWaiting(const absl::Status& why, StateAnswers* answers) final;
  absl::StatusOr<ResourceState> Save() const final;
  void Visit(const std::function<void(const Tensor&)>& visit) const final;
  std::string What() const final { return spec_.What(); }
  std::string HowMuch() const final;

 private:
  friend absl::StatusOr<std::shared_ptr<Resource>> MakeSavedQueue(const std::string&, const ResourceState&);
  using Line = std::deque<QueueRequestPtr>;
  // Until neither line makes progress.
  void Flush(StateAnswers* answers);
  bool ServeEnqueues(StateAnswers* answers);
  bool ServeDequeues(StateAnswers* answers);
  // The first of the dequeues. Answered: it leaves the line.
  enum class Progress : uint8_t { kNone, kSome, kAnswered };
  Progress Serve(const QueueRequestPtr& dequeue, StateAnswers* answers);
  // By the capacity in elements, and in bytes.
  int64_t Room() const;
  bool HasBytesFor(const Element& element) const;
  void PutIn(Element&& element);
  void GiveBack(QueueRequest* dequeue);
  absl::Status RestoreElements(const ResourceState& state);
  absl::Status RestoreLine(absl::Span<const int64_t> line, std::deque<Element> elements);

  const QueueSpec spec_;
  Line enqueues_, dequeues_;
  bool closed_ = false;
  // It was closed to cancel what waited, which ends the work of those who fill it now: it is saved
  // as open, for those who will after a restart.
  bool cancelled_ = false;
  int64_t bytes_ = 0;  // of the elements in the queue
};

// A machine of the kind that spec.kind names. UNIMPLEMENTED when there is no such kind,
// INVALID_ARGUMENT for a spec that none could have.
absl::StatusOr<std::shared_ptr<QueueMachine>> MakeMachine(QueueSpec spec);
// A kind of queue, by the name of its op; an object of static storage.
struct QueueKind {
  using Maker = std::shared_ptr<QueueMachine> (*)(QueueSpec spec);
  QueueKind(std::string_view kind, Maker make);
};

// A queue in its container. Saved as its spec, "closed", "count" and its elements: component c of
// all of them packed as "component_c" when their shapes are equal, else one tensor "c_i" for each.
// Behind the elements stand those that enqueues wait to put in; "line" has the number of elements
// of each of these enqueues, and -1 for a close. Made again, the queue has them in its line, as
// requests that nobody asks: the steps that asked count as done (actors/snapshot/queue_use.h).
class Queue : public StateResource {
 public:
  explicit Queue(std::shared_ptr<QueueMachine> machine) : StateResource(machine), spec_(machine->spec()) {}
  const QueueSpec& spec() const { return spec_; }
  // INVALID_ARGUMENT unless it is a queue of the same kind and components.
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  const QueueSpec& spec_;
};

// A ResourceMaker for every kind.
absl::StatusOr<std::shared_ptr<Resource>> MakeSavedQueue(const std::string& name, const ResourceState& state);

// Makes elements of the rows of tensors, which outlive it. The rows are copied.
class RowCutter {
 public:
  // REQUIRES: each component has a leading dimension.
  explicit RowCutter(absl::Span<const Tensor> components);
  // Row i of each component into `to`, which is empty. RESOURCE_EXHAUSTED when memory is.
  absl::Status Cut(int64_t i, Element* to) const;

 private:
  struct Component {
    const Tensor* all;
    TensorShape shape;  // of a row
    int64_t each;       // elements of a row
    size_t bytes;
  };
  absl::InlinedVector<Component, 2> components_;
};
// One row alone.
absl::StatusOr<Element> Row(absl::Span<const Tensor> components, int64_t i);
// One component of some elements, copied as the rows of one tensor. RESOURCE_EXHAUSTED when memory
// is. `shape`: that of the component, for a result without elements; unknown dimensions are 0.
// `padded`: elements of unequal shapes are filled up with zeros.
absl::StatusOr<Tensor> Stack(KernelContext& ctx, absl::Span<const Element> elements, size_t component, DType type,
                             const PartialTensorShape& shape, bool padded);

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_QUEUE_H_
