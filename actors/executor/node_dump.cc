#include "actors/executor/node_dump.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include <google/protobuf/text_format.h>

#include "actors/threads/aside.h"
#include "graph/core/guarded.h"
#include "graph/files/npy.h"
#include "graph/ir/on_arena.h"
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

// Null when the input names no variable.
const VariableSlot* SlotOf(const Tensor& input) {
  const bool names = input.valid() && (input.dtype() == DType::kResource || IsRef(input.dtype()));
  return names ? static_cast<const ResourceHandle*>(input.raw())->As<VariableSlot>() : nullptr;
}

class Dump {
 public:
  Dump(const NodeProperties& node, std::string folder) : node_(node), folder_(std::move(folder)) {}

  absl::Status Write(const NodeInputs& from) {
    TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder_));
    AttrMap attrs = node_.attrs;
    attrs.Erase("_class");  // it names nodes that are not here
    TROUPE_ASSIGN_OR_RETURN(copy_, graph_.AddNode(node_.name, node_.op->name, std::move(attrs)));
    for (size_t i = 0; i < from.inputs.size(); ++i)
      TROUPE_RETURN_IF_ERROR(WriteInput(static_cast<int>(i), from.inputs[i], from.variables[i]));
    bool fetches = false;
    for (int i = 0; i < copy_->num_outputs(); ++i) {
      if (copy_->output_type(i) == DType::kResource) continue;
      StrAppend(&fetch_, " --fetch '", node_.name, ":", i, "'");
      fetches = true;
    }
    if (!fetches) StrAppend(&fetch_, " --target '", node_.name, "'");
    OnArena<proto::GraphDef> def;  // as in MetaGraphBytes
    ExportGraphDef(graph_, def.get());
    std::string text;
    if (!google::protobuf::TextFormat::PrintToString(*def, &text)) return Internal("the node has no text form");
    TROUPE_RETURN_IF_ERROR(files::Write(files::Join(folder_, "graph.pbtxt"), text));
    if (!replays_) return absl::OkStatus();
    return files::Write(files::Join(folder_, "replay.sh"),
                        StrCat("# Runs node '", node_.name, "' (", node_.op->name,
                               ") on the values that it had. More flags of `troupe run` may follow.\n",
                               "cd \"$(dirname \"$0\")\" && exec troupe run graph.pbtxt", feeds_, fetch_, " \"$@\"\n"));
  }

 private:
  absl::Status WriteInput(int i, const Tensor& value, const Tensor& variable) {
    const std::string name = Named(i);
    const DType type = copy_->input_type(i);
    if (type != DType::kResource && !IsRef(type)) {
      TROUPE_ASSIGN_OR_RETURN(Node* const source, Source(i, name, value));
      if (source == nullptr) return absl::OkStatus();
      return graph_.AddEdge(source, 0, copy_, i).status();
    }
    const VariableSlot* const slot = SlotOf(value);
    if (slot == nullptr) {
      replays_ = false;
      return absl::OkStatus();
    }
    return WriteVariable(i, name, *slot, variable, IsRef(type));
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

  absl::Status WriteVariable(int i, const std::string& name, const VariableSlot& slot, const Tensor& value, bool ref) {
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
    if (!value.valid()) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(Node* const source, Source(i, name + "/value", value));
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

NodeInputs::NodeInputs(absl::Span<const Tensor> of) : inputs(of.begin(), of.end()), variables(of.size()) {
  for (size_t i = 0; i < of.size(); ++i) {
    absl::StatusOr<Tensor> value = absl::UnknownError("");
    const VariableSlot* const slot = SlotOf(of[i]);
    if (slot != nullptr && slot->TryRead(&value) && value.ok()) variables[i] = *std::move(value);
  }
}

absl::StatusOr<std::string> DumpNode(const NodeProperties& node, const NodeInputs& inputs, const std::string& folder,
                                     const std::string& when) {
  std::string path = files::Join(folder, FolderName(StrCat(when, "_", node.name)));
  // Of another process, or of a process before.
  for (int i = 1; files::Exists(path); ++i)
    path = files::Join(folder, StrCat(FolderName(StrCat(when, "_", node.name)), "_", i));
  TROUPE_RETURN_IF_ERROR(Dump(node, path).Write(inputs));
  return path;
}

struct DumpWait::Work {
  const std::shared_ptr<void> keep;  // goes last
  const SharedProperties node;
  const NodeInputs inputs;
  const std::string folder, when, message;
  absl::Status result;
  std::mutex mu;                // guards:
  std::function<void()> go_on;  // empty when nobody waits any more

  void Run() {
    const absl::Status no_memory = Guarded("writing the inputs of a node", [this] {
      const absl::StatusOr<std::string> path =
          Guarded("writing the inputs of a node", [this] { return DumpNode(*node, inputs, folder, when); });
      result = absl::InvalidArgumentError(
          path.ok() ? StrCat(message, "; its inputs are in '", *path, "'")
                    : StrCat(message, "; its inputs cannot be written: ", path.status().message()));
    });
    if (!no_memory.ok()) result = no_memory;
    End();
  }
  void End() {
    std::function<void()> call;
    {
      const std::lock_guard<std::mutex> lock(mu);
      call.swap(go_on);
    }
    if (call) call();
  }
};

DumpWait::DumpWait(std::shared_ptr<void> keep, SharedProperties node, NodeInputs inputs, std::string folder,
                   std::string when, std::string message)
    : work_(new Work{.keep = std::move(keep),
                     .node = std::move(node),
                     .inputs = std::move(inputs),
                     .folder = std::move(folder),
                     .when = std::move(when),
                     .message = std::move(message)}) {}

DumpWait::~DumpWait() {
  std::function<void()> dropped;  // destroyed outside of the lock
  const std::lock_guard<std::mutex> lock(work_->mu);
  dropped.swap(work_->go_on);
}

void DumpWait::Await(std::function<void()> go_on) {
  work_->go_on = std::move(go_on);
  // Not in the executor's turn: a disk may take long. The process does not end before it, which
  // would leave the files by half.
  if (TryAside([at_exit = UntilExit(), work = work_] { work->Run(); })) return;
  work_->result = absl::InvalidArgumentError(
      StrCat(work_->message, "; its inputs are not written: the system has no thread left for that"));
  work_->End();
}

std::string DumpWait::What() const {
  return StrCat("its inputs to be written below '", work_->folder, "', since ", work_->message);
}

const absl::Status& DumpWait::result() const { return work_->result; }

}  // namespace troupe
