// MetaGraphDefs: a graph with its collections and the names of its saver's nodes.
//
// A collection here is a list of names. In files those of variables hold VariableDefs, from which
// the names of the variables are taken, and "queue_runners" holds QueueRunnerDefs. Those by which
// TensorFlow knows its loops and conditionals (WhileContextDefs, CondContextDefs) mean nothing
// here, but gradients that TensorFlow adds to the graph later need them: they are kept as bytes.
// The nodes that they name have the same names here, since a MetaGraph is read without a prefix.
// Lists of names are read as they are; others (ints, floats, messages of other kinds) mean nothing
// here and are left out.
#include "actors/train/meta_graph.h"

#include <google/protobuf/text_format.h>

#include <climits>
#include <set>

#include "graph/ir/on_arena.h"
#include "troupe/files.h"
#include "troupe/import_export.h"
#include "troupe/proto/meta_graph.pb.h"
#include "troupe/proto/queue_runner.pb.h"
#include "troupe/proto/variable.pb.h"
#include "troupe/queues.h"
#include "troupe/train/saver.h"

namespace troupe::train {
namespace {

bool HoldsVariables(const std::string& collection) {
  return collection == kGlobalVariables || collection == kLocalVariables || collection == kTrainableVariables ||
         collection == "model_variables" || collection == "moving_average_variables" || collection == "global_step";
}

bool HoldsContexts(const std::string& collection) {
  return collection == "while_context" || collection == "cond_context";
}

std::string NodeOf(const std::string& tensor) {
  const size_t colon = tensor.rfind(':');
  return colon == std::string::npos ? tensor : tensor.substr(0, colon);
}

void DescribeVariable(const Graph& graph, const std::string& name, bool trainable, proto::VariableDef* def) {
  const Node* const node = graph.Find(name);
  if (node == nullptr) return;
  def->set_variable_name(name + ":0");
  def->set_is_resource(node->num_outputs() > 0 && node->output_type(0) == DType::kResource);
  def->set_trainable(trainable);
  if (const Node* const assign = graph.Find(name + "/Assign"); assign != nullptr && assign->num_inputs() == 2) {
    def->set_initializer_name(assign->name());
    def->set_initial_value_name(assign->input(1).ToString());
  }
  for (const char* read : {"/Read", "/read", "/Read/ReadVariableOp"}) {
    if (graph.Find(name + read) == nullptr) continue;
    def->set_snapshot_name(name + read + ":0");
    break;
  }
}

absl::Status WriteRunners(const Graph& graph, proto::CollectionDef* collection) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<QueueRunner> runners, QueueRunnersOf(graph));
  for (const QueueRunner& r : runners) {
    proto::QueueRunnerDef def;
    def.set_queue_name(r.queue);
    for (const std::string& op : r.enqueue_ops) def.add_enqueue_op_name(op);
    def.set_close_op_name(r.close_op);
    def.set_cancel_op_name(r.cancel_op);
    for (const absl::StatusCode c : r.queue_closed) def.add_queue_closed_exception_types(static_cast<int>(c));
    collection->mutable_bytes_list()->add_value(def.SerializeAsString());
  }
  return absl::OkStatus();
}

