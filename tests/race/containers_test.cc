// State that kernels of many steps look up, clear and share: containers, caches of them, random
// streams.
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kernels/device/droppable.h"
#include "kernels/random/random_state.h"
#include "tests/race/threads.h"
#include "troupe/resource_container.h"

namespace troupe::race {
namespace containers_test {

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

struct Told : Resource, Droppable {
  std::string DebugString() const override { return "one that is told"; }
  void Drop() const noexcept override {
    if (asks != nullptr) (void)asks->List();  // no lock is held
    drops.fetch_add(1, std::memory_order_relaxed);
  }
  ResourceContainers* asks = nullptr;
  mutable std::atomic<int> drops{0};
};

BOOST_AUTO_TEST_CASE(who_leaves_a_container_is_told) {
  ResourceContainers containers;
  const auto make = [&](const std::function<void()>& meanwhile = nullptr) {
    return containers
        .LookUpOrCreate<Told>("c", "n",
                              [&] {
                                if (meanwhile) meanwhile();
                                auto made = std::make_shared<Told>();
                                made->asks = &containers;
                                return made;
                              })
        .value();
  };
  const auto cleared = make();
  containers.Clear("other");
  BOOST_TEST(cleared->drops == 0);
  containers.Clear("c");
  BOOST_TEST(cleared->drops == 1);
  const auto deleted = make();
  BOOST_TEST(containers.Delete("c", "n").ok());
  BOOST_TEST(deleted->drops == 1);
  const auto replaced = make(), next = std::make_shared<Told>();
  BOOST_TEST(containers.Put({{"c", "n", next}}, {}).ok());
  BOOST_TEST(replaced->drops == 1);
  // One that is put where it stood has not left.
  BOOST_TEST(containers.Put({{"c", "n", next}}, {"c"}).ok());
  BOOST_TEST(next->drops == 0);
  BOOST_TEST(containers.Put({}, {"c"}).ok());
  BOOST_TEST(next->drops == 1);
  // One that comes too late has never been there.
  BOOST_TEST(make([&] { containers.Clear("c"); })->drops == 1);
  BOOST_TEST(containers.List().empty());
}

// However clearing and making meet, whoever was given a resource that nobody else finds is told.
BOOST_AUTO_TEST_CASE(nobody_leaves_a_container_untold) {
  ResourceContainers containers;
  std::mutex mu;
  std::set<std::shared_ptr<Told>> given;
  RunThreads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      if (t == 0) {
        containers.Clear("c");
        continue;
      }
      auto one = containers.LookUpOrCreate<Told>("c", "n", [] { return std::make_shared<Told>(); }).value();
      std::lock_guard<std::mutex> lock(mu);
      given.insert(std::move(one));
    }
  });
  containers.Clear("c");
  int untold = 0;
  for (const auto& each : given) untold += each->drops == 1 ? 0 : 1;
  BOOST_TEST(untold == 0);
}

// Each makes an entry that asks for what the next one makes, all at the same time. Whoever would
// close the circle gets an error; all others get what they ask for.
BOOST_AUTO_TEST_CASE(those_who_make_what_the_others_ask_for_do_not_wait_for_ever) {
  for (const int threads : {1, 2, 3, 5}) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> alive{0}, begun{0}, refused{0};
      std::vector<ResourceContainers> containers(2);  // they may be of different devices
      const auto name = [&](int t) { return StrCat("n", t % threads); };
      Wrong wrong;
      RunThreads(threads, [&](int t) {
        auto& mine = containers[static_cast<size_t>(t % threads % 2)];
        const auto made = mine.LookUpOrCreate<Thing>("c", name(t), [&] {
          begun.fetch_add(1);
          while (begun.load() < threads) std::this_thread::yield();
          auto& its = containers[static_cast<size_t>((t + 1) % threads % 2)];
          const auto next =
              its.LookUpOrCreate<Thing>("c", name(t + 1), [&] { return std::make_shared<Thing>(&alive); });
          if (!next.ok()) {
            refused.fetch_add(1);
            wrong.Unless(absl::IsFailedPrecondition(next.status()));
          }
          return std::make_shared<Thing>(&alive);
        });
        wrong.Unless(made.ok());
      });
      BOOST_TEST(refused == 1);
      BOOST_TEST(alive == threads);
      BOOST_TEST(wrong.count() == 0);
    }
  }
}

