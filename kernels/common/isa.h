// Which instruction level the hot loops run at.
//
// The best level that the processor has is picked at the first use. The environment variable TROUPE_ISA=v2|v3|v4 forces a level (callgrind, for one,
// cannot run AVX-512); a level that the machine lacks, or another word, is reported once on stderr and the best level is used.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_KERNELS_MATH_ISA_DISPATCH_H_
#define TROUPE_KERNELS_MATH_ISA_DISPATCH_H_

#include <string>
#include <string_view>
#include <vector>

#include "kernels/math/hot_loops.h"

namespace troupe::math {

// The table in use.
const HotLoops& Hot();
// "v2", "v3" or "v4" ("v0" where there is one level only).
std::string_view IsaName();
// The levels that this machine can run, lowest first.
std::vector<std::string_view> AvailableIsas();
// The table of a level of AvailableIsas(); null for any other name.
const HotLoops* HotLoopsOf(std::string_view isa);
// What Hot() decides from the value of TROUPE_ISA ("" = not set): the level, and a sentence when the wish cannot be met.
std::string_view ChooseIsa(std::string_view wish, std::string* complaint);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_MATH_ISA_DISPATCH_H_
