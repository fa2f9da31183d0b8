// How a program of this folder takes its samples: when it is told to.
//
// Problem: on a machine that others use too, two programs that run one after the other were not
// measured under the same conditions. So tools/bench starts ours and the rival's side by side and
// asks them in turn: a program prepares, prints one line of JSON (what it found out so far), and
// then, for each line that it reads, takes one sample and prints it as one number; at the end of
// its input it may print a last line of JSON. While it waits it uses no processor.
//
// Thread rule: for main() only.
#ifndef TROUPE_TOOLS_BENCHMARKS_SERVE_H_
#define TROUPE_TOOLS_BENCHMARKS_SERVE_H_

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace troupe::bench {

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Processor time of this process in seconds.
inline double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
inline double WallSeconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Seconds of one call of `run`: `seconds` long it is called, in pieces of about two milliseconds,
// and the median piece counts. A piece is shorter than a time slice, so that on a machine that
// others use too most pieces were not interrupted. With `now` = CpuSeconds it is processor time,
// which is the better measure of calls of many milliseconds that use one thread.
inline double Sample(double seconds, const std::function<void()>& run, double (*now)() = WallSeconds) {
  constexpr double kPiece = 2e-3;
  const double start = now();
  run();
  const double once = now() - start + 1e-9;
  const int calls = once >= kPiece ? 1 : static_cast<int>(kPiece / once) + 1;
  std::vector<double> pieces;
  do {
    const double begin = now();
    for (int i = 0; i < calls; ++i) run();
    pieces.push_back((now() - begin) / calls);
  } while (now() - start < seconds);
  const auto middle = pieces.begin() + static_cast<std::ptrdiff_t>(pieces.size() / 2);
  std::nth_element(pieces.begin(), middle, pieces.end());
  return *middle;
}

// `head` is printed first; `sample` gives a number; what `tail` gives, if it is there, is printed
// last.
inline int Serve(const std::string& head, const std::function<double()>& sample,
                 const std::function<std::string()>& tail = nullptr) {
  std::printf("%s\n", head.c_str());
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    std::printf("%.9g\n", sample());
    std::fflush(stdout);
  }
  if (tail) std::printf("%s\n", tail().c_str());
  std::fflush(stdout);
  return 0;
}

// Peak resident memory of this process in bytes.
inline double PeakMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}
// Resident memory now, in bytes.
inline double MemoryNow() {
  long pages = 0, resident = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(f);
  }
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_SERVE_H_
