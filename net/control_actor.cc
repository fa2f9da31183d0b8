#include "net/control_actor.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "actors/messages/reply.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/threads/quick_actor.h"
#include "graph/core/log.h"
#include "net/session_host.h"

namespace troupe {
namespace {

using Time = Membership::Time;
using ActionKind = Membership::Action::Kind;

class Control {
 public:
  Control(caf::event_based_actor* self, const ServerOptions& options, uint64_t incarnation, uint64_t seed, Dial dial,
          ControlLinks links)
      : self_(self),
        incarnation_(incarnation),
        dial_(std::move(dial)),
        links_(std::move(links)),
        task_(options.spec.task.ToString()),
        members_(options, incarnation, kNetProtocol, seed, Now()),
        handles_(static_cast<size_t>(members_.size())) {}

  // The handlers of what other control actors say.
  void On(const hello& m) {
    if (!self_->current_sender()) return;  // nobody could be told of anything
    greeters_worker_ = m.worker;
    greeters_number_ = m.number;
    Do(members_.Hello({m.protocol, m.cluster, m.from, m.to, m.incarnation}, Now()));
  }
  void On(const welcome& m) {
    const int peer = Sender();
    const Greeting says{m.protocol, m.cluster, m.from, {}, m.incarnation, m.number};
    greeters_worker_ = m.worker;
    if (peer >= 0) Do(members_.Welcome(peer, says, m.greeted, m.status, Now()));
  }
  void On(const beat& m) {
    // What is due is due later than before: with many peers, most messages are beats.
    const auto actions = members_.Beat(Sender(), m.incarnation, Now());
    if (!actions.empty()) Do(actions);
  }
  void On(const who_are_you& m) { Do(members_.AskedWho(Sender(), m.incarnation, Now())); }
  void On(const goodbye& m) { Do(members_.Goodbye(Sender(), m.incarnation, Now())); }
  void On(const goodbye_noted&) {
    unanswered_.erase(Sender());
    Do({});
  }
  void On(const worker_here& m) {
    const int peer = Sender();
    if (peer < 0 || !members_.IsUp(peer) || members_.incarnation(peer) != m.incarnation) return;
    TellRuntime(peer, m.worker);
  }
  void On(const own_worker& m) {
    // Also to who is being greeted: the hello had the one before.
    for (const caf::actor& peer : handles_) {
      if (peer) self_->send(peer, worker_here{incarnation_, m.worker});
    }
  }
  void On(const dialled& m) {
    const auto actions = members_.Dialled(m.peer, m.attempt, m.status, Now());
    if (!actions.empty() && actions[0].kind == ActionKind::kHello) SetHandle(m.peer, m.handle);
    Do(actions);
  }
  void On(const look_around&) {
    // An earlier look may have been armed after this one, and has done its work.
    if (Now() < armed_) return;
    armed_ = Time::max();
    Do(members_.Look(Now()));
  }
  void On(const caf::down_msg& m) {
    listeners_.erase(std::remove_if(listeners_.begin(), listeners_.end(),
                                    [&](const caf::actor& a) { return a.address() == m.source; }),
                     listeners_.end());
    const int peer = PeerOf(m.source);
    if (peer < 0) return;
    handles_[static_cast<size_t>(peer)] = nullptr;
    by_address_.erase(m.source);
    unanswered_.erase(peer);
    Do(members_.Closed(peer, self_->system().render(m.reason), Now()));
  }

