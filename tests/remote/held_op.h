// What tests of steps on several processes share: a kernel that the test ends, and silence.
//
// Thread rule: the stage's thread.
#ifndef TROUPE_TESTS_REMOTE_HELD_OP_H_
#define TROUPE_TESTS_REMOTE_HELD_OP_H_

#include <spdlog/spdlog.h>

#include <vector>

#include "troupe/kernel.h"

namespace troupe {

// RemoteHeld: its kernel does not return, whatever its step is told, until the test lets it.
// The calls of those that run.
std::vector<DoneFn>& HeldCalls();
// Ends the first; REQUIRES: there is one. The others are forgotten.
void LetGo();

// What is logged while it lives is lost.
struct Quiet {
  Quiet() { spdlog::set_level(spdlog::level::off); }
  ~Quiet() { spdlog::set_level(level); }
  const spdlog::level::level_enum level = spdlog::get_level();
};

}  // namespace troupe

#endif  // TROUPE_TESTS_REMOTE_HELD_OP_H_
