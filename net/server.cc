#include "troupe/server.h"

#include <caf/io/middleman.hpp>
#include <caf/io/middleman_actor.hpp>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "actors/threads/actor_thread.h"
#include "actors/threads/aside.h"
#include "actors/threads/no_memory.h"
#include "actors/messages/reply.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "graph/core/log.h"
#include "net/caller.h"
#include "net/control_actor.h"
#include "net/link_scribe.h"
#include "net/server_impl.h"
#include "net/session_host.h"
#include "troupe/env.h"

namespace troupe {
namespace {

using std::chrono::milliseconds;

absl::Status Check(const ServerOptions& o) {
  TROUPE_RETURN_IF_ERROR(o.spec.cluster.AddressOf(o.spec.task).status());
  const HeartbeatPolicy& h = o.heartbeat;
  if (h.interval < milliseconds(10) || h.suspect_after <= h.interval || h.dead_after <= h.suspect_after ||
      h.dead_after > kLongest) {
    return InvalidArgument("heartbeats each ", h.interval.count(), " ms, suspected after ", h.suspect_after.count(),
                           " ms, dead after ", h.dead_after.count(), " ms: each time is longer than the one before, ",
                           "from 10 ms up to a day");
  }
  const ClientPolicy& p = o.clients;
  if (p.most_sessions < 0 || p.most_sessions_of_client < 0 || p.most_calls < 1 || p.lease < milliseconds(100) ||
      p.lease > kLongest) {
    return InvalidArgument("ClientPolicy: numbers are not negative, most_calls at least 1, and the lease is from ",
                           "100 ms up to a day");
  }
  const ConnectPolicy& c = o.connect;
  if (c.timeout < milliseconds(1) || c.min_delay < milliseconds(1) || c.max_delay < c.min_delay || c.most_calls < 1 ||
      c.timeout > kLongest || c.max_delay > kLongest || !(c.jitter >= 0 && c.jitter < 1)) {
    return InvalidArgument(
        "ConnectPolicy: times are from 1 ms up to a day, max_delay is at least min_delay, most_calls at least ",
        "1, and jitter is in [0, 1)");
  }
  const auto open = [](std::string_view address, std::string_view of) {
    return FailedPrecondition(
        "the address ", address, of, " is not of this machine ",
        "alone, and connections are neither encrypted nor authenticated: whoever reaches the port ",
        "commands the task. ServerOptions.tls (--tls_certificate, --tls_key, --tls_ca) has certificates; ",
        "ServerOptions.insecure (--insecure) says that the network is trusted");
  };
  if (o.insecure || NamesTls(WithEnvironment(o.tls))) return absl::OkStatus();
  if (!o.bind.empty() && !HostPort{o.bind, 0}.IsLoopback()) return open(CEscape(o.bind), " to listen at (--bind)");
  for (const auto& [task, address] : o.spec.cluster.tasks()) {
    if (!address.IsLoopback()) return open(address.ToString(), StrCat(" of ", task.ToString()));
  }
  return absl::OkStatus();
}

milliseconds LeftUntil(std::chrono::steady_clock::time_point end) {
  return std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
}

// Blocking calls from a scheduler's thread may wait for themselves.
absl::Status MayServe() {
  return OnSchedulerThread() || MustNotBlockHere()
             ? FailedPrecondition("servers are not started, stopped or asked in an actor's handler")
             : absl::OkStatus();
}

// The interface at which a server listens; "" is all of them.
std::string InterfaceOf(const ServerOptions& o, const HostPort& own) {
  if (o.bind.empty() && !own.IsLoopback()) return "";
  const std::string& host = o.bind.empty() ? own.host : o.bind;
  return host == "localhost" ? "127.0.0.1" : host;
}

absl::StatusOr<std::unique_ptr<Server>> Make(const ServerOptions& options, caf::actor_system* system) {
  TROUPE_RETURN_IF_ERROR(Check(options));
  TROUPE_RETURN_IF_ERROR(MayServe());
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> tls, TlsContext::Make(options.tls));
  NoLoggerAfter restore;
  // From here on its destructor ends what there is of it.
  auto server = std::make_unique<Server>(std::make_shared<Server::Impl>());
  Server::Impl* const impl = server->impl();
  const uint64_t incarnation = std::max<uint64_t>(1, Env::Default()->Unforeseeable());
  RuntimeOptions runtime = options.runtime;
  runtime.tasks = {options.spec.task.ToString()};
  ClusterOptions cluster;
  cluster.incarnation = incarnation;
  cluster.share_memory = options.share_memory;
  for (const auto& [task, address] : options.spec.cluster.tasks()) {
    if (task != options.spec.task) cluster.remote_tasks.push_back(task.ToString());
  }
  if (system == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(impl->runtime, StartRuntime(runtime, cluster, NodeConfig(options.clients.lease)));
    system = impl->runtime->impl()->system;
  } else if (!system->has_middleman() || system->types().portable_name(caf::type_nr<hello>::value, &typeid(hello)) ==
                                             system->types().default_type_name()) {
    return FailedPrecondition("the actor system has no middleman, or does not know the messages of servers: call ",
                              "ConfigureServer before it is made");
  } else {
    TROUPE_ASSIGN_OR_RETURN(impl->runtime, StartRuntimeIn(*system, runtime, cluster));
  }
  if (!BrokerOf(*system)) return FailedPrecondition("the actor system's middleman has no network of its own");
  impl->system = system;
  impl->spec = options.spec;
  impl->probes = Probes::With(tls);
  const auto sessions = std::make_shared<HostedSessions>(options.clients);
  AdoptHost(impl->runtime, options.clients, sessions);
  impl->hosted = true;
  const std::string task = options.spec.task.ToString();
  const caf::actor worker = WorkerOf(*impl->runtime, task);
  impl->control = SpawnControl(*system, options, incarnation, Env::Default()->Unforeseeable(),
                               DialByNetwork(*system, impl->probes, options.connect.timeout),
                               {[of = impl->runtime.get()] { return HostOf(*of); }, sessions, impl->runtime});
  WatchWorkers(*impl->runtime, [system, control = impl->control](const std::string&, const caf::actor& worker) {
    SendSurely(*system, control, [&] { return own_worker{worker}; });
  });
  // One that came before it was watched.
  if (const caf::actor now = WorkerOf(*impl->runtime, task); now && now != worker)
    SendSurely(*system, impl->control, [&] { return own_worker{now}; });
  const HostPort own = options.spec.cluster.AddressOf(options.spec.task).value();
  const std::string at = InterfaceOf(options, own);
  impl->listens_at = at.empty() ? StrCat("*:", own.port) : HostPort{at, own.port}.ToString();
  impl->target = StrCat("troupe://", at.empty() ? own.ToString() : impl->listens_at);
  auto gate =
      Gate::Open(at, own.port, tls, [system, control = impl->control, port = own.port](std::unique_ptr<Link> link) {
        Admit(*system, std::move(link), port, control);
      });
  if (!gate.ok()) {
    return Annotate(gate.status(), StrCat(options.spec.task.ToString(), " cannot listen at ", impl->listens_at));
  }
  impl->gate = *std::move(gate);
  impl->port = own.port;
  return server;
}

absl::StatusOr<std::unique_ptr<Server>> MakeOrSay(const ServerOptions& options, caf::actor_system* system) {
  try {
    return Make(options, system);
  } catch (const std::exception& e) {
    return ResourceExhausted("a server could not be started: ", e.what());
  }
}

template <class Answer, class Question>
absl::StatusOr<Answer> Ask(caf::actor_system& system, const caf::actor& whom, milliseconds at_most, Question question) {
  NoLoggerAfter restore;
  absl::StatusOr<Answer> answer = Internal("nobody answered");
  caf::scoped_actor self(system);
  self->request(whom, at_most, std::move(question))
      .receive([&](const Answer& a) { answer = a; },
               [&](const caf::error& e) {
                 answer = e == caf::sec::request_timeout ? DeadlineExceeded("no answer within ", at_most.count(), " ms")
                                                         : Unavailable("the server is gone: ", system.render(e));
               });
  return answer;
}

// By the host, or by the next one when it dies meanwhile.
absl::Status EndSessions(const Runtime& runtime, std::chrono::steady_clock::time_point end) {
  absl::Status status = Unavailable("there is no host of theirs now");
  do {
    if (const caf::actor host = HostOf(runtime)) {
      status = Ask<host_stopped>(*runtime.impl()->system, host, std::max(milliseconds(50), LeftUntil(end)), stop_host{})
                   .status();
      if (!absl::IsUnavailable(status)) return status;
    }
    std::this_thread::sleep_for(milliseconds(5));
  } while (std::chrono::steady_clock::now() < end);
  return status;
}

}  // namespace

