// How a signature is compiled: the graph is pruned, improved, placed and cut into parts here, and
// the workers make of each part what an executor runs.
#include <algorithm>
#include <cstdlib>

#include "actors/messages/messages.h"
#include "actors/session/session_master.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/signature/remote_plan.h"
#include "actors/threads/surely.h"
#include "actors/runtime/worker_actor.h"
#include "graph/core/device_name.h"
#include "graph/passes/cse.h"
#include "graph/passes/fold.h"
#include "graph/passes/late_reads.h"
#include "graph/passes/partition.h"
#include "graph/passes/place.h"
#include "graph/passes/prune.h"
#include "kernels/device/session_containers.h"
#include "kernels/pass_support.h"

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

// What the parts of a task of another process take.
template <class Remote>
void AddRemotePart(const GraphPart& part, const RemoteTasks& tasks, Remote* remote) {
  if (remote->devices.empty()) remote->incarnation = tasks.Find(part.task).incarnation;
  remote->devices.push_back(part.device);
  for (const Node* n : part.graph->op_nodes()) {
    if (n->op().name != kArgOp) continue;
    const absl::StatusOr<int64_t> index = n->template Attr<int64_t>("index");
    if (index.ok()) remote->arguments.push_back(static_cast<uint32_t>(*index));
  }
}

absl::Status Fold(Graph* graph, const std::function<absl::Status()>& wanted) {
  TROUPE_RETURN_IF_ERROR(wanted());
  KernelEvaluator evaluator(&wanted);
  const ScopedFlushDenormals flush;  // as a step would compute it
  FoldOptions fold;
  fold.wanted = &wanted;
  return FoldConstants(graph, &evaluator, fold).status();
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

absl::Status SessionMaster::SomeWorker() const {
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_.worker(i)) return absl::OkStatus();
  }
  return tasks_.WhyDown(0);
}

template <class Message>
bool SessionMaster::ToWorker(uint32_t task, const caf::actor& from, Message message) {
  const caf::actor worker = tasks_.worker(task);
  if (!worker || !from) return false;
  if (IsRemote(task))
    return SendRemote(system(), worker, std::move(message), caf::actor_cast<caf::strong_actor_ptr>(from)).ok();
  EnqueueSurely(system(), caf::actor_cast<caf::abstract_actor*>(worker),
                caf::make_mailbox_element(caf::actor_cast<caf::strong_actor_ptr>(from), caf::make_message_id(),
                                          caf::no_stages, std::move(message)));
  return true;
}

std::vector<uint32_t> SessionMaster::Registering::Unanswered() const {
  std::vector<uint32_t> waits;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) waits.push_back(tasks[i]);
  }
  return waits;
}

void SessionMaster::WithdrawGraph(const std::vector<uint32_t>& tasks, int64_t waiting) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    lost_ |= waiting != 0 && !tasks.empty();
    if (!end_.ok()) waiting = 0;
  }
  for (const uint32_t task : tasks) {
    withdraw_graph message{id_, waiting};
    if (options_.wire_messages) message = wire::ThroughBytes(*runtime_->impl()->system, message).value();
    if (waiting == 0) {
      TellEnd(task, std::move(message));
    } else if (const caf::actor worker = tasks_.worker(task)) {
      // One that dies with it leaves no graph that is worked on to the next.
      if (IsRemote(task)) {
        SendRemote(system(), worker, message).IgnoreError();
      } else {
        SendSurely(system(), worker, [&] { return message; });
      }
    }
  }
}

// The next worker of the task would not know which of the graphs that the last one left are of
// sessions that have ended, and what their kernels make would stay.
void SessionMaster::TellEnd(uint32_t task, withdraw_graph message) {
  // What it has of the session there goes with SessionState, too.
  if (IsRemote(task)) return SendRemote(system(), tasks_.worker(task), std::move(message)).IgnoreError();
  const std::string& name = tasks_.name(task);
  std::vector<std::shared_ptr<ResourceContainers>> containers;
  for (const auto& d : runtime_->impl()->devices) {
    if (DeviceName::ParseFull(d->name())->TaskName() == name) containers.push_back(d->shared_containers());
  }
  // Without a share of the runtime: the message may outlive the session.
  const auto heard = [message, containers, in_work = runtime_->impl()->tasks[task].in_work](const Handled& by) {
    if (by.status.ok()) return;
    in_work->Withdraw(message);
    for (const auto& c : containers) {
      c->Clear(OwnVariables(message.session));
      c->Clear(OwnState(message.session));
    }
  };
  AskThen<Handled>(system(), tasks_.worker(task), std::move(message), Reply<Handled>(heard));
}

