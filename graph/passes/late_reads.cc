#include "graph/passes/late_reads.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace troupe {
namespace {

bool TakesReference(const Node& n) { return std::any_of(n.input_types().begin(), n.input_types().end(), IsRef); }

bool IsUpdate(const Node& n) {
  return TakesReference(n) && !n.IsControlFlow() && n.op().name != "IsVariableInitialized" &&
         n.op().name != "RefSelect";
}

bool HandsOn(const Node& n) {
  const std::string& op = n.op().name;
  return (op == "Identity" || op == "StopGradient" || op == "PreventGradient") && n.input(0).valid();
}

class LateReads {
 public:
  LateReads(Graph* graph, StillWanted wanted) : graph_(*graph), wanted_(wanted) {}

  absl::StatusOr<int> Run() {
    bool read = false, updated = false;
    for (int id = 0; id < graph_.num_node_ids(); ++id) {
      const Node* n = graph_.node(id);
      if (n == nullptr || !n->IsOp()) continue;
      updated = updated || IsUpdate(*n);
      read = read || (HandsOn(*n) && IsRef(n->input(0).dtype()));
    }
    if (!read || !updated) return 0;
    TROUPE_ASSIGN_OR_RETURN(order_, graph_.TopologicalOrder());
    FindReads();
    for (size_t first = 0; first < updates_.size(); first += 64) TROUPE_RETURN_IF_ERROR(FindLate(first));
    int moved = 0;
    // In topological order: what hands on an Identity's value may itself read later by now.
    for (const Read& r : reads_) {
      if (!r.late) continue;
      TROUPE_RETURN_IF_ERROR(Move(r));
      ++moved;
    }
    return moved;
  }

 private:
  // A consumer's input that comes from a variable through Identity nodes.
  struct Read {
    Node *consumer, *from;
    int input, variable;
    bool late = false;
  };
  struct Update {
    const Node* node;
    int variable;
  };

  void FindReads() {
    variable_.assign(graph_.num_node_ids(), -1);
    std::vector<int> handed_on(graph_.num_node_ids(), -1);  // the variable whose value a node hands on
    absl::flat_hash_set<int> read;
    for (Node* n : order_) {
      if (!n->IsOp()) continue;
      for (int i = 0; i < n->num_inputs(); ++i) {
        const NodeOut in = n->input(i);
        if (!in.valid() || handed_on[in.node->id()] < 0 || (n->IsControlFlow() && !n->IsSwitch())) continue;
        reads_.push_back({n, in.node, i, handed_on[in.node->id()]});
        read.insert(handed_on[in.node->id()]);
      }
      if (HandsOn(*n)) {
        const NodeOut in = n->input(0);
        handed_on[n->id()] = IsRef(in.dtype()) ? variable_[in.node->id()] : handed_on[in.node->id()];
      } else if (n->op().Has(OpTrait::kVariable)) {
        variable_[n->id()] = n->id();
      } else if (n->num_outputs() > 0 && IsRef(n->output_type(0)) && !n->IsMerge() && n->op().name != "RefSelect") {
        // What updates or passes on a reference gives its first one back; of several it may be any.
        for (int i = n->num_inputs(); i-- > 0;) {
          if (IsRef(n->input_type(i)) && n->input(i).valid()) variable_[n->id()] = variable_[n->input(i).node->id()];
        }
      }
    }
    for (const Node* n : order_) {
      if (!n->IsOp() || !IsUpdate(*n)) continue;
      for (int i = 0; i < n->num_inputs(); ++i) {
        if (!IsRef(n->input_type(i)) || !n->input(i).valid()) continue;
        const int variable = variable_[n->input(i).node->id()];
        if (variable >= 0 && read.contains(variable)) updates_.push_back({n, variable});
      }
    }
  }

  // Which reads come after one of 64 updates that their Identity does not come after.
  absl::Status FindLate(size_t first) {
    absl::flat_hash_map<const Node*, uint64_t> runs;
    absl::flat_hash_map<int, uint64_t> of_variable;
    for (size_t i = first; i < std::min(first + 64, updates_.size()); ++i) {
      runs[updates_[i].node] |= uint64_t{1} << (i - first);
      of_variable[updates_[i].variable] |= uint64_t{1} << (i - first);
    }
    // By node id: the updates that have run when the node has.
    std::vector<uint64_t> before(graph_.num_node_ids(), 0);
    for (const Node* n : order_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      uint64_t& bits = before[n->id()];
      for (const Edge* e : n->in_edges()) {
        if (!e->src->IsNextIteration()) bits |= before[e->src->id()];
      }
      if (const auto it = runs.find(n); it != runs.end()) bits |= it->second;
    }
    for (Read& r : reads_) {
      const auto it = of_variable.find(r.variable);
      if (it == of_variable.end()) continue;
      uint64_t mine = before[r.consumer->id()];
      if (const auto own = runs.find(r.consumer); own != runs.end()) mine &= ~own->second;
      r.late = r.late || (mine & ~before[r.from->id()] & it->second) != 0;
    }
    return absl::OkStatus();
  }

  absl::Status Move(const Read& r) {
    // Up to the reference.
    std::vector<Node*> waits;
    const Node* n = r.from;
    for (;; n = n->input(0).node) {
      for (const Edge* e : n->in_edges()) {
        if (e->IsControl() && e->src->IsOp()) waits.push_back(e->src);
      }
      if (IsRef(n->input(0).dtype())) break;
    }
    TROUPE_RETURN_IF_ERROR(graph_.UpdateEdge(n->input(0), r.consumer, r.input));
    for (Node* w : waits) graph_.AddControlEdge(w, r.consumer);
    for (Node* unused = r.from; unused != nullptr && HandsOn(*unused);) {
      const auto is_op = [](const Edge* e) { return e->dst->IsOp(); };
      if (std::any_of(unused->out_edges().begin(), unused->out_edges().end(), is_op)) break;
      Node* next = IsRef(unused->input(0).dtype()) ? nullptr : unused->input(0).node;
      graph_.RemoveNode(unused);
      unused = next;
    }
    return absl::OkStatus();
  }

  Graph& graph_;
  WantedCheck wanted_;
  std::vector<Node*> order_;
  std::vector<int> variable_;  // by node id: the variable that its references are of; -1 when that is not known
  std::vector<Read> reads_;
  std::vector<Update> updates_;
};

}  // namespace

absl::StatusOr<int> ReadAfterUpdates(Graph* graph, StillWanted wanted) { return LateReads(graph, wanted).Run(); }

}  // namespace troupe
