// The mark of slices: an UnsortedSegmentSum that stands for its values and segment ids.
//
// A gradient function whose result has zeros in most rows builds it as an UnsortedSegmentSum with
// this attr. It says that the segment ids are a vector, and all in [0, number of rows). Then the
// ops behind it may take values and ids without computing the sum (troupe/indexed_slices.h).
//
// Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_SLICES_MARK_H_
#define TROUPE_SLICES_MARK_H_

#include "troupe/export.h"
#include "troupe/graph.h"

namespace TROUPE_EXPORT troupe {

inline constexpr char kSlicesAttr[] = "_slices";  // a bool
bool IsSlices(NodeOut x);

}  // namespace troupe

#endif  // TROUPE_SLICES_MARK_H_
