// The stage on which the cast is rehearsed: CAF's deterministic scheduler and clock, under which
// the tests deliver message by message.
//
//   Stage stage;
//   stage.Inline([&] { session = ...; });      // set-up: every message is handled at once, blocking calls included
//   session->RunAsync(...);
//   BOOST_TEST(stage.Play() == R"(
//   executor <- run_step)");                   // one line a message: who got what; `state` may add what it led to
//
// An actor is named by its CAF name without "troupe."; of several with one name the second is
// "executor2". Thread rule: one thread.
#ifndef TROUPE_TESTS_CAST_STAGE_H_
#define TROUPE_TESTS_CAST_STAGE_H_

#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <functional>
#include <map>
#include <string>

#include "actors/runtime/device_actor.h"
#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"
#include "actors/wire/freight_messages.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {

// Its time is the stage's: what is due is done when that advances.
class StageClock : public StepClock {
 public:
  explicit StageClock(caf::actor_system* system) : system_(system) {}
  SteadyTime Now() const override { return system_->clock().now(); }
  void Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) override {
    const auto [it, is_new] = alarms_.try_emplace(watch.get(), watch, when);
    if (!is_new) it->second = {watch, std::min(when, it->second.second)};
  }
  void LookAtWhatIsDue() {
    for (bool again = true; std::exchange(again, false);) {
      for (const auto& [key, alarm] : std::map(alarms_)) {
        if (alarm.second > Now()) continue;
        alarms_.erase(key);
        again = true;
        const auto watch = alarm.first.lock();
        if (watch == nullptr) continue;
        if (const SteadyTime next = watch->Look(); next != SteadyTime::max()) Wake(watch, next);
      }
    }
  }
  // Whether anything is to be done at some time.
  bool IsSet() const { return !alarms_.empty(); }

 private:
  caf::actor_system* const system_;
  std::map<const StepWatch*, std::pair<std::weak_ptr<StepWatch>, SteadyTime>> alarms_;
};

