#include "graph/passes/place.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "graph/passes/colocation.h"
#include "graph/passes/prune.h"

namespace troupe {
namespace {

// Looks at its one input's shape and not at its values.
bool ReadsOnlyShape(const Node& n) { return n.num_inputs() == 1 && n.op().Has(OpTrait::kReadsOnlyShape); }

bool HasNoInputs(const Node& n) {
  return n.num_inputs() == 0 && n.num_outputs() > 0 && !IsRef(n.output_type(0)) && n.output_type(0) != DType::kResource;
}

class Placer {
 public:
  Placer(const Graph& graph, const DeviceSet& devices, const ColocationGroups& groups, const PlaceOptions& options)
      : devices_(devices), groups_(groups), options_(options), device_of_(graph.num_node_ids(), -1) {}

  // Device index by group number.
  const std::vector<int>& devices_of_groups() const { return device_of_; }

  absl::Status Run(const Graph& graph, const std::vector<Node*>& order) {
    bool choice = false;
    for (const Node* n : order) {
      if (n->IsOp() && groups_.Feasible(groups_.GroupOf(*n)).size() > 1) choice = true;
    }
    if (choice && options_.use_cost_model) TROUPE_RETURN_IF_ERROR(PrepareSimulation(graph));
    WantedCheck wanted(options_.wanted);
    std::vector<const Node*> waiting;  // for their consumers
    for (const Node* n : order) {
      TROUPE_RETURN_IF_ERROR(wanted());
      if (!n->IsOp()) continue;
      const int group = groups_.GroupOf(*n);
      if (device_of_[group] < 0) {
        TROUPE_ASSIGN_OR_RETURN(device_of_[group], AskPolicy(*n, group));
        if (device_of_[group] < 0 && FollowsConsumers(*n, group)) {
          waiting.push_back(n);
          continue;
        }
        if (device_of_[group] < 0) device_of_[group] = Choose(*n, group);
      }
      if (cost_ != nullptr) Occupy(*n, device_of_[group]);
    }
    for (const Node* n : waiting) device_of_[groups_.GroupOf(*n)] = ConsumersDevice(*n);
    return absl::OkStatus();
  }

 private:
  // What the program's own policy says; -1 when it has no opinion.
  absl::StatusOr<int> AskPolicy(const Node& n, int group) const {
    const absl::Span<const int> feasible = groups_.Feasible(group);
    if (!options_.policy || feasible.size() < 2) return -1;
    std::vector<std::string> devices, inputs;
    for (const int d : feasible) devices.push_back(devices_.info(d).name);
    for (int i = 0; i < n.num_inputs(); ++i) {
      const NodeOut in = n.input(i);
      const int d = in.valid() && in.node->IsOp() ? device_of_[groups_.GroupOf(*in.node)] : -1;
      inputs.push_back(d < 0 ? "" : devices_.info(d).name);
    }
    const auto wrong = [&](const absl::Status& why) {
      return WithAddress(Annotate(why, "the placement policy"), n.name(), n.op().name, n.requested_device(),
                         n.location());
    };
    absl::StatusOr<std::string> chosen = Answer({n, devices, inputs});
    if (!chosen.ok()) return wrong(chosen.status());
    if (chosen->empty()) return -1;
    const auto it = std::find(devices.begin(), devices.end(), *chosen);
    if (it == devices.end())
      return wrong(InvalidArgument("chose '", CEscape(*chosen), "', which is none of ", StrJoin(devices, ", ")));
    return feasible[static_cast<size_t>(it - devices.begin())];
  }
  // It is the program's code.
  absl::StatusOr<std::string> Answer(const PlacementQuestion& question) const {
    try {
      return options_.policy(question);
    } catch (const std::exception& e) {
      return Internal("threw ", e.what());
    } catch (...) {
      return Internal("threw an exception");
    }
  }

  // A node without inputs, alone in its group and free to be anywhere that matters.
  bool FollowsConsumers(const Node& n, int group) const {
    return HasNoInputs(n) && groups_.members(group).size() == 1 && groups_.Feasible(group).size() > 1 &&
           std::any_of(n.out_edges().begin(), n.out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); });
  }

