#include "troupe/train/bucket.h"

#include <utility>

#include "troupe/const.h"
#include "troupe/group.h"
#include "troupe/ops.h"

namespace troupe::train {

std::pair<Output, OutputList> Bucket(const ScopeAt& at, const OutputList& tensors, const Output& which_bucket,
                                     int num_buckets, const BatchOptions& options) {
  const Scope scope = at.Sub("bucket");
  const ScopeAt in(scope, at.location());
  const std::pair<Output, OutputList> nothing(Output(), OutputList(tensors.size()));
  if (tensors.empty() || options.num_threads < 1 || options.batch_size < 1 || num_buckets < 1)
    at.Fail(InvalidArgument("buckets need tensors, a thread, a batch and a number of at least 1"));
  if (options.enqueue_many) at.Fail(InvalidArgument("buckets take one element at a time, not enqueue_many"));
  if (!options.shapes.empty() && options.shapes.size() != tensors.size())
    at.Fail(InvalidArgument("there are ", options.shapes.size(), " shapes for ", tensors.size(), " tensors"));
  if (!at.ok()) return nothing;
  std::vector<DType> types;
  std::vector<PartialTensorShape> shapes, batch_shapes;
  for (size_t c = 0; c < tensors.size(); ++c) {
    types.push_back(tensors[c].dtype());
    shapes.push_back(options.shapes.empty() ? tensors[c].shape() : options.shapes[c]);
    if (options.dynamic_pad ? !shapes[c].known_rank() : !shapes[c].IsFullyDefined()) {
      at.Fail(InvalidArgument("tensor ", c, " has shape ", shapes[c].DebugString(), "; a batch needs a known ",
                              options.dynamic_pad ? "rank" : "shape", ": say it in BatchOptions.shapes"));
      return nothing;
    }
    PartialTensorShape batch = {options.allow_smaller_final_batch ? -1 : options.batch_size};
    for (int d = 0; d < shapes[c].rank(); ++d) batch.AddDim(shapes[c].dim(d));
    batch_shapes.push_back(std::move(batch));
  }

  // An element goes into one of the queues: as one row there, and as none into the others.
  OutputList rows;
  for (const Output& t : tensors) rows.push_back(ops::ExpandDims(scope, t, Const(scope, 0)));
  Output which = ops::Reshape(scope, which_bucket, Const(scope, {1}));
  std::vector<Queue> buckets;
  std::vector<Operation> puts, closes, cancels;
  const Scope idle = scope.WithNoControlDependencies();
  for (int b = 0; b < num_buckets; ++b) {
    const QueueOptions queue_options = {
        .capacity = options.capacity,
        .shapes = shapes,
        .shared_name = options.shared_name.empty() ? std::string() : StrCat(options.shared_name, "_", b)};
    const Scope named = scope.WithOpName(StrCat("queue_", b));
    buckets.push_back(options.dynamic_pad ? Queue::PaddingFifo(named, types, queue_options)
                                          : Queue::Fifo(named, types, queue_options));
    Output here = ops::Equal(scope, which, Const(scope, b));
    if (options.keep_input.valid())
      here = ops::LogicalAnd(scope, here, ops::Reshape(scope, options.keep_input, Const(scope, {1})));
    const Output kept = ops::Reshape(scope, ops::Where(scope, here), Const(scope, {-1}));
    OutputList components;
    for (const Output& r : rows) components.push_back(ops::GatherV2(scope, r, kept, Const(scope, 0)));
    puts.push_back(buckets.back().EnqueueMany(scope, components));
    closes.push_back(buckets.back().Close(idle));
    cancels.push_back(buckets.back().Close(idle, /*cancel_pending_enqueues=*/true));
  }
  const Operation put = Group(ScopeAt(scope.WithOpName("put")), puts);
  QueueRunner fill;
  fill.queue = buckets[0].name();
  for (int t = 0; t < options.num_threads; ++t) fill.enqueue_ops.push_back(put.name());
  fill.close_op = Group(ScopeAt(idle.WithOpName("close")), closes).name();
  fill.cancel_op = Group(ScopeAt(idle.WithOpName("cancel")), cancels).name();
  AddQueueRunner(in, fill);

  // Whole batches, with the number of their bucket.
  std::vector<DType> batch_types(1, DType::kInt32);
  for (const DType t : types) batch_types.push_back(t);
  batch_shapes.insert(batch_shapes.begin(), PartialTensorShape(TensorShape()));
  const Queue ready = Queue::PaddingFifo(
      scope.WithOpName("ready"), batch_types,
      {.capacity = options.capacity,
       .shapes = batch_shapes,
       .shared_name = options.shared_name.empty() ? std::string() : StrCat(options.shared_name, "_ready")});
  std::vector<Operation> passes;
  const Output size = Const(scope, static_cast<int32_t>(options.batch_size));
  for (int b = 0; b < num_buckets; ++b) {
    const Queue& bucket = buckets[static_cast<size_t>(b)];
    OutputList batch =
        options.allow_smaller_final_batch ? bucket.DequeueUpTo(scope, size) : bucket.DequeueMany(scope, size);
    OutputList components = {Const(scope, b)};
    components.insert(components.end(), batch.begin(), batch.end());
    passes.push_back(ready.Enqueue(scope, components));
  }
  AddQueueRunner(in, MakeQueueRunner(in, ready, passes));
  OutputList batch = ready.Dequeue(scope);
  const Output bucket = batch[0];
  batch.erase(batch.begin());
  return {bucket, std::move(batch)};
}

std::pair<Output, OutputList> BucketBySequenceLength(const ScopeAt& at, const Output& length, const OutputList& tensors,
                                                     const std::vector<int32_t>& boundaries,
                                                     const BatchOptions& options) {
  bool rise = !boundaries.empty();
  for (size_t i = 1; i < boundaries.size(); ++i) rise = rise && boundaries[i] > boundaries[i - 1];
  if (!rise) {
    at.Fail(InvalidArgument("the boundaries of buckets must be some, and rise"));
    return {Output(), OutputList(tensors.size())};
  }
  const Scope scope = at.Sub("bucket_by_sequence_length");
  // As many boundaries as are not above the length.
  const Output above = ops::LessEqual(scope, Const(scope, boundaries), length);
  const Output which = ops::Sum(scope, ops::Cast(scope, above, DType::kInt32), Const(scope, {0}));
  OutputList all = {length};
  all.insert(all.end(), tensors.begin(), tensors.end());
  BatchOptions with_length = options;
  if (!with_length.shapes.empty())
    with_length.shapes.insert(with_length.shapes.begin(), PartialTensorShape(TensorShape()));
  if (with_length.shapes.empty() && !length.shape().known_rank()) {
    with_length.shapes = {PartialTensorShape(TensorShape())};
    for (const Output& t : tensors) with_length.shapes.push_back(t.shape());
  }
  auto [bucket, batch] =
      Bucket(ScopeAt(scope, at.location()), all, which, static_cast<int>(boundaries.size()) + 1, with_length);
  const Output lengths = batch[0];
  batch.erase(batch.begin());
  return {lengths, std::move(batch)};
}

}  // namespace troupe::train