void SessionMaster::WithdrawAllGraphs() {
  std::vector<uint32_t> all;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!std::exchange(lost_, false)) return;
  }
  for (uint32_t i = 0; i < tasks_.size(); ++i) all.push_back(i);
  WithdrawGraph(all, 0);
}

void SessionMaster::AskForDevices() {
  // A task counts as asked before its worker is looked for: if that dies now, OnFailure finds the
  // question.
  caf::actor from;
  std::vector<std::pair<uint32_t, list_devices>> questions;
  {
    std::lock_guard<std::mutex> lock(mu_);
    from = actor_;
    questions = tasks_.ToAsk();
  }
  for (auto& [task, question] : questions) {
    if (options_.wire_messages) question = wire::ThroughBytes(*runtime_->impl()->system, question).value();
    if (ToWorker(task, from, question)) continue;
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.AskAgain(task);
  }
}

bool SessionMaster::WaitForDevices(const Work& work) {
  AskForDevices();
  std::lock_guard<std::mutex> lock(mu_);
  if (!tasks_.Waits()) return false;
  parked_ = work;
  return true;
}

void SessionMaster::GoOn() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!parked_ || tasks_.Waits()) return;
    queue_.push_front(*std::exchange(parked_, std::nullopt));
  }
  StartWork();
}

void SessionMaster::DevicesCame(const device_list& answer) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.Told(answer);
  }
  GoOn();
}

void SessionMaster::DoCompile(const Work& work) {
  if (WaitForDevices(work)) return;
  auto p = std::make_shared<Registering>();
  p->under_way = UnderWay::Share(under_way_);
  p->master = shared_from_this();
  p->compile = work.compile;
  p->waiting = work.waiting;
  // From here on the next work begins when `p` goes.
  const auto send = [&]() -> absl::Status {
    std::vector<register_graph> messages = std::move(p->messages);
    if (messages.empty()) return absl::OkStatus();
    p->answers.resize(messages.size());
    caf::actor from;
    {
      // Before the workers are looked for, as in AskForDevices.
      std::lock_guard<std::mutex> lock(mu_);
      from = actor_;
      // Without an actor, or after the end, all who waited have been answered.
      if (!from || !waiting_.contains(p->waiting)) return absl::OkStatus();
      registering_.emplace(p->waiting, p);
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      if (options_.wire_messages) {
        TROUPE_ASSIGN_OR_RETURN(messages[i], wire::ThroughBytes(*runtime_->impl()->system, messages[i]));
      }
      if (IsRemote(p->tasks[i])) state_->Touch(tasks_.name(p->tasks[i]));
      if (!ToWorker(p->tasks[i], from, std::move(messages[i]))) {
        WithdrawGraph(p->tasks, work.waiting);
        return tasks_.WhyDown(p->tasks[i]);
      }
    }
    // Whoever withdrew it meanwhile may have told workers that did not know of it yet.
    if (!Wanted(work.waiting).ok()) WithdrawGraph(p->tasks, work.waiting);
    return absl::OkStatus();
  };
  const absl::Status s = Guarded("compiling", [&]() -> absl::Status {
    TROUPE_RETURN_IF_ERROR(Partition(
        work.compile->asked, [&] { return Wanted(work.waiting); }, p.get()));
    return send();
  });
  if (s.ok()) {
    if (p->answers.empty()) Finish(p);  // there is nothing to run
    return;
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    registering_.erase(work.waiting);
  }
  AnswerThose(work.waiting, s);
}

void SessionMaster::GraphRegistered(graph_registered answer) {
  const std::shared_ptr<const RegisteredGraph> until_found = answer.graph;
  const int64_t of = tasks_.Find(answer.task);
  if (of < 0) return;
  const bool remote = IsRemote(static_cast<uint32_t>(of));
  if (options_.wire_messages && !remote) {
    auto copy = wire::ThroughBytes(*runtime_->impl()->system, answer);
    if (copy.ok()) {
      answer = *std::move(copy);
    } else {
      answer.status = copy.status();
    }
  }
  std::shared_ptr<Registering> p;
  std::vector<uint32_t> unanswered;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = registering_.find(answer.compile);
    if (it == registering_.end()) {
      // Nobody waits for it any more.
      if (remote) DropRemote(static_cast<uint32_t>(of), answer);
      return;
    }
    p = it->second;
    bool all = true;
    for (size_t i = 0; i < p->tasks.size(); ++i) {
      if (!p->answers[i] && tasks_.name(p->tasks[i]) == answer.task) {
        // What came through bytes is found where it lives.
        if (answer.status.ok() && answer.graph == nullptr && !remote)
          answer.graph = runtime_->impl()->tasks[p->tasks[i]].graphs->Find(answer.handle);
        p->answers[i] = answer;
      }
      all &= p->answers[i].has_value();
    }
    if (!all && answer.status.ok()) return;
    unanswered = p->Unanswered();
    registering_.erase(it);
  }
  WithdrawGraph(unanswered, answer.compile);
  if (!answer.status.ok()) return AnswerThose(answer.compile, answer.status);
  Finish(p);
}