  static bool Has(absl::Span<const int> devices, int device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  }

  // Where all consumers are, if they are on one device that the node may have.
  int ConsumersDevice(const Node& n) const {
    const absl::Span<const int> feasible = groups_.Feasible(groups_.GroupOf(n));
    int device = -1;
    for (const Edge* e : n.out_edges()) {
      if (!e->dst->IsOp() || e->IsControl()) continue;
      const int d = device_of_[groups_.GroupOf(*e->dst)];
      if (d < 0 || (device >= 0 && d != device) || !Has(feasible, d)) return feasible[0];
      device = d;
    }
    return device < 0 ? feasible[0] : device;
  }

  // For a node that only waits for others: where most of them are; -1 when it waits for none.
  int DeviceOfMost(const Node& n, absl::Span<const int> feasible) const {
    std::vector<int> waits_for(feasible.size(), 0);
    for (const Edge* e : n.in_edges()) {
      if (!e->src->IsOp()) continue;
      const int d = device_of_[groups_.GroupOf(*e->src)];
      const auto it = std::find(feasible.begin(), feasible.end(), d);
      if (it != feasible.end()) ++waits_for[static_cast<size_t>(it - feasible.begin())];
    }
    const auto most = std::max_element(waits_for.begin(), waits_for.end());
    return most == waits_for.end() || *most == 0 ? -1 : feasible[static_cast<size_t>(most - waits_for.begin())];
  }

  int Choose(const Node& n, int group) {
    const absl::Span<const int> feasible = groups_.Feasible(group);
    if (feasible.size() == 1) return feasible[0];
    if ((ReadsOnlyShape(n) || n.op().Has(OpTrait::kResult)) && n.input(0).valid()) {
      const int d = device_of_[groups_.GroupOf(*n.input(0).node)];
      if (Has(feasible, d)) return d;
    }
    if (n.num_inputs() == 0 && n.num_outputs() == 0) {
      if (const int d = DeviceOfMost(n, feasible); d >= 0) return d;
    }
    if (cost_ == nullptr) return feasible[0];
    for (int i = 0; i < n.num_inputs(); ++i) {
      const NodeOut in = n.input(i);
      if (!in.valid() || !IsRef(in.dtype()) || IsRef(n.input_type(i))) continue;
      if (const int d = device_of_[groups_.GroupOf(*in.node)]; Has(feasible, d)) return d;
    }
    int best = -1;
    double best_finish = std::numeric_limits<double>::infinity();
    const int64_t held = HeldBytes(n);
    for (const bool within_memory : {true, false}) {
      for (const int d : feasible) {
        const int64_t limit = devices_.info(d).memory_bytes;
        if (within_memory && limit > 0 && held_bytes_[d] + held > limit) continue;
        const double finish = Start(n, d) + cost_->ExecutionNs(n, devices_.name(d));
        if (finish < best_finish) {
          best = d;
          best_finish = finish;
        }
      }
      if (best >= 0) return best;
    }
    return feasible[0];
  }

  // The simulation. Each device runs one node at a time; a tensor is sent once to each device that
  // needs it.

  absl::Status PrepareSimulation(const Graph& graph) {
    if (options_.cost_model != nullptr) {
      cost_ = options_.cost_model;
    } else {
      estimates_.emplace();
      TROUPE_RETURN_IF_ERROR(estimates_->InferShapes(graph, options_.wanted));
      cost_ = &*estimates_;
    }
    finish_.assign(graph.num_node_ids(), 0);
    free_at_.assign(devices_.size(), 0);
    held_bytes_.assign(devices_.size(), 0);
    return absl::OkStatus();
  }

  // What the node keeps on its device between steps.
  int64_t HeldBytes(const Node& n) const {
    if (!n.IsConstant() && !n.op().Has(OpTrait::kVariable)) return 0;
    int64_t bytes = 0;
    for (int i = 0; i < n.num_outputs(); ++i) bytes += cost_->OutputBytes({const_cast<Node*>(&n), i});
    return bytes;
  }

