#include "net/session_host.h"

#include <algorithm>
#include <optional>

#include "actors/messages/reply.h"
#include "graph/core/guarded.h"
#include "net/session_desk.h"
#include "troupe/session.h"

namespace troupe {

absl::Status HostedSessions::MayOpen(const std::string& client) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (sessions_.size() >= static_cast<size_t>(policy_.most_sessions)) {
    return ResourceExhausted("the server has ", policy_.most_sessions,
                             " sessions of clients, which is ClientPolicy.most_sessions (--most_sessions)");
  }
  const auto it = counts_.find(client);
  const int count = it == counts_.end() ? 0 : it->second;
  if (count < policy_.most_sessions_of_client) return absl::OkStatus();
  return ResourceExhausted("the client has ", count, " sessions in this server, which is ",
                           "ClientPolicy.most_sessions_of_client (--most_sessions_of_client)");
}

void HostedSessions::Opened(uint64_t desk, const std::string& client, const std::string& name, Time now,
                            std::shared_ptr<const std::atomic<int64_t>> calls) {
  std::lock_guard<std::mutex> lock(mu_);
  sessions_[desk] = {client, name, now, std::move(calls)};
  ++counts_[client];
}

void HostedSessions::Gone(uint64_t desk) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = sessions_.find(desk);
  if (it == sessions_.end()) return;
  const auto count = counts_.find(it->second.client);
  if (--count->second == 0) counts_.erase(count);
  sessions_.erase(it);
}

std::vector<SessionStatus> HostedSessions::Status(Time now) const {
  std::vector<SessionStatus> all;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [desk, s] : sessions_) {
    all.push_back(
        {s.name, s.calls->load(), std::chrono::duration_cast<std::chrono::milliseconds>(now - s.since).count()});
  }
  return all;
}

namespace {

class Host {
 public:
  Host(caf::event_based_actor* self, std::shared_ptr<Runtime> runtime, const ClientPolicy& policy,
       std::shared_ptr<HostedSessions> sessions)
      : self_(self), runtime_(std::move(runtime)), policy_(policy), sessions_(std::move(sessions)) {}

  session_opened Open(open_session& m) {
    session_opened answer;
    answer.task = runtime_->options().tasks[0];
    answer.lease_ms = policy_.lease.count();
    answer.status = Guarded("a session for a client", [&] {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, MakeSession(m));
      desks_.reserve(desks_.size() + 1);
      const auto calls = std::make_shared<std::atomic<int64_t>>(0);
      answer.desk = SpawnDesk(self_, std::move(session), m.client, policy_, calls);
      desks_.push_back(answer.desk);
      sessions_->Opened(answer.desk.id(), NodeOf(m.client), m.name, self_->clock().now(), calls);
      return absl::OkStatus();
    });
    return answer;
  }
  void On(const caf::down_msg& m) {
    desks_.erase(
        std::remove_if(desks_.begin(), desks_.end(), [&](const caf::actor& a) { return a.address() == m.source; }),
        desks_.end());
    sessions_->Gone(m.source.id());
    TellWhenStopped();
  }
  void On(const stop_host&) {
    stopped_ = ReplyToSender<host_stopped>(self_);
    for (const caf::actor& desk : desks_)
      self_->send(desk, end_desk{Unavailable("task ", runtime_->options().tasks[0], " has stopped")});
    TellWhenStopped();
  }

 private:
  static std::string NodeOf(const caf::actor& client) { return caf::to_string(client.node()); }

  absl::StatusOr<std::unique_ptr<Session>> MakeSession(const open_session& m) {
    if (m.protocol != kNetProtocol) {
      return FailedPrecondition("the server speaks version ", kNetProtocol, " of the protocol, and the client version ",
                                m.protocol, ": run the same version of Troupe");
    }
    if (!m.client) return InvalidArgument("a session was opened by nobody");
    if (stopped_) return Unavailable("task ", runtime_->options().tasks[0], " is stopping");
    TROUPE_RETURN_IF_ERROR(sessions_->MayOpen(NodeOf(m.client)));
    SessionOptions options = m.options;
    options.runtime = runtime_;
    // Other clients wait for the desk's thread: only a step that takes no longer than sending it
    // elsewhere runs there.
    options.lend_thread_us = 5;
    options.max_partial_runs = std::min<int64_t>(options.max_partial_runs, 1024);
    return Session::Create(options);
  }
  void TellWhenStopped() {
    if (stopped_ && desks_.empty()) (*stopped_)(host_stopped{});
  }

  caf::event_based_actor* const self_;
  const std::shared_ptr<Runtime> runtime_;
  const ClientPolicy policy_;
  const std::shared_ptr<HostedSessions> sessions_;
  std::vector<caf::actor> desks_;
  std::optional<Reply<host_stopped>> stopped_;
};

struct HostState {
  const char* name = "troupe.host";
  std::unique_ptr<Host> host;
};

caf::behavior HostBehavior(caf::stateful_actor<HostState>* self, std::shared_ptr<Runtime> runtime,
                           const ClientPolicy& policy, const std::shared_ptr<HostedSessions>& sessions) {
  self->state.host = std::make_unique<Host>(self, std::move(runtime), policy, sessions);
  Host* const h = self->state.host.get();
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->set_down_handler([h](const caf::down_msg& m) { h->On(m); });
  return {
      [h](open_session& m) { return h->Open(m); },
      [h](const stop_host& m) { h->On(m); },
  };
}

}  // namespace

caf::actor SpawnHost(caf::actor_system& system, std::shared_ptr<Runtime> runtime, const ClientPolicy& policy,
                     std::shared_ptr<HostedSessions> sessions) {
  return system.spawn<caf::hidden>(HostBehavior, std::move(runtime), policy, std::move(sessions));
}

}  // namespace troupe
