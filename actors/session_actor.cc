#include "actors/session_actor.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "actors/actor_thread.h"
#include "actors/messages.h"
#include "actors/pending_run.h"
#include "actors/step/cancel_later.h"
#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/fuse.h"
#include "graph/passes/late_reads.h"
#include "graph/passes/memory_copies.h"
#include "graph/passes/partition.h"
#include "graph/passes/place.h"
#include "graph/passes/prune.h"
#include "kernels/device/session_containers.h"
#include "kernels/pass_support.h"
#include "troupe/import_export.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {

namespace {

// By fetch: the feeds that it depends on, for partial runs.
std::vector<std::vector<int>> FeedsOfFetches(const PrunedGraph& pruned) {
  std::vector<std::vector<int>> needs(pruned.retvals.size());
  if (pruned.args.empty()) return needs;
  std::vector<int> seen(pruned.graph->num_node_ids(), -1), arg_of(pruned.graph->num_node_ids(), -1);
  for (size_t i = 0; i < pruned.args.size(); ++i) {
    if (pruned.args[i] != nullptr) arg_of[pruned.args[i]->id()] = static_cast<int>(i);
  }
  std::vector<const Node*> stack;
  for (size_t f = 0; f < pruned.retvals.size(); ++f) {
    stack.assign(1, pruned.retvals[f]);
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      if (seen[n->id()] == static_cast<int>(f)) continue;
      seen[n->id()] = static_cast<int>(f);
      if (arg_of[n->id()] >= 0) needs[f].push_back(arg_of[n->id()]);
      for (const Edge* e : n->in_edges()) stack.push_back(e->src);
    }
  }
  return needs;
}

bool HasSeveralDevices(const Graph& graph) {
  const std::string* first = nullptr;
  for (const Node* n : graph.op_nodes()) {
    if (first == nullptr) first = &n->assigned_device();
    if (n->assigned_device() != *first) return true;
  }
  return false;
}

}  // namespace

std::string SignatureKey(const Names& feeds, const Names& fetches, const Names& targets) {
  std::string key;
  AppendSignatureKey(feeds, fetches, targets, &key);
  return key;
}

SessionMaster::SessionMaster(std::shared_ptr<Runtime> runtime, SessionOptions options, std::string id,
                             std::shared_ptr<std::atomic<bool>> closed)
    : runtime_(std::move(runtime)),
      options_(std::move(options)),
      id_(std::move(id)),
      state_(std::make_shared<SessionState>(runtime_, id_)),
      closed_(std::move(closed)),
      watch_(std::make_shared<StepWatch>(
          runtime_->impl()->clock,
          [report = options_.on_stall](const std::string& text) { ReportStall(report, text); })),
      cache_(std::make_shared<SignatureCache>(options_.max_signatures)) {}

void SessionState::Clear() {
  for (const auto& d : runtime_->impl()->devices) {
    d->containers()->Clear(OwnVariables(id_));
    d->containers()->Clear(OwnState(id_));
  }
}

// A variable's builder gives it its own name as shared name, and copies of the node (imported with
// a prefix, or to read it elsewhere) bear that name, too. In one session all of them are one
// variable, whether the session shares its variables or not.
void SessionMaster::ClaimVariables(Graph* graph) {
  if (options_.share_variables) return;
  const auto asks = [](const Node& n, std::string* shared) {
    const absl::StatusOr<std::string> container = n.Attr<std::string>("container"),
                                      name = n.Attr<std::string>("shared_name");
    if (name.ok()) *shared = *name;
    return (container.ok() && !container->empty()) || (name.ok() && !name->empty() && *name != n.name());
  };
  for (Node* n : graph->op_nodes()) {
    std::string shared, its;
    if (!n->op().Has(OpTrait::kVariable) || !asks(*n, &shared) || shared.empty()) continue;
    const absl::StatusOr<std::string> container = n->Attr<std::string>("container");
    if (container.ok() && !container->empty()) continue;
    const auto [it, is_new] = own_names_.try_emplace(shared, false);
    if (is_new) {
      const Node* named = graph_.Find(shared);
      it->second = named != nullptr && named->op().Has(OpTrait::kVariable) && !asks(*named, &its);
    }
    if (it->second) n->SetAttr("container", OwnVariables(id_));
  }
}

