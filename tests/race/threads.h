// Plain threads that start together, for tests that drive one structure of the runtime from many
// sides.
//
// These tests are for ThreadSanitizer as much as for their own checks. So they touch shared data
// the way the structure's users do, without locks or atomics of their own around it: what orders
// two accesses must be the structure under test. CAF as packaged is not instrumented, so nothing
// here sends a message; tests that need whole sessions are left out of a build with
// ThreadSanitizer.
#ifndef TROUPE_TESTS_RACE_THREADS_H_
#define TROUPE_TESTS_RACE_THREADS_H_

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/sanitizers/sanitized.h"

namespace troupe::race {

// Runs f(0) .. f(n - 1), each on a thread of its own, and waits for all.
inline void RunThreads(int n, const std::function<void(int)>& f) {
  std::atomic<int> there{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      // Relaxed: the start orders nothing but time.
      there.fetch_add(1, std::memory_order_relaxed);
      while (there.load(std::memory_order_relaxed) < n) std::this_thread::yield();
      f(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

// Counts what went wrong on any thread: the checks of the test library are for one thread.
class Wrong {
 public:
  void Unless(bool ok) {
    if (!ok) count_.fetch_add(1, std::memory_order_relaxed);
  }
  int count() const { return count_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> count_{0};
};

}  // namespace troupe::race

#endif  // TROUPE_TESTS_RACE_THREADS_H_
