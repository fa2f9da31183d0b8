#include "troupe/train/input.h"

#include <utility>

#include "troupe/const.h"
#include "troupe/ops.h"
#include "troupe/variable.h"

namespace troupe::train {
namespace {

// `values`, so many times; then OUT_OF_RANGE.
Output LimitEpochs(const Scope& scope, const Output& values, int64_t num_epochs) {
  if (num_epochs == 0) return values;
  VariableOptions options;
  options.trainable = false;
  options.collections = {kLocalVariables};
  options.use_resource = false;  // CountUpTo takes a reference
  const Variable epochs(scope.WithOpName("epochs"), int64_t{0}, options);
  const Output count = ops::CountUpTo(scope, epochs.handle(), num_epochs);
  return ops::Identity(scope.WithControlDependencies(count), values);
}

// What the elements of all lists have in common; empty after an error.
std::vector<PartialTensorShape> ElementShapes(const ScopeAt& at, const std::vector<OutputList>& lists,
                                              const BatchOptions& options) {
  if (!options.shapes.empty()) return options.shapes;
  std::vector<PartialTensorShape> shapes;
  for (size_t c = 0; c < lists[0].size(); ++c) {
    PartialTensorShape shape;
    bool is_first = true;
    for (const OutputList& list : lists) {
      PartialTensorShape s = list[c].shape();
      if (options.enqueue_many && s.known_rank()) {
        if (s.rank() == 0) {
          at.Fail(InvalidArgument("tensor ", c, " is a scalar, but enqueue_many asks for rows"));
          return {};
        }
        PartialTensorShape rest = TensorShape();
        for (int d = 1; d < s.rank(); ++d) rest.AddDim(s.dim(d));
        s = std::move(rest);
      }
      if (std::exchange(is_first, false)) {
        shape = s;
      } else if (options.dynamic_pad && s.known_rank() && shape.known_rank() && s.rank() == shape.rank()) {
        for (int d = 0; d < s.rank(); ++d) {
          if (s.dim(d) != shape.dim(d)) shape.set_dim(d, -1);
        }
      } else if (!(s == shape)) {
        shape = PartialTensorShape();
      }
    }
    if (options.dynamic_pad ? !shape.known_rank() : !shape.IsFullyDefined()) {
      at.Fail(InvalidArgument("tensor ", c, " has shape ", shape.DebugString(),
                              " for an element; a batch needs a known ", options.dynamic_pad ? "rank" : "shape",
                              ": say it in BatchOptions.shapes"));
      return {};
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

// Puts in what keep_input says: as rows, of which there may be none.
Operation Enqueue(const Scope& scope, const Queue& queue, const OutputList& tensors, const BatchOptions& options) {
  OutputList components;
  if (!options.keep_input.valid()) {
    for (const Output& t : tensors) components.push_back(t);
    return options.enqueue_many ? queue.EnqueueMany(scope, components) : queue.Enqueue(scope, components);
  }
  Output keep = options.keep_input;
  if (!options.enqueue_many) {
    keep = ops::Reshape(scope, keep, Const(scope, {1}));
  } else if (keep.shape().rank() == 0) {
    const Output rows = ops::GatherV2(scope, ops::Shape(scope, tensors[0]), Const(scope, {0}), Const(scope, 0));
    keep = ops::Fill(scope, rows, keep);
  }
  const Output kept = ops::Reshape(scope, ops::Where(scope, keep), Const(scope, {-1}));
  for (const Output& t : tensors) {
    const Output rows = options.enqueue_many ? t : ops::ExpandDims(scope, t, Const(scope, 0));
    components.push_back(ops::GatherV2(scope, rows, kept, Const(scope, 0)));
  }
  return queue.EnqueueMany(scope, components);
}

struct Shuffle {
  int64_t min_after_dequeue, seed, seed2;
};

OutputList BatchOf(const ScopeAt& at, const char* name, const std::vector<OutputList>& lists,
                   const BatchOptions& options, const Shuffle* shuffle) {
  const Scope scope = at.Sub(name);
  const ScopeAt in(scope, at.location());
  std::vector<DType> types;
  const size_t n = lists.empty() ? 0 : lists[0].size();
  for (size_t c = 0; c < n; ++c) types.push_back(lists[0][c].dtype());
  for (const OutputList& list : lists) {
    bool fits = list.size() == n;
    for (size_t c = 0; fits && c < n; ++c) fits = list[c].dtype() == types[c];
    if (!fits) at.Fail(InvalidArgument("the lists of tensors for a batch differ in number or types"));
  }
  if (n == 0 || options.num_threads < 1 || options.batch_size < 1)
    at.Fail(InvalidArgument("a batch needs tensors, a thread and a size of at least 1"));
  if (!at.ok()) return OutputList(n);
  const std::vector<PartialTensorShape> shapes = ElementShapes(at, lists, options);
  if (!at.ok()) return OutputList(n);
  const QueueOptions queue_options = {
      .capacity = options.capacity, .shapes = shapes, .shared_name = options.shared_name};
  const Scope named = scope.WithOpName("queue");
  const Queue queue = shuffle != nullptr ? Queue::RandomShuffle(named, types, shuffle->min_after_dequeue, queue_options,
                                                                shuffle->seed, shuffle->seed2)
                      : options.dynamic_pad ? Queue::PaddingFifo(named, types, queue_options)
                                            : Queue::Fifo(named, types, queue_options);
  std::vector<Operation> enqueues;
  for (const OutputList& list : lists) {
    const Operation op = Enqueue(scope, queue, list, options);
    // Of several lists each has one step at a time.
    for (int t = 0; t < (lists.size() > 1 ? 1 : options.num_threads); ++t) enqueues.push_back(op);
  }
  AddQueueRunner(in, MakeQueueRunner(in, queue, enqueues));
  const Output size = Const(scope, static_cast<int32_t>(options.batch_size));
  return options.allow_smaller_final_batch ? queue.DequeueUpTo(scope, size) : queue.DequeueMany(scope, size);
}

}  // namespace

Queue InputProducer(const ScopeAt& at, const Output& values, const ProducerOptions& options) {
  const Scope scope = at.Sub("input_producer");
  const ScopeAt in(scope, at.location());
  const PartialTensorShape shape = values.shape();
  PartialTensorShape element = TensorShape();
  for (int d = 1; d < shape.rank(); ++d) element.AddDim(shape.dim(d));
  if (shape.rank() < 1 || !element.IsFullyDefined()) {
    at.Fail(InvalidArgument("an input producer needs rows of a known shape, but its values have shape ",
                            shape.DebugString()));
  }
  if (!at.ok()) return Queue();
  Output rows = values;
  if (options.shuffle) rows = ops::RandomShuffle(scope, rows, {.seed = options.seed, .seed2 = options.seed2});
  rows = LimitEpochs(scope, rows, options.num_epochs);
  const Queue queue =
      Queue::Fifo(scope.WithOpName("queue"), {values.dtype()},
                  {.capacity = options.capacity, .shapes = {std::move(element)}, .shared_name = options.shared_name});
  AddQueueRunner(in, MakeQueueRunner(in, queue, {queue.EnqueueMany(scope, {rows})}));
  return queue;
}

Queue StringInputProducer(const ScopeAt& at, const std::vector<std::string>& strings, const ProducerOptions& options) {
  if (strings.empty()) at.Fail(InvalidArgument("a producer of strings was given none"));
  return InputProducer(at, Const(at, Literal(Tensor::Vector<std::string>(strings))), options);
}

Queue RangeInputProducer(const ScopeAt& at, int32_t limit, const ProducerOptions& options) {
  if (limit < 1) at.Fail(InvalidArgument("a producer of a range was given the limit ", limit));
  std::vector<int32_t> numbers;
  for (int32_t i = 0; i < limit; ++i) numbers.push_back(i);
  return InputProducer(at, Const(at, Literal(Tensor::Vector<int32_t>(numbers))), options);
}

OutputList SliceInputProducer(const ScopeAt& at, const OutputList& tensors, const ProducerOptions& options) {
  if (tensors.empty() || tensors[0].shape().rank() < 1 || tensors[0].shape().dim(0) < 1) {
    at.Fail(InvalidArgument("a producer of slices needs tensors with a known number of rows"));
    return OutputList(tensors.size());
  }
  const Scope scope = at.Sub("slice_input_producer");
  const int64_t rows = tensors[0].shape().dim(0);
  for (const Output& t : tensors) {
    if (t.shape().rank() < 1 || t.shape().dim(0) != rows)
      at.Fail(InvalidArgument("the tensors of a producer of slices have different numbers of rows"));
  }
  if (!at.ok()) return OutputList(tensors.size());
  const Queue queue = RangeInputProducer(ScopeAt(scope, at.location()), static_cast<int32_t>(rows), options);
  const Output row = queue.Dequeue(scope)[0];
  OutputList slices;
  for (const Output& t : tensors) slices.push_back(ops::GatherV2(scope, t, row, Const(scope, 0)));
  return slices;
}

OutputList Batch(const ScopeAt& at, const OutputList& tensors, const BatchOptions& options) {
  return BatchOf(at, "batch", {tensors}, options, nullptr);
}

OutputList BatchJoin(const ScopeAt& at, const std::vector<OutputList>& lists, const BatchOptions& options) {
  return BatchOf(at, "batch_join", lists, options, nullptr);
}

OutputList ShuffleBatch(const ScopeAt& at, const OutputList& tensors, const BatchOptions& options,
                        int64_t min_after_dequeue, int64_t seed, int64_t seed2) {
  const Shuffle shuffle{min_after_dequeue, seed, seed2};
  return BatchOf(at, "shuffle_batch", {tensors}, options, &shuffle);
}

OutputList ShuffleBatchJoin(const ScopeAt& at, const std::vector<OutputList>& lists, const BatchOptions& options,
                            int64_t min_after_dequeue, int64_t seed, int64_t seed2) {
  const Shuffle shuffle{min_after_dequeue, seed, seed2};
  return BatchOf(at, "shuffle_batch_join", lists, options, &shuffle);
}

}  // namespace troupe::train