Deadline SessionMaster::DeadlineOf(const RunOptions& run) const {
  const int64_t ms = run.timeout_ms != 0 ? run.timeout_ms : options_.operation_timeout_ms;
  return ms <= 0 ? Deadline() : Deadline::In(ms, watch_->Now());
}

absl::Status SessionMaster::Queue(Work work) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    // What comes after the end would wait for what has not heard of it.
    if (!end_.ok()) return end_;
    queue_.push_back(std::move(work));
    if (working_) return absl::OkStatus();
    working_ = true;
  }
  StartWork();
  return absl::OkStatus();
}

void SessionMaster::StartWork() {
  auto share = UnderWay::Share(under_way_);
  RunAside(runtime_->impl()->aside, [share = std::move(share), self = shared_from_this()]() mutable {
    Work work;
    {
      std::lock_guard<std::mutex> lock(self->mu_);
      if (self->queue_.empty()) {
        self->working_ = false;
      } else {
        work = std::move(self->queue_.front());
        self->queue_.pop_front();
      }
    }
    if (work.extend != nullptr) self->DoExtend(work);
    if (work.compile != nullptr) work.compile->parts != nullptr ? self->DoExport(work) : self->DoCompile(work);
    // Before the share: who waits for it may end the actor system next.
    work = Work();
    self = nullptr;
  });
}

void SessionMaster::NextWork() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    working_ = !queue_.empty();
    if (!working_) return;
  }
  StartWork();
}

caf::actor SessionMaster::actor() const {
  std::lock_guard<std::mutex> lock(mu_);
  return actor_;
}

void SessionMaster::Send(Call call) {
  caf::actor to;
  absl::Status end;
  {
    std::lock_guard<std::mutex> lock(mu_);
    to = actor_;
    end = end_;
    if (!to && end.ok()) return held_.push_back(std::move(call));
  }
  if (to) return std::visit([&](auto& c) { caf::anon_send(to, std::move(c)); }, call);
  AnswerCalls({std::move(call)}, end);
}

void SessionMaster::AnswerCalls(std::vector<Call> calls, const absl::Status& status) {
  struct Answerer {
    const absl::Status& status;
    void operator()(const std::shared_ptr<ExtendCall>& call) const { call->done(status); }
    void operator()(const std::shared_ptr<CompileCall>& call) const {
      CallUser("a callback", [&] { call->done(status); });
    }
  };
  for (const Call& call : calls) std::visit(Answerer{status}, call);
}

void SessionMaster::Attach(const caf::actor& actor) {
  std::vector<Call> held;
  std::vector<int64_t> compiles;
  {
    std::lock_guard<std::mutex> lock(mu_);
    actor_ = actor;
    held.swap(held_);
    for (const auto& [compile, registering] : registered_) compiles.push_back(compile);
  }
  // What the actor before was sent may have gone with it.
  for (const int64_t compile : compiles) caf::anon_send(actor, parts_registered{compile});
  for (Call& call : held) std::visit([&](auto& c) { caf::anon_send(actor, std::move(c)); }, call);
}

void SessionMaster::Detach(const caf::actor_addr& actor) {
  std::vector<Call> calls;
  decltype(registered_) registered;  // goes without the lock
  absl::Status why;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (actor_ && actor_.address() == actor) actor_ = nullptr;
    why = !end_.ok() ? end_ : absl::AbortedError("the session's actor has died; it is restarted");
    for (auto& [id, waiting] : waiting_) calls.insert(calls.end(), waiting.calls.begin(), waiting.calls.end());
    waiting_.clear();
    calls_waiting_ = 0;
    joinable_.clear();
    for (Work& w : queue_) {
      if (w.extend != nullptr) calls.push_back(std::move(w.extend));
    }
    queue_.clear();
    if (!end_.ok()) registered.swap(registered_);
  }
  AnswerCalls(std::move(calls), why);
}

