// What the network's thread runs itself when a message has come (threads/loop_turns.h).
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/signature/signature.h"
#include "actors/threads/actor_thread.h"
#include "actors/threads/inside_actor.h"
#include "actors/threads/loop_turns.h"
#include "actors/threads/quick_actor.h"

namespace troupe {
namespace loop_turns_test {

using namespace std::chrono_literals;

// In place of the network's multiplexer: keeps whom it is to resume.
class Loop : public caf::execution_unit {
 public:
  using execution_unit::execution_unit;
  void exec_later(caf::resumable* actor) override { actors.push_back(actor); }
  void ResumeAll() {
    for (caf::resumable* actor : std::exchange(actors, {})) {
      if (actor->resume(this, 100) != caf::resumable::resume_later) caf::intrusive_ptr_release(actor);
    }
  }
  std::vector<caf::resumable*> actors;
};

struct Seen {
  std::vector<int> numbers;
  bool in_loop = false, may_block = true;
  int elsewhere = 0, long_turns = 0;
};

// Notes what comes; passes it to `next`, one less, until none is left.
class Passer : public caf::event_based_actor, public ShortTurns {
 public:
  Passer(caf::actor_config& cfg, Seen* seen, Loop* other, bool may)
      : event_based_actor(cfg), seen_(*seen), other_(*other), may_(may) {}
  caf::behavior make_behavior() override {
    return {
        [this](int n, const caf::actor& next) {
          seen_.numbers.push_back(n);
          seen_.in_loop = LoopTurns::Here() != nullptr;
          seen_.may_block = !InsideActor();
          if (n > 0) send(next, n - 1, caf::actor_cast<caf::actor>(this));
        },
        [this](std::chrono::microseconds busy) {
          const auto until = std::chrono::steady_clock::now() + busy;
          while (std::chrono::steady_clock::now() < until) {
          }
          seen_.numbers.push_back(-1);
        },
    };
  }
  bool MayRunInLoop() const override { return may_; }
  void ResumeElsewhere() noexcept override {
    ++seen_.elsewhere;
    other_.exec_later(this);
  }
  void TookLong(std::chrono::nanoseconds turn) override { seen_.long_turns += turn > LoopTurns::kMost; }

