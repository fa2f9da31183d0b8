// Cases that record_cases.py and record_state_cases.py recorded, and what counts as the same value.
#ifndef TROUPE_TESTS_OPS_RECORDED_H_
#define TROUPE_TESTS_OPS_RECORDED_H_

#include <string>
#include <vector>

#include "tests/array/case_file.h"

namespace troupe::test {

// The cases of a gzip file in this folder.
std::vector<Case> ReadCases(const std::string& file);
// "" when the output is as recorded: same type and shape, integers and strings equal, floats near,
// by the arithmetic of their type. An invalid `want` was not recorded.
std::string WrongOutput(const std::string& op, const Tensor& got, const Tensor& want);

}  // namespace troupe::test

#endif  // TROUPE_TESTS_OPS_RECORDED_H_