void SessionMaster::Close() {
  const absl::Status steps = absl::CancelledError("the session was closed"), calls = Cancelled("the session is closed");
  const bool aside = runtime_->impl()->aside;
  if (aside) End(steps, calls);
  if (const caf::actor to = actor()) {
    auto call = std::make_shared<CloseCall>();
    call->done = [weak = weak_from_this()](const absl::Status& s) {
      // The actor has died instead; of an end that it knew of it has told who waits.
      if (const auto self = weak.lock(); !s.ok() && self != nullptr && self->end().ok()) self->Close();
    };
    return caf::anon_send(to, std::move(call));
  }
  End(steps, calls);
  AnswerAside();
}

void SessionMaster::GiveUp(const std::string& why) {
  End(absl::AbortedError("the session's actor failed too often and is not restarted"),
      FailedPrecondition("the session's actor failed too often and is not restarted; the last time: ", why));
  AnswerAside();
}

// Users' callbacks may take their time, and their caller may hold locks.
void SessionMaster::AnswerAside() {
  RunAside(runtime_->impl()->aside, [share = UnderWay::Share(under_way_), self = shared_from_this()]() mutable {
    self->AnswerAll();
    self = nullptr;
  });
}

void SessionMaster::Extend(std::shared_ptr<ExtendCall> call) {
  Work work;
  work.extend = call;
  if (absl::Status s = Queue(std::move(work)); !s.ok()) call->done(std::move(s));
}

void SessionMaster::DoExtend(const Work& work) {
  absl::Status s = [&] {
    std::lock_guard<std::mutex> lock(mu_);
    return end_;
  }();
  if (s.ok()) s = Guarded("Extend", [&] { return work.extend->import(&graph_); });
  work.extend->import = nullptr;  // what it refers to goes when the caller hears
  work.extend->done(std::move(s));
  NextWork();
}

void SessionMaster::Compile(std::shared_ptr<CompileCall> call) {
  Work work;
  Calls given_up;
  absl::Status refused;
  if (call->parts == nullptr && !closed()) {
    if (auto known = cache_->Find(call->key)) return CallUser("a callback", [&] { call->done(std::move(known)); });
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    refused = end_;
    if (refused.ok()) {
      // A compile that does not end holds up all others; meanwhile only those stay that wait.
      if (calls_waiting_ >= sweep_at_) given_up = TakeGivenUpLocked();
      // One who asks for the parts' graphs as well has them made first, and alone.
      const bool joins = call->parts == nullptr;
      work.waiting = last_waiting_ + 1;
      if (joins) work.waiting = joinable_.try_emplace(call->key, work.waiting).first->second;
      Waiting& waiting = waiting_[work.waiting];
      waiting.calls.push_back(call);
      ++calls_waiting_;
      if (waiting.calls.size() > 1) return;
      ++last_waiting_;
      if (joins) waiting.key = call->key;
    }
  }
  if (!refused.ok()) return CallUser("a callback", [&] { call->done(std::move(refused)); });
  if (!worker()) return AnswerThose(work.waiting, WhyNoWorker());
  work.compile = std::move(call);
  const int64_t waiting = work.waiting;
  if (absl::Status s = Queue(std::move(work)); !s.ok()) AnswerThose(waiting, s);
}

absl::Status SessionMaster::Wanted(int64_t waiting) {
  std::vector<std::shared_ptr<CompileCall>> gone;
  std::lock_guard<std::mutex> lock(mu_);
  if (!end_.ok()) return end_;
  const auto it = waiting_.find(waiting);
  if (it != waiting_.end()) {
    for (const auto& call : it->second.calls) {
      if (!call->given_up || !call->given_up()) return absl::OkStatus();
    }
    // Who asks from now on has the compile begin anew.
    gone = TakeLocked(waiting);
  }
  return Cancelled("nobody waits for the signature any more");
}

std::vector<std::shared_ptr<CompileCall>> SessionMaster::TakeLocked(int64_t waiting) {
  const auto it = waiting_.find(waiting);
  if (it == waiting_.end()) return {};
  std::vector<std::shared_ptr<CompileCall>> calls = std::move(it->second.calls);
  calls_waiting_ -= calls.size();
  const auto joinable = joinable_.find(it->second.key);
  if (joinable != joinable_.end() && joinable->second == waiting) joinable_.erase(joinable);
  waiting_.erase(it);
  return calls;
}

