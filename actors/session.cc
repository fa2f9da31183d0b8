#include "troupe/actors/session.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "troupe/actors/actor_thread.h"
#include "troupe/actors/call_wait.h"
#include "troupe/actors/device_actor.h"
#include "troupe/actors/messages.h"
#include "troupe/actors/partial_step.h"
#include "troupe/actors/pending_run.h"
#include "troupe/actors/session_actor.h"
#include "troupe/graph/ir/import_export.h"
#include "troupe/kernels/device/session_containers.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

std::atomic<int64_t> next_session{1};

absl::Status RefuseInActor(std::string_view what) {
  return FailedPrecondition(what, " blocks and may not be called inside an actor's handler");
}

}  // namespace

struct Session::Impl : std::enable_shared_from_this<Session::Impl> {
  std::shared_ptr<Runtime> runtime;
  SessionOptions options;
  std::string id;
  std::shared_ptr<SessionMaster> master;
  caf::actor actor;
  std::shared_ptr<std::atomic<bool>> closed = std::make_shared<std::atomic<bool>>(false);

  std::mutex partial_mu;
  int64_t partial_runs = 0;
  absl::flat_hash_map<std::string, std::shared_ptr<PartialStep>> partial;

  ~Impl() { GiveUpPartialRuns(); }
  void GiveUpPartialRuns() {
    decltype(partial) runs;
    {
      std::lock_guard<std::mutex> lock(partial_mu);
      runs.swap(partial);
    }
    for (const auto& [handle, step] : runs) step->GiveUp();
  }

  // Signatures by key, replicated, so that threads look up without sharing a lock.
  static constexpr size_t kStripes = 16;
  struct alignas(64) Stripe {
    std::mutex mu;
    absl::flat_hash_map<std::string, std::shared_ptr<Signature>> map;
    std::string key;  // scratch
  };
  Stripe stripes[kStripes];

  Stripe& MyStripe() {
    static std::atomic<size_t> next{0};
    thread_local const size_t mine = next.fetch_add(1);
    return stripes[mine % kStripes];
  }

  template <class FeedNames>
  std::shared_ptr<Signature> Cached(const FeedNames& feeds, const Names& fetches, const Names& targets,
                                    std::string* key) {
    Stripe& s = MyStripe();
    std::lock_guard<std::mutex> lock(s.mu);
    s.key.clear();
    const auto add = [&](const std::string& n) {
      s.key += n;
      s.key += '\n';
    };
    for (const auto& f : feeds) {
      if constexpr (std::is_same_v<std::decay_t<decltype(f)>, std::string>) {
        add(f);
      } else {
        add(f.first);
      }
    }
    s.key += '\t';
    for (const std::string& n : fetches) add(n);
    s.key += '\t';
    for (const std::string& n : targets) add(n);
    s.key += '\t';
    const auto it = s.map.find(s.key);
    if (it != s.map.end()) return it->second;
    *key = s.key;
    return nullptr;
  }

