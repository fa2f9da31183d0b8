#include "troupe/actors/session_actor.h"

#include "troupe/actors/actor_thread.h"
#include "troupe/actors/messages.h"
#include "troupe/graph/ir/import_export.h"
#include "troupe/graph/passes/cse.h"
#include "troupe/graph/passes/fold.h"
#include "troupe/graph/passes/fuse.h"
#include "troupe/graph/passes/late_reads.h"
#include "troupe/graph/passes/partition.h"
#include "troupe/graph/passes/place.h"
#include "troupe/graph/passes/prune.h"
#include "troupe/kernels/device/session_containers.h"
#include "troupe/kernels/pass_support.h"
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
  for (const Names* names : {&feeds, &fetches, &targets}) {
    for (const std::string& n : *names) {
      key += n;
      key += '\n';
    }
    key += '\t';
  }
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
          [report = options_.on_stall](const std::string& text) { ReportStall(report, text); })) {}

void SessionState::Clear() {
  for (const auto& d : runtime_->impl()->devices) {
    d->containers()->Clear(OwnVariables(id_));
    d->containers()->Clear(OwnState(id_));
  }
}

// A variable's builder gives it its own name as shared name, and copies of the node (imported with a prefix, or to read it elsewhere) bear that name, too. In one
// session all of them are one variable, whether the session shares its variables or not.
void SessionMaster::ClaimVariables(Graph* graph) {
  if (options_.share_variables) return;
  const auto asks = [](const Node& n, std::string* shared) {
    const absl::StatusOr<std::string> container = n.Attr<std::string>("container"), name = n.Attr<std::string>("shared_name");
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

absl::Status SessionMaster::Extend(const ExtendCall& call) {
  if (closed()) return Cancelled("the session is closed");
  return call.import(&graph_);
}

std::shared_ptr<Signature> SessionMaster::Find(const std::string& key) const {
  const auto it = signatures_.find(key);
  return it == signatures_.end() ? nullptr : it->second;
}

absl::StatusOr<Partitioned> SessionMaster::Partition(const CompileCall& call, StillWanted wanted) {
  if (closed()) return Cancelled("the session is closed");
  PruneOptions prune;
  prune.wanted = wanted;
  prune.trust_feed_shapes = true;  // CheckFeeds refuses others
  TROUPE_ASSIGN_OR_RETURN(PrunedGraph pruned, PruneForExecution(graph_, call.feeds, call.fetches, call.targets, prune));
  Graph* graph = pruned.graph.get();
  std::vector<std::vector<int>> needs = FeedsOfFetches(pruned);
  ClaimVariables(graph);
  const std::vector<std::shared_ptr<Device>>& devices = runtime_->impl()->devices;
  TROUPE_RETURN_IF_ERROR(ReadAfterUpdates(graph, wanted).status());
  if (options_.fold_constants) {
    KernelEvaluator evaluator;
    const ScopedFlushDenormals flush;  // as a step would compute it
    FoldOptions fold;
    fold.wanted = wanted;
    TROUPE_RETURN_IF_ERROR(FoldConstants(graph, &evaluator, fold).status());
  }
  if (options_.merge_common_subexpressions)
    TROUPE_RETURN_IF_ERROR(EliminateCommonSubexpressions(graph, wanted).status());
  Partitioned result;
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
  s->watch = watch_;
  s->turns = runtime_->impl()->turns.get();
  result.signature = std::move(s);
  result.call = std::make_shared<RegisterGraphCall>(SessionScope(id_, options_.share_variables));
  std::vector<DeviceInfo> infos;
  infos.reserve(devices.size());
  for (const auto& d : devices) infos.push_back({d->name(), d->incarnation(), 0});
  TROUPE_ASSIGN_OR_RETURN(const DeviceSet set, DeviceSet::Make(std::move(infos)));
  PlaceOptions place;
  place.allow_soft_placement = options_.allow_soft_placement;
  place.use_cost_model = options_.use_cost_model;
  place.stateful_devices = &stateful_devices_;
  place.session = &groups_;
  place.wanted = wanted;
  TROUPE_RETURN_IF_ERROR(PlaceGraph(graph, set, RegistryKernelLookup(), place));
  PartitionOptions partition;
  partition.wanted = wanted;
  CostModel costs;
  if (options_.schedule_recvs && devices.size() > 1 && HasSeveralDevices(*graph)) {
    TROUPE_RETURN_IF_ERROR(costs.InferShapes(*graph, wanted));
    partition.schedule_recvs = &costs;
  }
  TROUPE_ASSIGN_OR_RETURN(std::vector<GraphPart> parts, PartitionGraph(std::move(pruned.graph), set, partition));
  if (options_.fuse) {
    // In the parts, where everything that somebody else needs is an edge.
    for (GraphPart& p : parts)
      TROUPE_RETURN_IF_ERROR(FuseNodes(p.graph.get(), RegistryKernelLookup(), wanted).status());
  }
  for (GraphPart& p : parts) result.call->graphs.emplace_back(std::move(p.device), std::move(p.graph));
  return result;
}

std::shared_ptr<Signature> SessionMaster::Register(const std::string& key, std::shared_ptr<Signature> signature,
                                                   std::vector<std::shared_ptr<const CompiledPart>> parts) {
  signature->parts = std::move(parts);
  for (size_t i = 0; i < signature->parts.size(); ++i) {
    for (const auto& [edge, node] : signature->parts[i]->recvs) signature->receivers[edge] = static_cast<int>(i);
    for (const std::string& edge : signature->parts[i]->granted_sends) signature->senders[edge] = static_cast<int>(i);
  }
  // Of two callers that missed at the same time, the first one's stays.
  return signatures_.try_emplace(key, std::move(signature)).first->second;
}

absl::Status SessionMaster::ExportParts(const CompileCall& call) {
  TROUPE_ASSIGN_OR_RETURN(const Partitioned p, Partition(call));
  for (const auto& [device, part] : p.call->graphs) ExportGraphDef(*part, call.parts->add_partition_graphs());
  return absl::OkStatus();
}

void SessionMaster::AbortAll(const absl::Status& status) {
  for (auto& [key, s] : signatures_) s->AbortAll(status);
}

void SessionMaster::Close() {
  if (closed_->exchange(true)) return;
  AbortAll(absl::CancelledError("the session was closed"));
  signatures_.clear();
  state_->Clear();
}

std::vector<Signature::Asked> SessionMaster::Ask(
    const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const {
  std::vector<Signature::Asked> asked;
  for (const auto& [key, s] : signatures_) s->Ask(answered, &asked);
  return asked;
}

namespace {

struct SessionActorState {
  std::shared_ptr<SessionMaster> master;
  // Users' actors that wait for a step. CAF answers no request whose promise is merely forgotten.
  std::map<int64_t, caf::typed_response_promise<run_reply>> waiting;
  int64_t last_request = 0;
  const char* name = "troupe.session";
  ~SessionActorState() {
    for (auto& [id, promise] : waiting)
      promise.deliver(run_reply{absl::AbortedError("the session ended before the step did"), {}, nullptr});
  }
};
using SessionActor = caf::stateful_actor<SessionActorState>;

void Compile(SessionActor* self, const std::shared_ptr<CompileCall>& call) {
  SessionMaster& master = *self->state.master;
  if (call->parts != nullptr) {
    if (absl::Status s = master.ExportParts(*call); !s.ok()) return call->done(std::move(s));
  }
  if (auto known = master.Find(call->key)) return call->done(std::move(known));
  if (master.closed()) return call->done(Cancelled("the session is closed"));
  const caf::actor worker = master.worker();
  if (!worker) return call->done(master.WhyNoWorker());
  absl::StatusOr<Partitioned> p = master.Partition(*call);
  if (!p.ok()) return call->done(p.status());
  // The worker answers by a message of its own, so that this actor goes on meanwhile.
  p->call->done = [me = caf::actor_cast<caf::actor>(self), call, signature = p->signature, compiled = p->call.get()](auto parts) {
    // The graphs go with the message, when the caller has its answer: he need not wait until they are taken apart.
    auto graphs = std::make_shared<decltype(compiled->graphs)>(std::move(compiled->graphs));
    caf::anon_send(me, std::make_shared<std::function<void(SessionMaster&)>>([=](SessionMaster& m) {
                     if (!parts.ok()) return call->done(parts.status());
                     if (m.closed()) return call->done(Cancelled("the session is closed"));
                     call->done(m.Register(call->key, signature, *parts));
                   }));
  };
  self->send(worker, p->call);
}

// Runs a step for another actor. The promise belongs to this actor, so the answer passes through its turn.
void RunFor(SessionActor* self, int64_t id, const run_request& r) {
  auto metadata =
      r.options.collect_stats || r.options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
  auto answer = [me = caf::actor_cast<caf::actor>(self), self, id, metadata](absl::Status s,
                                                                             std::vector<Tensor> outputs) {
    auto reply = std::make_shared<run_reply>(run_reply{std::move(s), std::move(outputs), metadata});
    caf::anon_send(me, std::make_shared<MasterThen>([self, id, reply](SessionMaster&) {
                     auto promise = self->state.waiting.extract(id);
                     if (promise) promise.mapped().deliver(std::move(*reply));
                   }));
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
  if (r.options.partition_graphs) call->parts = metadata.get();
  // The token may be gone when the signature has been compiled; what it stands for is shared.
  const CancellationToken token = r.options.cancellation != nullptr ? *r.options.cancellation : CancellationToken();
  call->done = [values = std::move(values), answer, options = r.options, token,
                metadata](absl::StatusOr<std::shared_ptr<Signature>> s) mutable {
    if (!s.ok()) return answer(s.status(), {});
    if (options.cancellation != nullptr) options.cancellation = &token;
    // Others wait for this actor's turn: only a step that takes no longer than sending it elsewhere runs here.
    constexpr int64_t kLendMicros = 5;
    (*s)->RunAsync(options, (*s)->DeadlineOf(options), absl::Span<const Tensor>(values), answer, metadata.get(),
                   std::min(kLendMicros, (*s)->options.lend_thread_us));
  };
  Compile(self, call);
}

caf::behavior SessionBehavior(SessionActor* self, std::shared_ptr<SessionMaster> master) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.master = std::move(master);
  return {
      [self](const std::shared_ptr<ExtendCall>& call) { call->done(self->state.master->Extend(*call)); },
      [self](const std::shared_ptr<CompileCall>& call) { Compile(self, call); },
      [self](const std::shared_ptr<std::function<void(SessionMaster&)>>& then) { (*then)(*self->state.master); },
      [self](const run_request& r) {
        const int64_t id = ++self->state.last_request;
        auto promise = self->state.waiting[id] = self->make_response_promise<run_reply>();
        RunFor(self, id, r);
        return promise;
      },
      [self](const std::shared_ptr<CloseCall>& call) {
        self->state.master->Close();
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
