// How a program of this folder takes its samples: when it is told to.
//
// Problem: on a machine that others use too, two programs that run one after the other were not measured under the same conditions. So tools/bench
// starts ours and the rival's side by side and asks them in turn: a program prepares, prints one line of JSON (what it found out so far), and then, for each line that
// it reads, takes one sample and prints it as one number; at the end of its input it may print a last line of JSON. While it waits it uses no processor.
//
// Thread rule: for main() only.
#ifndef TROUPE_TOOLS_BENCHMARKS_SERVE_H_
#define TROUPE_TOOLS_BENCHMARKS_SERVE_H_

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

namespace troupe::bench {

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds of one call of `run`, from as many calls as fit into `seconds`.
inline double Sample(double seconds, const std::function<void()>& run) {
  const Clock::time_point probe = Clock::now();
  run();
  const double once = SecondsSince(probe);
  const int calls = once >= seconds ? 1 : static_cast<int>(seconds / (once + 1e-9)) + 1;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < calls; ++i) run();
  return SecondsSince(start) / calls;
}

// `head` is printed first; `sample` gives a number.
inline int Serve(const std::string& head, const std::function<double()>& sample) {
  std::printf("%s\n", head.c_str());
  std::fflush(stdout);
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    std::printf("%.9g\n", sample());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_SERVE_H_
