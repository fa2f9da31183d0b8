// What was recorded of TensorFlow under a name: lines "name | tensor ; tensor".
#ifndef TROUPE_TESTS_TRAIN_RECORDED_H_
#define TROUPE_TESTS_TRAIN_RECORDED_H_

#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "tests/cases/case_file.h"

namespace troupe::testing {

// The tensors of `name` in `file` (below tests/cases); none is a failure of the test.
inline std::vector<Tensor> RecordedIn(const std::string& file, const std::string& name) {
  std::vector<Tensor> tensors;
  for (const test::CaseLine& line : test::ReadLines(file)) {
    const std::string begin = name + " | ";
    if (line.text.rfind(begin, 0) != 0) continue;
    for (size_t at = begin.size(); at < line.text.size();) {
      const size_t end = std::min(line.text.find(" ; ", at), line.text.size());
      tensors.push_back(test::ParseTensor(line.text.substr(at, end - at)));
      at = end + 3;
    }
  }
  BOOST_REQUIRE_MESSAGE(!tensors.empty(), "nothing is recorded of " << name);
  return tensors;
}

}  // namespace troupe::testing

#endif  // TROUPE_TESTS_TRAIN_RECORDED_H_
