#include "kernels/common/dnnl_single_thread.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

// OpenMP comes with the library, or not at all when it was built on another threading runtime:
// hence weak.
extern "C" {
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::atomic<int> under_way{0};
std::atomic<int64_t> calls{0};

void AwaitCalls() {
  // A kernel may make several calls, one after the other: none is seen for a while before the exit
  // goes on.
  constexpr int kQuiet = 10;
  // Of all handlers together.
  static const auto patience = std::chrono::steady_clock::now() + 30s;
  for (int quiet = 0; std::chrono::steady_clock::now() < patience;) {
    const bool busy = under_way.load(std::memory_order_acquire) > 0;
    if (busy) quiet = 0;
    if (quiet++ >= kQuiet) return;
    std::this_thread::sleep_for(100us);
  }
}

// What is registered last runs first. oneDNN makes objects in its first calls that are destroyed at
// exit, so this is registered before the first call, in case the process ends within it, and after
// that call and others, ever more rarely.
void NoteCall() {
  constexpr int64_t kEnough = 4096;
  const int64_t n = calls.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n == 1) {
    // Calls of the other threads are not the child's.
    (void)pthread_atfork(nullptr, nullptr, [] { under_way = 0; });
  }
  if (n <= kEnough && (n & (n - 1)) == 0) (void)std::atexit(AwaitCalls);
}

}  // namespace

DnnlSingleThread::DnnlSingleThread() {
  if (calls.load(std::memory_order_relaxed) == 0) NoteCall();
  under_way.fetch_add(1, std::memory_order_relaxed);
  saved_ = omp_get_max_threads ? omp_get_max_threads() : 1;
  if (saved_ != 1) omp_set_num_threads(1);
}
DnnlSingleThread::~DnnlSingleThread() {
  if (saved_ != 1) omp_set_num_threads(saved_);
  NoteCall();
  under_way.fetch_sub(1, std::memory_order_release);
}

}  // namespace troupe
