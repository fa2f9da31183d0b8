// When two systems have computed the same tensor.
#ifndef TROUPE_TESTS_DIFFERENTIAL_COMPARE_H_
#define TROUPE_TESTS_DIFFERENTIAL_COMPARE_H_

#include <string>

#include "troupe/tensor.h"

namespace troupe::test {

// "" when type and shape are equal, NaNs and infinities stand at the same places, and no element is
// off by more than `tolerance` times the largest finite one of `want` (at least 1). Integers, bools
// and strings, and everything at tolerance 0, are equal. Else the first element that is not.
std::string Unlike(const Tensor& got, const Tensor& want, double tolerance);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_DIFFERENTIAL_COMPARE_H_
