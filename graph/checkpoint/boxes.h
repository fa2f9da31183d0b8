// Boxes of tensors: how slices of a checkpoint become one tensor, or a box of it.
//
// Thread rule: pure functions; `read` is called on the calling thread.
#ifndef TROUPE_GRAPH_CHECKPOINT_BOXES_H_
#define TROUPE_GRAPH_CHECKPOINT_BOXES_H_

#include <functional>
#include <optional>
#include <vector>

#include "troupe/checkpoint.h"

namespace troupe {

// What two boxes of one tensor have in common; none where that is empty. REQUIRES: both came from
// TensorSlice::Within.
std::optional<TensorSlice> Intersect(const TensorSlice& a, const TensorSlice& b);
// Copies the elements of box `what` of a tensor from `from`, which holds the box `from_box` of it,
// to `to`, which holds `to_box`. REQUIRES: `what` lies in both; both have one dtype, no resources.
void CopyBox(const TensorSlice& what, const TensorSlice& from_box, const Tensor& from, const TensorSlice& to_box,
             Tensor* to);
// The box `want` of a tensor of which `slices` are kept. `read` gives one of them, in memory of the
// allocator that it is given. INVALID_ARGUMENT when a part of the box is in no slice, or in two:
// before anything is read, unless as many elements come twice as are missing. RESOURCE_EXHAUSTED
// without memory for the result. The result is `allocator`'s; slices that are read to be copied
// into it are the process's. REQUIRES: all boxes came from Within.
absl::StatusOr<Tensor> Assemble(Allocator* allocator, DType dtype, const TensorSlice& want,
                                const std::vector<TensorSlice>& slices,
                                const std::function<absl::StatusOr<Tensor>(size_t, Allocator*)>& read);

// What readers of both formats answer.
absl::Status UnknownType(std::string_view path, std::string_view name, int type);
absl::Status NoMemoryToRead(std::string_view name, size_t bytes, const Allocator& allocator);

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_BOXES_H_
