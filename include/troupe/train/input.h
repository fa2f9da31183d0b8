// Input pipelines of queues: producers of names and numbers, and batches of what is computed from
// them.
//
//   Queue files = train::StringInputProducer(root, {"a.txt", "b.txt"}, {.num_epochs = 2, .seed = 1});
//   Output image = Decode(root, ops::ReadFile(root, files.Dequeue(root)[0]));
//   Output batch = train::ShuffleBatch(root, {image}, {.batch_size = 32, .capacity = 1000}, 500)[0];
//
// Each function adds a queue to the graph, and a runner that fills it to the collection
// "queue_runners": StartQueueRunners (troupe/train/queue_runner.h) starts them. With `num_epochs`
// there is a local variable that counts epochs, so LocalVariablesInitializer has to be run before.
// What is in the queues, the counts and the random streams belong to Session::SnapshotState: a
// pipeline goes on where it was.
//
// Errors (of the scope): a shape that is not known where it must be, and lists of unequal length.
//
// Source of the semantics: section 4.5 of TensorFlow's white paper, and tf.train.input_producer,
// string_input_producer, range_input_producer, slice_input_producer, batch, batch_join,
// shuffle_batch and shuffle_batch_join, with their maybe_ forms (keep_input).
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_INPUT_H_
#define TROUPE_TRAIN_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/queues.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct ProducerOptions {
  int64_t num_epochs = 0;  // then the queue is closed; 0: for ever
  bool shuffle = true;     // anew in each epoch
  int64_t seed = 0, seed2 = 0;
  int64_t capacity = 32;
  std::string shared_name = {};
};

// A queue of the rows of `values`.
Queue InputProducer(const ScopeAt& at, const Output& values, const ProducerOptions& options = {});
Queue StringInputProducer(const ScopeAt& at, const std::vector<std::string>& strings,
                          const ProducerOptions& options = {});
// Of 0 .. limit - 1, int32.
Queue RangeInputProducer(const ScopeAt& at, int32_t limit, const ProducerOptions& options = {});
// One row of each of the tensors, which have as many rows.
OutputList SliceInputProducer(const ScopeAt& at, const OutputList& tensors, const ProducerOptions& options = {});

struct BatchOptions {
  int64_t batch_size = 32;
  int num_threads = 1;  // steps at a time that enqueue
  int64_t capacity = 32;
  bool enqueue_many = false;                    // each tensor holds many elements, in dimension 0
  bool dynamic_pad = false;                     // elements may differ in shape; they are filled up with zeros
  bool allow_smaller_final_batch = false;       // when the input ends
  std::vector<PartialTensorShape> shapes = {};  // of an element's components; else those of the tensors
  // Bool: which elements are put in. A scalar, or with enqueue_many one for each row. Invalid: all.
  Output keep_input = {};
  std::string shared_name = {};
};

// `batch_size` elements, each component stacked. An element is one value of each of the tensors.
OutputList Batch(const ScopeAt& at, const OutputList& tensors, const BatchOptions& options);
// Elements come from several lists of tensors at a time.
OutputList BatchJoin(const ScopeAt& at, const std::vector<OutputList>& lists, const BatchOptions& options);
// Random ones of at least `min_after_dequeue` elements.
OutputList ShuffleBatch(const ScopeAt& at, const OutputList& tensors, const BatchOptions& options,
                        int64_t min_after_dequeue, int64_t seed = 0, int64_t seed2 = 0);
OutputList ShuffleBatchJoin(const ScopeAt& at, const std::vector<OutputList>& lists, const BatchOptions& options,
                            int64_t min_after_dequeue, int64_t seed = 0, int64_t seed2 = 0);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_INPUT_H_