caf::actor Server::Impl::Control() {
  std::lock_guard<std::mutex> lock(mu);
  return control;
}

absl::Status Server::Impl::Stop(milliseconds at_most) {
  // For everything below that asks CAF: the actor system may end on another thread, which waits
  // until no thread refers to its logger.
  NoLoggerAfter restore;
  std::lock_guard<std::mutex> one(stopping);
  const caf::actor whom = Control();
  if (stopped || !whom) {
    // One that has not come to its control actor.
    if (std::exchange(hosted, false)) DismissHost(*runtime);
    return result;
  }
  stopped = true;
  at_most = Bounded(at_most);
  const auto end = std::chrono::steady_clock::now() + at_most;
  const auto left = [&] {
    return std::max(milliseconds(50), std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now()));
  };
  std::vector<std::string> alive;
  // The clients first: their steps may need the others.
  if (const absl::Status none = EndSessions(*runtime, end); !none.ok())
    alive.push_back(StrCat("sessions of clients: ", MessageOf(none)));
  const auto farewells = Ask<farewells_noted>(*system, whom, left() + milliseconds(500), stop_control{left().count()});
  if (farewells.ok()) alive.insert(alive.end(), farewells->missing.begin(), farewells->missing.end());
  const absl::Status& said = farewells.ok() ? farewells->status : farewells.status();
  if (!said.ok()) alive.push_back(StrCat("perhaps all others, to whom no goodbye was said: ", MessageOf(said)));
  if (gate != nullptr) {
    gate = nullptr;
    caf::scoped_actor self(*system);
    self->request(system->middleman().actor_handle(), left(), caf::unpublish_atom::value, whom.address(), port)
        .receive([] {},
                 [&](const caf::error& e) {
                   if (e == caf::sec::request_timeout) alive.push_back("the port");
                 });
  }
  // Afterwards nobody calls other tasks any more.
  const auto ended = std::make_shared<std::promise<void>>();
  whom->attach_functor([ended] { ended->set_value(); });
  caf::anon_send_exit(whom, caf::exit_reason::user_shutdown);
  if (ended->get_future().wait_for(left()) != std::future_status::ready) alive.push_back("the control actor");
  if (std::exchange(hosted, false)) DismissHost(*runtime);
  WatchWorkers(*runtime, nullptr);
  LeaveCluster(*runtime);
  {
    std::lock_guard<std::mutex> lock(mu);
    control = nullptr;
  }
  if (probes != nullptr && !probes->Close(left())) alive.push_back("a call to another task");
  if (!alive.empty())
    result = DeadlineExceeded("after ", at_most.count(), " ms these are still alive: ", StrJoin(alive, ", "));
  return result;
}

