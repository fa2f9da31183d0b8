#include "graph/passes/reference_reads.h"

#include <algorithm>
#include <map>

#include "absl/container/inlined_vector.h"

namespace troupe {
namespace {

bool IsRemoteRead(const Edge& e) {
  return e.src->IsOp() && !e.IsControl() && IsRef(e.src->output_type(e.src_output)) &&
         !IsRef(e.dst->input_type(e.dst_input)) && e.src->assigned_device() != e.dst->assigned_device();
}

// There at once: nobody waits for a constant that waits for nothing.
bool IsFreeConstant(const Node& n) {
  return n.IsConstant() &&
         std::none_of(n.in_edges().begin(), n.in_edges().end(), [](const Edge* e) { return e->src->IsOp(); });
}

// What has run before `reader` reads `ref`, by id.
std::vector<Node*> Waits(const Node& reader, const Node& ref) {
  std::vector<Node*> waits;
  for (const Edge* e : reader.in_edges()) {
    // A Merge takes the first of its values and waits for none of the others.
    if (!e->src->IsOp() || e->src == &ref || (reader.IsMerge() && !e->IsControl()) || IsFreeConstant(*e->src)) continue;
    waits.push_back(e->src);
  }
  std::sort(waits.begin(), waits.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  return waits;
}

}  // namespace

absl::Status ReadReferencesAtHome(Graph* graph) {
  std::vector<Edge> reads;
  for (const Node* n : graph->op_nodes()) {
    for (int i = 0; i < n->num_inputs(); ++i) {
      if (const Edge* e = n->input_edge(i); e != nullptr && IsRemoteRead(*e)) reads.push_back(*e);
    }
  }
  // All of them first: the readers' inputs must be those that the graph had.
  std::vector<std::vector<Node*>> waits;
  waits.reserve(reads.size());
  for (const Edge& e : reads) waits.push_back(Waits(*e.dst, *e.src));
  // By reference and what is waited for.
  std::map<std::pair<std::pair<int, int>, std::vector<Node*>>, Node*> at_home;
  for (size_t r = 0; r < reads.size(); ++r) {
    const Edge& e = reads[r];
    if (waits[r].empty()) continue;
    Node*& read = at_home[{{e.src->id(), e.src_output}, waits[r]}];
    if (read == nullptr) {
      TROUPE_ASSIGN_OR_RETURN(read, graph->AddNode(graph->UniqueName(StrCat(e.src->name(), "/_read")), "Identity",
                                                   {{"T", BaseType(e.src->output_type(e.src_output))}}));
      read->set_assigned_device(e.src->assigned_device());
      read->set_location(e.dst->location());
      TROUPE_RETURN_IF_ERROR(graph->AddEdge(e.src, e.src_output, read, 0).status());
      for (Node* w : waits[r]) graph->AddControlEdgeUnchecked(w, read);
    }
    TROUPE_RETURN_IF_ERROR(graph->UpdateEdge({read, 0}, e.dst, e.dst_input));
  }
  return absl::OkStatus();
}

}  // namespace troupe
