// An actor that takes its usual messages without CAF's search is an actor like others: what it does
// not take goes to its behaviour, it yields after as many messages, urgent ones come first, it dies
// of exceptions and exits, and what somebody sends to its streams does not hold it up.
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "actors/threads/lean_actor.h"
#include "troupe/strings.h"

namespace troupe {
namespace lean_actor_test {

using Heard = std::vector<std::string>;

class Ear : public LeanActor<Ear> {
 public:
  Ear(caf::actor_config& cfg, Heard* heard) : LeanActor(cfg), heard_(heard) {
    set_default_handler(caf::drop);
    set_exception_handler([](std::exception_ptr&) { return caf::error(caf::exit_reason::unhandled_exception); });
  }
  caf::behavior make_behavior() override {
    return {
        [this](int32_t x) { heard_->push_back(StrCat("behaviour ", x)); },
        [this](const std::string& text) { heard_->push_back(StrCat("behaviour ", text)); },
    };
  }
  bool Take(caf::type_erased_tuple& content) {
    if (!content.match_elements<int32_t>()) return false;
    const int32_t x = content.get_as<int32_t>(0);
    if (x < 0) throw std::runtime_error("negative");
    heard_->push_back(StrCat(x));
    return true;
  }
  void on_exit() override { heard_->push_back("gone"); }

 private:
  Heard* const heard_;
};

// Everything happens when the test runs the scheduler's jobs.
struct Played {
  ~Played() {
    anon_send_exit(ear, caf::exit_reason::kill);
    Run();
  }
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  void Run() { scheduler().run(); }
  std::string Said() {
    Run();
    return StrJoin(std::exchange(heard, {}), ", ");
  }
  struct Config : caf::actor_system_config {
    Config() { set("scheduler.policy", caf::atom("testing")); }
  };
  Heard heard;
  Config config;
  caf::actor_system system{config};
  caf::actor ear = system.spawn<Ear>(&heard);
};

BOOST_AUTO_TEST_SUITE(lean_actor)

BOOST_AUTO_TEST_CASE(what_it_does_not_take_goes_to_its_behaviour) {
  Played p;
  caf::anon_send(p.ear, int32_t{1});
  caf::anon_send(p.ear, std::string("two"));
  caf::anon_send(p.ear, int32_t{3});
  caf::anon_send(p.ear, 4.0);  // nobody's
  BOOST_TEST(p.Said() == "1, behaviour two, 3");
}

BOOST_AUTO_TEST_CASE(an_urgent_message_overtakes_the_others) {
  Played p;
  for (int32_t i = 1; i <= 5; ++i) caf::anon_send(p.ear, i);
  caf::anon_send<caf::message_priority::high>(p.ear, int32_t{9});
  BOOST_TEST(p.Said() == "9, 1, 2, 3, 4, 5");
}

BOOST_AUTO_TEST_CASE(it_yields_after_as_many_messages_as_it_may_take) {
  Played p;
  for (int32_t i = 1; i <= 10; ++i) caf::anon_send(p.ear, i);
  auto& jobs = p.scheduler().jobs;
  BOOST_REQUIRE(jobs.size() == 1);
  caf::resumable* const job = jobs.front();
  jobs.pop_front();
  caf::scoped_execution_unit here(&p.system);
  BOOST_TEST((job->resume(&here, 4) == caf::resumable::resume_later));
  BOOST_TEST(StrJoin(std::exchange(p.heard, {}), ", ") == "1, 2, 3, 4");
  BOOST_TEST((job->resume(&here, 100) == caf::resumable::awaiting_message));
  BOOST_TEST(StrJoin(std::exchange(p.heard, {}), ", ") == "5, 6, 7, 8, 9, 10");
  caf::intrusive_ptr_release(job);
  // It has said that it waits: the next message schedules it again.
  caf::anon_send(p.ear, int32_t{11});
  BOOST_TEST(p.Said() == "11");
}

BOOST_AUTO_TEST_CASE(an_exception_ends_it_and_its_monitors_hear_why) {
  Played p;
  caf::scoped_actor self(p.system);
  self->monitor(p.ear);
  caf::anon_send(p.ear, int32_t{1});
  caf::anon_send(p.ear, int32_t{-1});
  caf::anon_send(p.ear, int32_t{2});
  BOOST_TEST(p.Said() == "1, gone");
  bool heard = false;
  self->receive([&](const caf::down_msg& down) { heard = down.reason == caf::exit_reason::unhandled_exception; },
                caf::after(std::chrono::seconds(10)) >> [] {});
  BOOST_TEST(heard);
}

BOOST_AUTO_TEST_CASE(an_exit_ends_it_before_what_comes_later) {
  Played p;
  caf::anon_send(p.ear, int32_t{1});
  caf::anon_send_exit(p.ear, caf::exit_reason::user_shutdown);
  caf::anon_send(p.ear, int32_t{2});
  const std::string said = p.Said();
  BOOST_TEST((said == "1, gone" || said == "gone"), said);  // CAF may send exits as urgent
  caf::anon_send(p.ear, int32_t{3});
  BOOST_TEST(p.Said() == "");
}

BOOST_AUTO_TEST_CASE(what_is_sent_to_a_stream_does_not_hold_it_up) {
  Played p;
  caf::anon_send(p.ear, caf::upstream_msg({1, 1}, p.ear.address(), caf::upstream_msg::drop{}));
  caf::anon_send(p.ear, caf::downstream_msg({1, 1}, p.ear.address(), caf::downstream_msg::close{}));
  caf::anon_send(p.ear, int32_t{1});
  BOOST_TEST(p.Said() == "1");
  BOOST_TEST(p.scheduler().jobs.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace lean_actor_test
}  // namespace troupe
