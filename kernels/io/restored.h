// What the ops that restore tensors (Restore, RestoreSlice, RestoreV2) share: one tensor of a
// checkpoint, or a slice of it, and its static shape.
//
// Thread rule: any thread; SetRestoredShape as all shape functions (troupe/shape_inference.h).
#ifndef TROUPE_KERNELS_IO_RESTORED_H_
#define TROUPE_KERNELS_IO_RESTORED_H_

#include <string>

#include "troupe/checkpoint.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::io {

// The tensor `name`, or the slice of it that `shape_and_slice` describes where that is not empty.
// NOT_FOUND lists the names that are most like one that is not there; INVALID_ARGUMENT for another
// type or shape.
absl::StatusOr<Tensor> Restored(const CheckpointReader& reader, const std::string& name,
                                const std::string& shape_and_slice, DType dtype);
// The shape that output `o` has by a constant `shape_and_slice`; unknown when that is empty.
absl::Status SetRestoredShape(InferenceContext& c, int o, const std::string& shape_and_slice);

}  // namespace troupe::io

#endif  // TROUPE_KERNELS_IO_RESTORED_H_
