#include "troupe/session.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include <spdlog/spdlog.h>

#include "actors/actor_thread.h"
#include "actors/ask.h"
#include "actors/call_wait.h"
#include "actors/device_actor.h"
#include "actors/messages.h"
#include "actors/pending_run.h"
#include "actors/process.h"
#include "actors/session_actor.h"
#include "actors/set_nodes.h"
#include "actors/step/partial_step.h"
#include "actors/step_cut.h"
#include "graph/core/guarded.h"
#include "kernels/device/session_containers.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/variable.h"

namespace troupe {
namespace {

std::atomic<int64_t> next_session{1};

absl::Status RefuseInActor(std::string_view what) {
  return FailedPrecondition(what,
                            " waits for other threads, so it may not be called in an actor's handler or a callback");
}

std::atomic<int64_t> next_compile{1};

// Sends a request to the session's actor, which may be elsewhere: in wire mode both the request and
// its reply pass through their bytes. `heard` is called once; returns what names the asker.
template <class R, class Message>
caf::actor_addr Ask(const std::shared_ptr<SessionMaster>& master, Message message, Reply<R> heard) {
  caf::actor_system& system = master->system();
  if (master->wire_messages()) {
    absl::StatusOr<Message> copy = wire::ThroughBytes(system, message);
    if (!copy.ok()) {
      heard(R{copy.status()});
      return {};
    }
    message = *std::move(copy);
    heard = [&system, to = std::make_shared<Reply<R>>(std::move(heard)), weak = std::weak_ptr(master)](R reply) {
      absl::StatusOr<R> read = wire::ThroughBytes(system, reply);
      if (!read.ok()) return (*to)(R{read.status()});
      if constexpr (std::is_same_v<R, compile_reply>) {
        const std::shared_ptr<SessionMaster> session = weak.lock();
        if (session != nullptr && read->status.ok()) read->found = session->Find(read->signature);
        if (read->status.ok() && read->found == nullptr)
          read->status = Aborted("the session has no signature ", read->signature);
      }
      (*to)(*std::move(read));
    };
  }
  const caf::strong_actor_ptr me = NewListener<R>(system, std::move(heard));
  master->Send(AsRequest(me, std::move(message)));
  return caf::actor_cast<caf::actor_addr>(me);
}

// Asks for a signature. Returns what takes the question back, if it has not been answered.
std::function<void()> AskForSignature(const std::shared_ptr<SessionMaster>& master, compile_request request,
                                      Reply<compile_reply> heard) {
  const int64_t number = request.number = next_compile.fetch_add(1);
  return
      [asker = Ask<compile_reply>(master, std::move(request), std::move(heard)), number, weak = std::weak_ptr(master)] {
        const std::shared_ptr<SessionMaster> session = weak.lock();
        caf::strong_actor_ptr me = caf::actor_cast<caf::strong_actor_ptr>(asker);
        if (session == nullptr || me == nullptr) return;  // it has been answered
        session->Send(caf::make_mailbox_element(std::move(me), caf::make_message_id(), {}, withdraw_compile{number}));
      };
}

absl::StatusOr<std::shared_ptr<Signature>> CompileAndWait(const std::shared_ptr<SessionMaster>& master,
                                                          compile_request request, const Deadline& deadline,
                                                          const CancellationToken* token, proto::RunMetadata* parts) {
  auto wait = std::make_shared<CallWait<compile_reply>>();
  request.graphs = parts != nullptr;
  const auto withdraw =
      AskForSignature(master, std::move(request), [wait](compile_reply reply) { wait->Set(std::move(reply)); });
  compile_reply reply = wait->Wait(deadline, token, "the step's signature was not compiled");
  if (!reply.status.ok()) {
    withdraw();
    return reply.status;
  }
  if (parts != nullptr) AddPartitionGraphs(reply, parts);
  return std::move(reply.found);
}

// Runs a step when its signature has been compiled. `keep` lives until then; `compiled` may be
// empty.
void CompileAndRun(const std::shared_ptr<SessionMaster>& master, std::shared_ptr<void> keep, compile_request request,
                   const RunOptions& run_options, const Deadline& deadline, const FeedValues& feed_values,
                   RunCallback done, proto::RunMetadata* metadata,
                   std::function<void(const std::shared_ptr<Signature>&)> compiled) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < feed_values.size(); ++i) values.push_back(feed_values[i]);
  auto pending =
      PendingRun::Begin(master->shared_watch(), deadline, run_options.cancellation, std::move(values), std::move(done));
  request.graphs = run_options.partition_graphs && metadata != nullptr;
  // The token may be gone by the actor's turn; what it stands for is shared.
  const CancellationToken token = run_options.cancellation != nullptr ? *run_options.cancellation : CancellationToken();
  pending->WhenGivenUp(AskForSignature(master, std::move(request),
                                       [pending, keep = std::move(keep), options = RunOptions(run_options), deadline,
                                        token, metadata, compiled = std::move(compiled)](compile_reply reply) mutable {
                                         PendingRun::Taken run = pending->Take();
                                         if (reply.status.ok() && compiled) compiled(reply.found);
                                         if (!run.done) return;
                                         if (!reply.status.ok()) return CallDone(run.done, std::move(reply.status), {});
                                         if (metadata != nullptr) AddPartitionGraphs(reply, metadata);
                                         if (options.cancellation != nullptr) options.cancellation = &token;
                                         reply.found->RunAsync(options, deadline, absl::Span<const Tensor>(run.feeds),
                                                               std::move(run.done), metadata);
                                       }));
}