  // With `parts`, the graphs of the parts are written there first.
  void Compile(std::string key, Names feeds, Names fetches, Names targets, proto::RunMetadata* parts,
               SignatureCallback done) {
    auto call = std::make_shared<CompileCall>();
    call->key = std::move(key);
    call->feeds = std::move(feeds);
    call->fetches = std::move(fetches);
    call->targets = std::move(targets);
    call->parts = parts;
    if (call->key.empty()) call->key = SignatureKey(call->feeds, call->fetches, call->targets);
    call->done = [this, keep = shared_from_this(), key = call->key,
                  done = std::move(done)](absl::StatusOr<std::shared_ptr<Signature>> s) {
      if (s.ok()) {
        for (Stripe& stripe : stripes) {
          // Each stripe counts the uses of its own threads.
          std::shared_ptr<Signature> counted(s->get(), [keep = *s](Signature*) {});
          std::lock_guard<std::mutex> lock(stripe.mu);
          stripe.map[key] = std::move(counted);
        }
      }
      done(std::move(s));
    };
    caf::anon_send(actor, std::move(call));
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
    if (closed->load(std::memory_order_relaxed)) return Cancelled("the session is closed");
    std::string key;
    if (auto s = Cached(feeds, fetches, targets, &key); s != nullptr && parts == nullptr) return s;
    if (InsideActor()) return RefuseInActor("the first Run of a signature");
    // The compile goes on when the call has ended, so it writes to what it shares.
    auto made = parts == nullptr ? nullptr : std::make_shared<proto::RunMetadata>();
    auto wait = std::make_shared<CallWait<absl::StatusOr<std::shared_ptr<Signature>>>>();
    Compile(std::move(key), FeedNamesOf(feeds), fetches, targets, made.get(),
            [wait, made](auto s) { wait->Set(std::move(s)); });
    auto s = wait->Wait(deadline, token, "the step's signature was not compiled");
    if (s.ok() && parts != nullptr) parts->MergeFrom(*made);
    return s;
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

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const SessionOptions& options) {
  KnowThreadsEnd();
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  impl->runtime = options.runtime;
  if (impl->runtime == nullptr) {
    TROUPE_ASSIGN_OR_RETURN(impl->runtime, Runtime::Start(options.runtime_options));
  }
  impl->id = StrCat(next_session.fetch_add(1));
  impl->master = std::make_shared<SessionMaster>(impl->runtime, options, impl->id, impl->closed);
  impl->actor = SpawnSession(*impl->runtime->impl()->system, impl->master);
  {
    Runtime::Impl& runtime = *impl->runtime->impl();
    std::lock_guard<std::mutex> lock(runtime.mu);
    runtime.on_failure[impl.get()] = [master = impl->master, actor = impl->actor](const absl::Status& status) {
      caf::anon_send(actor, std::make_shared<MasterThen>([status](SessionMaster& m) { m.AbortAll(status); }));
    };
  }
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::~Session() {
  {
    Runtime::Impl& runtime = *impl_->runtime->impl();
    std::lock_guard<std::mutex> lock(runtime.mu);
    runtime.on_failure.erase(impl_.get());
  }
  if (InsideActor()) {
    caf::anon_send_exit(impl_->actor, caf::exit_reason::user_shutdown);
    return;
  }
  OnSoundThread([this] {
    (void)Close();
    // The session actor's share of the runtime goes before ours does, so that whoever owns the actor system may end it next.
    NoLoggerAfter restore;
    caf::scoped_actor self(*impl_->runtime->impl()->system);
    self->monitor(impl_->actor);
    self->send_exit(impl_->actor, caf::exit_reason::user_shutdown);
    self->receive([](const caf::down_msg&) {});
  });
}

absl::Status Session::Extend(const proto::GraphDef& def) {
  if (InsideActor()) return RefuseInActor("Extend");
  CallWait<absl::Status> waiter;
  auto call = std::make_shared<ExtendCall>();
  call->import = [&](Graph* graph) { return ImportGraphDef(def, {}, graph).status(); };
  call->done = [&](absl::Status s) { waiter.Set(std::move(s)); };
  caf::anon_send(impl_->actor, std::move(call));
  return waiter.Wait();
}

absl::Status Session::Extend(const Graph& from) {
  if (InsideActor()) return RefuseInActor("Extend");
  CallWait<absl::Status> waiter;
  auto call = std::make_shared<ExtendCall>();
  call->import = [&](Graph* to) -> absl::Status {
    std::vector<Node*> added(from.num_node_ids(), nullptr);
    for (const Node* n : from.op_nodes()) {
      if (to->Find(n->name()) == nullptr) {
        TROUPE_ASSIGN_OR_RETURN(added[n->id()], to->CopyNode(*n, n->name()));
      }
    }
    for (const Node* n : from.op_nodes()) {
      Node* dst = added[n->id()];
      if (dst == nullptr) continue;
      for (const Edge* e : n->in_edges()) {
        if (!e->src->IsOp()) continue;
        Node* src = to->Find(e->src->name());
        if (src == nullptr) return Internal("node '", e->src->name(), "' went missing");
        if (e->IsControl()) {
          to->AddControlEdgeUnchecked(src, dst);
        } else {
          TROUPE_RETURN_IF_ERROR(to->AddEdge(src, e->src_output, dst, e->dst_input).status());
        }
      }
    }
    return absl::OkStatus();
  };
  call->done = [&](absl::Status s) { waiter.Set(std::move(s)); };
  caf::anon_send(impl_->actor, std::move(call));
  return waiter.Wait();
}

absl::Status Session::Run(const Feeds& feeds, const Names& fetches, const Names& targets,
                          std::vector<Tensor>* outputs) {
  return Run({}, feeds, fetches, targets, outputs, nullptr);
}

absl::Status Session::Run(const RunOptions& options, const Feeds& feeds, const Names& fetches, const Names& targets,
                          std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  const Deadline deadline = impl_->DeadlineOf(options);
  TROUPE_ASSIGN_OR_RETURN(
      const std::shared_ptr<Signature> s,
      impl_->Find(feeds, fetches, targets, deadline, options.cancellation, Impl::PartsOf(options, metadata)));
  return s->RunBlocking(options, deadline, FeedValues(feeds), outputs, metadata);
}

void Session::RunAsync(const RunOptions& options, const Feeds& feeds, const Names& fetches, const Names& targets,
                       RunCallback done, proto::RunMetadata* metadata) {
  if (impl_->closed->load()) return CallDone(done, Cancelled("the session is closed"), {});
  std::string key;
  proto::RunMetadata* parts = Impl::PartsOf(options, metadata);
  if (auto s = impl_->Cached(feeds, fetches, targets, &key); s != nullptr && parts == nullptr)
    return s->RunAsync(options, s->DeadlineOf(options), FeedValues(feeds), std::move(done), metadata);
  std::vector<Tensor> values;
  for (const auto& [name, value] : feeds) values.push_back(value);
  const Deadline deadline = impl_->DeadlineOf(options);
  auto pending = PendingRun::Begin(impl_->master->shared_watch(), deadline, options.cancellation, std::move(done));
  // The compile goes on when the call has been answered, so it writes to what it shares.
  auto made = parts == nullptr ? nullptr : std::make_shared<proto::RunMetadata>();
  // The token may be gone by the actor's turn; what it stands for is shared.
  const CancellationToken token = options.cancellation != nullptr ? *options.cancellation : CancellationToken();
  impl_->Compile(std::move(key), Impl::FeedNamesOf(feeds), fetches, targets, made.get(),
                 [values = std::move(values), pending, made, keep = impl_, options = RunOptions(options), deadline,
                  token, metadata](auto s) mutable {
                   RunCallback done = pending->Take();
                   if (!done) return;
                   if (!s.ok()) return CallDone(done, s.status(), {});
                   if (made != nullptr) metadata->MergeFrom(*made);
                   if (options.cancellation != nullptr) options.cancellation = &token;
                   (*s)->RunAsync(options, deadline, absl::Span<const Tensor>(values), std::move(done), metadata);
                 });
}

absl::StatusOr<Callable> Session::Prepare(const Names& feeds, const Names& fetches, const Names& targets) {
  TROUPE_ASSIGN_OR_RETURN(
      std::shared_ptr<Signature> s,
      impl_->Find(feeds, fetches, targets, impl_->DeadlineOf(impl_->options.operation_timeout_ms)));
  Callable c;
  c.signature_ = std::move(s);
  return c;
}

absl::StatusOr<std::string> Session::PartialRunSetup(const RunOptions& options, const Names& feeds,
                                                     const Names& fetches, const Names& targets) {
  const Deadline deadline = impl_->DeadlineOf(options.timeout_ms);
  TROUPE_ASSIGN_OR_RETURN(std::shared_ptr<Signature> s,
                          impl_->Find(feeds, fetches, targets, deadline, options.cancellation));
  auto step = std::make_shared<PartialStep>(std::move(s));
  step->Start(options, deadline);
  std::lock_guard<std::mutex> lock(impl_->partial_mu);
  std::string handle = StrCat("partial/", ++impl_->partial_runs);
  impl_->partial[handle] = std::move(step);
  return handle;
}

absl::Status Session::PartialRun(const RunOptions& options, const std::string& handle, const Feeds& feeds,
                                 const Names& fetches, std::vector<Tensor>* outputs) {
  if (InsideActor()) return RefuseInActor("PartialRun");
  if (impl_->closed->load()) return Cancelled("the session is closed");
  std::shared_ptr<PartialStep> step;
  {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    const auto it = impl_->partial.find(handle);
    if (it == impl_->partial.end())
      return InvalidArgument("there is no partial run '", handle, "': it has not been set up, or is over");
    step = it->second;
  }
  absl::Status s = step->Run(options, feeds, fetches, outputs);
  if (step->over()) {
    std::lock_guard<std::mutex> lock(impl_->partial_mu);
    impl_->partial.erase(handle);
  }
  return s;
}

absl::Status Session::Close() {
  if (impl_->closed->load()) return absl::OkStatus();
  if (InsideActor()) return RefuseInActor("Close");
  CallWait<absl::Status> waiter;
  auto call = std::make_shared<CloseCall>();
  call->done = [&](absl::Status s) { waiter.Set(std::move(s)); };
  caf::anon_send(impl_->actor, std::move(call));
  absl::Status s = waiter.Wait();
  impl_->GiveUpPartialRuns();
  for (Impl::Stripe& stripe : impl_->stripes) {
    std::lock_guard<std::mutex> lock(stripe.mu);
    stripe.map.clear();
  }
  return s;
}

absl::Status Session::Reset(const Names& containers) {
  if (InsideActor()) return RefuseInActor("Reset");
  Runtime::Impl& runtime = *impl_->runtime->impl();
  for (const auto& device : runtime.devices) {
    const caf::actor actor = runtime.directory->Find("container:" + device->name());
    if (!actor) return runtime.directory->WhyDown("container:" + device->name());
    CallWait<absl::Status> waiter;
    auto call = std::make_shared<ContainerResetCall>();
    call->containers = containers;
    if (std::find(containers.begin(), containers.end(), "") != containers.end())
      call->containers.push_back(OwnVariables(impl_->id));
    call->done = [&](absl::Status s) { waiter.Set(std::move(s)); };
    caf::anon_send(actor, std::move(call));
    TROUPE_RETURN_IF_ERROR(waiter.Wait());
  }
  return absl::OkStatus();
}

std::vector<std::string> Session::Status() const {
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
  caf::anon_send(impl_->actor, std::make_shared<MasterThen>([answers, answered](SessionMaster& m) {
                   std::vector<Signature::Asked> asked = m.Ask(answered);
                   std::lock_guard<std::mutex> lock(answers->mu);
                   answers->asked = std::move(asked);
                   answers->came.notify_all();
                 }));
  std::unique_lock<std::mutex> lock(answers->mu);
  // A part answers in its turn; one whose turn does not end is named without an answer.
  answers->came.wait_for(lock, std::chrono::milliseconds(100),
                         [&] { return answers->asked && answers->answered == answers->asked->size(); });
  std::vector<std::string> lines;
  if (!answers->asked) return lines;
  for (const Signature::Asked& a : *answers->asked) {
    for (const std::string& l : a.question->Lines())
      lines.push_back(l.rfind(' ', 0) == 0 ? l : StrCat("step ", a.step_id, " (", a.what, "): ", l));
  }
  return lines;
}

absl::Status Callable::Run(absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs) const {
  return signature_->RunBlocking({}, signature_->DeadlineOf({}), feeds, outputs, nullptr);
}
absl::Status Callable::Run(const RunOptions& options, absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs,
                           proto::RunMetadata* metadata) const {
  return signature_->RunBlocking(options, signature_->DeadlineOf(options), feeds, outputs, metadata);
}
void Callable::RunAsync(const RunOptions& options, absl::Span<const Tensor> feeds, RunCallback done,
                        proto::RunMetadata* metadata) const {
  signature_->RunAsync(options, signature_->DeadlineOf(options), feeds, std::move(done), metadata);
}

caf::actor ActorOf(const Session& session) { return session.impl()->actor; }

Runtime* Session::runtime() const { return impl_->runtime.get(); }

}  // namespace troupe