class Stage {
 public:
  Stage() : system_(config_), scheduler_(dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())) {
    Inline([&] { scheduler_.run(); });
  }
  ~Stage() {
    Inline([&] { scheduler_.run(); });
  }

  caf::actor_system& system() { return system_; }
  caf::scheduler::test_coordinator& scheduler() { return scheduler_; }

  template <class F>
  void Inline(F f) {
    DrainAfterEnqueue();
    f();
    scheduler_.run();
    scheduler_.after_next_enqueue(nullptr);
  }
  void Advance(std::chrono::milliseconds by) {
    scheduler_.advance_time(by);
    clock_->LookAtWhatIsDue();
  }
  const std::shared_ptr<StageClock>& clock() const { return clock_; }
  // Whoever has been named in a line. Null when nobody of that name has.
  caf::actor Actor(const std::string& name) const {
    const auto it = actors_.find(name);
    return it == actors_.end() ? caf::actor() : it->second;
  }
  void Kill(const caf::actor& actor) {
    BOOST_REQUIRE(!!actor);
    caf::anon_send_exit(actor, caf::exit_reason::kill);
  }

  // Delivers the next message: "who <- what", or "" when there is none.
  std::string Deliver() {
    if (!scheduler_.has_job()) return "";
    std::string line = Describe(scheduler_.jobs.front());
    scheduler_.run_once();
    return line;
  }
  // Delivers the next message of this actor, before those of others that came earlier.
  std::string DeliverTo(const std::string& name) {
    auto& jobs = scheduler_.jobs;
    for (auto it = jobs.begin(); it != jobs.end(); ++it) {
      caf::resumable* const job = *it;
      auto* const actor = dynamic_cast<caf::scheduled_actor*>(job);
      if (actor == nullptr || NameOf(actor) != name) continue;
      jobs.erase(it);
      jobs.push_front(job);
      return Deliver();
    }
    return "";
  }
  // Delivers all that is there, one line a message, each after a line feed. `state` is asked after
  // each, and what it says is added.
  std::string Play(const std::function<std::string()>& state = nullptr) {
    std::string text;
    for (std::string line = Deliver(); !line.empty(); line = Deliver()) {
      if (line == "-") continue;
      StrAppend(&text, "\n", line, state ? StrCat(" | ", state()) : "");
      BOOST_REQUIRE_MESSAGE(text.size() < 100000, "the play does not end:" << text);
    }
    return text;
  }
  // What would be delivered next, in order, without doing it.
  std::string Queue() {
    std::string text;
    for (caf::resumable* r : scheduler_.jobs) StrAppend(&text, text.empty() ? "" : ", ", Describe(r));
    return text;
  }

 private:
  struct Config : caf::actor_system_config {
    Config() { set("scheduler.policy", caf::atom("testing")); }
  };

  // From now on whoever sends a message from outside finds it, and all that followed, handled.
  void DrainAfterEnqueue() {
    scheduler_.after_next_enqueue([this] {
      DrainAfterEnqueue();
      if (draining_) return;
      draining_ = true;
      while (scheduler_.try_run_once()) {
      }
      draining_ = false;
    });
  }
  std::string NameOf(caf::scheduled_actor* actor) {
    const auto [it, is_new] = names_.try_emplace(actor->id());
    if (is_new) {
      std::string name = actor->name();
      if (name.rfind("troupe.", 0) == 0) name = name.substr(7);
      const int n = ++seen_[name];
      it->second = n == 1 ? name : StrCat(name, n);
      actors_[it->second] = caf::actor_cast<caf::actor>(actor);
    }
    return it->second;
  }
  std::string Describe(caf::resumable* job) {
    auto* actor = dynamic_cast<caf::scheduled_actor*>(job);
    if (actor == nullptr) return "-";
    const std::string who = NameOf(actor);
    caf::mailbox_element* e = actor->mailbox().peek();
    return StrCat(who, " <- ", e == nullptr ? "init" : What(*e));
  }
  static std::string Which(const part_message& m) {
    constexpr const char* kNames[] = {"tensor_to_part", "grant", "abort_step", "argument", "question"};
    return kNames[m.index()];
  }
  static std::string Which(const step_message& m) {
    constexpr const char* kNames[] = {"part_done", "part_failed", "result", "stall_report"};
    return kNames[m.index()];
  }
  static std::string What(caf::mailbox_element& e) {
    const caf::type_erased_tuple& c = e.content();
    if (c.match_elements<run_step>()) return "run_step";
    if (c.match_elements<doorbell>()) return "doorbell";
    if (c.match_elements<token_message>()) return "token";
    if (c.match_elements<go_on>()) return "go_on";
    if (c.match_elements<run_request>()) return "run_request";
    if (c.match_elements<run_reply>()) return "run_reply";
    if (c.match_elements<restart_child>()) return "restart_child";
    if (c.match_elements<extend_request>()) return "extend_request";
    if (c.match_elements<compile_request>()) return "compile_request";
    if (c.match_elements<withdraw_compile>()) return "withdraw_compile";
    if (c.match_elements<close_request>()) return "close_request";
    if (c.match_elements<register_graph>()) return "register_graph";
    if (c.match_elements<graph_registered>()) return "graph_registered";
    if (c.match_elements<withdraw_graph>()) return "withdraw_graph";
    if (c.match_elements<link_graph>()) return "link_graph";
    if (c.match_elements<drop_graph>()) return "drop_graph";
    if (c.match_elements<run_parts>()) return "run_parts";
    if (c.match_elements<parts_done>()) return "parts_done";
    if (c.match_elements<part_letter>()) return StrCat("part_letter ", Which(c.get_as<part_letter>(0).message));
    if (c.match_elements<step_letter>()) return StrCat("step_letter ", Which(c.get_as<step_letter>(0).message));
    if (c.match_elements<freight_note>()) return "freight_note";
    if (c.match_elements<freight_go>()) return "freight_go";
    if (c.match_elements<freight_piece>()) return "freight_piece";
    if (c.match_elements<freight_taken>()) return "freight_taken";
    if (c.match_elements<freight_returned>()) return "freight_returned";
    if (c.match_elements<freight_drop>()) return "freight_drop";
    if (c.match_elements<freight_gone>()) return "freight_gone";
    if (c.match_elements<list_devices>()) return "list_devices";
    if (c.match_elements<device_list>()) return "device_list";
    if (c.match_elements<actor_failed>()) return "actor_failed";
    if (c.match_elements<get_device_stats>()) return "get_device_stats";
    if (c.match_elements<device_stats>()) return "device_stats";
    if (c.match_elements<list_resources>()) return "list_resources";
    if (c.match_elements<resource_list>()) return "resource_list";
    if (c.match_elements<reset_resources>()) return "reset_resources";
    if (c.match_elements<resources_reset>()) return "resources_reset";
    if (c.match_elements<snapshot_resources>()) return "snapshot_resources";
    if (c.match_elements<resource_snapshot>()) return "resource_snapshot";
    if (c.match_elements<resources_gathered>()) return "resources_gathered";
    if (c.match_elements<restore_resources>()) return "restore_resources";
    if (c.match_elements<resources_restored>()) return "resources_restored";
    if (c.match_elements<set_memory_limit>()) return "set_memory_limit";
    if (c.match_elements<trim_memory>()) return "trim_memory";
    if (c.match_elements<add_child>()) return "add_child";
    if (c.match_elements<remove_child>()) return "remove_child";
    if (c.match_elements<child_removed>()) return "child_removed";
    if (c.match_elements<step_answered>()) return "step_answered";
    if (c.match_elements<state_letter>()) return "state_letter";
    if (c.match_elements<states_came>()) return "states_came";
    if (c.match_elements<caf::down_msg>()) return "down";
    if (c.match_elements<caf::exit_msg>()) return "exit";
    return caf::to_string(c);
  }

  Config config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  const std::shared_ptr<StageClock> clock_ = std::make_shared<StageClock>(&system_);
  bool draining_ = false;
  std::map<caf::actor_id, std::string> names_;
  std::map<std::string, caf::actor> actors_;
  std::map<std::string, int> seen_;
};

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_STAGE_H_
