#include "actors/threads/process.h"

#include <pthread.h>

namespace troupe {

std::atomic<int> process_number{0};

void CountForks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { process_number.fetch_add(1, std::memory_order_relaxed); });
}

absl::Status OfAnotherProcess(std::string_view what) {
  return FailedPrecondition(
      "the ", what,
      " was made before the process forked, and its threads stayed with the parent: ", "make one in the child");
}

}  // namespace troupe
