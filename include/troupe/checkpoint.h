// Checkpoints: named tensors in files, in TensorFlow's format. TensorFlow reads what is written
// here, and what it writes is read here.
//
//   auto writer = CheckpointWriter::Create("mem://run/model-100");
//   absl::Status s = writer.ok() ? (*writer)->Add("w", w) : writer.status();
//   if (s.ok()) s = (*writer)->Finish();
//
//   auto reader = CheckpointReader::Open("mem://run/model-100");
//   absl::StatusOr<Tensor> again = reader.ok() ? (*reader)->Read("w") : reader.status();
//
// Checkpoints are named by a prefix. "run/model-100.index" is a table of the names with type,
// shape, place and checksum of each tensor; the bytes are in "run/model-100.data-00000-of-00001"
// and so on. Checkpoints of TensorFlow's first format, one file or several that a pattern names
// ("model.ckpt-?????-of-?????"), are read, too.
//
// A tensor may be kept in slices, as a partitioned variable is: its entry names the slices, which
// are entries of their own. It is read by its own name, as one tensor or any box of it.
//
// Errors: NOT_FOUND with the name for a tensor, or with the path for a checkpoint that is not
// there; DATA_LOSS with file, name and place for damaged files (every checksum is looked at);
// INVALID_ARGUMENT for slices and types that do not fit. Memory is taken only for what the files
// hold.
//
// Source of the semantics: tensor_bundle.proto and saved_tensor_slice.proto of TensorFlow for the
// formats.
//
// Thread rule: a CheckpointReader may be used by any number of threads at once, a CheckpointWriter
// by one at a time.
#ifndef TROUPE_CHECKPOINT_H_
#define TROUPE_CHECKPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

// A box of a tensor: for each dimension where it begins and how long it is. The length -1 means all
// of the dimension.
class TensorSlice {
 public:
  struct Extent {
    int64_t start = 0, length = -1;
    bool IsFull() const { return length < 0; }
    friend bool operator==(const Extent&, const Extent&) = default;
  };
  TensorSlice() = default;
  explicit TensorSlice(std::vector<Extent> extents) : extents_(std::move(extents)) {}
  static TensorSlice Full(int rank) { return TensorSlice(std::vector<Extent>(static_cast<size_t>(rank))); }
  // "0,10:-:4,2", an extent a dimension; "" has no dimension.
  static absl::StatusOr<TensorSlice> Parse(std::string_view text);
  std::string ToString() const;

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int i) const { return extents_[static_cast<size_t>(i)]; }
  bool IsFull() const;
  // The same box with all lengths given. INVALID_ARGUMENT unless it lies within `shape`.
  absl::StatusOr<TensorSlice> Within(const TensorShape& shape) const;
  // REQUIRES: it came from Within.
  TensorShape shape() const;
  friend bool operator==(const TensorSlice&, const TensorSlice&) = default;

 private:
  std::vector<Extent> extents_;
};

// "4 2 0,2:-" is the shape [4,2] and a slice of it; "" is nothing. As the ops that save and restore
// take it.
struct ShapeAndSlice {
  TensorShape full_shape;
  TensorSlice slice;
  static absl::StatusOr<ShapeAndSlice> Parse(std::string_view text);
  std::string ToString() const;
};

class CheckpointReader {
 public:
  // `prefix`, or a pattern of files of the first format.
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::string& prefix);
  virtual ~CheckpointReader();

  struct Entry {
    std::string name;
    DType dtype = DType::kInvalid;
    TensorShape shape;
    std::vector<TensorSlice> slices;  // empty: it is kept whole
    // Where `dtype` is kInvalid: the number of its type, which is of a newer TensorFlow. Reading it
    // is UNIMPLEMENTED.
    int unknown_type = 0;
  };
  // What is read from now on lies in memory of `allocator`, and is charged to it; at first that is
  // the process's. Not while another thread reads.
  void ReadInto(Allocator* allocator) { allocator_ = allocator; }

  // Sorted by name.
  const std::vector<Entry>& entries() const { return entries_; }
  // Null when there is none of this name.
  const Entry* Find(std::string_view name) const;
  absl::StatusOr<Tensor> Read(std::string_view name) const;
  // The box of the tensor, of the box's shape.
  virtual absl::StatusOr<Tensor> ReadSlice(std::string_view name, const TensorSlice& slice) const = 0;
  // The names here that are most like `name`, best first.
  std::vector<std::string> NamesLike(std::string_view name, size_t most = 3) const;
  // 2 for bundles, 1 for the first format.
  virtual int format() const = 0;

 protected:
  CheckpointReader() = default;
  std::vector<Entry> entries_;
  Allocator* allocator_ = Allocator::Cpu();
};

// Writes in the second format, without slices of other writers: MergeCheckpoints joins several.
class CheckpointWriter {
 public:
  // Makes the folder when it is not there. The bytes go to a temporary file beside the checkpoint.
  static absl::StatusOr<std::unique_ptr<CheckpointWriter>> Create(const std::string& prefix);
  // Without Finish nothing is left.
  ~CheckpointWriter();
  // Names may come in any order, each once. UNIMPLEMENTED for resources and variants.
  absl::Status Add(std::string_view name, const Tensor& value);
  // `value` is the slice of a tensor of `full_shape`.
  absl::Status AddSlice(std::string_view name, const TensorShape& full_shape, const TensorSlice& slice,
                        const Tensor& value);
  // Syncs the bytes, then gives the files their names, the index last: a checkpoint that was there
  // under this prefix is whole until then, also when the process is killed, and is replaced in one
  // step.
  //
  // Of the writers of one prefix in a process the one that was made last counts: Finish of an older
  // one is ABORTED, and what is there stays. `cancelled`, which may be empty, is asked before each
  // file gets its name: once it says yes, Finish is CANCELLED.
  absl::Status Finish(const std::function<bool()>& cancelled = {});

  struct TROUPE_HIDDEN Impl;

 private:
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct MergeOptions {
  bool delete_old_folders = true;        // that the parts leave empty
  bool allow_missing = false;            // parts that are not there are left out; else they are NOT_FOUND
  std::function<bool()> cancelled = {};  // as for Finish
};
// One checkpoint of several, whose data files it takes over: slices of one tensor join, and a name
// may otherwise be in one part only. The same rules as for Finish hold for `destination`, and
// writers of the parts that were made before are refused, too. After an error the parts can be
// merged again, as far as the file system lets them be moved back.
absl::Status MergeCheckpoints(const std::vector<std::string>& parts, const std::string& destination,
                              const MergeOptions& options = {});
// Deletes the files of a checkpoint: the index first. Nothing there is no error. Of the first
// format's shards "PREFIX-?????-of-00002", every file that fits goes. Writers of it that were made
// before are refused.
absl::Status DeleteCheckpoint(const std::string& prefix);
// Whether there is a checkpoint of this prefix, or pattern: not whether it can be read.
bool CheckpointExists(const std::string& prefix);

}  // namespace troupe

#endif  // TROUPE_CHECKPOINT_H_