  caf::result<void> Watch() {
    constexpr size_t kMost = 1024;
    const auto who = caf::actor_cast<caf::actor>(self_->current_sender());
    if (!who) return caf::unit;
    if (std::find(listeners_.begin(), listeners_.end(), who) == listeners_.end()) {
      if (listeners_.size() >= kMost)
        return caf::make_error(caf::sec::runtime_error, StrCat("a server has at most ", kMost, " listeners"));
      listeners_.push_back(who);
      self_->monitor(who);
    }
    for (int i = 0; i < members_.size(); ++i) {
      if (members_.IsUp(i)) self_->send(who, task_up{members_.task(i), members_.incarnation(i)});
    }
    return caf::unit;
  }
  caf::result<caf::message> Open(open_session& m) {
    const caf::actor host = links_.host ? links_.host() : caf::actor();
    if (host) return self_->delegate(host, std::move(m));
    session_opened answer;
    answer.status = Unavailable(task_, links_.host ? " opens no sessions now; try again" : " opens no sessions");
    return caf::make_message(std::move(answer));
  }
  ServerStatus Status() {
    ServerStatus status = members_.Status(Now());
    if (links_.runtime != nullptr) {
      status.devices = links_.runtime->devices();
      const SentBytes sent = TensorBytesSent(*links_.runtime);
      status.tensor_bytes_in_messages = sent.in_messages;
      status.tensor_bytes_in_shared_memory = sent.in_shared_memory;
    }
    if (links_.sessions != nullptr) status.sessions = links_.sessions->Status(Now());
    return status;
  }
  void Stop(const stop_control& m) {
    members_.Leave();
    farewells_ = ReplyToSender<farewells_noted>(self_);
    leave_by_ = Now() + std::chrono::milliseconds(m.at_most_ms);
    for (int i = 0; i < members_.size(); ++i) {
      // Also to who is being greeted: it may have welcomed this server already.
      const caf::actor& peer = handles_[static_cast<size_t>(i)];
      if (!peer) continue;
      unanswered_.insert(i);
      self_->send(peer, goodbye{incarnation_});
    }
    Do({});
  }

 private:
  Time Now() const { return self_->clock().now(); }
  int Sender() const {
    const caf::strong_actor_ptr& who = self_->current_sender();
    return who ? PeerOf(caf::actor_cast<caf::actor_addr>(who)) : -1;
  }
  int PeerOf(const caf::actor_addr& who) const {
    const auto it = by_address_.find(who);
    return it == by_address_.end() ? -1 : it->second;
  }
  void SetHandle(int peer, const caf::actor& handle) {
    caf::actor& mine = handles_[static_cast<size_t>(peer)];
    if (mine == handle) return;
    if (mine) {
      self_->demonitor(mine);
      by_address_.erase(mine.address());
    }
    mine = handle;
    if (mine) {
      self_->monitor(mine);
      by_address_[mine.address()] = peer;
    }
    if (!mine) unanswered_.erase(peer);
  }
  template <class Message>
  void Tell(const Message& m) {
    for (const caf::actor& who : listeners_) self_->send(who, m);
  }
  void Answer(const absl::Status& status, uint64_t greeted) {
    const auto to = caf::actor_cast<caf::actor>(self_->current_sender());
    const Greeting own = members_.Own(-1);
    if (to)
      self_->send(to, welcome{status, own.protocol, own.cluster, own.from, own.incarnation, greeted, Worker(),
                              greeters_number_});
  }

  caf::actor Worker() const { return links_.runtime == nullptr ? caf::actor() : WorkerOf(*links_.runtime, task_); }
  // One whose worker is being restarted is told of when there is the next one.
  void TellRuntime(int peer, const caf::actor& worker) {
    if (links_.runtime == nullptr || !worker) return;
    TaskCame(*links_.runtime, {members_.task(peer).ToString(), members_.incarnation(peer), worker});
  }