SessionMaster::Calls SessionMaster::TakeGivenUpLocked() {
  Calls taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto each = it++;
    Calls& calls = each->second.calls;
    const auto gone = std::stable_partition(calls.begin(), calls.end(), [](const std::shared_ptr<CompileCall>& call) {
      return !call->given_up || !call->given_up();
    });
    taken.insert(taken.end(), std::make_move_iterator(gone), std::make_move_iterator(calls.end()));
    calls.erase(gone, calls.end());
    if (!calls.empty()) continue;
    const auto joinable = joinable_.find(each->second.key);
    if (joinable != joinable_.end() && joinable->second == each->first) joinable_.erase(joinable);
    waiting_.erase(each);
  }
  std::erase_if(queue_, [&](const Work& w) { return w.compile != nullptr && !waiting_.contains(w.waiting); });
  calls_waiting_ -= taken.size();
  sweep_at_ = 2 * calls_waiting_ + 64;
  return taken;
}

void SessionMaster::AnswerThose(int64_t waiting, const Answer& answer) {
  std::vector<std::shared_ptr<CompileCall>> calls;
  {
    std::lock_guard<std::mutex> lock(mu_);
    calls = TakeLocked(waiting);
  }
  for (const auto& call : calls) CallUser("a callback", [&] { call->done(answer); });
}

void SessionMaster::DoCompile(const Work& work) {
  auto p = std::make_shared<Registering>();
  p->under_way = UnderWay::Share(under_way_);
  p->master = shared_from_this();
  p->compile = work.compile;
  p->waiting = work.waiting;
  // From here on the next work begins when `p` goes.
  const absl::Status s = Guarded("compiling", [&] {
    return Partition(
        *work.compile, [&] { return Wanted(work.waiting); }, p.get());
  });
  if (!s.ok()) return AnswerThose(work.waiting, s);
  const caf::actor worker = this->worker();
  if (!worker) return AnswerThose(work.waiting, WhyNoWorker());
  const std::shared_ptr<RegisterGraphCall> call = std::move(p->call);
  call->wanted = [this, waiting = work.waiting] { return Wanted(waiting); };
  // The worker answers by a message of its own.
  call->done = [p = std::move(p), call = call.get()](auto parts) {
    // The graphs go when the caller has its answer: he need not wait until they are taken apart.
    p->graphs = std::move(call->graphs);
    p->parts = std::move(parts);
    const int64_t compile = p->waiting;
    caf::actor self;  // without one the next takes it when it begins
    {
      std::lock_guard<std::mutex> lock(p->master->mu_);
      self = p->master->actor_;
      // After the end nobody would take it.
      if (p->master->end_.ok()) p->master->registered_.emplace(compile, p);
    }
    if (self) caf::anon_send(self, parts_registered{compile});
  };
  caf::anon_send(worker, call);
}

void SessionMaster::PartsCame(int64_t compile) {
  std::shared_ptr<Registering> p;
  {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = registered_.extract(compile);
    if (!it) return;
    p = std::move(it.mapped());
  }
  const Answer answer = p->parts.ok() ? Register(p->compile->key, p->signature, *p->parts) : p->parts.status();
  if (answer.ok() && (*answer)->stale()) {
    // A device has died since its edges were named. The work begins when this one is over.
    Work again;
    again.compile = p->compile;
    again.waiting = compile;
    if (Queue(std::move(again)).ok()) return;
  }
  AnswerThose(compile, answer);
}

// Compiled parts are not kept as graphs, so they are made again.
void SessionMaster::DoExport(const Work& work) {
  proto::RunMetadata made;
  absl::Status s = Guarded("compiling", [&] {
    Registering r;
    r.master = shared_from_this();
    absl::Status partitioned = Partition(
        *work.compile, [&] { return Wanted(work.waiting); }, &r);
    if (!partitioned.ok()) return partitioned;
    for (const auto& [device, part] : r.call->graphs) ExportGraphDef(*part, made.add_partition_graphs());
    return absl::OkStatus();
  });
  if (!s.ok()) return AnswerThose(work.waiting, s);
  {
    // Who has been answered meanwhile may have taken its metadata away.
    std::lock_guard<std::mutex> lock(mu_);
    if (TakeLocked(work.waiting).empty()) return;
  }
  work.compile->parts->MergeFrom(made);
  work.compile->parts = nullptr;
  Compile(work.compile);
}