// There is nobody to tell how a step ended, or that it was refused; found at its end, that would be
// said of the wrong call.
void NoCallback() { spdlog::error("RunAsync was given no callback: nothing is run"); }

}  // namespace

struct Session::Impl : std::enable_shared_from_this<Session::Impl> {
  const int process = ThisProcess();
  std::shared_ptr<Runtime> runtime;
  SessionOptions options;
  std::string id;
  std::shared_ptr<SessionMaster> master;
  std::shared_ptr<SignatureCache> cache;  // the master's
  std::shared_ptr<std::atomic<bool>> closed = std::make_shared<std::atomic<bool>>(false);

  std::mutex partial_mu;
  int64_t partial_runs = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<PartialStep>> partial;
  size_t partial_sweep = 16;  // so many make it worth while to look for those that have failed
  // Why those failed that nobody has asked since; the oldest are forgotten.
  std::deque<std::pair<std::string, absl::Status>> partial_failed;

  std::mutex set_mu;
  absl::flat_hash_set<std::string> set_nodes;  // by which variables are set: the graph has them

  // Lets go of partial runs that are over: they have failed, or have ended without a fetch that a
  // call would take.
  void SweepPartialRunsLocked() {
    constexpr size_t kRemembered = 64;
    for (auto it = partial.begin(); it != partial.end();) {
      const auto each = it++;
      if (!each->second->over()) continue;
      absl::Status why = each->second->failure();
      if (!why.ok()) partial_failed.emplace_back(each->first, std::move(why));
      partial.erase(each);
    }
    while (partial_failed.size() > kRemembered) partial_failed.pop_front();
    partial_sweep = 2 * partial.size() + 16;
  }
  // Why a call names a partial run that is not there; of one that failed, its error, once.
  absl::Status NoPartialRunLocked(const std::string& handle) {
    for (auto it = partial_failed.begin(); it != partial_failed.end(); ++it) {
      if (it->first != handle) continue;
      absl::Status why = std::move(it->second);
      partial_failed.erase(it);
      return why;
    }
    return InvalidArgument("there is no partial run '", handle, "': it has not been set up, or is over");
  }

  void End() {
    master->Close();
    GiveUpPartialRuns();
  }
  std::string actor_name() const { return StrCat("session:", id); }
  // Waits until there is no actor any more, nor will be.
  void EndActor() {
    Runtime::Impl& in = *runtime->impl();
    caf::scoped_actor self(*in.system);
    in.root->children()->Doom(actor_name());
    while (const caf::actor supervisor = in.root->actor()) {
      self->monitor(supervisor);
      self->send(supervisor, remove_child{actor_name()});
      bool removed = false;
      self->receive([&](child_removed) { removed = true; }, [](const caf::down_msg&) {});
      // It lives on, and would keep what is left of each session's.
      self->demonitor(supervisor->address());
      if (removed) return;
    }
    // Nobody watches over it.
    const caf::actor actor = master->actor();
    if (!actor) return;
    self->monitor(actor);
    self->send_exit(actor, caf::exit_reason::user_shutdown);
    self->receive([](const caf::down_msg&) {});
  }