  double Start(const Node& n, int device) const {
    double start = free_at_[device];
    for (const Edge* e : n.in_edges()) {
      if (!e->src->IsOp() || e->src->IsNextIteration()) continue;
      double arrival = finish_[e->src->id()];
      const int from = device_of_[groups_.GroupOf(*e->src)];
      if (from >= 0 && from != device) {
        const int64_t bytes = e->IsControl() ? 0 : cost_->OutputBytes({e->src, e->src_output});
        arrival += cost_->TransferNs(bytes, devices_.name(from), devices_.name(device));
      }
      start = std::max(start, arrival);
    }
    return start;
  }

  void Occupy(const Node& n, int device) {
    const double finish = Start(n, device) + cost_->ExecutionNs(n, devices_.name(device));
    finish_[n.id()] = free_at_[device] = finish;
    held_bytes_[device] += HeldBytes(n);
  }

  const DeviceSet& devices_;
  const ColocationGroups& groups_;
  const PlaceOptions& options_;
  std::vector<int> device_of_;  // by group number; -1 = none yet
  std::optional<CostModel> estimates_;
  const CostModel* cost_ = nullptr;  // set while simulating
  std::vector<double> finish_;       // by node id, in simulated ns
  std::vector<double> free_at_;      // by device
  std::vector<int64_t> held_bytes_;  // by device
};

// With one device there is nothing to choose and nothing to group, unless somebody asked for
// something that must be checked: then false. It is what most sessions have, and placing costs as
// much as compiling otherwise.
bool AllGoOnTheOnlyDevice(const std::vector<Node*>& order, const DeviceSet& devices, const KernelLookup& kernels,
                          const PlaceOptions& options) {
  if (devices.size() != 1 || options.cost_model != nullptr) return false;
  const std::string& device = devices.info(0).name;
  for (const Node* n : order) {
    if (!n->IsOp()) continue;
    if (!n->assigned_device().empty() || !n->requested_device().empty() || n->attrs().Has("_class")) return false;
    if (n->op().stateful() && options.stateful_devices != nullptr) {
      const auto known = options.stateful_devices->find(n->name());
      if (known != options.stateful_devices->end() && known->second != device) return false;
    }
    if (!kernels.HasKernel(*n, devices.types()[0])) return false;
  }
  return true;
}

}  // namespace

absl::Status PlaceGraph(Graph* graph, const DeviceSet& devices, const KernelLookup& kernels,
                        const PlaceOptions& options) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph->TopologicalOrder());
  const auto stays = [&](const Node& n) {
    return options.stateful_devices != nullptr && n.op().stateful() && !n.op().Has(OpTrait::kArgument) &&
           !n.op().Has(OpTrait::kResult);
  };
  const auto place = [&](Node* n, int device) {
    n->set_assigned_device(devices.info(device).name);
    if (stays(*n) && options.stateful_devices->emplace(n->name(), devices.info(device).name).second &&
        options.session != nullptr) {
      options.session->Placed(n->name(), device);
    }
    if (options.log) options.log(*n);
  };
  if (AllGoOnTheOnlyDevice(order, devices, kernels, options)) {
    for (Node* n : order) {
      if (n->IsOp()) place(n, 0);
    }
    return absl::OkStatus();
  }
  ColocationOptions colocation;
  colocation.allow_soft_placement = options.allow_soft_placement;
  colocation.fixed = options.stateful_devices;
  colocation.wanted = options.wanted;
  const bool news = options.session != nullptr && std::any_of(order.begin(), order.end(), [&](const Node* n) {
                      return n->IsOp() && stays(*n) && !options.stateful_devices->contains(n->name());
                    });
  if (news) {
    options.session->Update(devices, kernels, options.allow_soft_placement, *options.stateful_devices);
    colocation.session = options.session;
  }
  TROUPE_ASSIGN_OR_RETURN(const ColocationGroups groups, ColocationGroups::Build(*graph, devices, kernels, colocation));
  Placer placer(*graph, devices, groups, options);
  TROUPE_RETURN_IF_ERROR(placer.Run(*graph, order));
  for (Node* n : order) {
    if (n->IsOp()) place(n, placer.devices_of_groups()[groups.GroupOf(*n)]);
  }
  return absl::OkStatus();
}

}  // namespace troupe
