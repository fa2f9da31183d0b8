// State that kernels of many steps look up, clear and share: containers, caches of them, random
// streams.
#include <boost/test/unit_test.hpp>
#include <set>

#include "kernels/random/random_state.h"
#include "tests/race/threads.h"
#include "troupe/resource_container.h"

namespace troupe::race {
namespace {

struct Thing : Resource {
  explicit Thing(std::atomic<int>* alive) : alive(alive) { alive->fetch_add(1, std::memory_order_relaxed); }
  ~Thing() override { alive->fetch_sub(1, std::memory_order_relaxed); }
  std::string DebugString() const override { return "a thing"; }
  std::atomic<int>* const alive;
  const int mark = 17;  // plain: seen whole by whoever finds the entry
};
struct Other : Resource {
  std::string DebugString() const override { return "another"; }
};

BOOST_AUTO_TEST_CASE(an_entry_is_made_once) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<int> alive{0};  // outlives the things
    ResourceContainers containers;
    std::atomic<Thing*> first{nullptr};
    Wrong wrong;
    RunThreads(4, [&](int t) {
      auto thing = containers.LookUpOrCreate<Thing>("c", "n", [&] { return std::make_shared<Thing>(&alive); });
      wrong.Unless(thing.ok() && (*thing)->mark == 17);
      Thing* expected = nullptr;
      wrong.Unless(first.compare_exchange_strong(expected, thing->get(), std::memory_order_relaxed) ||
                   expected == thing->get());
      wrong.Unless(!containers.LookUp<Other>("c", "n").ok());
    });
    BOOST_TEST(alive == 1);
    BOOST_TEST(wrong.count() == 0);
  }
}

BOOST_AUTO_TEST_CASE(caches_follow_cleared_containers) {
  constexpr int kRounds = 1500;
  std::atomic<int> alive{0};
  ResourceContainers containers;
  ResourceCache<Thing> caches[2];  // two kernels of the same entry
  Wrong wrong;
  RunThreads(5, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      switch (t) {
        case 0:
          if (i % 16 == 0) containers.Clear("c");
          break;
        case 1:
          if (i % 16 == 0) (void)containers.Delete("c", "n");
          wrong.Unless(containers.List().size() <= 1);
          break;
        default: {
          auto thing = caches[t % 2].Get(&containers, "c", "n", [&] { return std::make_shared<Thing>(&alive); });
          wrong.Unless(thing.ok() && (*thing)->mark == 17);
        }
      }
    }
  });
  BOOST_TEST(wrong.count() == 0);
  // After the last clearing, all caches agree again.
  containers.ClearAll();
  BOOST_TEST(!containers.used());
  const auto make = [&] { return std::make_shared<Thing>(&alive); };
  BOOST_TEST((*caches[0].Get(&containers, "c", "n", make) == *caches[1].Get(&containers, "c", "n", make)));
  BOOST_TEST(alive == 1);
}

BOOST_AUTO_TEST_CASE(a_stream_gives_every_stretch_once) {
  constexpr int kThreads = 4, kTakes = 500;
  random::RandomState state(7, 11, Env::Default());
  std::vector<std::vector<random::Philox::Words>> taken(kThreads);
  RunThreads(kThreads, [&](int t) {
    for (int i = 0; i < kTakes; ++i) {
      const uint64_t length = 1 + (i + t) % 3;
      random::Philox p = state.Reserve(length);
      for (uint64_t k = 0; k < length; ++k) taken[t].push_back(p());
    }
  });
  std::set<random::Philox::Words> all, expected;
  size_t count = 0;
  for (const auto& words : taken) {
    count += words.size();
    all.insert(words.begin(), words.end());
  }
  random::RandomState again(7, 11, Env::Default());
  random::Philox p = again.Reserve(count);
  for (size_t i = 0; i < count; ++i) expected.insert(p());
  BOOST_TEST(all.size() == count);
  BOOST_TEST((all == expected));
}

}  // namespace
}  // namespace troupe::race
