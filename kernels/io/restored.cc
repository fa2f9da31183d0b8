#include "kernels/io/restored.h"

namespace troupe::io {

absl::StatusOr<Tensor> Restored(const CheckpointReader& reader, const std::string& name,
                                const std::string& shape_and_slice, DType dtype) {
  const CheckpointReader::Entry* const entry = reader.Find(name);
  if (entry == nullptr) {
    const std::vector<std::string> like = reader.NamesLike(name);
    return NotFound("there is no tensor '", CEscape(name), "' in the checkpoint, which has ", reader.entries().size(),
                    like.empty() ? "" : "; most like it: '", StrJoin(like, "', '"), like.empty() ? "" : "'");
  }
  // Of a type that is not known the reader tells.
  if (entry->dtype != dtype && entry->dtype != DType::kInvalid) {
    return InvalidArgument("the tensor '", CEscape(name), "' of the checkpoint is ", Name(entry->dtype), ", not ",
                           Name(dtype));
  }
  if (shape_and_slice.empty()) return reader.Read(name);
  TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(shape_and_slice));
  if (at.full_shape != entry->shape) {
    return InvalidArgument("the tensor '", CEscape(name), "' of the checkpoint has shape ", entry->shape.DebugString(),
                           ", not ", at.full_shape.DebugString());
  }
  return reader.ReadSlice(name, at.slice);
}

absl::Status SetRestoredShape(InferenceContext& c, int o, const std::string& shape_and_slice) {
  if (shape_and_slice.empty()) {
    c.set_output(o, PartialTensorShape());
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(shape_and_slice));
  TROUPE_ASSIGN_OR_RETURN(const TensorSlice box, at.slice.Within(at.full_shape));
  c.set_output(o, PartialTensorShape(box.shape()));
  return absl::OkStatus();
}

}  // namespace troupe::io