  void Do(const Membership::Actions& actions) {
    for (const Membership::Action& a : actions) Perform(a);
    if (farewells_ && (unanswered_.empty() || Now() >= *leave_by_)) {
      farewells_noted noted;
      for (const int peer : unanswered_) noted.missing.push_back(members_.task(peer).ToString());
      unanswered_.clear();
      std::exchange(farewells_, std::nullopt).value()(std::move(noted));
    }
    Arm();
  }
  void Perform(const Membership::Action& a) {
    const auto handle = [&] { return handles_[static_cast<size_t>(a.peer)]; };
    switch (a.kind) {
      case ActionKind::kDial:
        return dial_(members_.address(a.peer), [me = caf::actor_cast<caf::actor>(self_), peer = a.peer,
                                                call = a.number](absl::StatusOr<caf::actor> r) {
          caf::anon_send(me, dialled{peer, call, r.status(), r.ok() ? *r : caf::actor()});
        });
      case ActionKind::kHello: {
        const Greeting own = members_.Own(a.peer);
        return self_->send(handle(),
                           hello{own.protocol, own.cluster, own.from, own.to, own.incarnation, Worker(), own.number});
      }
      case ActionKind::kWelcome:
        SetHandle(a.peer, caf::actor_cast<caf::actor>(self_->current_sender()));
        return Answer(absl::OkStatus(), a.number);
      case ActionKind::kRefuse:
        // It comes again and again.
        if (std::exchange(refused_, a.number) != a.number) LogWarning("refused a greeting: ", MessageOf(a.status));
        return Answer(a.status, a.number);
      case ActionKind::kUp:
        LogInfo("task ", members_.task(a.peer).ToString(), " is up, incarnation ", a.number);
        TellRuntime(a.peer, greeters_worker_);
        return Tell(task_up{members_.task(a.peer), a.number});
      case ActionKind::kDown:
        LogWarning(MessageOf(a.status));
        SetHandle(a.peer, nullptr);
        if (links_.runtime != nullptr) TaskWent(*links_.runtime, members_.task(a.peer).ToString(), a.number, a.status);
        return Tell(task_down{members_.task(a.peer), a.number, a.status});
      case ActionKind::kBeat:
        return self_->send(handle(), beat{a.number});
      case ActionKind::kWhoAreYou:
      case ActionKind::kNoted: {
        const auto to = caf::actor_cast<caf::actor>(self_->current_sender());
        if (!to) return;
        if (a.kind == ActionKind::kNoted) return self_->send(to, goodbye_noted{});
        return self_->send(to, who_are_you{a.number});
      }
      case ActionKind::kForget:
        if (a.peer >= 0) SetHandle(a.peer, nullptr);
    }
  }
  void Arm() {
    Time due = members_.NextLook();
    if (farewells_) due = std::min(due, *leave_by_);
    if (due >= armed_) return;
    armed_ = due;
    const auto in = std::max(Time::duration(0), due - Now());
    self_->delayed_send(self_, std::chrono::ceil<std::chrono::milliseconds>(in), look_around{});
  }

  caf::event_based_actor* const self_;
  const uint64_t incarnation_;
  const Dial dial_;
  const ControlLinks links_;
  const std::string task_;
  caf::actor greeters_worker_;  // of the hello or welcome that is handled
  uint64_t greeters_number_ = 0;
  Membership members_;
  std::vector<caf::actor> handles_;  // of the peers that are up or being greeted
  std::map<caf::actor_addr, int> by_address_;
  std::vector<caf::actor> listeners_;
  Time armed_ = Time::min();  // when the timer is due
  std::optional<Reply<farewells_noted>> farewells_;
  std::optional<Time> leave_by_;
  std::set<int> unanswered_;
  uint64_t refused_ = 0;  // the incarnation that was refused last
};

struct ControlState {
  const char* name = "troupe.control";
  std::unique_ptr<Control> control;
  // Most messages are beats, which as a rule only say that all is as it was.
  static constexpr bool kByTheClock = true;
  static bool IsQuick(const caf::type_erased_tuple& m) { return m.match_elements<beat>(); }
  bool MayRunInLoop() const { return true; }
};

caf::behavior ControlBehavior(QuickActor<ControlState>* self, const ServerOptions& options, uint64_t incarnation,
                              uint64_t seed, const Dial& dial, const ControlLinks& links) {
  self->state.control = std::make_unique<Control>(self, options, incarnation, seed, dial, links);
  Control* const c = self->state.control.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_down_handler([c](const caf::down_msg& m) { c->On(m); });
  c->On(look_around{});
  return {
      [c](const hello& m) { c->On(m); },
      [c](const welcome& m) { c->On(m); },
      [c](const beat& m) { c->On(m); },
      [c](const who_are_you& m) { c->On(m); },
      [c](const goodbye& m) { c->On(m); },
      [c](const goodbye_noted& m) { c->On(m); },
      [c](const worker_here& m) { c->On(m); },
      [c](const own_worker& m) { c->On(m); },
      [c](open_session& m) { return c->Open(m); },
      [c](const dialled& m) { c->On(m); },
      [c](const look_around& m) { c->On(m); },
      [c](const watch_tasks&) { return c->Watch(); },
      [c](const stop_control& m) { c->Stop(m); },
      [c](const get_cluster_state&) { return cluster_state{c->Status()}; },
  };
}

}  // namespace

caf::actor SpawnControl(caf::actor_system& system, const ServerOptions& options, uint64_t incarnation, uint64_t seed,
                        Dial dial, ControlLinks links) {
  return system.spawn<caf::hidden>(ControlBehavior, options, incarnation, seed, std::move(dial), std::move(links));
}

}  // namespace troupe
