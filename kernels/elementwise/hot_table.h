// The table of hot loops that this process uses. Apart from hot_loops.h, which files that are
// compiled for one instruction level include.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_KERNELS_ELEMENTWISE_HOT_TABLE_H_
#define TROUPE_KERNELS_ELEMENTWISE_HOT_TABLE_H_

#include <string_view>

#include "kernels/elementwise/hot_loops.h"

namespace troupe::math {

// The table of IsaName().
const HotLoops& Hot();
// The table of a level of AvailableIsas() (kernels/common/isa.h); null for any other name.
const HotLoops* HotLoopsOf(std::string_view isa);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_HOT_TABLE_H_
