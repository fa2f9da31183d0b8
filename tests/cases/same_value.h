// What counts as the same value as a recorded one.
#ifndef TROUPE_TESTS_CASES_SAME_VALUE_H_
#define TROUPE_TESTS_CASES_SAME_VALUE_H_

#include <string>

#include "tests/cases/case_file.h"

namespace troupe::test {

// "" when the output is as recorded: same type and shape, integers and strings equal, numbers near.
// A negative tolerance means the arithmetic of the type, and of an op that is computed in many
// steps; otherwise it is what a number may be off by, relative to the larger of its value (of
// 16-bit floats: of the largest one) and 1. An invalid `want` was not recorded.
std::string WrongOutput(const std::string& op, const Tensor& got, const Tensor& want, double tolerance = -1);
// The same for all outputs: the first that is wrong, or their number.
std::string WrongOutputs(const Case& c, absl::Span<const Tensor> got);

// "" when equal: same type and shape, same elements, NaN equal to NaN; floats may differ by
// `tolerance`, relative to the larger one.
std::string Difference(const Tensor& got, const Tensor& want, double tolerance = 0);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_CASES_SAME_VALUE_H_
