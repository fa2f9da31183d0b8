// Checkpoints of TensorFlow's first format: tables (graph/files/table.h), one or several, with the
// values inside. The empty key has the names with their types, shapes and slices, the key of each
// slice (slice_key.h) its values, both as SavedTensorSlices.
//
// Thread rule: a FirstFormatReader may be used by any number of threads at once; a file is
// written by one.
#ifndef TROUPE_GRAPH_CHECKPOINT_FIRST_FORMAT_H_
#define TROUPE_GRAPH_CHECKPOINT_FIRST_FORMAT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/files/table.h"
#include "troupe/checkpoint.h"

namespace troupe {

// Where "-?????-of-00002" begins in the name of a checkpoint in several files; npos when it is no
// such name.
size_t ShardPattern(std::string_view prefix);

class FirstFormatReader : public CheckpointReader {
 public:
  static absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(const std::vector<std::string>& paths);
  absl::StatusOr<Tensor> ReadSlice(std::string_view name, const TensorSlice& slice) const override;
  int format() const override { return 1; }

 private:
  struct Kept {
    DType dtype = DType::kInvalid;
    TensorShape shape;
    int unknown_type = 0;  // as Entry's
    std::vector<std::pair<TensorSlice, const files::TableReader*>> slices;
  };
  FirstFormatReader() = default;
  absl::Status AddFile(const std::string& path);
  absl::StatusOr<Tensor> ReadPart(std::string_view name, DType dtype, const TensorSlice& slice,
                                  const TensorShape& shape, const files::TableReader& table) const;

  std::vector<std::unique_ptr<files::TableReader>> tables_;
  std::map<std::string, Kept, std::less<>> kept_;
};

// One tensor of a file in the first format, whole (without full_shape and slice) or a slice.
struct FirstFormatTensor {
  std::string name;
  TensorShape full_shape;
  TensorSlice slice;
  Tensor value;
};
// Replaces the file in one step (files::Write). UNIMPLEMENTED for types that the format does not
// have; INVALID_ARGUMENT for a tensor of 2 GiB or more, and for one that is given twice; ABORTED
// and CANCELLED as CheckpointWriter::Finish.
absl::Status WriteFirstFormat(const std::string& path, const std::vector<FirstFormatTensor>& tensors,
                              const std::function<bool()>& cancelled = {});

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_FIRST_FORMAT_H_
