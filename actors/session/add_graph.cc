#include "actors/session/add_graph.h"

#include <algorithm>
#include <utility>

#include "graph/core/guarded.h"
#include "graph/ir/graph_undo.h"
#include "graph/ir/unknown_ops.h"
#include "troupe/names.h"

namespace troupe {
namespace {

// The first thing in which two nodes of one name differ; "" when they are equal. Where they were
// defined is no difference.
std::string Difference(const Node& a, const Node& b) {
  if (&a.op() != &b.op() && a.op().name != b.op().name) return StrCat("its op is ", a.op().name, ", not ", b.op().name);
  if (!(a.properties() == b.properties())) {  // shared, unless one was changed since
    for (const auto& [name, value] : b.attrs()) {
      const AttrValue* have = a.attrs().Find(name);
      if (have == nullptr) return StrCat("it has no attr '", name, "' = ", value.DebugString());
      if (!(*have == value))
        return StrCat("its attr '", name, "' is ", have->DebugString(), ", not ", value.DebugString());
    }
    for (const auto& [name, value] : a.attrs()) {
      if (!b.attrs().Has(name)) return StrCat("its attr '", name, "' is ", value.DebugString(), ", not missing");
    }
    if (a.requested_device() != b.requested_device())
      return StrCat("its device is '", a.requested_device(), "', not '", b.requested_device(), "'");
  }
  const auto source = [](const Edge* e) {
    return e == nullptr ? std::string("nothing") : StrCat("'", e->src->name(), ":", e->src_output, "'");
  };
  if (a.num_inputs() != b.num_inputs()) return StrCat("it has ", a.num_inputs(), " inputs, not ", b.num_inputs());
  for (int i = 0; i < a.num_inputs(); ++i) {
    const Edge *x = a.input_edge(i), *y = b.input_edge(i);
    if (x == nullptr && y == nullptr) continue;
    if (x == nullptr || y == nullptr || x->src_output != y->src_output || x->src->name() != y->src->name())
      return StrCat("its input ", i, " is ", source(x), ", not ", source(y));
  }
  const auto controls = [](const Node& n) {
    Names names;
    for (const Edge* e : n.in_edges()) {
      if (e->IsControl() && e->src->IsOp()) names.push_back(e->src->name());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  const Names x = controls(a), y = controls(b);
  if (x == y) return "";
  return StrCat("its control inputs are {", StrJoin(x, ", "), "}, not {", StrJoin(y, ", "), "}");
}

// The outputs of `have`, a node of an unknown op, when those of `more` join them.
std::vector<DType> OutputsWith(const Node& have, const Node& more) {
  std::vector<DType> types = OutputsSoFar(have);
  types.resize(std::max(types.size(), more.output_types().size()), DType::kInvalid);
  for (size_t k = 0; k < types.size(); ++k) {
    if (types[k] != DType::kInvalid) continue;
    types[k] = k < more.output_types().size() ? more.output_types()[k] : DType::kVariant;
  }
  return types;
}

}  // namespace

absl::Status AddGraph(const Graph& from, Graph* to) {
  std::vector<const Node*> fresh;
  std::vector<std::pair<Node*, std::vector<DType>>> grown;  // of unknown ops, with their new outputs
  for (const Node* n : from.op_nodes()) {
    Node* const have = to->Find(n->name());
    if (have == nullptr) {
      fresh.push_back(n);
    } else if (const std::string how = Difference(*have, *n); !how.empty()) {
      return AlreadyExists("the session has another node '", n->name(), "': ", how);
    } else if (have->op().Has(OpTrait::kUnknown)) {
      if (auto types = OutputsWith(*have, *n); types != have->output_types())
        grown.emplace_back(have, std::move(types));
    }
  }
  // An exception, too, leaves nothing behind.
  return Guarded("Extend", [&]() -> absl::Status {
    GraphUndo undo(to);
    for (auto& [node, types] : grown) undo.SetUnknownOutputs(node, std::move(types));
    std::vector<Node*> added;
    for (const Node* n : fresh) {
      TROUPE_ASSIGN_OR_RETURN(Node* const copy, to->CopyNode(*n, n->name()));
      added.push_back(copy);
    }
    for (size_t i = 0; i < fresh.size(); ++i) {
      for (const Edge* e : fresh[i]->in_edges()) {
        if (!e->src->IsOp()) continue;
        Node* const src = to->Find(e->src->name());
        if (src == nullptr) return Internal("node '", e->src->name(), "' went missing");
        if (e->IsControl()) {
          to->AddControlEdgeUnchecked(src, added[i]);
        } else {
          TROUPE_RETURN_IF_ERROR(to->AddEdge(src, e->src_output, added[i], e->dst_input).status());
        }
      }
    }
    undo.Keep();
    return absl::OkStatus();
  });
}

}  // namespace troupe
