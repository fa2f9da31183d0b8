// How long each case of cases/speed takes, with one thread. Not part of the suite: tools/test-op
// asks for an op's by name, and puts TensorFlow's time beside it.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>

#include "kernels/run_kernel.h"
#include "tests/cases/each_op.h"
#include "tests/ops/case_node.h"

namespace troupe::test {
namespace speed_test {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds of one run, the median of several samples of 50 ms.
template <class F>
double SecondsOf(const F& run) {
  constexpr int kSamples = 7;
  run();  // first choices and allocations
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    const Clock::time_point start = Clock::now();
    int runs = 0;
    do {
      run();
      ++runs;
    } while (SecondsSince(start) < 0.05);
    samples.push_back(SecondsSince(start) / runs);
  }
  std::nth_element(samples.begin(), samples.begin() + kSamples / 2, samples.end());
  return samples[kSamples / 2];
}

void Time(const std::string& op, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    Graph graph;
    const auto node = AddCaseNode(c, "timed", &graph);
    BOOST_REQUIRE_MESSAGE(node.ok(), c.where << ": " << node.status().ToString());
    Device* const device = EvaluationDevice(1);
    const auto kernel = PrepareKernel(**node, device, StrCat("speed of ", c.where));
    BOOST_REQUIRE_MESSAGE(kernel.ok(), c.where << ": " << kernel.status().ToString());
    const KernelNode described = DescribeNode(**node, device);
    StepContext step;
    const double seconds = SecondsOf([&] {
      const auto out = EvaluateKernel(*kernel, described, c.inputs, &step);
      BOOST_REQUIRE_MESSAGE(out.ok(), c.where << ": " << out.status().ToString());
    });
    BOOST_TEST_MESSAGE("speed of " << op << ": " << seconds << " s: " << c.text);
  }
}

const EachOp kSpeed("speed", {"speed"}, Time, __FILE__, __LINE__, EachOp::kWhenNamed);

}  // namespace speed_test
}  // namespace troupe::test
