#include "kernels/common/dnnl_single_thread.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <dnnl.h>

// OpenMP comes with the library, or not at all when it was built on another threading runtime:
// hence weak.
extern "C" {
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 30s;
std::atomic<int> under_way{0};
std::atomic<int64_t> calls{0};
// The process ends, on that thread.
std::atomic<bool> ending{false};
std::thread::id ends_on;

void AwaitCalls() {
  if (!ending.load()) {
    ends_on = std::this_thread::get_id();
    ending.store(true);
  }
  // Of all handlers together.
  static const auto until = std::chrono::steady_clock::now() + kPatience;
  while (under_way.load() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
}

// A call that would begin while the process ends is held back. Bounded, in case the thread that
// ends the process waits for what this one does.
void Park() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
}

// What is registered last runs first. oneDNN makes objects in its first calls that are destroyed at
// exit, so this is registered after calls 1, 2, 4 and so on; and after a call of our own before the
// first, since the process may end within that one.
void NoteCall() {
  constexpr int64_t kEnough = 4096;
  const int64_t n = calls.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n <= kEnough && (n & (n - 1)) == 0) (void)std::atexit(AwaitCalls);
}

void FirstCall() {
  // Calls of the other threads are not the child's.
  (void)pthread_atfork(nullptr, nullptr, [] { under_way = 0; });
  const float a = 1, b = 1;
  float c = 0;
  (void)dnnl_sgemm('N', 'N', 1, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  NoteCall();
}

}  // namespace

DnnlSingleThread::DnnlSingleThread() {
  saved_ = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (saved_ != 1) omp_set_num_threads(1);
  static std::once_flag first;
  std::call_once(first, FirstCall);
  under_way.fetch_add(1);
  // Either this thread sees that the process ends, or the end sees this call.
  if (ending.load()) [[unlikely]] {
    if (std::this_thread::get_id() != ends_on) {
      under_way.fetch_sub(1);
      Park();
      under_way.fetch_add(1);
    }
  }
}
DnnlSingleThread::~DnnlSingleThread() {
  if (saved_ != 1) omp_set_num_threads(saved_);
  NoteCall();
  under_way.fetch_sub(1);
}

}  // namespace troupe
