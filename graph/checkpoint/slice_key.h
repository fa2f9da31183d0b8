// Where the slice of a tensor stands in a checkpoint's table: a key whose order as bytes is that of
// name, rank and extents.
//
// Thread rule: pure functions.
#ifndef TROUPE_GRAPH_CHECKPOINT_SLICE_KEY_H_
#define TROUPE_GRAPH_CHECKPOINT_SLICE_KEY_H_

#include <string>
#include <string_view>

#include "troupe/checkpoint.h"

namespace troupe {

namespace proto {
class TensorSliceProto;
}

std::string SliceKey(std::string_view name, const TensorSlice& slice);

void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* p);
// INVALID_ARGUMENT for negative numbers.
absl::StatusOr<TensorSlice> SliceFromProto(const proto::TensorSliceProto& p);

}  // namespace troupe

#endif  // TROUPE_GRAPH_CHECKPOINT_SLICE_KEY_H_
