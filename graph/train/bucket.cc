#include "troupe/train/bucket.h"

#include <utility>

#include "troupe/const.h"
#include "troupe/group.h"
#include "troupe/ops.h"

namespace troupe::train {

namespace {

// What the elements of each bucket, and the batches of all of them, look like.
struct Contents {
  std::vector<DType> types;
  std::vector<PartialTensorShape> shapes, batch_shapes;
};

// False after an error.
bool FindContents(const ScopeAt& at, const OutputList& tensors, int num_buckets, const BatchOptions& options,
                  Contents* contents) {
  if (tensors.empty() || options.num_threads < 1 || options.batch_size < 1 || num_buckets < 1)
    at.Fail(InvalidArgument("buckets need tensors, a thread, a batch and a number of at least 1"));
  if (options.enqueue_many) at.Fail(InvalidArgument("buckets take one element at a time, not enqueue_many"));
  if (!options.shapes.empty() && options.shapes.size() != tensors.size())
    at.Fail(InvalidArgument("there are ", options.shapes.size(), " shapes for ", tensors.size(), " tensors"));
  if (!at.ok()) return false;
  for (size_t c = 0; c < tensors.size(); ++c) {
    contents->types.push_back(tensors[c].dtype());
    const PartialTensorShape shape = options.shapes.empty() ? tensors[c].shape() : options.shapes[c];
    if (options.dynamic_pad ? !shape.known_rank() : !shape.IsFullyDefined()) {
      at.Fail(InvalidArgument("tensor ", c, " has shape ", shape.DebugString(), "; a batch needs a known ",
                              options.dynamic_pad ? "rank" : "shape", ": say it in BatchOptions.shapes"));
      return false;
    }
    PartialTensorShape batch = {options.allow_smaller_final_batch ? -1 : options.batch_size};
    for (int d = 0; d < shape.rank(); ++d) batch.AddDim(shape.dim(d));
    contents->shapes.push_back(shape);
    contents->batch_shapes.push_back(std::move(batch));
  }
  return true;
}

std::string SharedName(const BatchOptions& options, std::string_view suffix) {
  return options.shared_name.empty() ? std::string() : StrCat(options.shared_name, "_", suffix);
}

// A queue for each bucket, and the runner that fills them. An element goes into one of the queues:
// as one row there, and as none into the others.
std::vector<Queue> FillBuckets(const ScopeAt& in, const OutputList& tensors, const Output& which_bucket,
                               int num_buckets, const Contents& contents, const BatchOptions& options) {
  const Scope& scope = in.scope();
  OutputList rows;
  for (const Output& t : tensors) rows.push_back(ops::ExpandDims(scope, t, Const(scope, 0)));
  Output which = ops::Reshape(scope, which_bucket, Const(scope, {1}));
  std::vector<Queue> buckets;
  std::vector<Operation> puts, closes, cancels;
  const Scope idle = scope.WithNoControlDependencies();
  for (int b = 0; b < num_buckets; ++b) {
    const QueueOptions queue_options = {
        .capacity = options.capacity, .shapes = contents.shapes, .shared_name = SharedName(options, StrCat(b))};
    const Scope named = scope.WithOpName(StrCat("queue_", b));
    buckets.push_back(options.dynamic_pad ? Queue::PaddingFifo(named, contents.types, queue_options)
                                          : Queue::Fifo(named, contents.types, queue_options));
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
  return buckets;
}

}  // namespace

std::pair<Output, OutputList> Bucket(const ScopeAt& at, const OutputList& tensors, const Output& which_bucket,
                                     int num_buckets, const BatchOptions& options) {
  const Scope scope = at.Sub("bucket");
  const ScopeAt in(scope, at.location());
  Contents contents;
  if (!FindContents(at, tensors, num_buckets, options, &contents)) return {Output(), OutputList(tensors.size())};
  const std::vector<Queue> buckets = FillBuckets(in, tensors, which_bucket, num_buckets, contents, options);
  // Whole batches, with the number of their bucket.
  std::vector<DType> batch_types(1, DType::kInt32);
  for (const DType t : contents.types) batch_types.push_back(t);
  std::vector<PartialTensorShape> batch_shapes = {PartialTensorShape(TensorShape())};
  for (PartialTensorShape& s : contents.batch_shapes) batch_shapes.push_back(std::move(s));
  const Queue ready = Queue::PaddingFifo(
      scope.WithOpName("ready"), batch_types,
      {.capacity = options.capacity, .shapes = batch_shapes, .shared_name = SharedName(options, "ready")});
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