void SessionMaster::FailRegistering(const std::string& task) {
  std::vector<std::shared_ptr<Registering>> failed;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = registering_.begin(); it != registering_.end();) {
      const auto each = it++;
      const Registering& r = *each->second;
      bool waits = false;
      for (size_t i = 0; i < r.tasks.size(); ++i) waits |= !r.answers[i] && tasks_.name(r.tasks[i]) == task;
      if (!waits) continue;
      failed.push_back(std::move(each->second));
      registering_.erase(each);
    }
  }
  for (const auto& r : failed) {
    WithdrawGraph(r->Unanswered(), r->waiting);
    AnswerThose(r->waiting, absl::AbortedError("the actor that was asked ended without an answer"));
  }
}

void SessionMaster::Finish(const std::shared_ptr<Registering>& p) {
  if (p->compile->asked.graphs) return FinishExport(*p);
  const Answer answer = Register(*p);
  p->linked = answer.ok();
  if (answer.ok() && (*answer)->stale()) {
    // A device has died since its edges were named. The work begins when this one is over.
    {
      std::lock_guard<std::mutex> lock(mu_);
      tasks_.ForgetAll();
    }
    Work again;
    again.compile = p->compile;
    again.waiting = p->waiting;
    if (Queue(std::move(again)).ok()) return;
  }
  AnswerThose(p->waiting, answer);
}

// Compiled parts are not kept as graphs, so they are made again.
void SessionMaster::FinishExport(const Registering& p) {
  Calls calls;
  {
    std::lock_guard<std::mutex> lock(mu_);
    calls = TakeLocked(p.waiting);
  }
  for (const auto& call : calls) {
    for (const auto& answer : p.answers) {
      for (const GraphValue& part : answer->graphs) call->graphs.push_back(part);
    }
    call->asked.graphs = false;
    Compile(call);
  }
}

absl::Status SessionMaster::Partition(const compile_request& asked, const std::function<absl::Status()>& wanted,
                                      Registering* result) {
  TROUPE_RETURN_IF_ERROR(wanted());
  PruneOptions prune;
  prune.wanted = &wanted;
  prune.trust_feed_shapes = true;  // CheckFeeds refuses others
  prune.unknown_hint = "; nodes that were made after the last Extend reach the session by another one";
  TROUPE_ASSIGN_OR_RETURN(PrunedGraph pruned,
                          PruneForExecution(graph_, asked.feeds, asked.fetches, asked.targets, prune));
  Graph* graph = pruned.graph.get();
  std::vector<std::vector<int>> needs = FeedsOfFetches(pruned);
  ClaimVariables(graph);
  TROUPE_RETURN_IF_ERROR(ReadAfterUpdates(graph, &wanted).status());
  if (options_.fold_constants) TROUPE_RETURN_IF_ERROR(Fold(graph, wanted));
  if (options_.merge_common_subexpressions)
    TROUPE_RETURN_IF_ERROR(EliminateCommonSubexpressions(graph, &wanted).status());
  auto s = std::make_shared<Signature>();
  s->feeds = asked.feeds;
  s->fetches = asked.fetches;
  s->targets = asked.targets;
  s->fetch_needs = std::move(needs);
  s->feed_types = pruned.feed_types;
  s->feed_shapes = pruned.feed_shapes;
  s->options = options_;
  s->options.runtime = nullptr;
  s->system = runtime_->impl()->system;
  s->runtime = std::shared_ptr<Runtime>(state_, runtime_.get());
  s->closed = closed_;
  s->gate = gate_;
  s->queues = QueueUse::Of(*graph);
  s->watch = watch_;
  s->master = weak_from_this();
  s->turns = runtime_->impl()->turns.get();
  result->signature = std::move(s);
  absl::StatusOr<std::vector<DeviceInfo>> devices = [&] {
    std::lock_guard<std::mutex> lock(mu_);
    return tasks_.Devices();
  }();
  TROUPE_RETURN_IF_ERROR(devices.status());
  TROUPE_ASSIGN_OR_RETURN(const DeviceSet set, DeviceSet::Make(*std::move(devices)));
  PlaceOptions place;
  place.allow_soft_placement = options_.allow_soft_placement;
  place.use_cost_model = options_.use_cost_model;
  place.stateful_devices = &stateful_devices_;
  place.session = &groups_;
  place.wanted = &wanted;
  if (absl::Status placed = PlaceGraph(graph, set, RegistryKernelLookup(), place); !placed.ok()) {
    TROUPE_RETURN_IF_ERROR(MissingTask(*graph));
    return placed;
  }
  PartitionOptions partition;
  partition.wanted = &wanted;
  CostModel costs;
  if (options_.schedule_recvs && set.size() > 1 && HasSeveralDevices(*graph)) {
    TROUPE_RETURN_IF_ERROR(costs.InferShapes(*graph, &wanted));
    partition.schedule_recvs = &costs;
  }
  TROUPE_RETURN_IF_ERROR(wanted());
  TROUPE_ASSIGN_OR_RETURN(std::vector<GraphPart> parts, PartitionGraph(std::move(pruned.graph), set, partition));
  // The parts of one task stand together.
  for (GraphPart& p : parts) {
    const auto task = static_cast<uint32_t>(tasks_.Find(p.task));
    if (result->tasks.empty() || result->tasks.back() != task) {
      result->tasks.push_back(task);
      register_graph& m = result->messages.emplace_back();
      m.compile = result->waiting;
      m.session = id_;
      m.share_variables = options_.share_variables;
      m.fuse = options_.fuse;
      m.only_graphs = asked.graphs;
      result->remote.emplace_back();
    }
    if (IsRemote(task)) {
      result->messages.back().master = runtime_->impl()->incarnation;
      AddRemotePart(p, *runtime_->impl()->remote, &result->remote.back());
    }
    result->messages.back().parts.push_back({std::move(p.device), {std::move(p.graph)}});
  }
  return absl::OkStatus();
}

