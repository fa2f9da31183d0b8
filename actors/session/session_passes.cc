// What a session makes of its graph for one signature: it is pruned, improved, placed, and cut into
// parts.
#include "actors/runtime/remote_tasks.h"
#include "actors/session/placement_policies.h"
#include "actors/session/session_master.h"
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

// Adds the parts to the messages to their tasks, which begin as `message`. The parts of one task
// stand together.
template <class Registering>
void AddParts(std::vector<GraphPart> parts, const register_graph& message, const TaskDirectory& tasks,
              const Runtime::Impl& runtime, Registering* result) {
  for (GraphPart& p : parts) {
    const auto task = static_cast<uint32_t>(tasks.Find(p.task));
    if (result->tasks.empty() || result->tasks.back() != task) {
      result->tasks.push_back(task);
      result->messages.push_back(message);
      result->remote.emplace_back();
    }
    if (task >= runtime.tasks.size()) {  // another process has it
      result->messages.back().master = runtime.incarnation;
      AddRemotePart(p, *runtime.remote, &result->remote.back());
    }
    result->messages.back().parts.push_back({std::move(p.device), {std::move(p.graph)}});
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
    auto it = own_names_.find(shared);
    if (it == own_names_.end()) {
      const Node* named = graph_.Find(shared);
      const bool own = named != nullptr && named->op().Has(OpTrait::kVariable) && !asks(*named, &its);
      it = own_names_.emplace(shared, own).first;
    }
    if (it->second) n->SetAttr("container", OwnVariables(id_));
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
  place.policy = PlacementOf(weak_from_this());
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
  register_graph message;
  message.compile = result->waiting;
  message.session = id_;
  message.share_variables = options_.share_variables;
  message.fuse = options_.fuse;
  message.only_graphs = asked.graphs;
  AddParts(std::move(parts), message, tasks_, *runtime_->impl(), result);
  return absl::OkStatus();
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

}  // namespace troupe