// Those that the graph has already are not added again.
absl::Status ReadRunners(const std::string& path, const proto::CollectionDef& collection, Graph* graph) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<QueueRunner> before, QueueRunnersOf(*graph));
  for (const std::string& item : collection.bytes_list().value()) {
    proto::QueueRunnerDef def;
    if (!def.ParseFromString(item)) return DataLoss(path, ": the collection '", kQueueRunners, "' is damaged");
    QueueRunner r;
    r.queue = def.queue_name();
    r.enqueue_ops.assign(def.enqueue_op_name().begin(), def.enqueue_op_name().end());
    r.close_op = def.close_op_name();
    r.cancel_op = def.cancel_op_name();
    std::vector<std::string> names = r.enqueue_ops;
    names.insert(names.end(), {r.queue, r.close_op, r.cancel_op});
    for (const std::string& name : names) {
      if (graph->Find(NodeOf(name)) == nullptr && !name.empty()) {
        return DataLoss(path, ": a queue runner names the node '", CEscape(name), "', which is not in the graph");
      }
    }
    if (def.queue_closed_exception_types_size() > 0) r.queue_closed.clear();
    for (const int code : def.queue_closed_exception_types()) {
      if (code < 1 || code > 16) return DataLoss(path, ": a queue runner has the unknown status code ", code);
      r.queue_closed.push_back(static_cast<absl::StatusCode>(code));
    }
    const auto same = [&](const QueueRunner& b) { return b.queue == r.queue && b.enqueue_ops == r.enqueue_ops; };
    if (std::none_of(before.begin(), before.end(), same)) AddQueueRunner(graph, r);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> MetaGraphBytes(const Graph& graph, const Saver* saver) {
  // In an arena: Protobuf's own messages do not survive that there is no memory for an element.
  OnArena<proto::MetaGraphDef> on_arena;
  proto::MetaGraphDef& meta = *on_arena;
  ExportGraphDef(graph, meta.mutable_graph_def());
  meta.mutable_meta_info_def()->set_stripped_default_attrs(false);
  std::set<std::string> ops, trainable;
  for (const auto& node : meta.graph_def().node()) ops.insert(node.op());
  for (const std::string& op : ops) {
    if (const OpDef* const def = OpRegistry::Global().Find(op)) {
      ExportOpDef(*def, meta.mutable_meta_info_def()->mutable_stripped_op_list()->add_op());
    }
  }
  if (const auto it = graph.collections().find(kTrainableVariables); it != graph.collections().end()) {
    trainable.insert(it->second.begin(), it->second.end());
  }
  for (const auto& [name, list] : graph.collections()) {
    if (list.empty() || name == kBadConsumers) continue;
    proto::CollectionDef& collection = (*meta.mutable_collection_def())[name];
    if (name == kQueueRunners) {
      TROUPE_RETURN_IF_ERROR(WriteRunners(graph, &collection));
      continue;
    }
    for (const std::string& item : list) {
      if (HoldsVariables(name)) {
        proto::VariableDef def;
        DescribeVariable(graph, item, trainable.contains(item), &def);
        collection.mutable_bytes_list()->add_value(def.SerializeAsString());
      } else if (HoldsContexts(name)) {
        collection.mutable_bytes_list()->add_value(item);
      } else {
        collection.mutable_node_list()->add_value(item);
      }
    }
  }
  if (saver != nullptr) {
    proto::SaverDef* const def = meta.mutable_saver_def();
    def->set_filename_tensor_name(saver->filename_tensor());
    def->set_save_tensor_name(saver->save_tensor());
    def->set_restore_op_name(saver->restore_op());
    def->set_max_to_keep(saver->options().max_to_keep);
    def->set_sharded(saver->options().sharded);
    def->set_keep_checkpoint_every_n_hours(static_cast<float>(saver->options().keep_checkpoint_every_n_hours));
    def->set_version(proto::SaverDef::V2);
  }
  if (meta.ByteSizeLong() > static_cast<size_t>(INT_MAX)) {
    return InvalidArgument("the graph is larger than a MetaGraphDef may be, 2 GiB");
  }
  return meta.SerializeAsString();
}

absl::Status WriteMetaGraph(const std::string& path, const Graph& graph, const Saver* saver) {
  const absl::StatusOr<std::string> bytes = MetaGraphBytes(graph, saver);
  return bytes.ok() ? files::Write(path, *bytes) : Annotate(bytes.status(), path);
}

absl::StatusOr<Saver> ReadMetaGraph(const std::string& path, Graph* graph) {
  if (graph == nullptr) return InvalidArgument(path, ": ReadMetaGraph is given no graph to read it into");
  TROUPE_ASSIGN_OR_RETURN(const std::string bytes, files::Read(path));
  if (bytes.size() > static_cast<size_t>(INT_MAX)) {
    return InvalidArgument(path, ": it has ", bytes.size(), " bytes; a MetaGraphDef has at most 2 GiB");
  }
  OnArena<proto::MetaGraphDef> on_arena;
  proto::MetaGraphDef& meta = *on_arena;
  const google::protobuf::LogSilencer silence;
  if (!meta.ParseFromString(bytes) || !meta.has_graph_def()) {
    // In text form, as examples have it.
    if (!google::protobuf::TextFormat::ParseFromString(bytes, &meta) || !meta.has_graph_def()) {
      return DataLoss(path, ": it is no MetaGraphDef, or a damaged one");
    }
  }
  return Saver::OfMetaGraph(path, meta, graph);
}

absl::StatusOr<Saver> Saver::OfMetaGraph(const std::string& path, const proto::MetaGraphDef& meta, Graph* graph) {
  if (const auto imported = ImportGraphDef(meta.graph_def(), {}, graph); !imported.ok()) {
    return Annotate(imported.status(), path);
  }
  for (const auto& [name, collection] : meta.collection_def()) {
    if (name == kQueueRunners) {
      TROUPE_RETURN_IF_ERROR(ReadRunners(path, collection, graph));
      continue;
    }
    std::vector<std::string>& list = graph->collection(name);
    const auto add = [&](const std::string& item) {
      if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
    };
    for (const std::string& item : collection.node_list().value()) add(item);
    if (HoldsContexts(name)) {
      for (const std::string& item : collection.bytes_list().value()) add(item);
    }
    if (!HoldsVariables(name)) continue;
    for (const std::string& item : collection.bytes_list().value()) {
      proto::VariableDef def;
      if (!def.ParseFromString(item) || graph->Find(NodeOf(def.variable_name())) == nullptr) {
        return DataLoss(path, ": the collection '", CEscape(name), "' names a variable that is not in the graph");
      }
      add(NodeOf(def.variable_name()));
    }
  }
  Saver saver;
  if (!meta.has_saver_def()) return saver;
  const proto::SaverDef& def = meta.saver_def();
  for (const std::string& name : {def.filename_tensor_name(), def.save_tensor_name(), def.restore_op_name()}) {
    if (graph->Find(NodeOf(name)) == nullptr) {
      return DataLoss(path, ": its saver names the node '", CEscape(name), "', which is not in the graph");
    }
  }
  saver.options_.max_to_keep = def.max_to_keep();
  saver.options_.sharded = def.sharded();
  if (def.keep_checkpoint_every_n_hours() > 0) {
    saver.options_.keep_checkpoint_every_n_hours = def.keep_checkpoint_every_n_hours();
  }
  saver.filename_ = def.filename_tensor_name();
  saver.save_ = def.save_tensor_name();
  saver.restore_ = def.restore_op_name();
  TROUPE_RETURN_IF_ERROR(saver.FindAssignments(*graph));
  saver.FindSuffix(*graph);
  return saver;
}

}  // namespace troupe::train
