#include "tests/stress/levels.h"

#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/stress/faults.h"
#include "tests/sanitizers/sanitized.h"
#include "troupe/buffer.h"

namespace troupe::stress {
namespace {

using namespace std::chrono_literals;

// Small blocks are counted by the slabs that were ever cut for them, so the count may grow by what
// a round uses at once.
constexpr int64_t kTensorSlack = int64_t{48} << 20;
// How much a process may grow in a long run after its first third, once free memory has been given
// back.
constexpr int64_t kResidentSlack = int64_t{64} << 20;
constexpr size_t kLongRun = 60;  // rounds

int64_t CountEntries(const char* folder) {
  int64_t n = 0;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error))
    ++n;
  return n;
}

}  // namespace

Levels Levels::Now() {
  Levels l;
  l.threads = CountEntries("/proc/self/task");
  l.files = CountEntries("/proc/self/fd");
  l.tensor_bytes = Allocator::Cpu()->stats().bytes_in_use;
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  l.resident = resident * 4096;
  return l;
}

void LevelWatch::RoundIsOver(int64_t last_scenario) {
  const TimePoint begin = Clock::now();
  do {
    last_ = Levels::Now();
    if (last_.threads <= before_.threads && last_.files <= before_.files &&
        last_.tensor_bytes <= before_.tensor_bytes + kTensorSlack)
      break;
    std::this_thread::sleep_for(2ms);
  } while (MillisSince(begin) < Load::Get().Margin(begin));
  const auto more = [&](const char* what, int64_t now, int64_t before) {
    if (now > before)
      Fault(last_scenario, what,
            std::to_string(now) + " after the round, " + std::to_string(before) + " at the beginning");
  };
  more("threads are left", last_.threads, before_.threads);
  more("open files are left", last_.files, before_.files);
  more("memory of tensors is left", last_.tensor_bytes, before_.tensor_bytes + kTensorSlack);
  Allocator::Cpu()->Trim();
  malloc_trim(0);
  resident_.push_back(Levels::Now().resident);
}

void LevelWatch::End() {
#if !TROUPE_TEST_ASAN && !TROUPE_TEST_TSAN
  if (resident_.size() < kLongRun) return;
  const auto lowest = [&](size_t from, size_t to) {
    return *std::min_element(resident_.begin() + static_cast<int64_t>(from),
                             resident_.begin() + static_cast<int64_t>(to));
  };
  const size_t n = resident_.size();
  const int64_t then = lowest(n / 3, 2 * n / 3), now = lowest(2 * n / 3, n);
  if (now > then + kResidentSlack)
    Fault(-1, "the process grows",
          std::to_string(then >> 20) + " MB in the second third of its life, " + std::to_string(now >> 20) +
              " MB in the last");
#endif
}

}  // namespace troupe::stress