 private:
  Seen& seen_;
  Loop& other_;
  const bool may_;
};

struct Cast {
  caf::actor_system_config config;
  caf::actor_system system{config.set("scheduler.max-threads", size_t{1})};
  Loop loop{&system}, other{&system};
  Seen a, b;
  // The scheduler makes their behaviours; they wait for messages afterwards.
  caf::actor Spawn(Seen* seen, bool may = true) {
    caf::actor actor = system.spawn<Passer, caf::lazy_init>(seen, &other, may);
    auto* const self = dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
    caf::scoped_execution_unit here(&system);
    BOOST_REQUIRE(self->activate(&here));
    return actor;
  }
  template <class... T>
  static void Enqueue(const caf::actor& to, caf::execution_unit* unit, T... content) {
    to->enqueue(nullptr, caf::make_message_id(), caf::make_message(std::move(content)...), unit);
  }
};

BOOST_AUTO_TEST_SUITE(loop_turns)

BOOST_AUTO_TEST_CASE(who_is_woken_waits_for_the_drain_and_so_do_those_whom_it_wakes) {
  Cast cast;
  const caf::actor a = cast.Spawn(&cast.a), b = cast.Spawn(&cast.b);
  BOOST_TEST(LoopTurns::Here() == nullptr);
  const uint64_t messages = LoopTurns::Messages(), turns = LoopTurns::TurnsOfAll();
  (void)LoopTurns::TakeRan();
  {
    const LoopTurns::Message message(&cast.loop);
    BOOST_TEST(LoopTurns::Here() == message.turns());
    Cast::Enqueue(a, message.turns(), 5, b);
    BOOST_TEST(cast.a.numbers.empty());
    message.turns()->Drain();
  }
  BOOST_TEST(LoopTurns::Here() == nullptr);
  BOOST_TEST(cast.a.numbers == (std::vector<int>{5, 3, 1}), boost::test_tools::per_element());
  BOOST_TEST(cast.b.numbers == (std::vector<int>{4, 2, 0}), boost::test_tools::per_element());
  BOOST_TEST(cast.a.in_loop);
  BOOST_TEST(!cast.a.may_block);
  BOOST_TEST(!InsideActor());
  BOOST_TEST(cast.loop.actors.empty());
  BOOST_TEST(cast.a.elsewhere + cast.b.elsewhere == 0);
  BOOST_TEST(LoopTurns::Messages() == messages + 1);
  BOOST_TEST(LoopTurns::TurnsOfAll() >= turns + 6);
  BOOST_TEST(LoopTurns::HasRan());
  BOOST_TEST(LoopTurns::TakeRan().has_value());
  BOOST_TEST(!LoopTurns::HasRan());
  BOOST_TEST(!LoopTurns::TakeRan().has_value());
}

BOOST_AUTO_TEST_CASE(all_others_go_their_way) {
  (void)LoopTurns::TakeRan();
  Cast cast;
  const caf::actor unable = cast.Spawn(&cast.a, false);
  std::vector<int> heard;
  const auto plain_behavior = [](caf::event_based_actor*, std::vector<int>* to) -> caf::behavior {
    return {[to](int n, const caf::actor&) { to->push_back(n); }};
  };
  const caf::actor plain = cast.system.spawn<caf::lazy_init>(plain_behavior, &heard);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(unable, message.turns(), 0, plain);
    Cast::Enqueue(plain, message.turns(), 7, plain);
    message.turns()->Drain();
  }
  BOOST_TEST(cast.a.numbers.empty());
  BOOST_TEST(cast.a.elsewhere == 1);
  BOOST_TEST(cast.other.actors.size() == 1u);
  BOOST_TEST(cast.loop.actors.size() == 1u);
  BOOST_TEST(heard.empty());
  BOOST_TEST(!LoopTurns::HasRan());
  cast.loop.ResumeAll();
  cast.other.ResumeAll();
  BOOST_TEST(heard == std::vector<int>{7}, boost::test_tools::per_element());
  BOOST_TEST(cast.a.numbers == std::vector<int>{0}, boost::test_tools::per_element());
  BOOST_TEST(!cast.a.in_loop);
}

BOOST_AUTO_TEST_CASE(when_its_time_is_over_the_rest_goes_elsewhere) {
  Cast cast;
  const caf::actor a = cast.Spawn(&cast.a), b = cast.Spawn(&cast.b);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(a, message.turns(), 2 * LoopTurns::kMost);
    Cast::Enqueue(a, message.turns(), 0, b);
    Cast::Enqueue(b, message.turns(), 0, a);
    message.turns()->Drain();
    BOOST_TEST(LoopTurns::Here() == nullptr);
    // Who is woken from now on, too.
    BOOST_TEST(cast.b.numbers.empty());
  }
  BOOST_TEST(cast.a.long_turns == 1);
  BOOST_TEST(cast.a.numbers == std::vector<int>{-1}, boost::test_tools::per_element());
  BOOST_TEST(cast.a.elsewhere == 1);
  BOOST_TEST(cast.b.elsewhere == 1);
  cast.other.ResumeAll();
  BOOST_TEST(cast.a.numbers == (std::vector<int>{-1, 0}), boost::test_tools::per_element());
  BOOST_TEST(cast.b.numbers == std::vector<int>{0}, boost::test_tools::per_element());
  // The next message has its own.
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(b, message.turns(), 0, a);
    message.turns()->Drain();
  }
  BOOST_TEST(cast.b.elsewhere == 1);
  BOOST_TEST(cast.b.long_turns == 0);
  BOOST_TEST(cast.b.numbers == (std::vector<int>{0, 0}), boost::test_tools::per_element());
}

// Takes numbers where they come, and words in its own time.
struct QuickState {
  std::mutex* mu = nullptr;
  std::vector<std::string>* heard = nullptr;
  static bool IsQuick(const caf::type_erased_tuple& m) { return m.match_elements<int>(); }
  bool MayRunInLoop() const { return true; }
};

BOOST_AUTO_TEST_CASE(what_is_not_quick_waits_for_the_scheduler_and_so_does_what_is_behind_it) {
  Cast cast;
  std::mutex mu;
  std::vector<std::string> heard;
  const auto behavior = [](QuickActor<QuickState>* self, std::mutex* guard,
                           std::vector<std::string>* to) -> caf::behavior {
    self->state.mu = guard;
    self->state.heard = to;
    const auto note = [self](std::string what) {
      std::lock_guard<std::mutex> lock(*self->state.mu);
      self->state.heard->push_back(what + (LoopTurns::Here() != nullptr ? " in the loop" : ""));
    };
    return {[note](int n) { note(std::to_string(n)); }, [note](const std::string& word) { note(word); }};
  };
  const caf::actor actor = cast.system.spawn(behavior, &mu, &heard);
  const auto count = [&] {
    std::lock_guard<std::mutex> lock(mu);
    return heard.size();
  };
  const auto await = [&](size_t n) {
    for (int i = 0; i < 10000 && count() < n; ++i) std::this_thread::sleep_for(1ms);
    BOOST_REQUIRE(count() == n);
    // Until it waits for a message.
    auto* const self = dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(actor));
    for (int i = 0; i < 10000 && !self->mailbox().blocked(); ++i) std::this_thread::sleep_for(1ms);
  };
  caf::anon_send(actor, 1);
  await(1);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(actor, message.turns(), 2);
    message.turns()->Drain();
    BOOST_TEST(count() == 2u);
  }
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(actor, message.turns(), std::string("three"));
    message.turns()->Drain();
  }
  await(3);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(actor, message.turns(), 4);
    Cast::Enqueue(actor, message.turns(), std::string("five"));
    Cast::Enqueue(actor, message.turns(), 6);
    message.turns()->Drain();
  }
  await(6);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(actor, message.turns(), 7);
    message.turns()->Drain();
  }
  std::lock_guard<std::mutex> lock(mu);
  BOOST_TEST(
      heard == (std::vector<std::string>{"1", "2 in the loop", "three", "4 in the loop", "five", "6", "7 in the loop"}),
      boost::test_tools::per_element());
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
}

