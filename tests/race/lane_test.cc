// A lane whose actors are woken by other threads: each message is seen once, by the lane's thread
// alone, and none is missed.
#include <boost/test/unit_test.hpp>
#include <caf/ref_counted.hpp>

#include "actors/threads/lane.h"
#include "tests/race/threads.h"

namespace troupe::race {
namespace lane_test {

using Clock = std::chrono::steady_clock;

// An actor reduced to its mailbox's size. Whoever makes it non-empty queues the actor, as CAF's
// mailbox does.
class Counter : public caf::ref_counted, public caf::resumable {
 public:
  void Post(caf::execution_unit* home) {
    if (mail_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
    caf::intrusive_ptr_add_ref(static_cast<caf::resumable*>(this));
    home->exec_later(this);
  }
  resume_result resume(caf::execution_unit*, size_t throughput) override {
    for (size_t i = 0; i < throughput; ++i) {
      ++seen;
      if (mail_.fetch_sub(1, std::memory_order_acq_rel) == 1) return awaiting_message;
    }
    return resume_later;
  }
  void intrusive_ptr_add_ref_impl() override { references_.fetch_add(1, std::memory_order_relaxed); }
  void intrusive_ptr_release_impl() override { references_.fetch_sub(1, std::memory_order_relaxed); }
  int references() const { return references_.load(); }
  int seen = 0;  // plain: only the lane's thread may be here

 private:
  std::atomic<int> mail_{0}, references_{0};
};

BOOST_AUTO_TEST_CASE(a_lane_sees_every_message_once) {
  constexpr int kPosters = 4, kPosts = 2000, kActors = 3;
  // No actor system: everything stays on the lane.
  Lane lane(nullptr);
  Counter actors[kActors];
  lane.Own({&actors[0], &actors[1], &actors[2]});
  lane.Attach();
  BOOST_TEST(lane.IsAttached());
  std::thread posters([&] {
    RunThreads(kPosters, [&](int t) {
      for (int i = 0; i < kPosts; ++i) actors[(t + i) % kActors].Post(lane.remote());
    });
  });
  const auto sum = [&] { return actors[0].seen + actors[1].seen + actors[2].seen; };
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(60);
  int local = 0;
  while (sum() < kPosters * kPosts + local && Clock::now() < deadline) {
    if (local < 500) {
      ++local;
      actors[local % kActors].Post(&lane);  // from the lane's own thread
    }
    if (!lane.DrainSome() && sum() < kPosters * kPosts + local) lane.Wait();
  }
  posters.join();
  BOOST_TEST(sum() == kPosters * kPosts + local);
  for (const Counter& a : actors) BOOST_TEST(a.references() == 0);
  BOOST_TEST(!lane.DrainSome());
}

BOOST_AUTO_TEST_CASE(a_lane_may_go_as_soon_as_the_last_part_is_done) {
  for (int round = 0; round < 300; ++round) {
    auto lane = std::make_unique<Lane>(nullptr);
    std::atomic<int> parts{2};
    int result[2] = {0, 0};
    lane->Attach();
    std::thread others([&, remote = lane.get()] {
      RunThreads(2, [&](int t) {
        result[t] = t + 1;
        remote->WakeIf([&] { return parts.fetch_sub(1, std::memory_order_acq_rel) == 1; });
      });
    });
    // As a blocking Run: the count is looked at without the lock, and what came before it is read.
    while (parts.load(std::memory_order_acquire) > 0) lane->Wait();
    BOOST_TEST(result[0] + result[1] == 3);
    lane->Detach();
    lane.reset();
    others.join();
  }
}

}  // namespace lane_test
}  // namespace troupe::race
