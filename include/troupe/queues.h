// Queues, and the runners that fill them.
//
//   Queue q = Queue::Fifo(scope, {DType::kFloat, DType::kInt32}, {.capacity = 100, .shapes = {{28, 28}, TensorShape()}});
//   Operation put = q.Enqueue(scope, {image, label});            // waits while 100 elements are there
//   OutputList batch = q.DequeueMany(scope, 32);                 // [32,28,28] and [32], when there are 32
//   AddQueueRunner(scope, MakeQueueRunner(scope, q, {put, put}));  // two steps at a time
//
// An element is a tuple of tensors, its components. Steps that enqueue wait while the queue is
// full, those that dequeue while it is empty; a deadline, a CancellationToken or Session::Close
// ends the wait. When the queue is closed, dequeues give what is left, and then OUT_OF_RANGE.
//
// A QueueRunner says which ops fill a queue. It stands in the collection "queue_runners" of the
// graph, and in MetaGraphs as TensorFlow's QueueRunnerDef; StartQueueRunners
// (troupe/train/queue_runner.h) runs what stands there.
//
// Source of the semantics: section 4.6 of TensorFlow's white paper, and tf.FIFOQueue,
// tf.PaddingFIFOQueue, tf.RandomShuffleQueue, tf.PriorityQueue and tf.train.QueueRunner;
// capacity_bytes is Troupe's own. Errors while the graph is built are the scope's.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_QUEUES_H_
#define TROUPE_QUEUES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

struct QueueOptions {
  int64_t capacity = -1;  // elements; negative: any number
  // Of the components. Without them, elements cannot be dequeued together.
  std::vector<PartialTensorShape> shapes = {};
  // Bytes in the queue, 0: any number. An element that is larger still goes into an empty queue.
  int64_t capacity_bytes = 0;
  std::string container = {};    // else the scope's
  std::string shared_name = {};  // else the node's name
};

class Queue {
 public:
  Queue() = default;
  // Elements leave in the order in which they came. The shapes must be fully known.
  static Queue Fifo(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options = {});
  // As Fifo, but shapes may have unknown dimensions. Elements that are dequeued together are filled
  // up with zeros.
  static Queue PaddingFifo(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options);
  // A random element leaves; `min_after_dequeue` stay until the queue is closed. 0 for `seed` and
  // `seed2`: an order that nobody can foresee.
  static Queue RandomShuffle(const ScopeAt& at, const std::vector<DType>& types, int64_t min_after_dequeue,
                             const QueueOptions& options = {}, int64_t seed = 0, int64_t seed2 = 0);
  // The smallest int64 leaves first: a scalar, the first component, which types and shapes do not
  // name.
  static Queue Priority(const ScopeAt& at, const std::vector<DType>& types, const QueueOptions& options);
  // The queue of a handle, a resource or a reference: of an imported graph, say. `types`: of its
  // components.
  static Queue Of(const Output& handle, const std::vector<DType>& types);

  // Puts one element in: as many components as types, of these types and shapes.
  Operation Enqueue(const ScopeAt& at, const InputList& components) const;
  // One element for each row of the components, which have equally many rows (dimension 0).
  Operation EnqueueMany(const ScopeAt& at, const InputList& components) const;
  // One element.
  OutputList Dequeue(const ScopeAt& at) const;
  // `n` elements (an int32 scalar), each component stacked: [n] + its shape.
  OutputList DequeueMany(const ScopeAt& at, const Input& n) const;
  // As DequeueMany; when the queue is closed, fewer, if fewer are left.
  OutputList DequeueUpTo(const ScopeAt& at, const Input& n) const;
  // Nothing more comes in: an enqueue is CANCELLED. Those that wait for room still put theirs in,
  // unless they are cancelled, too.
  Operation Close(const ScopeAt& at, bool cancel_pending_enqueues = false) const;
  Output Size(const ScopeAt& at) const;      // an int32 scalar: the elements in the queue
  Output IsClosed(const ScopeAt& at) const;  // a bool scalar

  const Output& handle() const { return handle_; }
  const std::vector<DType>& types() const { return types_; }
  // Of the node.
  std::string name() const;

 private:
  Queue(Output handle, std::vector<DType> types) : handle_(std::move(handle)), types_(std::move(types)) {}
  std::string Op(std::string_view op) const;

  Output handle_;
  std::vector<DType> types_;
};

inline constexpr char kQueueRunners[] = "queue_runners";

// Names of the nodes with which a queue is filled and closed.
struct QueueRunner {
  std::string queue;
  // Each is run again and again, by itself; one that is named twice runs twice at a time.
  std::vector<std::string> enqueue_ops;
  std::string close_op;   // run when all enqueue ops have ended because there is nothing more
  std::string cancel_op;  // run when the coordinator is told to stop
  // With these codes an enqueue op says that there is nothing more.
  std::vector<absl::StatusCode> queue_closed = {absl::StatusCode::kOutOfRange};
};

// The runner that runs these ops, with nodes that close the queue.
QueueRunner MakeQueueRunner(const ScopeAt& at, const Queue& queue, const std::vector<Operation>& enqueue_ops);
// Puts it into the collection of the graph.
void AddQueueRunner(const ScopeAt& at, const QueueRunner& runner);
void AddQueueRunner(Graph* graph, const QueueRunner& runner);
// What stands in the collection. DATA_LOSS for an entry that is none.
absl::StatusOr<std::vector<QueueRunner>> QueueRunnersOf(const Graph& graph);

}  // namespace troupe

#endif  // TROUPE_QUEUES_H_
