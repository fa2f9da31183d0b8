// Every case of cases.txt: values that TensorFlow computes for the same op, attrs and inputs.
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "tests/array/case_file.h"
#include "kernels/evaluate.h"

namespace troupe::test {
namespace {

void RunAll(int threads, int* count) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/tests/array/cases.txt");
  BOOST_REQUIRE(in.good());
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const Case c = ParseCase(line, number);
    EvaluateOptions options;
    options.threads = threads;
    const auto got = EvaluateOp(c.op, c.inputs, c.attrs, c.list_sizes, options);
    ++*count;
    if (!got.ok()) {
      BOOST_ERROR("line " << number << ": " << c.text << "\n  " << std::string(got.status().message()));
      continue;
    }
    BOOST_CHECK_MESSAGE(got->size() == c.outputs.size(), "line " << number << ": " << got->size() << " outputs");
    for (size_t i = 0; i < std::min(got->size(), c.outputs.size()); ++i) {
      const std::string difference = Difference((*got)[i], c.outputs[i], c.op == "LinSpace" ? 1e-6 : 0);
      BOOST_CHECK_MESSAGE(difference.empty(),
                          "line " << number << ": " << c.text << "\n  output " << i << ": " << difference);
    }
  }
}

BOOST_AUTO_TEST_CASE(values_equal_tensorflow) {
  int count = 0;
  RunAll(1, &count);
  BOOST_CHECK_GT(count, 500);
}

BOOST_AUTO_TEST_CASE(values_do_not_depend_on_the_number_of_threads) {
  int count = 0;
  RunAll(3, &count);
  BOOST_CHECK_GT(count, 500);
}

}  // namespace
}  // namespace troupe::test
