#include "net/session_host.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/messages/messages.h"
#include "actors/messages/reply.h"
#include "actors/runtime/runtime_impl.h"
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
                            std::shared_ptr<const std::atomic<int64_t>> calls, caf::actor handle) {
  std::lock_guard<std::mutex> lock(mu_);
  sessions_[desk] = {client, name, now, std::move(calls), std::move(handle)};
  ++counts_[client];
}

std::vector<caf::actor> HostedSessions::Desks() const {
  std::vector<caf::actor> desks;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [desk, s] : sessions_) {
    if (s.handle) desks.push_back(s.handle);
  }
  return desks;
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

SessionOptions WithinBounds(SessionOptions options) {
  constexpr int64_t kMost = 1024;
  // 0 is all of them, of which a client may have as many as it likes.
  if (options.max_signatures <= 0 || options.max_signatures > kMost) options.max_signatures = kMost;
  options.max_partial_runs = std::min(options.max_partial_runs, kMost);
  if (options.stall_report_ms > 0) options.stall_report_ms = std::max<int64_t>(options.stall_report_ms, 1000);
  return options;
}

namespace {

class Host {
 public:
  Host(caf::event_based_actor* self, std::weak_ptr<Runtime> runtime, std::string task, const ClientPolicy& policy,
       std::shared_ptr<HostedSessions> sessions)
      : self_(self),
        runtime_(std::move(runtime)),
        task_(std::move(task)),
        policy_(policy),
        sessions_(std::move(sessions)) {
    for (const caf::actor& desk : sessions_->Desks()) self_->monitor(desk);
  }

  session_opened Open(open_session& m) {
    session_opened answer;
    answer.task = task_;
    answer.lease_ms = policy_.lease.count();
    answer.status = Guarded("a session for a client", [&] {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, MakeSession(m));
      const auto calls = std::make_shared<std::atomic<int64_t>>(0);
      answer.desk = SpawnDesk(self_, std::move(session), m.client, policy_, calls);
      sessions_->Opened(answer.desk.id(), NodeOf(m.client), m.name, self_->clock().now(), calls, answer.desk);
      return absl::OkStatus();
    });
    return answer;
  }
  void On(const caf::down_msg& m) {
    sessions_->Gone(m.source.id());
    TellWhenStopped();
  }
  void On(const stop_host&) {
    stopped_ = ReplyToSender<host_stopped>(self_);
    for (const caf::actor& desk : sessions_->Desks())
      self_->send(desk, end_desk{Unavailable("task ", task_, " has stopped")});
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
    const std::shared_ptr<Runtime> runtime = runtime_.lock();
    if (stopped_ || runtime == nullptr) return Unavailable("task ", task_, " is stopping");
    TROUPE_RETURN_IF_ERROR(sessions_->MayOpen(NodeOf(m.client)));
    SessionOptions options = WithinBounds(m.options);
    options.runtime = runtime;
    // Other clients wait for the desk's thread: only a step that takes no longer than sending it
    // elsewhere runs there.
    options.lend_thread_us = 5;
    return Session::Create(options);
  }
  void TellWhenStopped() {
    if (stopped_ && sessions_->Desks().empty()) (*stopped_)(host_stopped{});
  }

  caf::event_based_actor* const self_;
  // Its supervisor is the runtime's own. With a share the host would end the runtime, and its actor
  // system, in a turn of that: later than the server's end, perhaps beside that of the process.
  const std::weak_ptr<Runtime> runtime_;
  const std::string task_;
  const ClientPolicy policy_;
  const std::shared_ptr<HostedSessions> sessions_;
  std::optional<Reply<host_stopped>> stopped_;
};

struct HostState {
  const char* name = "troupe.host";
  std::unique_ptr<Host> host;
};

caf::behavior HostBehavior(caf::stateful_actor<HostState>* self, const std::weak_ptr<Runtime>& runtime,
                           const std::string& task, const ClientPolicy& policy,
                           const std::shared_ptr<HostedSessions>& sessions) {
  self->state.host = std::make_unique<Host>(self, runtime, task, policy, sessions);
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

caf::actor SpawnHost(caf::actor_system& system, const std::shared_ptr<Runtime>& runtime, const ClientPolicy& policy,
                     std::shared_ptr<HostedSessions> sessions) {
  return system.spawn<caf::hidden>(HostBehavior, std::weak_ptr<Runtime>(runtime), runtime->options().tasks[0], policy,
                                   std::move(sessions));
}

namespace {
constexpr const char* kHost = "host";
}  // namespace

void AdoptHost(const std::shared_ptr<Runtime>& runtime, const ClientPolicy& policy,
               std::shared_ptr<HostedSessions> sessions) {
  Runtime::Impl& in = *runtime->impl();
  ChildSpec spec;
  spec.name = kHost;
  // The supervisor is the runtime's own.
  spec.spawn = [weak = std::weak_ptr<Runtime>(runtime), policy, sessions = std::move(sessions)](
                   caf::actor_system& system, uint64_t) -> caf::actor {
    const std::shared_ptr<Runtime> of = weak.lock();
    return of == nullptr ? nullptr : SpawnHost(system, of, policy, sessions);
  };
  const caf::actor first = spec.spawn(*in.system, 1);
  in.root->children()->Adopt(std::move(spec), first);
  SendSurely(*in.system, in.root->actor(), [] { return add_child{kHost}; });
}

caf::actor HostOf(const Runtime& runtime) { return runtime.impl()->directory->Find(kHost); }

void DismissHost(const Runtime& runtime) {
  Runtime::Impl& in = *runtime.impl();
  in.root->children()->Doom(kHost);
  SendSurely(*in.system, in.root->actor(), [] { return remove_child{kHost}; });
}

}  // namespace troupe
