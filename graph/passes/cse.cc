#include "graph/passes/cse.h"

#include <algorithm>

#include "graph/core/hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/hash/hash.h"

namespace troupe {
namespace {

// Tensors are told apart by these many bytes before they are compared in full.
constexpr size_t kHashedBytes = 256;

size_t Mix(size_t a, size_t b) { return a * 0x9E3779B97F4A7C15ull + (b ^ (b >> 29)) * 0xBF58476D1CE4E5B9ull; }

struct AttrHash {
  size_t operator()(std::monostate) const { return 0; }
  size_t operator()(const std::string& v) const { return absl::HashOf(AbslView(v)); }
  size_t operator()(int64_t v) const { return absl::HashOf(v); }
  size_t operator()(float v) const { return absl::HashOf(v); }
  size_t operator()(bool v) const { return v; }
  size_t operator()(DType v) const { return static_cast<size_t>(v); }
  size_t operator()(const PartialTensorShape& v) const { return v.known_rank() ? absl::HashOf(v.dims()) : 1; }
  size_t operator()(const Tensor& v) const {
    if (!v.valid()) return 0;
    const size_t h = absl::HashOf(static_cast<int>(v.dtype()), v.shape().dims());
    if (!IsPlainBytes(v.dtype())) return h;
    return Mix(h,
               absl::HashOf(absl::string_view(static_cast<const char*>(v.raw()), std::min(v.bytes(), kHashedBytes))));
  }
  size_t operator()(const FuncAttr& v) const { return absl::HashOf(AbslView(v.name)); }
  size_t operator()(const AttrPlaceholder& v) const { return absl::HashOf(AbslView(v.name)); }
  size_t operator()(const EmptyList&) const { return kEmpty; }
  template <class T>
  size_t operator()(const std::vector<T>& list) const {
    size_t h = kEmpty;  // an empty list equals one of unknown kind
    for (size_t i = 0; i < list.size(); ++i) {
      const T item = list[i];
      h = Mix(h, (*this)(item));
    }
    return h;
  }
  static constexpr size_t kEmpty = 17;
};

bool MayBeShared(const Node& n) {
  if (n.IsControlFlow() || n.op().stateful() || n.IsSend() || n.IsRecv() || n.op().Has(OpTrait::kPlaceholder) ||
      n.op().Has(OpTrait::kVariable)) {
    return false;
  }
  const auto is_ref = [](DType t) { return IsRef(t); };
  return std::none_of(n.input_types().begin(), n.input_types().end(), is_ref) &&
         std::none_of(n.output_types().begin(), n.output_types().end(), is_ref);
}

using Ins = absl::InlinedVector<std::pair<int, int>, 6>;  // (node id, output)

// What a node reads, in an order that does not depend on how it was built.
Ins SortedInputs(const Node& n) {
  Ins in;
  for (int i = 0; i < n.num_inputs(); ++i) {
    const NodeOut out = n.input(i);
    in.emplace_back(out.valid() ? out.node->id() : -1, out.index);
  }
  if (n.op().Has(OpTrait::kCommutative)) std::sort(in.begin(), in.end());
  const size_t data = in.size();
  for (const Edge* e : n.in_edges()) {
    if (e->IsControl() && e->src->IsOp()) in.emplace_back(e->src->id(), kControlSlot);
  }
  std::sort(in.begin() + data, in.end());
  return in;
}

size_t HashNode(const Node& n, const Ins& in) {
  size_t h = absl::HashOf(&n.op(), AbslView(n.requested_device()), AbslView(n.assigned_device()));
  size_t attrs = 0;  // their order says nothing
  for (const auto& [name, value] : n.attrs()) {
    attrs += Mix(absl::HashOf(AbslView(name)), std::visit(AttrHash(), value.variant()));
  }
  h = Mix(h, attrs);
  for (const auto& [node, output] : in) h = Mix(h, absl::HashOf(node, output));
  return h;
}

bool SameAttrs(const AttrMap& a, const AttrMap& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, value] : a) {
    const AttrValue* other = b.Find(name);
    if (other == nullptr || !(*other == value)) return false;
  }
  return true;
}

bool SameNode(const Node& a, const Node& b, const Ins& in_b) {
  return &a.op() == &b.op() && a.requested_device() == b.requested_device() &&
         a.assigned_device() == b.assigned_device() && SortedInputs(a) == in_b && SameAttrs(a.attrs(), b.attrs());
}

class Merger {
 public:
  explicit Merger(Graph* graph) : graph_(graph) {}

  absl::Status Merge(Node* from, Node* into) {
    while (!from->out_edges().empty()) {
      const Edge e = *from->out_edges().front();
      graph_->RemoveEdge(from->out_edges().front());
      if (!e.IsControl()) {
        TROUPE_RETURN_IF_ERROR(graph_->AddEdge(into, e.src_output, e.dst, e.dst_input).status());
      } else if (IsNew(*into, *e.dst)) {
        graph_->AddControlEdgeUnchecked(into, e.dst);
      }
    }
    graph_->RemoveNode(from);
    return absl::OkStatus();
  }

 private:
  // True once for each control edge. A node that many are merged into, and a node that waits for
  // many, would be searched for the edge once for each of them otherwise.
  bool IsNew(const Node& into, const Node& dst) {
    if (known_.insert(into.id()).second) {
      for (const Edge* e : into.out_edges()) {
        if (e->IsControl()) edges_.insert({into.id(), e->dst->id()});
      }
    }
    return edges_.insert({into.id(), dst.id()}).second;
  }

  Graph* graph_;
  HashSet<int> known_;  // nodes whose control edges are in edges_
  HashSet<std::pair<int, int>> edges_;
};

}  // namespace

absl::StatusOr<int> EliminateCommonSubexpressions(Graph* graph, StillWanted wanted) {
  WantedCheck check(wanted);
  Merger merger(graph);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph->TopologicalOrder());
  HashMap<size_t, absl::InlinedVector<Node*, 1>> seen;
  seen.reserve(order.size());
  int removed = 0;
  for (Node* n : order) {
    TROUPE_RETURN_IF_ERROR(check());
    if (!n->IsOp() || !MayBeShared(*n)) continue;
    const Ins in = SortedInputs(*n);
    auto& equal_hash = seen[HashNode(*n, in)];
    const auto same =
        std::find_if(equal_hash.begin(), equal_hash.end(), [&](const Node* other) { return SameNode(*other, *n, in); });
    if (same == equal_hash.end()) {
      equal_hash.push_back(n);
    } else {
      TROUPE_RETURN_IF_ERROR(merger.Merge(n, *same));
      ++removed;
    }
  }
  return removed;
}

}  // namespace troupe