  ~Impl() { GiveUpPartialRuns(); }
  void GiveUpPartialRuns() {
    decltype(partial) runs;
    {
      std::lock_guard<std::mutex> lock(partial_mu);
      runs.swap(partial);
    }
    for (const auto& [handle, step] : runs) step->GiveUp();
  }

  template <class FeedNames>
  std::shared_ptr<Signature> Cached(const FeedNames& feeds, const Names& fetches, const Names& targets,
                                    std::string* key) {
    return cache->Find([&](std::string* k) { AppendSignatureKey(feeds, fetches, targets, k); }, key);
  }

  // Why no call can be made any more.
  absl::Status Usable() const {
    if (process != ThisProcess()) return OfAnotherProcess("session");
    if (closed->load(std::memory_order_relaxed)) return master->end();
    return absl::OkStatus();
  }

  absl::Status Extend(extend_request request) {
    TROUPE_RETURN_IF_ERROR(Usable());
    if (InsideActor()) return RefuseInActor("Extend");
    CallWait<absl::Status> waiter;
    Ask<extend_reply>(master, std::move(request), [&](extend_reply reply) { waiter.Set(std::move(reply.status)); });
    return waiter.Wait();
  }

  // A call's deadline counts from its beginning: compiling and running share it.
  Deadline DeadlineOf(int64_t timeout_ms) const {
    return timeout_ms <= 0 ? Deadline() : Deadline::In(timeout_ms, runtime->impl()->clock->Now());
  }
  Deadline DeadlineOf(const RunOptions& run) const {
    return DeadlineOf(run.timeout_ms != 0 ? run.timeout_ms : options.operation_timeout_ms);
  }

  template <class FeedNames>
  absl::StatusOr<std::shared_ptr<Signature>> Find(const FeedNames& feeds, const Names& fetches, const Names& targets,
                                                  const Deadline& deadline = {},
                                                  const CancellationToken* token = nullptr,
                                                  proto::RunMetadata* parts = nullptr) {
    TROUPE_RETURN_IF_ERROR(Usable());
    std::string key;
    if (auto s = Cached(feeds, fetches, targets, &key); s != nullptr && parts == nullptr) return s;
    if (InsideActor()) return RefuseInActor("the first Run of a signature");
    return CompileAndWait(master, {0, FeedNamesOf(feeds), fetches, targets, false}, deadline, token, parts);
  }
  static proto::RunMetadata* PartsOf(const RunOptions& options, proto::RunMetadata* metadata) {
    return options.partition_graphs ? metadata : nullptr;
  }
  static Names FeedNamesOf(const Names& names) { return names; }
  static Names FeedNamesOf(const Feeds& feeds) {
    Names names;
    for (const auto& [name, value] : feeds) names.push_back(name);
    return names;
  }
};

