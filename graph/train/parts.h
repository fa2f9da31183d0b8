// The mark of a variable that is a part of another: an attr of its node.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_PARTS_H_
#define TROUPE_GRAPH_TRAIN_PARTS_H_

#include "troupe/train/partitioned.h"

namespace troupe::train {

inline constexpr char kWholeAttr[] = "_save_slice";  // two strings: PartOfWhole

void SetWhole(const Variable& part, const PartOfWhole& whole);

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_PARTS_H_