// What a program's `create` does concerns nobody but those who ask for the same entry.
BOOST_AUTO_TEST_CASE(an_entry_is_made_without_the_lock) {
  std::atomic<int> alive{0};
  ResourceContainers containers;
  const auto make = [&] { return std::make_shared<Thing>(&alive); };
  std::promise<void> begun, gate;
  auto first = std::async(std::launch::async, [&] {
    return containers.LookUpOrCreate<Thing>("c", "slow", [&] {
      begun.set_value();
      gate.get_future().wait();
      return containers.LookUpOrCreate<Thing>("c", "inner", make).value();
    });
  });
  begun.get_future().wait();
  auto second = std::async(std::launch::async, [&] { return containers.LookUpOrCreate<Thing>("c", "slow", make); });
  // Others go on, and do not see what is not there yet.
  auto others = std::async(std::launch::async, [&] {
    BOOST_TEST(containers.LookUpOrCreate<Thing>("c", "quick", make).ok());
    BOOST_TEST(!containers.LookUp<Thing>("c", "slow").ok());
    BOOST_TEST(!containers.Delete("c", "slow").ok());
    BOOST_TEST(containers.List().size() == 1u);
    containers.Clear("d");
  });
  const bool went_on = others.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  BOOST_TEST(went_on);
  gate.set_value();
  if (!went_on) std::_Exit(1);  // the lock is held for good
  const auto a = first.get(), b = second.get();
  BOOST_REQUIRE(a.ok());
  BOOST_REQUIRE(b.ok());
  BOOST_TEST((*a == *b));
  BOOST_TEST((*containers.LookUp<Thing>("c", "slow") == *a));
  BOOST_TEST(alive == 2);  // "slow" is "inner"
}

BOOST_AUTO_TEST_CASE(an_entry_that_could_not_be_made_leaves_nothing) {
  std::atomic<int> alive{0};
  ResourceContainers containers;
  const auto make = [&] { return std::make_shared<Thing>(&alive); };
  const auto throws = []() -> std::shared_ptr<Thing> { throw std::runtime_error("no"); };
  BOOST_CHECK_THROW((void)containers.LookUpOrCreate<Thing>("c", "n", throws), std::runtime_error);
  BOOST_TEST(containers.List().empty());
  const auto null = containers.LookUpOrCreate<Thing>("c", "n", [] { return std::shared_ptr<Thing>(); });
  BOOST_TEST(absl::IsInternal(null.status()));
  BOOST_TEST(containers.List().empty());
  BOOST_TEST(containers.Entries().empty());
  // Who asks for the entry while it makes it gets an error, and the others go on.
  absl::Status again;
  const auto made = containers.LookUpOrCreate<Thing>("c", "n", [&] {
    again = containers.LookUpOrCreate<Thing>("c", "n", make).status();
    return make();
  });
  BOOST_TEST(absl::IsFailedPrecondition(again));
  BOOST_REQUIRE(made.ok());
  // Cleared meanwhile, it is its maker's alone.
  const auto cleared = containers.LookUpOrCreate<Thing>("d", "n", [&] {
    containers.Clear("d");
    return make();
  });
  BOOST_REQUIRE(cleared.ok());
  BOOST_TEST(!containers.LookUp<Thing>("d", "n").ok());
  BOOST_TEST(containers.List().size() == 1u);
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

}  // namespace containers_test
}  // namespace troupe::race
