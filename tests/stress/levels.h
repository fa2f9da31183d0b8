// What a round must give back: threads, open files, memory.
#ifndef TROUPE_TESTS_STRESS_LEVELS_H_
#define TROUPE_TESTS_STRESS_LEVELS_H_

#include <cstdint>
#include <vector>

#include "tests/stress/load.h"

namespace troupe::stress {

struct Levels {
  static Levels Now();
  int64_t threads = 0, files = 0, tensor_bytes = 0, resident = 0;
};

// Compares each round's end with the time before the first round.
class LevelWatch {
 public:
  // Before the first round.
  LevelWatch() : before_(Levels::Now()) {}
  // Between rounds, when nothing runs. Waits for threads that are about to end.
  void RoundIsOver(int64_t last_scenario);
  // Of a long run: memory that grows on and on.
  void End();
  Levels last() const { return last_; }

 private:
  const Levels before_;
  Levels last_;
  std::vector<int64_t> resident_;
};

}  // namespace troupe::stress

#endif  // TROUPE_TESTS_STRESS_LEVELS_H_