SessionMaster::Answer SessionMaster::Register(const Registering& p) {
  const std::shared_ptr<Signature>& signature = p.signature;
  std::vector<PartEdges> edges;
  std::vector<uint32_t> tasks;
  for (size_t i = 0; i < p.answers.size(); ++i) {
    const graph_registered& answer = *p.answers[i];
    if (IsRemote(p.tasks[i])) {
      if (answer.parts.size() != p.remote[i].devices.size())
        return absl::AbortedError(StrCat("the worker of ", answer.task, " has another graph"));
      for (const PartEdges& e : answer.parts) edges.push_back(e);
      tasks.resize(edges.size(), p.tasks[i]);
      continue;
    }
    if (answer.graph == nullptr || answer.graph->parts.size() != answer.parts.size())
      return absl::AbortedError(StrCat("the worker of ", answer.task, " has no graph ", answer.handle));
    for (const auto& part : answer.graph->parts) signature->parts.push_back(part);
    for (const PartEdges& e : answer.parts) edges.push_back(e);
    tasks.resize(edges.size(), p.tasks[i]);
  }
  signature->tasks = tasks;
  signature->edges = EdgesBetween(edges, tasks);
  for (uint32_t i = 0; i < signature->edges.size(); ++i) {
    EdgeTable::Edge& edge = signature->edges[i];
    const size_t device = edge.name.find(';');
    if (device == std::string::npos) continue;
    edge.incarnation = std::strtoull(edge.name.c_str() + device + 1, nullptr, 16);
  }
  TROUPE_RETURN_IF_ERROR(LinkRemote(p, signature.get()));
  const auto restarted = [&] {
    return signature->remote != nullptr &&
           std::any_of(signature->remote->tasks.begin(), signature->remote->tasks.end(), [&](const auto& t) {
             const RemoteTask now = signature->remote->remote->Find(signature->remote->NameOf(t));
             return now.incarnation != t.incarnation || !now.worker;
           });
  };
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return end_;
    if (signatures_.size() >= look_through_) {
      std::erase_if(signatures_, [](const std::weak_ptr<Signature>& s) { return s.expired(); });
      look_through_ = 2 * signatures_.size() + 64;
    }
    signature->number = ++last_signature_;
    signatures_.push_back(signature);
    // Edges are named as their devices were told; some may have died since.
    for (const PartEdges& e : edges) signature->edges.Renew(e.device, tasks_.IncarnationOf(e.device));
  }
  // From here on OnFailure finds it.
  if (!signature->edges.Live() || restarted()) {
    signature->SetStale();
    return signature;
  }
  cache_->Add(p.compile->key, signature);
  // Whoever ends the session meanwhile clears before or after this.
  if (closed()) cache_->Clear();
  if (signature->stale()) cache_->Remove(signature.get());
  return signature;
}