Session::Session(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

namespace {

absl::Status CheckOptions(const SessionOptions& options) {
  if (options.max_signatures < 0) return InvalidArgument("max_signatures is negative");
  if (options.max_partial_runs < 0) return InvalidArgument("max_partial_runs is negative");
  if (options.runtime != nullptr && options.runtime->impl()->process != ThisProcess())
    return OfAnotherProcess("runtime");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  KnowThreadsEnd();
  CountForks();
  TROUPE_RETURN_IF_ERROR(CheckOptions(options));
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  if (const char* wire = std::getenv("TROUPE_WIRE_MESSAGES"); wire != nullptr && std::string_view(wire) == "1")
    impl->options.wire_messages = true;
  impl->runtime = options.runtime;
  if (impl->runtime == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(impl->runtime, Runtime::Start(options.runtime_options));
  }
  impl->id = StrCat(next_session.fetch_add(1));
  impl->master = std::make_shared<SessionMaster>(impl->runtime, impl->options, impl->id, impl->closed);
  impl->cache = impl->master->cache();
  Runtime::Impl& in = *impl->runtime->impl();
  ChildSpec spec;
  spec.name = impl->actor_name();
  spec.policy = in.policies.session;
  // The supervisor keeps no session alive.
  spec.spawn = [weak = std::weak_ptr(impl->master)](caf::actor_system& system, uint64_t) {
    const std::shared_ptr<SessionMaster> master = weak.lock();
    return master == nullptr ? caf::actor() : SpawnSession(system, master);
  };
  spec.failed = [name = spec.name](const std::string& why) {
    spdlog::warn("actor '{}' failed ({}); it is restarted", name, why);
  };
  spec.gave_up = [name = spec.name, weak = std::weak_ptr(impl->master)](const std::string& why) {
    spdlog::error("actor '{}' failed too often ({}); it is not restarted", name, why);
    if (const std::shared_ptr<SessionMaster> master = weak.lock()) master->GiveUp(why);
  };
  const caf::actor first = spec.spawn(*in.system, 1);
  impl->master->Attach(first);
  in.root->children()->Adopt(std::move(spec), first);
  caf::anon_send(in.root->actor(), add_child{impl->actor_name()});
  {
    std::lock_guard<std::mutex> lock(in.mu);
    in.on_failure[impl.get()] = [weak = std::weak_ptr(impl->master)](const Failure& failure) {
      if (const std::shared_ptr<SessionMaster> master = weak.lock()) master->OnFailure(failure);
    };
    std::lock_guard<std::mutex> steps_lock(in.steps->mu);
    in.steps->ask[impl.get()] = [weak = std::weak_ptr(impl->master)](const Runtime::Impl::Answered& answered) {
      Runtime::Impl::Questions questions;
      const std::shared_ptr<SessionMaster> master = weak.lock();
      if (master == nullptr) return questions;
      for (Signature::Asked& a : master->Ask(answered)) questions.push_back(std::move(a.question));
      return questions;
    };
  }
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::~Session() {
  if (impl_->process != ThisProcess()) {
    (void)new std::shared_ptr<Impl>(std::move(impl_));  // it is the parent's, and stays
    return;
  }
  {
    Runtime::Impl& runtime = *impl_->runtime->impl();
    std::lock_guard<std::mutex> lock(runtime.mu);
    runtime.on_failure.erase(impl_.get());
    std::lock_guard<std::mutex> steps_lock(runtime.steps->mu);
    runtime.steps->ask.erase(impl_.get());
  }
  if (InsideActor()) {
    impl_->master->shared_watch()->EndReports(false);
    impl_->End();
    RootSupervisor& root = *impl_->runtime->impl()->root;
    root.children()->Doom(impl_->actor_name());
    caf::anon_send(root.actor(), remove_child{impl_->actor_name()});
    return;
  }
  OnSoundThread([this] {
    impl_->End();
    impl_->master->shared_watch()->EndReports(true);
    // The shares of the runtime that the session's actor and its work have go before ours does, so
    // that whoever owns the actor system may end it next.
    NoLoggerAfter restore;
    impl_->EndActor();
    constexpr std::chrono::seconds kPatience{5};  // with a kernel whose constructor does not return, say
    (void)impl_->master->WaitForWork(kPatience);
  });
}

absl::Status Session::Extend(const proto::GraphDef& def) {
  // Lent: this call lasts until the answer.
  return impl_->Extend({std::shared_ptr<const proto::GraphDef>(std::shared_ptr<void>(), &def), nullptr});
}

absl::Status Session::Extend(const Graph& from) {
  return impl_->Extend({nullptr, std::shared_ptr<const Graph>(std::shared_ptr<void>(), &from)});
}

absl::Status Session::Run(const FeedList& feeds, const NameList& fetches, const NameList& targets,
                          std::vector<Tensor>* outputs) {
  return Run({}, feeds, fetches, targets, outputs, nullptr);
}

absl::Status Session::Run(const RunOptions& options, const FeedList& feeds, const NameList& fetches,
                          const NameList& targets, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  try {
    const Deadline deadline = impl_->DeadlineOf(options);
    TROUPE_ASSIGN_OR_RETURN(const std::shared_ptr<Signature> s,
                            impl_->Find(feeds.get(), fetches.get(), targets.get(), deadline, options.cancellation,
                                        Impl::PartsOf(options, metadata)));
    return s->RunBlocking(options, deadline, FeedValues(feeds.get()), outputs, metadata);
  } catch (const std::bad_alloc&) {
    return ThrownStatus("the search for the compiled step");
  }
}

void Session::RunAsync(const RunOptions& options, const FeedList& feeds, const NameList& fetches,
                       const NameList& targets, RunCallback done, proto::RunMetadata* metadata) {
  if (done == nullptr) return NoCallback();
  if (absl::Status s = impl_->Usable(); !s.ok()) return CallDone(done, std::move(s), {});
  std::string key;
  proto::RunMetadata* parts = Impl::PartsOf(options, metadata);
  if (auto s = impl_->Cached(feeds.get(), fetches.get(), targets.get(), &key); s != nullptr && parts == nullptr)
    return s->RunAsync(options, s->DeadlineOf(options), FeedValues(feeds.get()), std::move(done), metadata);
  // The callback, which may come before this returns, may destroy the session.
  const std::shared_ptr<Impl> impl = impl_;
  CompileAndRun(impl->master, impl, {0, Impl::FeedNamesOf(feeds.get()), fetches.get(), targets.get(), false}, options,
                impl->DeadlineOf(options), FeedValues(feeds.get()), std::move(done), metadata, nullptr);
}

absl::StatusOr<Callable> Session::Prepare(const NameList& feeds, const NameList& fetches, const NameList& targets) {
  TROUPE_ASSIGN_OR_RETURN(
      std::shared_ptr<Signature> s,
      impl_->Find(feeds.get(), fetches.get(), targets.get(), impl_->DeadlineOf(impl_->options.operation_timeout_ms)));
  Callable c;
  c.signature_ = std::move(s);
  c.process_ = impl_->process;
  return c;
}

absl::StatusOr<Tensor> Session::Get(const GraphName& tensor) {
  if (InsideActor()) return RefuseInActor("Get");
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(Run({}, {tensor}, {}, &out));
  if (out[0].dtype() == DType::kResource) {
    const std::string_view name = std::string_view(tensor.text()).substr(0, tensor.text().find(':'));
    return InvalidArgument("Get of '", name, "': this is a resource handle, not a value; to get the value of a ",
                           "variable, give Get the Variable, or the name of a node that reads it ('", name,
                           "/Read' when a Variable built it)");
  }
  return std::move(out[0]);
}

absl::Status Session::Set(const Variable& variable, const Tensor& value) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  if (InsideActor()) return RefuseInActor("Set");
  TROUPE_RETURN_IF_ERROR(CheckSet(variable, value));
  const std::string name = variable.variable_name();
  const SetNodes nodes(variable);
  {
    std::lock_guard<std::mutex> lock(impl_->set_mu);
    if (!impl_->set_nodes.contains(nodes.assign)) {
      const absl::Status added = Extend(nodes.Graph());
      if (absl::IsInvalidArgument(added)) {
        return NotFound("Set of '", name, "': the session has no such variable (", added.message(),
                        "); call Extend with the variable's graph first");
      }
      TROUPE_RETURN_IF_ERROR(Annotate(added, StrCat("Set of '", name, "'")));
      impl_->set_nodes.insert(nodes.assign);
    }
  }
  // The variable may keep what it is given, which the memory limit counts.
  Tensor copy = value.Clone(impl_->runtime->impl()->allocator.get());
  if (!copy.valid()) return ResourceExhausted("Set of '", name, "': no memory for ", value.shape().DebugString());
  return Run({{nodes.value, std::move(copy)}}, {}, {nodes.assign}, nullptr);
}

absl::StatusOr<std::string> Session::PartialRunSetup(const RunOptions& options, const NameList& feeds,
                                                     const NameList& fetches, const NameList& targets) {
  const Deadline deadline = impl_->DeadlineOf(options.timeout_ms);
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Signature> s,
                          impl_->Find(feeds.get(), fetches.get(), targets.get(), deadline, options.cancellation));
  if (options.cancellation != nullptr && options.cancellation->cancelled()) return CancelledByCaller();
  {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    const auto bound = static_cast<size_t>(impl_->options.max_partial_runs);
    if (impl_->partial.size() >= std::min(impl_->partial_sweep, bound)) impl_->SweepPartialRunsLocked();
    if (impl_->partial.size() >= bound) {
      return ResourceExhausted(bound, " partial runs are open, which is SessionOptions.max_partial_runs: ",
                               "take their fetches, give them a deadline, or give them up by PartialRunCancel");
    }
  }
  if (s->turns != nullptr) TROUPE_RETURN_IF_ERROR(s->turns->Start());
  auto step = std::make_shared<PartialStep>(std::move(s));
  step->Start(options, deadline);
  std::string handle;
  {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    handle = StrCat("partial/", ++impl_->partial_runs);
    impl_->partial[handle] = std::move(step);
  }
  // Close gives up what it finds.
  if (impl_->closed->load()) impl_->GiveUpPartialRuns();
  return handle;
}

absl::Status Session::PartialRun(const RunOptions& options, const std::string& handle, const FeedList& feeds,
                                 const NameList& fetches, std::vector<Tensor>* outputs) {
  if (InsideActor()) return RefuseInActor("PartialRun");
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  std::shared_ptr<PartialStep> step;
  {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    const auto it = impl_->partial.find(handle);
    if (it == impl_->partial.end()) return impl_->NoPartialRunLocked(handle);
    step = it->second;
  }
  absl::Status s;
  try {
    s = step->Run(options, feeds.get(), fetches.get(), outputs);
  } catch (const std::bad_alloc&) {
    // Some of the feeds may have come, others not.
    step->GiveUp();
    s = ThrownStatus("the partial run");
  }
  if (step->over()) {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    impl_->partial.erase(handle);
  }
  return s;
}

absl::Status Session::PartialRunCancel(const std::string& handle) {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  std::shared_ptr<PartialStep> step;
  {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    const auto it = impl_->partial.find(handle);
    if (it == impl_->partial.end()) return impl_->NoPartialRunLocked(handle);
    step = std::move(it->second);
    impl_->partial.erase(it);
  }
  step->GiveUp();
  return absl::OkStatus();
}

absl::Status Session::Close() {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  if (!impl_->closed->load()) impl_->End();
  return absl::OkStatus();
}

absl::Status Session::Reset(const std::vector<std::string>& containers) {
  if (impl_->process != ThisProcess()) return OfAnotherProcess("session");
  if (InsideActor()) return RefuseInActor("Reset");
  Runtime::Impl& runtime = *impl_->runtime->impl();
  for (const auto& device : runtime.devices) {
    const caf::actor actor = runtime.directory->Find("container:" + device->name());
    if (!actor) return runtime.directory->WhyDown("container:" + device->name());
    reset_resources request{containers};
    if (std::find(containers.begin(), containers.end(), "") != containers.end())
      request.containers.push_back(OwnVariables(impl_->id));
    TROUPE_ASSIGN_OR_RETURN(
        const resources_reset reply,
        Ask<resources_reset>(*runtime.system, actor, std::move(request), impl_->options.wire_messages));
    TROUPE_RETURN_IF_ERROR(reply.status);
  }
  return absl::OkStatus();
}

namespace {

// Names of the session's own containers in a snapshot, which is of no session, and on a device.
std::string OnDevice(const std::string& container, const std::string& session) {
  return container == kOwnVariablesContainer ? OwnVariables(session)
         : container == kOwnStateContainer   ? OwnState(session)
                                             : container;
}
std::string InSnapshot(const std::string& container, const std::string& session) {
  return container == OwnVariables(session) ? kOwnVariablesContainer
         : container == OwnState(session)   ? kOwnStateContainer
                                            : container;
}

absl::Status CheckContainers(const std::vector<std::string>& containers, bool own) {
  for (const std::string& c : containers) {
    if (!c.empty() && c[0] == '/' && !(own && (c == kOwnVariablesContainer || c == kOwnStateContainer)))
      return InvalidArgument("container '", c, "' is no name for a container: it begins with '/'");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StateSnapshot> Session::SnapshotState(const SnapshotOptions& options) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  if (InsideActor()) return RefuseInActor("SnapshotState");
  TROUPE_RETURN_IF_ERROR(CheckContainers(options.containers, false));
  StateSnapshot snapshot;
  snapshot.containers = options.containers;
  snapshot.containers.push_back(kOwnVariablesContainer);
  snapshot.containers.push_back(kOwnStateContainer);
  const int64_t ms = options.timeout_ms != 0 ? options.timeout_ms : impl_->options.operation_timeout_ms;
  const caf::duration wait = ms > 0 ? caf::duration(std::chrono::milliseconds(ms)) : caf::duration(caf::infinite);
  Runtime::Impl& runtime = *impl_->runtime->impl();
  snapshot_resources request;
  for (const std::string& c : snapshot.containers) request.containers.push_back(OnDevice(c, impl_->id));
  const auto take = [&]() -> absl::Status {
    for (const auto& device : runtime.devices) {
      const caf::actor actor = runtime.directory->Find("container:" + device->name());
      if (!actor) return runtime.directory->WhyDown("container:" + device->name());
      TROUPE_ASSIGN_OR_RETURN(resource_snapshot reply,
                              Ask<resource_snapshot>(*runtime.system, actor, request, impl_->options.wire_messages,
                                                     wait, "updates of variables did not end"));
      TROUPE_RETURN_IF_ERROR(reply.status);
      for (resource_snapshot::Entry& e : reply.entries) {
        snapshot.entries.push_back({device->name(), InSnapshot(e.container, impl_->id), std::move(e.name),
                                    std::move(e.kind), std::move(e.tensors)});
      }
    }
    return absl::OkStatus();
  };
  const SteadyTime at = ms > 0 ? TimeAfter(std::chrono::steady_clock::now(), ms) : SteadyTime::max();
  const SessionMaster& master = *impl_->master;
  StepCut cut(&master.gate(), [&] { return master.Living(); });
  TROUPE_RETURN_IF_ERROR(options.between_steps ? master.gate().WhileShut(
                                                     at, [&] { return cut.Busy(); }, take)
                                               : take());
  return snapshot;
}

absl::Status Session::RestoreState(const StateSnapshot& snapshot) {
  TROUPE_RETURN_IF_ERROR(impl_->Usable());
  if (InsideActor()) return RefuseInActor("RestoreState");
  TROUPE_RETURN_IF_ERROR(CheckContainers(snapshot.containers, true));
  Runtime::Impl& runtime = *impl_->runtime->impl();
  std::map<std::string, restore_resources> requests;  // by device
  for (const auto& device : runtime.devices) {
    for (const std::string& c : snapshot.containers) requests[device->name()].whole.push_back(OnDevice(c, impl_->id));
  }
  for (const StateSnapshot::Entry& e : snapshot.entries) {
    TROUPE_RETURN_IF_ERROR(CheckContainers({e.container}, true));
    const bool known = std::any_of(runtime.devices.begin(), runtime.devices.end(),
                                   [&](const auto& d) { return d->name() == e.device; });
    if (!known)
      return NotFound("'", e.name, "' was saved on device '", e.device, "', which this runtime does not have");
    requests[e.device].entries.push_back({OnDevice(e.container, impl_->id), e.name, e.kind, e.tensors});
  }
  for (auto& [device, request] : requests) {
    const caf::actor actor = runtime.directory->Find("container:" + device);
    if (!actor) return runtime.directory->WhyDown("container:" + device);
    TROUPE_ASSIGN_OR_RETURN(
        const resources_restored reply,
        Ask<resources_restored>(*runtime.system, actor, std::move(request), impl_->options.wire_messages));
    TROUPE_RETURN_IF_ERROR(reply.status);
  }
  return absl::OkStatus();
}

std::vector<std::string> Session::RunningSteps() const {
  if (impl_->process != ThisProcess()) return {};
  struct Answers {
    std::mutex mu;
    std::condition_variable came;
    std::optional<std::vector<Signature::Asked>> asked;
    size_t answered = 0;
  };
  auto answers = std::make_shared<Answers>();
  const auto answered = [answers](const std::shared_ptr<StepQuestion>&) {
    std::lock_guard<std::mutex> lock(answers->mu);
    ++answers->answered;
    answers->came.notify_all();
  };
  // A part may answer before this returns.
  std::vector<Signature::Asked> asked = impl_->master->Ask(answered);
  std::unique_lock<std::mutex> lock(answers->mu);
  answers->asked = std::move(asked);
  // A part answers in its turn; one whose turn does not end is named without an answer.
  answers->came.wait_for(lock, std::chrono::milliseconds(100),
                         [&] { return answers->asked && answers->answered == answers->asked->size(); });
  std::vector<std::string> lines;
  if (!answers->asked) return lines;
  // A question that is never answered keeps what it would tell, which must not keep the question.
  asked = *std::exchange(answers->asked, std::nullopt);
  lock.unlock();
  std::sort(asked.begin(), asked.end(),
            [](const Signature::Asked& a, const Signature::Asked& b) { return a.step_id < b.step_id; });
  for (const Signature::Asked& a : asked) {
    for (const std::string& l : a.question->Lines())
      lines.push_back(l.rfind(' ', 0) == 0 ? l : StrCat("step ", a.step_id, " (", a.what, "): ", l));
  }
  return lines;
}

namespace {

// Compiles what `old` was compiled for anew. Blocks.
absl::StatusOr<std::shared_ptr<Signature>> Renew(const std::shared_ptr<Signature>& old, const Deadline& deadline,
                                                 const CancellationToken* token) {
  const std::shared_ptr<SessionMaster> master = old->master.lock();
  if (master == nullptr) return old;  // the session is closed, which is what a step of it says
  if (InsideActor()) return RefuseInActor("the first Run after a device was restarted");
  TROUPE_ASSIGN_OR_RETURN(
      std::shared_ptr<Signature> fresh,
      CompileAndWait(master, {0, old->feeds, old->fetches, old->targets, false}, deadline, token, nullptr));
  old->SetSuccessor(fresh);
  return fresh;
}

// The one that `s` has been followed by, or itself.
std::shared_ptr<Signature> Latest(std::shared_ptr<Signature> s) {
  const std::shared_ptr<Signature> first = s;
  while (s->stale()) {
    std::shared_ptr<Signature> next = s->successor();
    if (next == nullptr) break;
    s = std::move(next);
  }
  if (s != first) first->SetSuccessor(s);
  return s;
}

absl::Status RunRenewed(const std::shared_ptr<Signature>& signature, const RunOptions& options,
                        absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  const Deadline deadline = signature->DeadlineOf(options);
  std::shared_ptr<Signature> s = Latest(signature);
  if (s->stale()) {
    TROUPE_ASSIGN_OR_RETURN(s, Renew(s, deadline, options.cancellation));
  }
  return s->RunBlocking(options, deadline, feeds, outputs, metadata);
}

void RunRenewedAsync(const std::shared_ptr<Signature>& signature, const RunOptions& options,
                     absl::Span<const Tensor> feeds, RunCallback done, proto::RunMetadata* metadata) {
  const Deadline deadline = signature->DeadlineOf(options);
  const std::shared_ptr<Signature> s = Latest(signature);
  const std::shared_ptr<SessionMaster> master = s->stale() ? s->master.lock() : nullptr;
  if (master == nullptr) return s->RunAsync(options, deadline, feeds, std::move(done), metadata);
  if (absl::Status wrong = s->CheckFeeds(feeds); !wrong.ok()) return CallDone(done, std::move(wrong), {});
  RunOptions plain = options;
  plain.partition_graphs = false;  // a Callable has none to give
  CompileAndRun(master, s, {0, s->feeds, s->fetches, s->targets, false}, plain, deadline, feeds, std::move(done),
                metadata, [s](const std::shared_ptr<Signature>& fresh) { s->SetSuccessor(fresh); });
}

}  // namespace

absl::Status Callable::Usable() const {
  if (signature_ == nullptr)
    return FailedPrecondition("the Callable is empty: it was not made by Session::Prepare, or was moved from");
  return process_ == ThisProcess() ? absl::OkStatus() : OfAnotherProcess("session");
}
absl::Status Callable::Run(absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs) const {
  return Run({}, feeds, outputs);
}
absl::Status Callable::Run(const RunOptions& options, absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs,
                           proto::RunMetadata* metadata) const {
  if (signature_ == nullptr || process_ != ThisProcess()) [[unlikely]]
    return Usable();
  if (signature_->stale()) [[unlikely]]
    return RunRenewed(signature_, options, feeds, outputs, metadata);
  return signature_->RunBlocking(options, signature_->DeadlineOf(options), feeds, outputs, metadata);
}
void Callable::RunAsync(const RunOptions& options, absl::Span<const Tensor> feeds, RunCallback done,
                        proto::RunMetadata* metadata) const {
  if (done == nullptr) [[unlikely]]
    return NoCallback();
  if (signature_ == nullptr || process_ != ThisProcess()) [[unlikely]]
    return CallDone(done, Usable(), {});
  if (signature_->stale()) [[unlikely]]
    return RunRenewedAsync(signature_, options, feeds, std::move(done), metadata);
  signature_->RunAsync(options, signature_->DeadlineOf(options), feeds, std::move(done), metadata);
}

caf::actor ActorOf(const Session& session) { return session.impl()->master->actor(); }

Runtime* Session::runtime() const { return impl_->runtime.get(); }

}  // namespace troupe
