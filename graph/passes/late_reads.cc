#include "graph/passes/late_reads.h"

#include <algorithm>
#include <vector>

#include "graph/core/hash_map.h"
#include "graph/ir/frames.h"

namespace troupe {
namespace {

bool TakesReference(const Node& n) { return std::any_of(n.input_types().begin(), n.input_types().end(), IsRef); }

bool IsUpdate(const Node& n) {
  return TakesReference(n) && !n.IsControlFlow() && !n.op().Has(OpTrait::kIgnoresReference);
}

bool HandsOn(const Node& n) { return n.op().Has(OpTrait::kForwardsInput) && n.input(0).valid(); }

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
    TROUPE_RETURN_IF_ERROR(FindLoops());
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
    HashSet<int> read;
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
      } else if (n->num_outputs() > 0 && IsRef(n->output_type(0)) && !n->IsMerge() &&
                 !n->op().Has(OpTrait::kIgnoresReference)) {
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

  // The loops that updates stand in, with all that runs in them.
  absl::Status FindLoops() {
    loop_of_.assign(graph_.num_node_ids(), -1);
    if (updates_.empty() || std::none_of(order_.begin(), order_.end(), [](const Node* n) { return n->IsExit(); }))
      return absl::OkStatus();
    std::vector<FrameInfo> info;
    TROUPE_RETURN_IF_ERROR(BuildFrameInfo(graph_, &info));
    // By the name of a frame, that of the one around it.
    HashMap<std::string, const std::string*> parents;
    for (const Node* n : order_) {
      const FrameInfo& at = info[n->id()];
      if (!at.frame_name.empty() && at.parent_frame != nullptr)
        parents.emplace(at.frame_name, &info[at.parent_frame->id()].frame_name);
    }
    const auto parent = [&](const std::string& frame) -> const std::string& {
      static const std::string kRoot;
      const auto it = parents.find(frame);
      return it == parents.end() ? kRoot : *it->second;
    };
    HashMap<std::string, int> found;
    for (const Update& u : updates_) {
      int inner = -1;
      for (const std::string* f = &info[u.node->id()].frame_name; !f->empty(); f = &parent(*f)) {
        TROUPE_RETURN_IF_ERROR(wanted_());
        const auto [it, added] = found.emplace(*f, static_cast<int>(loops_.size()));
        if (added) loops_.emplace_back();
        if (inner >= 0) loops_[inner].parent = it->second;
        inner = it->second;
        if (!added) break;
      }
    }
    if (loops_.empty()) return absl::OkStatus();
    for (Node* n : order_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      // Of a node in a loop without updates, the innermost one that has some.
      const std::string* f = &info[n->id()].frame_name;
      while (!f->empty() && !found.contains(*f)) f = &parent(*f);
      if (f->empty()) continue;
      const bool own = f == &info[n->id()].frame_name;
      int loop = found[*f];
      if (own) loop_of_[n->id()] = loop;
      for (; loop >= 0; loop = loops_[loop].parent) loops_[loop].nodes.push_back(n);
    }
    // Those that stand in others come first.
    for (size_t i = 0; i < loops_.size(); ++i) {
      for (int p = loops_[i].parent; p >= 0; p = loops_[p].parent) ++loops_[i].depth;
      inner_first_.push_back(static_cast<int>(i));
    }
    std::stable_sort(inner_first_.begin(), inner_first_.end(),
                     [&](int a, int b) { return loops_[a].depth > loops_[b].depth; });
    return absl::OkStatus();
  }

  // Adds to `ended` at the Exits of a loop the updates in it that have run when the loop has ended:
  // what an iteration hands on comes after its updates, and the next one comes after that. Of a
  // loop that ends at once none has run, and none will.
  absl::Status FindEnded(int loop, const HashMap<const Node*, uint64_t>& runs, std::vector<uint64_t>* ended) {
    const Loop& l = loops_[loop];
    // By node id: the updates of an iteration that have run when the node has; those of the one
    // before.
    HashMap<const Node*, uint64_t> now, last;
    const auto into = [&](const Node* n, const HashMap<const Node*, uint64_t>& of) {
      uint64_t bits = 0;
      if (n->IsEnter() && loop_of_[n->id()] == loop) return bits;
      for (const Edge* e : n->in_edges()) {
        if (e->src->IsNextIteration()) continue;
        if (const auto it = of.find(e->src); it != of.end()) bits |= it->second;
      }
      return bits;
    };
    for (const Node* n : l.nodes) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      uint64_t bits = into(n, now);
      if (n->IsExit() && loop_of_[n->id()] != loop) bits |= (*ended)[n->id()];
      if (const auto it = runs.find(n); it != runs.end()) bits |= it->second;
      if (bits != 0) now[n] = bits;
    }
    if (now.empty()) return absl::OkStatus();
    for (const Node* n : l.nodes) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      uint64_t bits = into(n, last);
      if (n->IsMerge() && loop_of_[n->id()] == loop) {
        for (const Edge* e : n->in_edges()) {
          if (!e->src->IsNextIteration()) continue;
          if (const auto it = now.find(e->src); it != now.end()) bits |= it->second;
        }
      }
      if (bits == 0) continue;
      last[n] = bits;
      if (n->IsExit() && loop_of_[n->id()] == loop) (*ended)[n->id()] |= bits;
    }
    return absl::OkStatus();
  }

  // Which reads come after one of 64 updates that their Identity does not come after.
  absl::Status FindLate(size_t first) {
    HashMap<const Node*, uint64_t> runs;
    HashMap<int, uint64_t> of_variable;
    for (size_t i = first; i < std::min(first + 64, updates_.size()); ++i) {
      runs[updates_[i].node] |= uint64_t{1} << (i - first);
      of_variable[updates_[i].variable] |= uint64_t{1} << (i - first);
    }
    std::vector<uint64_t> ended(loops_.empty() ? 0 : graph_.num_node_ids(), 0);
    for (const int loop : inner_first_) TROUPE_RETURN_IF_ERROR(FindEnded(loop, runs, &ended));
    // By node id: the updates that have run when the node has.
    std::vector<uint64_t> before(graph_.num_node_ids(), 0);
    for (const Node* n : order_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      uint64_t& bits = before[n->id()];
      for (const Edge* e : n->in_edges()) {
        if (!e->src->IsNextIteration()) bits |= before[e->src->id()];
      }
      if (n->IsExit() && !ended.empty()) bits |= ended[n->id()];
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
  struct Loop {
    int parent = -1;                 // the loop around it; -1: none
    int depth = 0;                   // of loops around it
    std::vector<const Node*> nodes;  // that run in it, or in a loop in it, in topological order
  };
  std::vector<Loop> loops_;  // those in which, or in a loop in which, an update stands
  std::vector<int> inner_first_;
  std::vector<int> loop_of_;  // by node id: the loop whose frame the node runs in, when it is one of loops_
};

}  // namespace

absl::StatusOr<int> ReadAfterUpdates(Graph* graph, StillWanted wanted) { return LateReads(graph, wanted).Run(); }

}  // namespace troupe
