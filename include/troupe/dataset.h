// Data sets: elements that are read, transformed and handed out one after the other, to feed steps.
//
//   Dataset data = Dataset::Records(paths)  // each element: one scalar string
//                      .Shuffle(1000, /*seed=*/7)
//                      .Map(decode, /*in_flight=*/4)
//                      .Batch(32)
//                      .Prefetch(2);
//   auto batches = data.Iterate();
//   Element batch;
//   absl::StatusOr<bool> more = batches.ok() ? (*batches)->Next(&batch) : batches.status();
//   for (; more.ok() && *more; more = (*batches)->Next(&batch)) std::cout << batch[0].DebugString() << "\n";
//
// An element is a list of tensors. A Dataset only describes; Iterate begins to read. The order of
// the elements follows from the description and its seeds alone, whatever the number of threads.
//
// Position. DatasetIterator::Save gives the whole position as named tensors (what shuffling and
// prefetching hold included), which may be kept in a checkpoint. Iterate(state) of an equal
// description goes on exactly there. Files are read again up to the position, a generator is called
// again as often, and Cache reads its input again: these must give the same elements.
//
// A description that makes no sense (Batch(0), a function without a target) is INVALID_ARGUMENT
// when it is iterated over, with the line that asked for it.
//
// Errors are those of the files (with path and byte) and of the functions. After an error every
// Next returns it again; an iterator that goes on from the position then meets the same element. A
// function that throws is an error, INTERNAL.
//
// Thread rule: a Dataset is a plain value. An iterator belongs to one thread at a time. Functions
// of Map with several calls in flight run on threads of the iterator, several at once; what stands
// before a Prefetch runs on a thread of its own. These threads end with the iterator, which waits
// for calls that run.
#ifndef TROUPE_DATASET_H_
#define TROUPE_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/records.h"
#include "troupe/resource_state.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

using Element = std::vector<Tensor>;

class DatasetIterator {
 public:
  virtual ~DatasetIterator();
  // The next element; false at the end. INVALID_ARGUMENT for a null `element`.
  virtual absl::StatusOr<bool> Next(Element* element) = 0;
  // The position, for Dataset::Iterate.
  virtual ResourceState Save() = 0;
};

class Dataset {
 public:
  using Here = std::source_location;
  // There is no empty Dataset: one that was moved from is a copy.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  // The rows of tensors, at least one, that have as many rows each: the tensors without their
  // dimension 0.
  static Dataset FromTensors(Element tensors, Here here = Here::current());
  // Scalars (int64) begin, begin + step, ... before `end`.
  static Dataset Range(int64_t begin, int64_t end, int64_t step = 1, Here here = Here::current());
  // What a function gives until it returns false. `make` makes such a function for each iteration.
  using Generator = std::function<absl::StatusOr<bool>(Element*)>;
  static Dataset FromGenerator(std::function<Generator()> make, Here here = Here::current());
  // The records of record files; the lines of text files, without their line ends; pieces of
  // `record_bytes` bytes behind a header and before a footer. Each is one scalar string.
  static Dataset Records(std::vector<std::string> paths, files::Compression compression = files::Compression::kNone);
  static Dataset TextLines(std::vector<std::string> paths, files::Compression compression = files::Compression::kNone);
  static Dataset FixedLength(std::vector<std::string> paths, uint64_t record_bytes, uint64_t header_bytes = 0,
                             uint64_t footer_bytes = 0, Here here = Here::current());
  // Elements of one of each, side by side; ends with the first that ends. At least one set.
  static Dataset Zip(std::vector<Dataset> sets, Here here = Here::current());

  using MapFn = std::function<absl::StatusOr<Element>(Element)>;
  // f of each element, in the elements' order. `in_flight`: how many calls run at once, at least 1;
  // with 1 they run on the thread that asks. An element's tensors may be held by others (a Cache, a
  // position): f does not write to them.
  Dataset Map(MapFn f, int in_flight = 1, Here here = Here::current()) const;
  using Predicate = std::function<absl::StatusOr<bool>(const Element&)>;
  Dataset Filter(Predicate keep, Here here = Here::current()) const;
  // Each element is drawn from the next `buffer` ones, at least 1. Each repetition has an order of
  // its own unless `reshuffle` is false.
  Dataset Shuffle(int64_t buffer, uint64_t seed, bool reshuffle = true, Here here = Here::current()) const;
  // `n` elements, at least 1, of equal shapes stacked in a new dimension 0. The last batch may be
  // smaller, or is left out with `drop_remainder`.
  Dataset Batch(int64_t n, bool drop_remainder = false, Here here = Here::current()) const;
  // As Batch, of elements of equal ranks, filled with zeros (or "") up to the largest size of each
  // dimension in the batch, or to `shapes`, one for each tensor, where those are known.
  Dataset PaddedBatch(int64_t n, std::vector<PartialTensorShape> shapes = {}, bool drop_remainder = false,
                      Here here = Here::current()) const;
  // As often as `count` says; for ever when it is negative.
  Dataset Repeat(int64_t count = -1) const;
  // The elements of the sets that `f` makes of the elements: `cycle` sets at a time, `block`
  // elements of each in turn.
  using FlatFn = std::function<absl::StatusOr<Dataset>(const Element&)>;
  Dataset Interleave(FlatFn f, int cycle, int64_t block = 1, Here here = Here::current()) const;
  // Up to `n` elements are made ahead, on another thread; with 0 none is, on the thread that asks.
  Dataset Prefetch(int n, Here here = Here::current()) const;
  // The first `n` elements; all when it is negative.
  Dataset Take(int64_t n) const;
  // All but the first `n` elements; nothing when it is negative.
  Dataset Skip(int64_t n) const;
  // Elements number index, index + n, index + 2 n, ...; 0 <= index < n.
  Dataset Shard(int64_t n, int64_t index, Here here = Here::current()) const;
  // The first whole iteration keeps its elements in memory, for those that begin afterwards.
  Dataset Cache() const;

  absl::StatusOr<std::unique_ptr<DatasetIterator>> Iterate() const;
  // INVALID_ARGUMENT when the position is of another description, as far as can be seen.
  absl::StatusOr<std::unique_ptr<DatasetIterator>> Iterate(const ResourceState& position) const;

  struct TROUPE_HIDDEN Source;

 private:
  explicit Dataset(std::shared_ptr<const Source> source);
  std::shared_ptr<const Source> source_;
};

}  // namespace troupe

#endif  // TROUPE_DATASET_H_