absl::Status SessionMaster::Partition(const CompileCall& call, const std::function<absl::Status()>& wanted,
                                      Registering* result) {
  TROUPE_RETURN_IF_ERROR(wanted());
  PruneOptions prune;
  prune.wanted = &wanted;
  prune.trust_feed_shapes = true;  // CheckFeeds refuses others
  TROUPE_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForExecution(graph_, call.feeds, call.fetches, call.targets, prune));
  Graph* graph = pruned.graph.get();
  std::vector<std::vector<int>> needs = FeedsOfFetches(pruned);
  ClaimVariables(graph);
  const std::vector<std::shared_ptr<Device>>& devices = runtime_->impl()->devices;
  TROUPE_RETURN_IF_ERROR(ReadAfterUpdates(graph, &wanted).status());
  if (options_.fold_constants) {
    TROUPE_RETURN_IF_ERROR(wanted());
    KernelEvaluator evaluator(&wanted);
    const ScopedFlushDenormals flush;  // as a step would compute it
    FoldOptions fold;
    fold.wanted = &wanted;
    TROUPE_RETURN_IF_ERROR(FoldConstants(graph, &evaluator, fold).status());
  }
  if (options_.merge_common_subexpressions)
    TROUPE_RETURN_IF_ERROR(EliminateCommonSubexpressions(graph, &wanted).status());
  auto s = std::make_shared<Signature>();
  s->feeds = call.feeds;
  s->fetches = call.fetches;
  s->targets = call.targets;
  s->fetch_needs = std::move(needs);
  s->feed_types = pruned.feed_types;
  s->feed_shapes = pruned.feed_shapes;
  s->options = options_;
  s->options.runtime = nullptr;
  s->system = runtime_->impl()->system;
  s->runtime = std::shared_ptr<Runtime>(state_, runtime_.get());
  s->closed = closed_;
  s->gate = gate_;
  s->watch = watch_;
  s->master = weak_from_this();
  s->turns = runtime_->impl()->turns.get();
  result->signature = std::move(s);
  result->call = std::make_shared<RegisterGraphCall>(SessionScope(id_, options_.share_variables));
  std::vector<DeviceInfo> infos;
  infos.reserve(devices.size());
  for (size_t i = 0; i < devices.size(); ++i)
    infos.push_back({devices[i]->name(), runtime_->impl()->incarnations[i].load(), 0});
  TROUPE_ASSIGN_OR_RETURN(const DeviceSet set, DeviceSet::Make(std::move(infos)));
  PlaceOptions place;
  place.allow_soft_placement = options_.allow_soft_placement;
  place.use_cost_model = options_.use_cost_model;
  place.stateful_devices = &stateful_devices_;
  place.session = &groups_;
  place.wanted = &wanted;
  TROUPE_RETURN_IF_ERROR(PlaceGraph(graph, set, RegistryKernelLookup(), place));
  PartitionOptions partition;
  partition.wanted = &wanted;
  CostModel costs;
  if (options_.schedule_recvs && devices.size() > 1 && HasSeveralDevices(*graph)) {
    TROUPE_RETURN_IF_ERROR(costs.InferShapes(*graph, &wanted));
    partition.schedule_recvs = &costs;
  }
  TROUPE_RETURN_IF_ERROR(wanted());
  TROUPE_ASSIGN_OR_RETURN(std::vector<GraphPart> parts, PartitionGraph(std::move(pruned.graph), set, partition));
  if (options_.fuse) {
    // In the parts, where everything that somebody else needs is an edge.
    for (GraphPart& p : parts)
      TROUPE_RETURN_IF_ERROR(FuseNodes(p.graph.get(), RegistryKernelLookup(), &wanted).status());
  }
  for (GraphPart& p : parts) {
    const auto on = std::find_if(devices.begin(), devices.end(), [&](const auto& d) { return d->name() == p.device; });
    if ((*on)->memory() == MemoryKind::kHost) continue;
    TROUPE_RETURN_IF_ERROR(AddMemoryCopies(p.graph.get(), RegistryKernelLookup(), (*on)->type()).status());
  }
  for (GraphPart& p : parts) result->call->graphs.emplace_back(std::move(p.device), std::move(p.graph));
  return absl::OkStatus();
}

