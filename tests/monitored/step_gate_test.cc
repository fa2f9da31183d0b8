// The gate of steps by itself, without a session.
#include "actors/snapshot/step_gate.h"

#include <boost/test/unit_test.hpp>
#include <mutex>
#include <thread>

#include "actors/threads/actor_thread.h"

namespace troupe {
namespace step_gate_test {

struct Closed {
  std::shared_ptr<std::atomic<bool>> flag = std::make_shared<std::atomic<bool>>(false);
  const std::shared_ptr<StepWatch> watch = std::make_shared<StepWatch>(std::make_shared<ThreadClock>(), nullptr);
  StepGate gate{flag, watch};
};

// Runs `work` while the gate is shut: as soon as it is, and until it returns.
absl::Status Shut(StepGate& gate, std::function<void()> work) {
  return gate.WhileShut(
      SteadyTime::max(), [] { return 0; },
      [&] {
        work();
        return absl::OkStatus();
      });
}

BOOST_AUTO_TEST_CASE(edges_1_and_2_and_6_a_snapshot_waits_for_steps_of_updates_alone) {
  Closed c;
  BOOST_TEST(!c.gate.shut());
  BOOST_TEST(c.gate.Wait({}, nullptr).ok());
  BOOST_TEST(!c.gate.Queue({}, nullptr, [](absl::Status) {}));
  // Three looks find a step under way.
  int looks = 0, taken = 0;
  const auto busy = [&] {
    BOOST_TEST(c.gate.shut());
    return ++looks < 4 ? 1 : 0;
  };
  BOOST_TEST(c.gate.WhileShut(SteadyTime::max(), busy, [&] {
    BOOST_TEST(c.gate.shut());
    ++taken;
    return InvalidArgument("what the work says");
  }) == InvalidArgument("what the work says"));
  BOOST_TEST(looks == 4);
  BOOST_TEST(taken == 1);
  BOOST_TEST(!c.gate.shut());
  // One that does not end in time.
  const absl::Status late = c.gate.WhileShut(
      std::chrono::steady_clock::now() + std::chrono::milliseconds(20), [] { return 2; },
      [&] {
        ++taken;
        return absl::OkStatus();
      });
  BOOST_TEST(absl::IsDeadlineExceeded(late), late);
  BOOST_TEST(late.ToString().find("2 steps") != std::string::npos, late);
  BOOST_TEST(taken == 1);
  BOOST_TEST(!c.gate.shut());
}

// Its time counts also while another has shut the gate.
BOOST_AUTO_TEST_CASE(a_second_snapshot_waits_no_longer_than_its_time) {
  Closed c;
  bool taken = false;
  const auto second = [&](SteadyTime at) {
    absl::Status s;
    std::thread([&] {
      s = c.gate.WhileShut(
          at, [] { return 0; },
          [&] {
            taken = true;
            return absl::OkStatus();
          });
    }).join();
    return s;
  };
  BOOST_TEST(Shut(c.gate, [&] {
               const absl::Status late = second(std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
               BOOST_TEST(absl::IsDeadlineExceeded(late), late);
               *c.flag = true;
               const absl::Status closed = second(SteadyTime::max());
               BOOST_TEST(absl::IsCancelled(closed), closed);
               *c.flag = false;
             }).ok());
  BOOST_TEST(!taken);
  BOOST_TEST(second(SteadyTime::max()).ok());
  BOOST_TEST(taken);
}

BOOST_AUTO_TEST_CASE(edges_3_and_5_a_run_waits_for_the_snapshot_and_the_snapshot_for_a_step) {
  Closed c;
  std::atomic<int> under_way{1};
  std::atomic<bool> taken{false}, waits{false}, begun{false};
  std::thread run;
  std::thread snapshot([&] {
    BOOST_TEST(c.gate
                   .WhileShut(
                       SteadyTime::max(), [&] { return under_way.load(); },
                       [&] {
                         taken = true;
                         return absl::OkStatus();
                       })
                   .ok());
  });
  while (!c.gate.shut()) std::this_thread::yield();
  run = std::thread([&] {
    waits = true;
    BOOST_TEST(c.gate.Wait({}, nullptr).ok());
    BOOST_TEST(taken.load());
    begun = true;
  });
  while (!waits) std::this_thread::yield();
  BOOST_TEST(!taken.load());
  BOOST_TEST(!begun.load());
  under_way = 0;
  c.gate.StepOver();
  snapshot.join();
  run.join();
  BOOST_TEST(begun.load());
}

BOOST_AUTO_TEST_CASE(edge_3_a_run_that_waits_is_ended_by_its_deadline_its_token_and_close) {
  Closed c;
  CancellationToken token, other;
  BOOST_TEST(Shut(c.gate, [&] {
               const absl::Status late = c.gate.Wait(Deadline::In(1, std::chrono::steady_clock::now()), &other);
               BOOST_TEST(absl::IsDeadlineExceeded(late), late);
               BOOST_TEST(late.ToString().find("1 ms") != std::string::npos, late);
               token.Cancel();
               BOOST_TEST(absl::IsCancelled(c.gate.Wait({}, &token)));
               c.flag->store(true);
               BOOST_TEST(absl::IsCancelled(c.gate.Wait({}, nullptr)));
             }).ok());
  // A closed session is not waited for.
  const absl::Status closed = c.gate.WhileShut(
      SteadyTime::max(), [] { return 1; }, [] { return absl::OkStatus(); });
  BOOST_TEST(absl::IsCancelled(closed), closed);
}

BOOST_AUTO_TEST_CASE(edge_4_a_call_that_is_queued_begins_or_is_ended) {
  Closed c;
  CancellationToken token;
  std::mutex mu;
  std::vector<std::string> told;
  const auto count = [&] {
    std::lock_guard<std::mutex> lock(mu);
    return told.size();
  };
  const auto tell = [&](std::string name) {
    return [&, name = std::move(name)](const absl::Status& s) {
      std::lock_guard<std::mutex> lock(mu);
      told.push_back(StrCat(name, " ", absl::StatusCodeToString(s.code())));
    };
  };
  int looks = 0;
  const auto busy = [&] {
    if (++looks == 1) {
      BOOST_TEST(c.gate.Queue({}, nullptr, tell("a")));
      BOOST_TEST(c.gate.Queue({}, &token, tell("b")));
      BOOST_TEST(c.gate.Queue(Deadline::In(1, std::chrono::steady_clock::now()), nullptr, tell("c")));
      token.Cancel();
    }
    // Until both that end have been told.
    return count() < 2 ? 1 : 0;
  };
  BOOST_TEST(c.gate
                 .WhileShut(SteadyTime::max(), busy,
                            [&] {
                              BOOST_TEST(count() == 2u);
                              return absl::OkStatus();
                            })
                 .ok());
  BOOST_REQUIRE_EQUAL(told.size(), 3u);
  std::sort(told.begin(), told.begin() + 2);
  BOOST_TEST(StrJoin(told, ", ") == "b CANCELLED, c DEADLINE_EXCEEDED, a OK");
}

BOOST_AUTO_TEST_CASE(edge_4_queued_calls_end_with_the_session) {
  Closed c;
  int told = 0;
  const auto queue = [&] {
    return c.gate.Queue({}, nullptr, [&](const absl::Status& s) {
      BOOST_TEST(absl::IsCancelled(s), s);
      ++told;
    });
  };
  BOOST_TEST(Shut(c.gate, [&] {
               BOOST_TEST(queue());
               c.flag->store(true);
               BOOST_TEST(told == 0);
               c.gate.EndQueued();
               BOOST_TEST(told == 1);
               // One that comes later.
               BOOST_TEST(queue());
               BOOST_TEST(told == 2);
             }).ok());
  BOOST_TEST(told == 2);
}

// What has ended is forgotten although the gate stays shut.
BOOST_AUTO_TEST_CASE(calls_that_have_ended_do_not_pile_up) {
  Closed c;
  const auto kept = std::make_shared<int>(0);
  BOOST_TEST(Shut(c.gate, [&] {
               for (int i = 0; i < 1000; ++i) {
                 CancellationToken token;
                 token.Cancel();
                 std::atomic<bool> ended{false};
                 BOOST_TEST(c.gate.Queue({}, &token, [&ended, kept](const absl::Status&) { ended = true; }));
                 while (!ended) std::this_thread::yield();
               }
               BOOST_TEST(c.watch->size() == 0u);
             }).ok());
  BOOST_TEST(kept.use_count() == 1);
}

// The caller's token may be gone by then; that of a call that came through an actor always is.
BOOST_AUTO_TEST_CASE(a_queued_call_needs_no_token_of_its_caller) {
  Closed c;
  CancellationToken kept;
  std::mutex mu;
  absl::Status told;
  const auto heard = [&] {
    std::lock_guard<std::mutex> lock(mu);
    return told;
  };
  const auto queue = [&] {
    const auto gone = std::make_unique<CancellationToken>(kept);
    BOOST_TEST(c.gate.Queue({}, gone.get(), [&](absl::Status s) {
      std::lock_guard<std::mutex> lock(mu);
      told = std::move(s);
    }));
  };
  int looks = 0;
  const auto busy = [&] {
    if (++looks == 1) queue();
    if (looks == 3) kept.Cancel();
    return heard().ok() ? 1 : 0;
  };
  BOOST_TEST(c.gate.WhileShut(SteadyTime::max(), busy, [] { return absl::OkStatus(); }).ok());
  BOOST_TEST(absl::IsCancelled(told), told);
}

// Whoever waits in such a callback for the gate would keep it shut.
BOOST_AUTO_TEST_CASE(what_is_called_at_the_gate_may_not_block) {
  Closed c;
  std::atomic<int> told{0};
  const auto queue = [&](const Deadline& deadline) {
    BOOST_TEST(c.gate.Queue(deadline, nullptr, [&](absl::Status) {
      BOOST_TEST(MustNotBlockHere());
      ++told;
    }));
  };
  BOOST_TEST(Shut(c.gate, [&] {
               queue(Deadline::In(1, std::chrono::steady_clock::now()));
               queue({});
               std::this_thread::sleep_for(std::chrono::milliseconds(50));
             }).ok());
  BOOST_TEST(told == 2);
  BOOST_TEST(!MustNotBlockHere());
}

// Also while the snapshot is taken: that may take as long as another session's update.
BOOST_AUTO_TEST_CASE(a_queued_call_ends_while_the_snapshot_is_taken) {
  Closed c;
  std::atomic<bool> ended{false};
  BOOST_TEST(Shut(c.gate, [&] {
               BOOST_TEST(
                   c.gate.Queue(Deadline::In(20, std::chrono::steady_clock::now()), nullptr, [&](absl::Status s) {
                     BOOST_TEST(absl::IsDeadlineExceeded(s), s);
                     ended = true;
                   }));
               for (int i = 0; i < 1000 && !ended; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
               BOOST_TEST(ended.load());
             }).ok());
}

BOOST_AUTO_TEST_CASE(edge_7_higher_levels_pass_until_the_gate_is_shut_for_them) {
  Closed c;
  BOOST_TEST(!c.gate.Holds(0));
  std::vector<std::string> held;
  std::vector<std::string> begun;
  const auto busy = [&] {
    std::string levels;
    for (const int level : {-1, 0, 1, 2, StepGate::kAllLevels - 1}) levels += c.gate.Holds(level) ? 'h' : 'p';
    held.push_back(levels);
    // A step of level 1 begins as long as it may, and is queued afterwards.
    const bool queued = c.gate.Queue(
        {}, nullptr, [&](absl::Status s) { begun.push_back(s.ToString()); }, 1);
    BOOST_TEST(queued == (levels[2] == 'h'));
    if (held.size() == 1) BOOST_TEST(c.gate.Wait({}, nullptr, 1).ok());
    if (held.size() == 3) return 0;
    c.gate.ShutBelow(held.size() == 1 ? 2 : StepGate::kAllLevels);
    return 1;
  };
  BOOST_TEST(c.gate.WhileShut(SteadyTime::max(), busy, [] { return absl::OkStatus(); }).ok());
  BOOST_TEST(StrJoin(held, " ") == "phppp phhpp phhhh");
  BOOST_TEST(StrJoin(begun, " ") == "OK OK");
  BOOST_TEST(!c.gate.Holds(0));
}

}  // namespace step_gate_test
}  // namespace troupe
