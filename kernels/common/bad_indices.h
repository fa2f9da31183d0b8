// Attr "bad_indices_policy" of the ops that read or update slices by tuples of indices (GatherNd,
// ScatterNd* and the like): what becomes of a tuple that is out of range.
//
// Thread rule: ReadBadIndexPolicy belongs to the thread of its KernelInit.
#ifndef TROUPE_KERNELS_COMMON_BAD_INDICES_H_
#define TROUPE_KERNELS_COMMON_BAD_INDICES_H_

#include "troupe/kernel.h"

namespace troupe {

inline constexpr char kBadIndicesAttr[] = "bad_indices_policy: string = ''";

enum class BadIndexPolicy { kError, kIgnore };
// "", "DEFAULT" and "ERROR" are kError, "IGNORE" is kIgnore; anything else refuses the node with
// INVALID_ARGUMENT.
BadIndexPolicy ReadBadIndexPolicy(KernelInit& init);

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_BAD_INDICES_H_
