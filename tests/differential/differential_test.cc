// Recorded compositions give TensorFlow's values in every mode; and the comparison finds what
// differs.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <set>
#include <sstream>

#include "tests/cases/case_file.h"
#include "tests/differential/compare.h"
#include "tests/differential/composition.h"
#include "troupe/strings.h"

namespace troupe::test {
namespace differential_test {

BOOST_AUTO_TEST_SUITE(differential)

BOOST_AUTO_TEST_CASE(recorded_compositions_give_the_recorded_values) {
  std::stringstream in;
  for (const CaseLine& line : ReadLines("compositions")) in << line.text << "\n";
  std::map<std::string, int> kinds;
  int steps = 0, gradients = 0, placed = 0;
  for (;;) {
    const auto c = ReadComposition(in);
    if (!c.ok()) {
      BOOST_TEST((c.status().code() == absl::StatusCode::kNotFound), c.status().ToString());
      break;
    }
    ++kinds[c->name.substr(0, c->name.find('/'))];
    steps += static_cast<int>(c->steps.size());
    gradients += !c->gradients.empty();
    placed += c->devices > 1;
    for (const Mode& mode : Modes()) {
      for (const std::string& wrong : RunComposition(*c, mode))
        BOOST_ERROR(StrCat(c->name, " (", mode.name, "): ", wrong));
    }
  }
  int cases = 0;
  for (const auto& [kind, n] : kinds) cases += n;
  BOOST_TEST(cases == 320);
  // The recording holds what it is for.
  for (const char* kind : {"stateless", "control", "gradient", "training", "contract"})
    BOOST_TEST(kinds[kind] >= 10, kind << ": " << kinds[kind]);
  BOOST_TEST(steps > 1000);
  BOOST_TEST(gradients > 40);
  BOOST_TEST(placed > 40);
}

BOOST_AUTO_TEST_CASE(the_comparison_tells_what_differs) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto floats = [](std::initializer_list<float> v) { return Tensor::Vector<float>(v); };
  BOOST_TEST(Unlike(floats({1, inf, nan}), floats({1, inf, nan}), 0) == "");
  BOOST_TEST(Unlike(floats({1, 1000.5f}), floats({1, 1000}), 1e-3) == "");
  BOOST_TEST(Unlike(floats({1.5f, 1000}), floats({1, 1000}), 1e-3) == "");
  BOOST_TEST(Unlike(floats({1, 1002}), floats({1, 1000}), 1e-3) != "");
  BOOST_TEST(Unlike(floats({1, 1000.5f}), floats({1, 1000}), 0) != "");
  BOOST_TEST(Unlike(floats({0}), floats({nan}), 1e30) != "");
  BOOST_TEST(Unlike(floats({nan}), floats({0}), 1e30) != "");
  BOOST_TEST(Unlike(floats({3e38f}), floats({inf}), 1) != "");
  BOOST_TEST(Unlike(floats({inf}), floats({-inf}), 1) != "");
  BOOST_TEST(Unlike(floats({1}), floats({1, 1}), 1) != "");
  BOOST_TEST(Unlike(floats({1}), Tensor::Vector<double>({1}), 1) != "");
  BOOST_TEST(Unlike(Tensor::Vector<int32_t>({1}), Tensor::Vector<int32_t>({2}), 10) != "");
  BOOST_TEST(Unlike(Tensor(), floats({1}), 1) != "");
  BOOST_TEST(Unlike(Tensor::Vector<std::string>({"a"}), Tensor::Vector<std::string>({"b"}), 1) != "");
  BOOST_TEST(Unlike(Tensor::Vector<std::string>({"a"}), Tensor::Vector<std::string>({"a"}), 1) == "");
}

BOOST_AUTO_TEST_CASE(a_file_of_another_form_is_refused) {
  const auto read = [](const std::string& text) {
    std::istringstream in(text);
    return ReadComposition(in).status().code();
  };
  BOOST_TEST((read("") == absl::StatusCode::kNotFound));
  BOOST_TEST((read("case a\nend\n") == absl::StatusCode::kOk));
  BOOST_TEST((read("node x NoOp\n") == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((read("case a\nfetch x 0 float32[]{1}\nend\n") == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((read("case a\nstep\n") == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((read("case a\nnode x NoOp a=b=c\nend\n") == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((read("case a\nfeed x float32[2]{1}\nend\n") == absl::StatusCode::kInvalidArgument));
  BOOST_TEST((read("case a\nfeed x float32[2]{1 2 3}\nend\n") == absl::StatusCode::kInvalidArgument));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace differential_test
}  // namespace troupe::test
