// The actor system by which fuzzers write messages as bytes, and read them.
//
// Thread rule: thread safe.
#ifndef TROUPE_TESTS_FUZZ_MESSAGES_SYSTEM_H_
#define TROUPE_TESTS_FUZZ_MESSAGES_SYSTEM_H_

#include <caf/all.hpp>

namespace troupe::fuzz {

// Never destroyed: its threads would be counted as leaks of the last input.
inline caf::actor_system& System() {
  static caf::actor_system& system = *[] {
    static auto* config = new caf::actor_system_config;
    config->set("scheduler.max-threads", 1u);
    return new caf::actor_system(*config);
  }();
  return system;
}

}  // namespace troupe::fuzz

#endif  // TROUPE_TESTS_FUZZ_MESSAGES_SYSTEM_H_
