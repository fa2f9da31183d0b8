// troupe graph: a graph as text or for Graphviz, as it is or after passes.
#include "troupe/graph.h"

#include "graph/ir/on_arena.h"
#include "tools/troupe/commands.h"
#include "tools/troupe/load_graph.h"
#include "tools/troupe/output.h"
#include "troupe/import_export.h"
#include "troupe/passes.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/text.h"

namespace troupe::tool {
namespace {

absl::Status Apply(const std::string& pass, const GraphFlags& flags, std::unique_ptr<Graph>* graph) {
  if (pass == "prune") {
    TROUPE_ASSIGN_OR_RETURN(*graph, PruneGraph(**graph, flags.feeds, flags.fetches, flags.targets));
    return absl::OkStatus();
  }
  return pass == "cse" ? MergeCommonSubexpressions(graph->get()) : FoldGraph(graph->get());
}

std::string Quoted(std::string_view text) { return StrCat("\"", CEscape(text), "\""); }

// Data edges are solid and carry their type, control edges dashed.
std::string Dot(const Graph& graph) {
  std::string s = "digraph troupe {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  for (const Node* n : graph.op_nodes()) {
    StrAppend(&s, "  ", Quoted(n->name()), " [label=\"", CEscape(n->name()), "\\n", CEscape(n->op().name), "\"];\n");
  }
  for (const Node* n : graph.op_nodes()) {
    for (const Edge* e : n->out_edges()) {
      if (!e->dst->IsOp()) continue;
      StrAppend(&s, "  ", Quoted(n->name()), " -> ", Quoted(e->dst->name()));
      if (e->IsControl()) {
        s += " [style=dashed];\n";
      } else {
        StrAppend(&s, " [label=\"", e->src_output, ":", e->dst_input, " ", Name(n->output_type(e->src_output)),
                  "\"];\n");
      }
    }
  }
  return s + "}\n";
}

}  // namespace

int GraphCommand(const GraphFlags& flags) {
  OnArena<proto::GraphDef> def;
  if (absl::Status s = LoadGraph(flags.graph, def.get()); !s.ok()) return Complain(kFailed, s);
  auto graph = std::make_unique<Graph>();
  if (auto imported = ImportGraphDef(*def, {}, graph.get()); !imported.ok())
    return Complain(kFailed, Annotate(imported.status(), flags.graph));
  for (const std::string& pass : flags.passes) {
    if (pass == "prune" && flags.fetches.empty() && flags.targets.empty()) {
      return Complain(kUsage, "--after prune needs a --fetch or a --target");
    }
    if (absl::Status s = Apply(pass, flags, &graph); !s.ok()) return Complain(kFailed, Annotate(s, pass));
  }
  GraphTextOptions text;
  text.max_elements = 16;
  Print(flags.dot ? Dot(*graph) : GraphText(*graph, text));
  return kOk;
}

}  // namespace troupe::tool