SessionMaster::Answer SessionMaster::Register(const std::string& key, std::shared_ptr<Signature> signature,
                                              std::vector<std::shared_ptr<const CompiledPart>> parts) {
  signature->parts = std::move(parts);
  signature->edges = EdgesBetween(signature->parts);
  for (uint32_t i = 0; i < signature->edges.size(); ++i) {
    EdgeTable::Edge& edge = signature->edges[i];
    const size_t device = edge.name.find(';');
    if (device == std::string::npos) continue;
    edge.living = runtime_->impl()->IncarnationOf(edge.name.substr(0, device));
    edge.incarnation = std::strtoull(edge.name.c_str() + device + 1, nullptr, 16);
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return end_;
    if (signatures_.size() >= look_through_) {
      std::erase_if(signatures_, [](const std::weak_ptr<Signature>& s) { return s.expired(); });
      look_through_ = 2 * signatures_.size() + 64;
    }
    signatures_.push_back(signature);
  }
  // From here on OnFailure finds it.
  if (!signature->edges.Live()) {
    signature->SetStale();
    return signature;
  }
  cache_->Add(key, signature);
  // Whoever ends the session meanwhile clears before or after this.
  if (closed()) cache_->Clear();
  if (signature->stale()) cache_->Remove(signature.get());
  return signature;
}

int SessionMaster::UpdatesUnderWay() const {
  int n = 0;
  for (const auto& s : Living()) n += s->UpdatesUnderWay();
  return n;
}

std::vector<std::shared_ptr<Signature>> SessionMaster::Living() const {
  std::vector<std::shared_ptr<Signature>> living;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& weak : signatures_) {
    if (auto s = weak.lock()) living.push_back(std::move(s));
  }
  return living;
}

void SessionMaster::AbortAll(const absl::Status& status) {
  const CancelLater later;  // one step's callbacks do not keep the others waiting
  for (const auto& s : Living()) s->AbortAll(status);
}

void SessionMaster::OnFailure(const Failure& failure) {
  const CancelLater later;
  for (const auto& s : Living()) {
    if (!s->edges.Live()) {
      s->SetStale();
      cache_->Remove(s.get());
    }
    const auto there = [&](const auto& part) { return failure.Concerns(part->device->name()); };
    if (std::any_of(s->parts.begin(), s->parts.end(), there)) s->AbortAll(failure.status);
  }
}

void SessionMaster::End(const absl::Status& steps, const absl::Status& calls) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return;
    end_ = calls;
    closed_->store(true);
  }
  AbortAll(steps);
  cache_->Clear();
  state_->Clear();
}

void SessionMaster::AnswerAll() {
  decltype(waiting_) waiting;
  decltype(registered_) registered;  // goes without the lock
  std::vector<Call> calls;
  absl::Status end;
  {
    std::lock_guard<std::mutex> lock(mu_);
    end = end_;
    calls.swap(held_);
    waiting.swap(waiting_);
    calls_waiting_ = 0;
    joinable_.clear();
    registered.swap(registered_);
    for (Work& w : queue_) {
      if (w.extend != nullptr) calls.push_back(std::move(w.extend));
    }
    queue_.clear();
  }
  for (const auto& [id, those] : waiting) calls.insert(calls.end(), those.calls.begin(), those.calls.end());
  AnswerCalls(std::move(calls), end);
}