Server::Server(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() {
  NoLoggerAfter restore;
  (void)impl_->Stop(milliseconds(1000));
  if (impl_->probes == nullptr || impl_->probes->Close(milliseconds(0))) return;
  // Whom CAF connects just now still refers to the actor system.
  LogWarning("a call to another task has not ended; its server ends when it has");
  std::shared_ptr<void> at_exit;
  UntilMemoryAllows([&] { at_exit = UntilExit(); });
  auto wait = [at_exit, rest = std::move(impl_)]() mutable {
    while (!rest->probes->Close(std::chrono::hours(1))) {
    }
    rest = nullptr;
  };
  try {
    std::thread(wait).detach();
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
    wait();
  }
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  return MakeOrSay(options, nullptr);
}
absl::StatusOr<std::unique_ptr<Server>> Server::StartIn(caf::actor_system& system, const ServerOptions& options) {
  return MakeOrSay(options, &system);
}

absl::StatusOr<ServerStatus> Server::status() const {
  TROUPE_RETURN_IF_ERROR(MayServe());
  const caf::actor control = ControlActorOf(*this);
  if (!control) return FailedPrecondition("the server has stopped");
  TROUPE_ASSIGN_OR_RETURN(cluster_state state,
                          Ask<cluster_state>(*impl_->system, control, milliseconds(10000), get_cluster_state{}));
  return std::move(state.value);
}

absl::Status Server::AwaitTasks(const std::vector<ClusterTask>& tasks, milliseconds at_most) const {
  TROUPE_RETURN_IF_ERROR(MayServe());
  const ServerSpec& spec = impl_->spec;
  std::set<ClusterTask> missing(tasks.begin(), tasks.end());
  for (const auto& [task, address] : spec.cluster.tasks()) {
    if (tasks.empty()) missing.insert(task);
  }
  for (const ClusterTask& task : missing) TROUPE_RETURN_IF_ERROR(spec.cluster.AddressOf(task).status());
  missing.erase(spec.task);
  const caf::actor control = ControlActorOf(*this);
  if (!control) return FailedPrecondition("the server has stopped");
  NoLoggerAfter restore;
  const auto end = std::chrono::steady_clock::now() + Bounded(at_most);
  caf::scoped_actor self(*impl_->system);
  self->monitor(control);
  self->send(control, watch_tasks{});
  absl::Status status;
  while (!missing.empty() && status.ok()) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    self->receive([&](const task_up& m) { missing.erase(m.task); },
                  [&](const task_down& m) {
                    if (m.task != spec.task && (tasks.empty() || std::count(tasks.begin(), tasks.end(), m.task) > 0))
                      missing.insert(m.task);
                  },
                  [&](const caf::down_msg&) { status = Unavailable("the server stopped"); },
                  [&](caf::error& e) { status = ResourceExhausted(impl_->system->render(e)); },
                  caf::after(std::max(milliseconds(0), left)) >>
                      [&] {
                        std::vector<std::string> names;
                        for (const ClusterTask& task : missing) names.push_back(task.ToString());
                        status = DeadlineExceeded("within ", at_most.count(),
                                                  " ms these tasks have not come: ", StrJoin(names, ", "));
                      });
  }
  return status;
}

