#include "tools/troupe/run_inputs.h"

#include <algorithm>

#include "tools/troupe/load_graph.h"
#include "tools/troupe/npy.h"
#include "tools/troupe/saved_model.h"
#include "tools/troupe/value_text.h"
#include "troupe/import_export.h"

namespace troupe::tool {
namespace {

// Nodes that nobody consumes, in the order of the graph.
std::vector<std::string> Sinks(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node* n : graph.op_nodes()) {
    if (n->out_edges().empty()) names.push_back(n->name());
  }
  return names;
}

struct Argument {
  int code = kOk;
  absl::Status status;
};

// Reads one --feed. What is wrong with the text is a mistake of usage; what is wrong with a file is
// a failure.
Argument ReadFeed(const std::string& text, const Graph& graph, Feeds* feeds) {
  const auto bad = [&](int code, const absl::Status& s) {
    return Argument{code, Annotate(s, StrCat("--feed ", text.substr(0, 100)))};
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return bad(kUsage, InvalidArgument("must be NAME=VALUE or NAME=@FILE.npy"));
  const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
  const auto parsed = ParseTensorName(name);
  if (!parsed.ok()) return bad(kUsage, parsed.status());
  const auto& [node_name, port] = *parsed;
  if (port == kControlSlot) return bad(kUsage, InvalidArgument("'", name, "' is no tensor"));
  const Node* node = graph.Find(node_name);
  if (node == nullptr || !node->IsOp()) return bad(kFailed, NotFound("the graph has no node '", node_name, "'"));
  if (port >= node->num_outputs()) {
    return bad(kFailed,
               InvalidArgument("node '", node_name, "' (", node->op().name, ") has ", node->num_outputs(), " outputs"));
  }
  const DType dtype = BaseType(node->output_type(port));
  absl::StatusOr<Tensor> tensor;
  int code = kUsage;
  if (!value.empty() && value[0] == '@') {
    code = kFailed;
    tensor = ReadNpy(value.substr(1));
    if (tensor.ok()) tensor = ConvertTensor(*tensor, dtype);
  } else {
    tensor = ParseValue(value, dtype);
  }
  if (!tensor.ok()) return bad(code, tensor.status());
  feeds->emplace_back(name, *std::move(tensor));
  return {};
}

}  // namespace

absl::Status LoadedGraph::Extend(Session* session) {
  if (!model) return session->Extend(*def);
  TROUPE_RETURN_IF_ERROR(session->Extend(graph));
  return model->Load(*session);
}

int LoadedGraph::num_nodes() const { return model ? graph.num_nodes() - 2 : def->node_size(); }

int NothingToRun(const Graph& graph) {
  const std::vector<std::string> sinks = Sinks(graph);
  std::string message = "there is nothing to compute: name a --fetch or a --target.";
  if (sinks.empty()) return Complain(kUsage, message + " The graph has no sinks.");
  message += " The graph's sinks (nodes whose outputs nobody uses) are:";
  constexpr size_t kShown = 50;
  for (size_t i = 0; i < std::min(sinks.size(), kShown); ++i) {
    const Node* n = graph.Find(sinks[i]);
    StrAppend(&message, "\n  ", n->name(), " (", n->op().name,
              n->num_outputs() == 0 ? ", no output: a --target)" : ")");
  }
  if (sinks.size() > kShown) StrAppend(&message, "\n  ... and ", sinks.size() - kShown, " more");
  return Complain(kUsage, message);
}

int AddFeed(const std::string& text, const Graph& graph, Feeds* feeds) {
  const Argument a = ReadFeed(text, graph, feeds);
  return a.code == kOk ? kOk : Complain(a.code, a.status);
}

int LoadToExtend(RunFlags* flags, std::vector<std::string>* labels, LoadedGraph* loaded, bool import) {
  if (IsSavedModel(flags->graph)) {
    absl::StatusOr<train::SavedModel> model = LoadSavedModel(&loaded->graph, flags, labels);
    if (!model.ok()) return Complain(kFailed, model.status());
    loaded->model = *std::move(model);
    return kOk;
  }
  if (!flags->signature.empty() || !flags->tags.empty())
    return Complain(kUsage, flags->graph + " is no folder of a SavedModel, to which --signature and --tags belong");
  if (absl::Status s = LoadGraph(flags->graph, loaded->def.get()); !s.ok()) return Complain(kFailed, s);
  *labels = flags->fetches;
  if (!import) return kOk;
  const auto imported = ImportGraphDef(*loaded->def, {}, &loaded->graph);
  return imported.ok() ? kOk : Complain(kFailed, Annotate(imported.status(), flags->graph));
}

int LoadToRun(RunFlags* flags, std::vector<std::string>* labels, LoadedGraph* loaded, Feeds* feeds) {
  const auto names_something = [&] {
    return !flags->fetches.empty() || !flags->targets.empty() || !flags->inits.empty();
  };
  const bool import = !flags->feeds.empty() || flags->memory || !names_something();
  if (const int code = LoadToExtend(flags, labels, loaded, import); code != kOk) return code;
  if (!names_something()) return NothingToRun(loaded->graph);
  for (const std::string& text : flags->feeds) {
    if (const int code = AddFeed(text, loaded->graph, feeds); code != kOk) return code;
  }
  return kOk;
}

}  // namespace troupe::tool