std::vector<Signature::Asked> SessionMaster::Ask(
    const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const {
  std::vector<Signature::Asked> asked;
  for (const auto& s : Living()) s->Ask(answered, &asked);
  return asked;
}

namespace {

// What a user's actor asked for, until it has its answer. Ends by the user's token, or with the
// session's actor: nobody would hear of the step any more.
struct Request : public Cancellable {
  explicit Request(const CancellationToken* users) : users_(users, this) {
    if (users_.cancelled()) token.Cancel();
  }
  void OnCancel() override { token.Cancel(); }

  CancellationToken token;
  // CAF answers no request whose promise is merely forgotten.
  caf::typed_response_promise<run_reply> promise;

 private:
  const Cancellation users_;
};

struct SessionActorState {
  std::shared_ptr<SessionMaster> master;
  caf::actor_addr me;
  std::map<int64_t, std::shared_ptr<Request>> waiting;
  int64_t last_request = 0;
  const char* name = "troupe.session";
  ~SessionActorState() {
    // First: whoever is told to try again finds the next incarnation.
    if (master != nullptr) master->Detach(me);
    for (auto& [id, request] : waiting) {
      request->token.Cancel();
      request->promise.deliver(
          run_reply{absl::AbortedError("the session's actor ended before the step did"), {}, nullptr});
    }
  }
};
using SessionActor = caf::stateful_actor<SessionActorState>;

// Runs a step for another actor. The promise belongs to this actor, so the answer passes through
// its turn.
void RunFor(SessionActor* self, int64_t id, const std::shared_ptr<Request>& request, const run_request& r) {
  auto metadata =
      r.options.collect_stats || r.options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
  auto answer = [me = caf::actor_cast<caf::actor>(self), id, metadata](absl::Status s, std::vector<Tensor> outputs) {
    caf::anon_send(me, step_answered{id, {std::move(s), std::move(outputs), metadata}});
  };
  auto call = std::make_shared<CompileCall>();
  std::vector<Tensor> values;
  for (const auto& [name, value] : r.feeds) {
    call->feeds.push_back(name);
    values.push_back(value);
  }
  call->fetches = r.fetches;
  call->targets = r.targets;
  call->key = SignatureKey(call->feeds, call->fetches, call->targets);
  // The compile goes on when the request has been answered, so it writes to what it shares.
  auto made = r.options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
  call->parts = made.get();
  // The request may be gone when the signature has been compiled; what its token stands for is
  // shared.
  const CancellationToken token = request->token;
  const Deadline deadline = self->state.master->DeadlineOf(r.options);
  auto pending =
      PendingRun::Begin(self->state.master->shared_watch(), deadline, &request->token, std::move(values), answer);
  call->given_up = [pending] { return pending->answered(); };
  call->done = [pending, made, options = r.options, deadline, token,
                metadata](absl::StatusOr<std::shared_ptr<Signature>> s) mutable {
    PendingRun::Taken run = pending->Take();
    if (!run.done) return;
    if (!s.ok()) return run.done(s.status(), {});
    if (made != nullptr) metadata->MergeFrom(*made);
    options.cancellation = &token;
    // Others wait for this actor's turn: only a step that takes no longer than sending it elsewhere
    // runs here.
    constexpr int64_t kLendMicros = 5;
    (*s)->RunAsync(options, deadline, absl::Span<const Tensor>(run.feeds), std::move(run.done), metadata.get(),
                   std::min(kLendMicros, (*s)->options.lend_thread_us));
  };
  self->state.master->Compile(std::move(call));
}

caf::behavior SessionBehavior(SessionActor* self, std::shared_ptr<SessionMaster> master) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.master = std::move(master);
  self->state.me = self->address();
  self->state.master->Attach(caf::actor_cast<caf::actor>(self));
  return {
      [self](const std::shared_ptr<ExtendCall>& call) { self->state.master->Extend(call); },
      [self](const std::shared_ptr<CompileCall>& call) { self->state.master->Compile(call); },
      [self](get_session_stats) { return session_stats{self->state.master->calls_waiting()}; },
      [self](parts_registered m) { self->state.master->PartsCame(m.compile); },
      [self](step_answered& m) {
        auto request = self->state.waiting.extract(m.request);
        if (request) request.mapped()->promise.deliver(std::move(m.reply));
      },
      [self](const run_request& r) {
        const int64_t id = ++self->state.last_request;
        auto request = std::make_shared<Request>(r.options.cancellation);
        request->promise = self->make_response_promise<run_reply>();
        self->state.waiting[id] = request;
        RunFor(self, id, request, r);
        return request->promise;
      },
      [self](const std::shared_ptr<CloseCall>& call) {
        self->state.master->End(absl::CancelledError("the session was closed"),
                                absl::CancelledError("the session is closed"));
        self->state.master->AnswerAll();
        call->done(absl::OkStatus());
      },
  };
}

}  // namespace

caf::actor SpawnSession(caf::actor_system& system, std::shared_ptr<SessionMaster> master) {
  NoLoggerAfter restore;
  return system.spawn<caf::hidden>(SessionBehavior, std::move(master));
}

}  // namespace troupe
