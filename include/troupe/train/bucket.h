// Batches of elements that are alike: of similar length, say, so that little of a batch is padding.
//
//   auto [length, batch] = train::BucketBySequenceLength(root, size, {words}, {10, 20, 40},
//                                                        {.batch_size = 32, .dynamic_pad = true});
//
// Each bucket is a queue; a batch is taken from whichever bucket has a whole one, and the batches
// of all buckets go through one more queue. The runners are in the collection "queue_runners":
// StartQueueRunners (troupe/train/queue_runner.h) starts them. When the input ends, what is left in
// the buckets is given only with allow_smaller_final_batch.
//
// Source of the semantics: tf.contrib.training.bucket and bucket_by_sequence_length.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_BUCKET_H_
#define TROUPE_TRAIN_BUCKET_H_

#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/train/input.h"

namespace troupe {
namespace TROUPE_EXPORT train {

// The bucket of the next batch (int32), and the batch: `batch_size` elements of one bucket, each
// component stacked. An element is one value of each of the tensors; `which_bucket`, an int32
// scalar of [0, num_buckets), says where it belongs. `options.capacity` holds for each bucket, and
// in batches for those that are ready. enqueue_many is refused. Errors (of the scope): as for
// Batch.
std::pair<Output, OutputList> Bucket(const ScopeAt& at, const OutputList& tensors, const Output& which_bucket,
                                     int num_buckets, const BatchOptions& options);
// Bucket by lengths: the first bucket takes those below boundaries[0], the last those from
// boundaries.back() on. The lengths (int32) of the elements of the batch, and the batch.
// `length`: an int32 scalar. INVALID_ARGUMENT unless the boundaries rise.
std::pair<Output, OutputList> BucketBySequenceLength(const ScopeAt& at, const Output& length, const OutputList& tensors,
                                                     const std::vector<int32_t>& boundaries,
                                                     const BatchOptions& options);

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_BUCKET_H_