// Heartbeats run in the loop, too, and say nothing about when the next message comes.
struct ClockState {
  static constexpr bool kByTheClock = true;
  static bool IsQuick(const caf::type_erased_tuple& m) { return m.match_elements<int>(); }
  bool MayRunInLoop() const { return true; }
};

BOOST_AUTO_TEST_CASE(what_comes_by_the_clock_is_no_talk) {
  Cast cast;
  std::atomic<int> heard{0};
  const auto behavior = [](QuickActor<ClockState>*, std::atomic<int>* count) -> caf::behavior {
    return {[count](int) { ++*count; }};
  };
  const caf::actor clock = cast.system.spawn(behavior, &heard);
  caf::anon_send(clock, 1);
  auto* const self = dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(clock));
  for (int i = 0; i < 10000 && (heard < 1 || !self->mailbox().blocked()); ++i) std::this_thread::sleep_for(1ms);
  (void)LoopTurns::TakeRan();
  const caf::actor talk = cast.Spawn(&cast.a);
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(clock, message.turns(), 2);
    message.turns()->Drain();
  }
  BOOST_TEST(heard == 2);
  BOOST_TEST(!LoopTurns::HasRan());
  const auto before = std::chrono::steady_clock::now();
  {
    const LoopTurns::Message message(&cast.loop);
    Cast::Enqueue(clock, message.turns(), 3);
    Cast::Enqueue(talk, message.turns(), 0, talk);
    message.turns()->Drain();
  }
  BOOST_TEST(heard == 3);
  const auto ran = LoopTurns::TakeRan();
  BOOST_REQUIRE(ran.has_value());
  BOOST_TEST((*ran >= before && *ran <= std::chrono::steady_clock::now()));
  caf::anon_send_exit(clock, caf::exit_reason::user_shutdown);
}

// What a thread keeps is of one actor system at a time.
BOOST_AUTO_TEST_CASE(one_thread_serves_two_systems) {
  for (int i = 0; i < 2; ++i) {
    Cast cast;
    const caf::actor a = cast.Spawn(&cast.a);
    const LoopTurns::Message message(&cast.loop);
    BOOST_TEST(&message.turns()->system() == &cast.system);
    Cast::Enqueue(a, message.turns(), 0, a);
    message.turns()->Drain();
    BOOST_TEST(cast.a.numbers.size() == 1u);
  }
}

// A signature whose turn took much too long stays out of the loop for a while, and for longer each
// time that happens again; not for good.
BOOST_AUTO_TEST_CASE(long_turns_keep_a_signature_out_for_a_while) {
  const auto signature = std::make_shared<Signature>();
  const auto steps_without = [&] {
    int64_t steps = 0;
    while (!signature->MayUseLoop()) ++steps;
    return steps;
  };
  const auto nanos = [](std::chrono::nanoseconds n) { return n.count(); };
  BOOST_TEST(steps_without() == 0);
  signature->LeaveLoop(nanos(2ms));
  BOOST_TEST(steps_without() == 64);
  signature->LeaveLoop(nanos(60ms));
  BOOST_TEST(steps_without() == 1024);
  signature->LeaveLoop(nanos(2ms));
  BOOST_TEST(steps_without() == 64);
  signature->LeaveLoop(nanos(60ms));
  BOOST_TEST(steps_without() == 16 * 1024);
  for (int i = 0; i < 20; ++i) signature->LeaveLoop(nanos(60ms));
  for (int i = 0; i < 1'000'000; ++i) BOOST_REQUIRE(!signature->MayUseLoop());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace loop_turns_test
}  // namespace troupe
