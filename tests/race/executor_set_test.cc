// The slots in which a signature keeps its free sets of executors: a set belongs to one caller at a
// time.
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>

#include "actors/signature/signature.h"
#include "tests/race/threads.h"

namespace troupe::race {
namespace executor_set_test {

// A signature without parts, so that its sets spawn no actors.
struct Slots {
  Slots() {
    signature->fetches = {"x:0"};
    signature->system = &System();
    signature->closed = std::make_shared<std::atomic<bool>>(false);
  }
  // Never sent a message, and never ended: the end of a system of actors is CAF's own affair, which
  // ThreadSanitizer does not understand.
  static caf::actor_system& System() {
    static auto* config = new caf::actor_system_config;
    static auto* system = new caf::actor_system(*config);
    return *system;
  }
  std::shared_ptr<Signature> signature = std::make_shared<Signature>();
};

BOOST_FIXTURE_TEST_CASE(a_set_is_leased_to_one_thread_at_a_time, Slots) {
  constexpr int kThreads = 6, kRounds = 3000;
  std::atomic<ExecutorSet*> held[kThreads] = {};
  Wrong wrong;
  RunThreads(kThreads, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      if (t == 0 && i % 64 == 0) signature->AbortAll(absl::CancelledError("nothing runs"));
      std::vector<Signature::Asked> asked;
      if (t == 1 && i % 64 == 0) signature->Ask([](const auto&) {}, &asked);
      std::unique_ptr<ExecutorSet> set = signature->Lease();
      held[t].store(set.get(), std::memory_order_relaxed);
      for (int o = 0; o < kThreads; ++o) wrong.Unless(o == t || held[o].load(std::memory_order_relaxed) != set.get());
      wrong.Unless(!set->running() && set->usable());
      held[t].store(nullptr, std::memory_order_relaxed);
      signature->Release(std::move(set));
    }
  });
  BOOST_TEST(wrong.count() == 0);
}

BOOST_FIXTURE_TEST_CASE(sets_are_gone_after_the_end_of_their_session, Slots) {
  for (int round = 0; round < 50; ++round) {
    signature->closed->store(false);
    RunThreads(4, [&](int t) {
      for (int i = 0; i < 40; ++i) {
        std::unique_ptr<ExecutorSet> set = signature->Lease();
        if (t == 0 && i == 20) signature->closed->store(true);
        if (t == 1) signature->AbortAll(absl::CancelledError("the session was closed"));
        signature->Release(std::move(set));
      }
    });
  }
  BOOST_TEST(signature.use_count() == 1);
}

}  // namespace executor_set_test
}  // namespace troupe::race
