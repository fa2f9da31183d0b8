#include "troupe/train/saved_model.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include <climits>
#include <optional>
#include <set>
#include <utility>

#include "actors/train/meta_graph.h"
#include "actors/train/model_needs.h"
#include "graph/ir/on_arena.h"
#include "troupe/files.h"
#include "troupe/import_export.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/saved_model.pb.h"
#include "troupe/train/partitioned.h"

namespace troupe::train {
namespace {

constexpr char kFile[] = "saved_model.pb", kTextFile[] = "saved_model.pbtxt";
constexpr char kInitOp[] = "__saved_model_init_op";  // a signature, of which an output names the node
constexpr char kMainOp[] = "saved_model_main_op";    // collections that name it
constexpr char kLegacyInitOp[] = "legacy_init_op";

std::string VariablesPrefix(const std::string& folder) {
  return files::Join(files::Join(folder, "variables"), "variables");
}

// The output of this name.
absl::StatusOr<NodeOut> Find(const Graph& graph, const std::string& tensor) {
  TROUPE_ASSIGN_OR_RETURN(const auto parsed, ParseTensorName(tensor));
  const auto& [name, port] = parsed;
  Node* const node = graph.Find(name);
  if (node == nullptr || port < 0 || port >= node->num_outputs()) {
    return NotFound("the graph has no tensor '", CEscape(tensor), "'");
  }
  return NodeOut{node, port};
}

absl::Status Describe(const Graph& graph, const std::string& tensor, proto::TensorInfo* info) {
  TROUPE_ASSIGN_OR_RETURN(const NodeOut out, Find(graph, tensor));
  info->set_name(out.ToString());
  info->set_dtype(static_cast<proto::DataType>(BaseType(out.dtype())));
  // The node says what shape it has; of others nothing is known without looking at all inputs.
  PartialTensorShape shape;
  if (auto known = out.node->Attr<PartialTensorShape>("shape"); known.ok() && out.index == 0) shape = *known;
  proto::TensorShapeProto* const to = info->mutable_tensor_shape();
  to->set_unknown_rank(!shape.known_rank());
  for (int d = 0; shape.known_rank() && d < shape.rank(); ++d) to->add_dim()->set_size(shape.dim(d));
  return absl::OkStatus();
}

absl::Status Describe(const Graph& graph, const std::string& key, const ModelSignature& from, proto::SignatureDef* to) {
  to->set_method_name(from.method);
  for (const auto& [list, infos] :
       {std::pair(&from.inputs, to->mutable_inputs()), {&from.outputs, to->mutable_outputs()}}) {
    for (const auto& [name, tensor] : *list) {
      TROUPE_RETURN_IF_ERROR(Annotate(Describe(graph, tensor.text(), &(*infos)[name]),
                                      StrCat("'", CEscape(name), "' of signature '", CEscape(key), "'")));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTensors(const Graph& graph, const google::protobuf::Map<std::string, proto::TensorInfo>& from,
                         std::map<std::string, GraphName>* to) {
  const auto add = [&](const std::string& key, const std::string& tensor) -> absl::Status {
    TROUPE_RETURN_IF_ERROR(Find(graph, tensor).status());
    to->insert_or_assign(key, tensor);
    return absl::OkStatus();
  };
  for (const auto& [key, info] : from) {
    if (!info.has_coo_sparse()) {
      TROUPE_RETURN_IF_ERROR(add(key, info.name()));
      continue;
    }
    TROUPE_RETURN_IF_ERROR(add(key + "/values", info.coo_sparse().values_tensor_name()));
    TROUPE_RETURN_IF_ERROR(add(key + "/indices", info.coo_sparse().indices_tensor_name()));
    TROUPE_RETURN_IF_ERROR(add(key + "/dense_shape", info.coo_sparse().dense_shape_tensor_name()));
  }
  return absl::OkStatus();
}

// The file of the folder, and what is in it.
absl::Status ReadFile(const std::string& folder, std::string* path, proto::SavedModel* model) {
  *path = files::Join(folder, kFile);
  const std::string text_path = files::Join(folder, kTextFile);
  const bool text = !files::Exists(*path) && files::Exists(text_path);
  if (text) *path = text_path;
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, files::Read(*path));
  if (bytes.size() > static_cast<size_t>(INT_MAX)) {
    return InvalidArgument(*path, ": it has ", bytes.size(), " bytes; a SavedModel has at most 2 GiB");
  }
  const google::protobuf::LogSilencer silence;
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(100);
  const bool parsed = text ? parser.ParseFromString(bytes, model) : model->ParseFromString(bytes);
  if (!parsed || model->meta_graphs().empty()) return DataLoss(*path, ": it is no SavedModel, or a damaged one");
  return absl::OkStatus();
}

std::string InitOpOf(const proto::MetaGraphDef& meta) {
  if (const auto s = meta.signature_def().find(kInitOp); s != meta.signature_def().end()) {
    const auto op = s->second.outputs().find(kInitOp);
    if (op != s->second.outputs().end()) return op->second.name();
  }
  for (const char* name : {kMainOp, kLegacyInitOp}) {
    const auto c = meta.collection_def().find(name);
    if (c != meta.collection_def().end() && c->second.node_list().value_size() > 0) {
      return c->second.node_list().value(0);
    }
  }
  return "";
}

std::string NodeText(const Node& n) { return StrCat("'", n.name(), "' (", n.op().name, ")"); }

// Tables are in no checkpoint's variables.
absl::Status CheckTables(const ModelNeeds& needs) {
  if (needs.tables.empty()) return absl::OkStatus();
  const ModelNeeds::One& t = needs.tables[0];
  return FailedPrecondition(t.used_by, " uses the table ", NodeText(*t.node),
                            ", which nothing fills where the model is loaded: name its initializer, or a group "
                            "of all initializers, as `init_op`");
}

// A Saver of these variables, in a graph that has them.
absl::StatusOr<Saver> SaverOf(const std::vector<ModelNeeds::One>& variables, Graph* graph) {
  const Scope root = Scope::NewRootScope(graph);
  std::vector<Saved> saved;
  for (const ModelNeeds::One& v : variables) {
    const Variable variable = Variable::Find(root, v.node->name());
    const std::optional<PartOfWhole> part = WholeOf(variable);
    saved.emplace_back(part ? part->name : variable.variable_name(), variable, part ? part->shape_and_slice : "");
  }
  Saver saver(root, saved);
  TROUPE_RETURN_IF_ERROR(root.status());
  return saver;
}

}  // namespace

// Whether what the model uses is saved by `saver`, or set when the model is loaded.
absl::Status Saver::CheckSaves(const Graph& graph, const ModelNeeds& needs) const {
  if (save_.empty()) return FailedPrecondition("a Saver without nodes: it is empty, or building it failed");
  const std::string all = restore_.substr(0, restore_.rfind(':'));
  if (graph.Find(all) == nullptr)
    return FailedPrecondition("the Saver was made for another graph: this one has no node '", all, "'");
  std::set<std::pair<std::string, std::string>> saved;
  for (const Assignment& a : assignments_) saved.emplace(a.container, a.resource);
  for (const ModelNeeds::One& v : needs.variables) {
    if (saved.contains(ResourceOf(*v.node))) continue;
    return FailedPrecondition(v.used_by, " uses the variable ", NodeText(*v.node), ", which the Saver does not save",
                              " and the init op does not set: make the Saver when all variables are there, list this "
                              "one, too, or give no Saver, so that all that are used are saved");
  }
  return absl::OkStatus();
}

absl::Status WriteSavedModel(const std::string& folder, Session& session, const Graph& graph, Saver* saver,
                             const SavedModelOptions& options) {
  if (folder.empty()) return InvalidArgument("WriteSavedModel is given no folder");
  const std::string path = files::Join(folder, kFile);
  if (files::Exists(path)) return absl::AlreadyExistsError(StrCat(path, ": there is a SavedModel already"));
  const ModelNeeds needs = NeedsOf(graph, options);
  TROUPE_RETURN_IF_ERROR(CheckTables(needs));
  if (saver == nullptr && !needs.variables.empty()) {
    const std::unique_ptr<Graph> copy = graph.Clone();
    TROUPE_ASSIGN_OR_RETURN(Saver all, SaverOf(needs.variables, copy.get()));
    return WriteSavedModel(folder, session, *copy, &all, options);
  }
  if (saver != nullptr) TROUPE_RETURN_IF_ERROR(saver->CheckSaves(graph, needs));
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, MetaGraphBytes(graph, saver));
  OnArena<proto::SavedModel> on_arena;  // as in MetaGraphBytes
  proto::SavedModel& model = *on_arena;
  model.set_saved_model_schema_version(1);
  proto::MetaGraphDef& meta = *model.add_meta_graphs();
  if (!meta.ParseFromString(bytes)) return Internal("the graph cannot be written as a MetaGraphDef");
  for (const std::string& tag : options.tags) meta.mutable_meta_info_def()->add_tags(tag);
  for (const auto& [key, signature] : options.signatures) {
    TROUPE_RETURN_IF_ERROR(Describe(graph, key, signature, &(*meta.mutable_signature_def())[key]));
  }
  if (!options.init_op.empty()) {
    if (graph.Find(options.init_op) == nullptr) {
      return NotFound("the graph has no node '", CEscape(options.init_op), "', which is to be run when it is loaded");
    }
    proto::CollectionDef& main = (*meta.mutable_collection_def())[kMainOp];
    main.Clear();
    main.mutable_node_list()->add_value(options.init_op);
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : options.assets) {
    proto::AssetFileDef& asset = *meta.add_asset_file_def();
    TROUPE_RETURN_IF_ERROR(Describe(graph, tensor.text(), asset.mutable_tensor_info()));
    asset.set_filename(files::NameOf(file));
    if (!names.insert(asset.filename()).second) {
      return InvalidArgument("two assets have the file name '", CEscape(asset.filename()), "'");
    }
  }
  if (model.ByteSizeLong() > static_cast<size_t>(INT_MAX)) {
    return InvalidArgument("the graph is larger than a SavedModel may be, 2 GiB");
  }
  TROUPE_RETURN_IF_ERROR(files::MakeDirectory(folder));
  for (const auto& [tensor, file] : options.assets) {
    TROUPE_RETURN_IF_ERROR(files::MakeDirectory(files::Join(folder, "assets")));
    TROUPE_ASSIGN_OR_RETURN(const std::string content, files::Read(file));
    TROUPE_RETURN_IF_ERROR(files::Write(files::Join(files::Join(folder, "assets"), files::NameOf(file)), content));
  }
  if (saver != nullptr) {
    TROUPE_RETURN_IF_ERROR(saver->SaveVariablesAlone(session, VariablesPrefix(folder)));
  }
  return files::Write(path, model.SerializeAsString());
}

absl::StatusOr<SavedModel> ReadSavedModel(const std::string& folder, Graph* graph,
                                          const std::vector<std::string>& tags) {
  if (graph == nullptr) return InvalidArgument(folder, ": ReadSavedModel is given no graph to read it into");
  if (folder.empty()) return InvalidArgument("ReadSavedModel is given no folder");
  std::string path;
  OnArena<proto::SavedModel> on_arena;
  TROUPE_RETURN_IF_ERROR(ReadFile(folder, &path, on_arena.get()));
  const proto::SavedModel& file = *on_arena;
  const std::set<std::string> wanted(tags.begin(), tags.end());
  const proto::MetaGraphDef* meta = nullptr;
  std::string there;
  for (const proto::MetaGraphDef& m : file.meta_graphs()) {
    const auto& has = m.meta_info_def().tags();
    if (std::set<std::string>(has.begin(), has.end()) == wanted) meta = &m;
    StrAppend(&there, there.empty() ? "" : ", ", "{", StrJoin(std::vector<std::string>(has.begin(), has.end()), " "),
              "}");
  }
  if (meta == nullptr) {
    return NotFound(path, ": no graph has the tags {", StrJoin(tags, " "), "}; there are ", there);
  }
  SavedModel model;
  model.tags = tags;
  TROUPE_ASSIGN_OR_RETURN(model.saver, Saver::OfMetaGraph(path, *meta, graph));
  for (const auto& [key, def] : meta->signature_def()) {
    if (key == kInitOp) continue;
    ModelSignature signature;
    signature.method = def.method_name();
    absl::Status s = ReadTensors(*graph, def.inputs(), &signature.inputs);
    if (s.ok()) s = ReadTensors(*graph, def.outputs(), &signature.outputs);
    if (!s.ok()) return DataLoss(path, ": signature '", CEscape(key), "': ", s.message());
    model.signatures.emplace(key, std::move(signature));
  }
  model.init_op = InitOpOf(*meta);
  if (!model.init_op.empty() && graph->Find(model.init_op.substr(0, model.init_op.find(':'))) == nullptr) {
    return DataLoss(path, ": the node '", CEscape(model.init_op),
                    "', which is to be run at first, is not in the graph");
  }
  for (const proto::AssetFileDef& asset : meta->asset_file_def()) {
    if (!Find(*graph, asset.tensor_info().name()).ok()) {
      return DataLoss(path, ": the tensor '", CEscape(asset.tensor_info().name()), "' of an asset is not in the graph");
    }
    const std::string at = files::Join(files::Join(folder, "assets"), files::NameOf(asset.filename()));
    model.assets.emplace_back(asset.tensor_info().name(), Tensor::Scalar(at));
  }
  if (meta->has_saver_def() && files::Exists(VariablesPrefix(folder) + ".index")) {
    model.variables = VariablesPrefix(folder);
  }
  return model;
}

absl::Status SavedModel::Load(Session& session) {
  if (!variables.empty()) TROUPE_RETURN_IF_ERROR(saver.Restore(session, variables));
  if (init_op.empty()) return absl::OkStatus();
  return session.Run(assets, {}, {init_op}, nullptr);
}

}  // namespace troupe::train
