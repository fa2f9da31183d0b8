// Loops and jobs of several callers on the same compute threads.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/race/threads.h"
#include "troupe/compute_threads.h"

namespace troupe::race {
namespace compute_threads_test {

BOOST_AUTO_TEST_CASE(loops_of_many_callers_cover_their_ranges) {
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

BOOST_AUTO_TEST_CASE(loops_in_loops_make_progress) {
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

// Looks until `ready` or for five seconds.
template <class F>
bool Soon(F&& ready) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_job_works_on_its_loops_and_on_no_others) {
  ComputeThreads threads(2);
  int owner = 0, stranger = 0;
  const std::thread::id here = std::this_thread::get_id();
  for (int round = 0; round < 50; ++round) {
    // The only worker has the job; its loop is over when two threads have been in a range at once.
    std::atomic<int> inside{0};
    std::atomic<bool> begun{false}, over{false}, met{false}, foreign_here{false};
    threads.Schedule([&] {
      {
        const ComputeThreads::LoopOwner other(&stranger);
        threads.ParallelRanges(4, 4, [&](int64_t, int64_t) {
          if (std::this_thread::get_id() == here) foreign_here = true;
          begun = true;
        });
      }
      const ComputeThreads::LoopOwner mine(&owner);
      threads.ParallelRanges(2, 2, [&](int64_t, int64_t) {
        inside.fetch_add(1);
        if (Soon([&] { return inside.load() == 2; })) met = true;
      });
      over = true;
    });
    BOOST_REQUIRE(Soon([&] {
      threads.Help(&owner, [&] { return over.load(); });
      return over.load();
    }));
    BOOST_TEST(met.load());
    BOOST_TEST(begun.load());
    BOOST_TEST(!foreign_here.load());
  }
}

BOOST_AUTO_TEST_CASE(who_helps_comes_back_when_there_is_nothing_to_do) {
  ComputeThreads threads(2);
  int owner = 0, asked = 0;
  threads.Help(&owner, [&] { return ++asked < 0; });
  BOOST_TEST(asked > 0);
  asked = 0;
  threads.Help(&owner, [&] { return ++asked == 1; });
  BOOST_TEST(asked == 1);
}

BOOST_AUTO_TEST_CASE(who_helps_comes_back_although_others_begin_loops) {
  ComputeThreads threads(2);
  int owner = 0;
  const auto start = std::chrono::steady_clock::now();
  bool late = false;
  threads.Help(&owner, [&] {
    threads.ParallelRanges(2, 2, [](int64_t, int64_t) {});  // as another thread might, each time that it looks
    return late = std::chrono::steady_clock::now() - start > std::chrono::seconds(5);
  });
  BOOST_TEST(!late);
}

BOOST_AUTO_TEST_CASE(an_exception_out_of_a_range_reaches_who_began_the_loop) {
  for (const int n : {1, 3}) {
    ComputeThreads threads(n);
    for (int round = 0; round < 50; ++round) {
      std::vector<int> ran(8);
      const auto loop = [&] {
        threads.ParallelRanges(8, 8, [&](int64_t begin, int64_t) {
          ran[begin] = 1;
          if (begin % 2 == 1) throw std::runtime_error("odd");
        });
      };
      BOOST_CHECK_EXCEPTION(loop(), std::runtime_error, [](const auto& e) { return std::string(e.what()) == "odd"; });
      BOOST_TEST(std::accumulate(ran.begin(), ran.end(), 0) == 8);  // nobody is left inside
    }
  }
}

BOOST_AUTO_TEST_CASE(every_job_runs_once_and_before_the_threads_go) {
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

BOOST_AUTO_TEST_CASE(turns_have_a_thread_of_their_own_also_where_there_is_one) {
  ComputeThreads threads(1);
  BOOST_REQUIRE(threads.StartTurns());
  const std::thread::id me = std::this_thread::get_id();
  std::promise<std::thread::id> ran;
  threads.ScheduleTurn([&] { ran.set_value(std::this_thread::get_id()); });
  BOOST_TEST((ran.get_future().get() != me));
  // Jobs are the caller's all the same, and loops too.
  std::thread::id job;
  threads.Schedule([&] { job = std::this_thread::get_id(); });
  BOOST_TEST((job == me));
  BOOST_TEST(!threads.HasIdleWorker());
  BOOST_TEST(!threads.WantsJobs());
}

// The only worker is busy: whoever waits for the jobs takes them back, and no others.
BOOST_AUTO_TEST_CASE(who_helps_runs_its_own_jobs_that_nobody_has_begun) {
  ComputeThreads threads(2);
  std::promise<void> begun, go_on;
  threads.Schedule([&] {
    begun.set_value();
    go_on.get_future().wait_for(std::chrono::seconds(60));
  });
  begun.get_future().wait();
  BOOST_TEST(!threads.HasIdleWorker());
  BOOST_TEST(threads.WantsJobs());
  int owner = 0, other = 0;
  const std::thread::id me = std::this_thread::get_id();
  std::atomic<int> mine{0}, others{0};
  std::promise<void> last;
  threads.Schedule([&] { ++others; }, &other);
  BOOST_TEST(!threads.WantsJobs());
  for (int i = 0; i < 3; ++i) threads.Schedule([&] { mine += std::this_thread::get_id() == me; }, &owner);
  threads.Schedule([&] { last.set_value(); }, &other);
  threads.Help(&owner, [&] { return mine == 3; });
  BOOST_TEST(mine == 3);
  BOOST_TEST(others == 0);
  go_on.set_value();
  last.get_future().wait();
  BOOST_TEST(others == 1);
}

// Of an owner whose jobs do not return: one for each that has begun, those alone, and once.
BOOST_AUTO_TEST_CASE(another_worker_takes_the_place_of_each_that_does_not_come_back) {
  ComputeThreads threads(3);
  int stuck = 0, other = 0;
  std::promise<void> go_on;
  const std::shared_future<void> may_go = go_on.get_future().share();
  std::atomic<int> begun{0}, ended{0};
  const auto job = [&] {
    ++begun;
    may_go.wait_for(std::chrono::seconds(60));
    ++ended;
  };
  for (int i = 0; i < 3; ++i) threads.Schedule(job, &stuck);
  BOOST_REQUIRE(Soon([&] { return begun == 2; }));
  BOOST_TEST(threads.LoseWorkers({&other}) == 0);
  threads.DropJobs(&other);
  threads.DropJobs(&stuck);
  BOOST_TEST(threads.LoseWorkers({&other, &stuck}) == 2);
  BOOST_TEST(threads.LoseWorkers({&stuck}) == 0);
  // Two are here to work at once, as before.
  const auto both_work = [&] {
    std::atomic<int> inside{0}, met{0};
    for (int i = 0; i < 2; ++i) {
      threads.Schedule([&] {
        ++inside;
        met += Soon([&] { return inside == 2; });
      });
    }
    return Soon([&] { return met == 2; });
  };
  BOOST_TEST(both_work());
  BOOST_TEST(begun == 2);  // the third was dropped
  go_on.set_value();
  BOOST_REQUIRE(Soon([&] { return ended == 2; }));
  BOOST_TEST(both_work());
}

BOOST_AUTO_TEST_CASE(a_job_that_is_dropped_is_destroyed_once) {
  ComputeThreads threads(2);
  int owner = 0;
  std::promise<void> go_on, begun;
  threads.Schedule([&] {
    begun.set_value();
    go_on.get_future().wait_for(std::chrono::seconds(60));
  });
  begun.get_future().wait();
  std::atomic<int> destroyed{0}, ran{0};
  for (int i = 0; i < 3; ++i) {
    std::shared_ptr<void> share(nullptr, [&](void*) {
      ++destroyed;
      BOOST_TEST(!ComputeThreads::OnWorker());
      (void)threads.LoseWorkers({&owner});  // without the lock
    });
    threads.Schedule([&, share] { ++ran; }, &owner);
  }
  std::promise<bool> last;
  threads.Schedule([&] { last.set_value(ComputeThreads::OnWorker()); });
  threads.DropJobs(&owner);
  BOOST_TEST(destroyed == 3);
  go_on.set_value();
  BOOST_TEST(last.get_future().get());
  BOOST_TEST(ran == 0);
}

BOOST_AUTO_TEST_CASE(whoever_ends_the_threads_need_not_wait_for_a_job_that_does_not_return) {
  auto go_on = std::make_shared<std::promise<void>>();
  auto begun = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  {
    ComputeThreads threads(2);
    threads.Schedule([=] {
      begun->set_value();
      go_on->get_future().wait_for(std::chrono::seconds(60));
      ended->set_value();
    });
    begun->get_future().wait();
    BOOST_TEST(!threads.Stop(std::chrono::milliseconds(1)));
  }
  go_on->set_value();
  BOOST_TEST((ended->get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready));
  ComputeThreads threads(2);
  BOOST_TEST(threads.Stop(std::chrono::seconds(60)));
}

BOOST_AUTO_TEST_CASE(who_has_left_the_threads_may_wait_for_them_later) {
  ComputeThreads threads(2);
  auto go_on = std::make_shared<std::promise<void>>();
  auto begun = std::make_shared<std::promise<void>>();
  std::atomic<bool> ended{false};
  threads.Schedule([&ended, go_on, begun] {
    begun->set_value();
    go_on->get_future().wait_for(std::chrono::seconds(60));
    ended = true;
  });
  begun->get_future().wait();
  BOOST_TEST(!threads.Stop(std::chrono::milliseconds(1)));
  BOOST_TEST(!threads.Stop(std::chrono::milliseconds(1)));
  go_on->set_value();
  BOOST_TEST(threads.Stop(std::chrono::seconds(60)));
  BOOST_TEST(ended);
}

BOOST_AUTO_TEST_CASE(an_exception_out_of_a_job_ends_nobody) {
  ComputeThreads threads(2);
  threads.Schedule([] { throw std::runtime_error("a job's"); });
  std::promise<void> next;
  threads.Schedule([&] { next.set_value(); });
  BOOST_TEST((next.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready));
}

}  // namespace compute_threads_test
}  // namespace troupe::race
