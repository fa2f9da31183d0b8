// Loops and jobs of several callers on the same compute threads.
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "race/threads.h"
#include "troupe/kernels/device/compute_threads.h"

namespace troupe::race {
namespace {

BOOST_AUTO_TEST_CASE(LoopsOfManyCallersCoverTheirRanges) {
  constexpr int kCallers = 3, kRounds = 200;
  constexpr int64_t kN = 1000;
  ComputeThreads threads(4);
  Wrong wrong;
  RunThreads(kCallers, [&](int t) {
    std::vector<int64_t> values(kN);  // plain: written by whoever runs the range, read by the caller after
    for (int round = 0; round < kRounds; ++round) {
      threads.ParallelRanges(kN, 1 + round % 9, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[i] = i * (t + 1) + round;
      });
      const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
      wrong.Unless(sum == kN * (kN - 1) / 2 * (t + 1) + kN * round);
    }
  });
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(LoopsInLoopsMakeProgress) {
  ComputeThreads threads(3);
  Wrong wrong;
  for (int round = 0; round < 50; ++round) {
    std::vector<int> values(8 * 64);
    threads.ParallelRanges(8, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        threads.ParallelRanges(64, 4, [&](int64_t b, int64_t e) {
          for (int64_t k = b; k < e; ++k) values[i * 64 + k] += 1;
        });
      }
    });
    for (const int v : values) wrong.Unless(v == 1);
  }
  BOOST_TEST(wrong.count() == 0);
}

BOOST_AUTO_TEST_CASE(EveryJobRunsOnceAndBeforeTheThreadsGo) {
  for (int round = 0; round < 20; ++round) {
    constexpr int kCallers = 3, kJobs = 100;
    std::vector<int> ran(kCallers * kJobs);  // plain: read after the threads were joined
    {
      ComputeThreads threads(3);
      RunThreads(kCallers, [&](int t) {
        for (int i = 0; i < kJobs; ++i) {
          auto owned = std::make_unique<int>(i);
          threads.Schedule([&ran, slot = t * kJobs + i, value = std::shared_ptr<int>(std::move(owned))] {
            ran[slot] += *value + 1;
          });
          (void)threads.HasIdleWorker();
        }
      });
    }
    for (int i = 0; i < kCallers * kJobs; ++i) BOOST_REQUIRE_EQUAL(ran[i], i % kJobs + 1);
  }
}

}  // namespace
}  // namespace troupe::race