absl::Status SessionMaster::MissingTask(const Graph& graph) const {
  for (const Node* n : graph.op_nodes()) {
    const absl::StatusOr<DeviceName> asked = DeviceName::Parse(n->requested_device());
    if (!asked.ok() || !asked->job) continue;
    absl::Status missing;
    for (uint32_t i = 0; i < tasks_.size(); ++i) {
      const absl::StatusOr<DeviceName> task = DeviceName::Parse(tasks_.name(i));
      DeviceName place = *asked;
      if (!task.ok() || !MergeDevNames(&place, *task).ok()) continue;
      std::lock_guard<std::mutex> lock(mu_);
      if (tasks_.HasDevices(i)) {
        missing = absl::OkStatus();
        break;
      }
      missing = Annotate(tasks_.WhyDown(i), StrCat("task ", tasks_.name(i)));
    }
    if (!missing.ok()) return WithAddress(missing, n->name(), n->op().name, n->requested_device(), n->location());
  }
  return absl::OkStatus();
}

std::vector<std::pair<std::string, std::string>> SessionMaster::RemoteDevices() const {
  std::vector<std::pair<std::string, std::string>> devices;
  std::lock_guard<std::mutex> lock(mu_);
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (!IsRemote(i)) continue;
    for (const device_list::Device& d : tasks_.devices(i)) devices.emplace_back(d.name, tasks_.name(i));
  }
  return devices;
}

void SessionMaster::DropRemote(uint32_t task, const graph_registered& answer) {
  if (!answer.status.ok() || answer.handle == 0) return;
  RemoteTasks& remote = *runtime_->impl()->remote;
  const std::string& name = tasks_.name(task);
  remote.WhenThere(name, remote.Find(name).incarnation,
                   [in = &system(), drop = drop_graph{runtime_->impl()->incarnation, answer.handle}](
                       const caf::actor& worker) { SendRemote(*in, worker, drop).IgnoreError(); });
}

void SessionMaster::DropRemote(const Registering& r) {
  for (size_t i = 0; i < r.answers.size(); ++i) {
    if (r.answers[i] && IsRemote(r.tasks[i])) DropRemote(r.tasks[i], *r.answers[i]);
  }
}

absl::Status SessionMaster::LinkRemote(const Registering& p, Signature* signature) {
  const Runtime::Impl& runtime = *runtime_->impl();
  auto plan = std::make_shared<RemotePlan>();
  plan->master = runtime.incarnation;
  plan->port = runtime.tasks[0].name;
  plan->system = runtime.system;
  plan->remote = runtime.remote;
  plan->directory = runtime.directory;
  for (uint32_t i = 0; i < tasks_.size(); ++i) plan->names.push_back(tasks_.name(i));
  auto first = static_cast<uint32_t>(signature->parts.size());
  for (size_t i = 0; i < p.tasks.size(); ++i) {
    if (!IsRemote(p.tasks[i])) continue;
    const Registering::Remote& r = p.remote[i];
    plan->tasks.push_back({p.tasks[i], r.incarnation, p.answers[i]->handle, first, r.devices, r.arguments});
    first += static_cast<uint32_t>(r.devices.size());
  }
  if (plan->tasks.empty()) return absl::OkStatus();
  link_graph link;
  link.master = plan->master;
  link.tasks = plan->names;
  link.feeds = static_cast<uint32_t>(signature->feeds.size());
  link.fetches = static_cast<uint32_t>(signature->fetches.size());
  link.token_messages = options_.token_messages;
  link.check_kernels = options_.check_kernels;
  link.wire_messages = options_.wire_messages;
  for (uint32_t e = 0; e < signature->edges.size(); ++e) {
    const EdgeTable::Edge& edge = signature->edges[e];
    link.edges.push_back({edge.name, edge.sender, edge.receiver, edge.granted, edge.incarnation});
  }
  for (const RemotePlan::Task& task : plan->tasks) {
    link.handle = task.handle;
    link.task = task.number;
    link.first_part = task.first_part;
    // A worker that is not there any more makes the signature stale.
    SendRemote(system(), tasks_.worker(task.number), link_graph(link)).IgnoreError();
  }
  signature->remote = std::move(plan);
  return absl::OkStatus();
}

}  // namespace troupe
