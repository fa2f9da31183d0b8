#include "actors/executor/node_dump.h"

#include <algorithm>
#include <atomic>

#include <google/protobuf/text_format.h>

#include "graph/files/npy.h"
#include "kernels/state/variable_slot.h"
#include "troupe/files.h"
#include "troupe/graph.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

// Of a name, what may stand in that of a folder.
std::string FolderName(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.';
    if (plain || (!name.empty() && name.back() != '_')) name += plain ? c : '_';
  }
  constexpr size_t kMost = 200;
  return name.substr(0, kMost);
}

class Dump {
 public:
  Dump(const NodeProperties& node, std::string folder) : node_(node), folder_(std::move(folder)) {}

  absl::Status Write(absl::Span<const Tensor> inputs) {
    TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder_));
    AttrMap attrs = node_.attrs;
    attrs.Erase("_class");  // it names nodes that are not here
    TROUPE_ASSIGN_OR_RETURN(copy_, graph_.AddNode(node_.name, node_.op->name, std::move(attrs)));
    for (size_t i = 0; i < inputs.size(); ++i) TROUPE_RETURN_IF_ERROR(WriteInput(static_cast<int>(i), inputs[i]));
    bool fetches = false;
    for (int i = 0; i < copy_->num_outputs(); ++i) {
      if (copy_->output_type(i) == DType::kResource) continue;
      StrAppend(&fetch_, " --fetch '", node_.name, ":", i, "'");
      fetches = true;
    }
    if (!fetches) StrAppend(&fetch_, " --target '", node_.name, "'");
    proto::GraphDef def;
    ExportGraphDef(graph_, &def);
    std::string text;
    if (!google::protobuf::TextFormat::PrintToString(def, &text)) return Internal("the node has no text form");
    TROUPE_RETURN_IF_ERROR(files::Write(files::Join(folder_, "graph.pbtxt"), text));
    if (!replays_) return absl::OkStatus();
    return files::Write(files::Join(folder_, "replay.sh"),
                        StrCat("# Runs node '", node_.name, "' (", node_.op->name,
                               ") on the values that it had. More flags of `troupe run` may follow.\n",
                               "cd \"$(dirname \"$0\")\" && exec troupe run graph.pbtxt", feeds_, fetch_, " \"$@\"\n"));
  }

 private:
  absl::Status WriteInput(int i, const Tensor& value) {
    const std::string name = Named(i);
    const DType type = copy_->input_type(i);
    if (type != DType::kResource && !IsRef(type)) {
      TROUPE_ASSIGN_OR_RETURN(Node* const source, Source(i, name, value));
      if (source == nullptr) return absl::OkStatus();
      return graph_.AddEdge(source, 0, copy_, i).status();
    }
    auto* const slot = value.valid() ? static_cast<const ResourceHandle*>(value.raw())->As<VariableSlot>() : nullptr;
    if (slot == nullptr) {
      replays_ = false;
      return absl::OkStatus();
    }
    return WriteVariable(i, name, *slot, IsRef(type));
  }

  // "input_3", or another name when the node itself has that one.
  std::string Named(int i) {
    const std::string name = StrCat("input_", i);
    return node_.name == name || node_.name.starts_with(name + "/") ? StrCat("its_", name) : name;
  }

  // What gives `value`: a placeholder that is fed from a file, or a constant. Null when it has no
  // form.
  absl::StatusOr<Node*> Source(int i, const std::string& name, const Tensor& value) {
    if (!value.valid()) {  // of a Merge: the other input came
      replays_ = false;
      return nullptr;
    }
    if (value.dtype() == DType::kString)
      return graph_.AddNode(name, "Const", {{"dtype", value.dtype()}, {"value", value}});
    TROUPE_ASSIGN_OR_RETURN(const files::NpyFile file, files::MakeNpy(value));
    TROUPE_RETURN_IF_ERROR(files::Write(files::Join(folder_, StrCat(i, ".npy")), StrCat(file.header, file.data())));
    StrAppend(&feeds_, " --feed '", name, "=@", i, ".npy'");
    return graph_.AddNode(name, "Placeholder",
                          {{"dtype", value.dtype()}, {"shape", PartialTensorShape(value.shape())}});
  }

  absl::Status WriteVariable(int i, const std::string& name, VariableSlot& slot, bool ref) {
    const AttrMap attrs = {{"dtype", slot.dtype()}, {"shape", slot.shape()}};
    TROUPE_ASSIGN_OR_RETURN(Node* const variable, graph_.AddNode(name, ref ? "VariableV2" : "VarHandleOp", attrs));
    TROUPE_RETURN_IF_ERROR(graph_.AddEdge(variable, 0, copy_, i).status());
    if (!ref) {
      TROUPE_ASSIGN_OR_RETURN(Node* const after,
                              graph_.AddNode(name + "/after", "ReadVariableOp", {{"dtype", slot.dtype()}}));
      TROUPE_RETURN_IF_ERROR(graph_.AddEdge(variable, 0, after, 0).status());
      graph_.AddControlEdge(copy_, after);
      StrAppend(&fetch_, " --fetch '", name, "/after'");
    }
    absl::StatusOr<Tensor> value = absl::UnknownError("");
    // Of one that an update has, or without a value, there is nothing to write.
    if (!slot.TryRead(&value) || !value.ok()) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(Node* const source, Source(i, name + "/value", *value));
    AttrMap assign_attrs =
        ref ? AttrMap({{"T", slot.dtype()}, {"validate_shape", false}}) : AttrMap({{"dtype", slot.dtype()}});
    TROUPE_ASSIGN_OR_RETURN(Node* const assign, graph_.AddNode(name + "/Assign", ref ? "Assign" : "AssignVariableOp",
                                                               std::move(assign_attrs)));
    TROUPE_RETURN_IF_ERROR(graph_.AddEdge(variable, 0, assign, 0).status());
    TROUPE_RETURN_IF_ERROR(graph_.AddEdge(source, 0, assign, 1).status());
    if (init_ == nullptr) {
      TROUPE_ASSIGN_OR_RETURN(init_, graph_.AddNode(node_.name == "init" ? "its_init" : "init", "NoOp", {}));
      StrAppend(&feeds_, " --init ", init_->name());
    }
    graph_.AddControlEdge(assign, init_);
    return absl::OkStatus();
  }

  const NodeProperties& node_;
  const std::string folder_;
  Graph graph_;
  Node* copy_ = nullptr;
  Node* init_ = nullptr;
  bool replays_ = true;
  std::string feeds_, fetch_;
};

}  // namespace

absl::StatusOr<std::string> DumpNode(const NodeProperties& node, absl::Span<const Tensor> inputs,
                                     const std::string& folder, const std::string& when) {
  std::string path = files::Join(folder, FolderName(StrCat(when, "_", node.name)));
  // Of another process, or of a process before.
  for (int i = 1; files::Exists(path); ++i)
    path = files::Join(folder, StrCat(FolderName(StrCat(when, "_", node.name)), "_", i));
  TROUPE_RETURN_IF_ERROR(Dump(node, path).Write(inputs));
  return path;
}

}  // namespace troupe