caf::actor ControlActorOf(const Server& server) { return server.impl()->Control(); }

std::string Server::target() const { return impl_->target; }
std::string Server::listens_at() const { return impl_->listens_at; }
std::shared_ptr<Runtime> Server::runtime() const { return impl_->runtime; }

absl::Status Server::Stop(milliseconds at_most) {
  TROUPE_RETURN_IF_ERROR(MayServe());
  return impl_->Stop(at_most);
}

absl::StatusOr<ServerStatus> AskServer(const HostPort& address, milliseconds at_most) {
  TROUPE_RETURN_IF_ERROR(MayServe());
  at_most = Bounded(at_most);
  const auto end = std::chrono::steady_clock::now() + at_most;
  const auto left = [&] { return std::max(milliseconds(100), LeftUntil(end)); };
  // Before there is an actor system for it.
  TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<TlsContext> tls, ClientTls());
  TROUPE_ASSIGN_OR_RETURN(const Reached answered, Probe(address, at_most, nullptr, tls));
  try {
    NoLoggerAfter restore;
    const auto config = NodeConfig(ClientPolicy().lease);
    caf::actor_system system(*config);
    TROUPE_ASSIGN_OR_RETURN(const caf::actor found, ConnectTo(system, answered, left()));
    TROUPE_ASSIGN_OR_RETURN(cluster_state state, Ask<cluster_state>(system, found, left(), get_cluster_state{}));
    return std::move(state.value);
  } catch (const std::exception& e) {
    return ResourceExhausted("a server could not be asked: ", e.what());
  }
}

}  // namespace troupe
