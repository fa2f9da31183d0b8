#include "graph/passes/memory_copies.h"

#include <map>
#include <tuple>

namespace troupe {

absl::StatusOr<int> AddMemoryCopies(Graph* part, const KernelLookup& kernels, const std::string& device_type) {
  std::map<std::tuple<const Node*, int, bool>, Node*> made;  // by value and whether it goes to the host
  std::vector<Edge*> edges;
  for (const Node* n : part->op_nodes()) {
    for (Edge* e : n->in_edges()) {
      if (!e->IsControl() && e->src->IsOp()) edges.push_back(e);
    }
  }
  for (Edge* e : edges) {
    const bool from_host = kernels.InHostMemory(*e->src, device_type, true, e->src_output);
    const bool to_host = kernels.InHostMemory(*e->dst, device_type, false, e->dst_input);
    if (from_host == to_host) continue;
    Node *const src = e->src, *const dst = e->dst;
    const int output = e->src_output, input = e->dst_input;
    Node*& copy = made[{src, output, to_host}];
    if (copy == nullptr) {
      std::string name;
      for (int i = 0; name.empty() || part->Find(name) != nullptr; ++i)
        name = StrCat(src->name(), "/", to_host ? "_ToHost" : "_ToDevice", output, i == 0 ? "" : StrCat("_", i));
      TROUPE_ASSIGN_OR_RETURN(copy, part->AddNode(name, to_host ? "_CopyToHost" : "_CopyToDevice",
                                                  {{"T", BaseType(src->output_type(output))}}));
      copy->set_assigned_device(src->assigned_device());
      copy->set_location(src->location());
      TROUPE_RETURN_IF_ERROR(part->AddEdge(src, output, copy, 0).status());
    }
    part->RemoveEdge(e);
    TROUPE_RETURN_IF_ERROR(part->AddEdge(copy, 0, dst, input).status());
  }
  return static_cast<int>(made.size());
}

}  // namespace troupe
