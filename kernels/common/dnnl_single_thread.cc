#include "kernels/common/dnnl_single_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <dnnl.h>

#include "kernels/device/when_threads_are_made.h"

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
void RegisterAfter(std::atomic<int64_t>* events) {
  constexpr int64_t kEnough = 4096;
  const int64_t n = events->fetch_add(1, std::memory_order_relaxed) + 1;
  if (n <= kEnough && (n & (n - 1)) == 0) (void)std::atexit(AwaitCalls);
}
void NoteCall() { RegisterAfter(&calls); }

// The objects that a call makes while it is under way are destroyed before anything that was
// registered until then, and at once when they are made while the process ends. But thread-local
// objects of the thread that ends it, which is the main thread as a rule, go before all of these.
struct AwaitsCalls {
  ~AwaitsCalls() {
    if (gettid() == getpid()) AwaitCalls();
  }
};
void RuntimeMade() {
  static thread_local const AwaitsCalls at_end;
  // For a main thread that has made no runtime.
  static std::atomic<int64_t> runtimes{0};
  RegisterAfter(&runtimes);
}
[[maybe_unused]] const bool registered = [] {
  when_threads_are_made.store(RuntimeMade);
  // Calls of the other threads are not the child's.
  (void)pthread_atfork(nullptr, nullptr, [] { under_way = 0; });
  return true;
}();

void FirstCall() {
  const float a = 1, b = 1;
  float c = 0;
  (void)dnnl_sgemm('N', 'N', 1, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  NoteCall();
}

}  // namespace

DnnlSingleThread::DnnlSingleThread() {
  saved_ = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (saved_ != 1) omp_set_num_threads(1);
  under_way.fetch_add(1);
  // Either this thread sees that the process ends, or the end sees this call.
  if (ending.load()) [[unlikely]] {
    if (std::this_thread::get_id() != ends_on) {
      under_way.fetch_sub(1);
      Park();
      under_way.fetch_add(1);
    }
  }
  static std::once_flag first;
  std::call_once(first, FirstCall);
}
DnnlSingleThread::~DnnlSingleThread() {
  if (saved_ != 1) omp_set_num_threads(saved_);
  NoteCall();
  under_way.fetch_sub(1);
}

}  // namespace troupe
