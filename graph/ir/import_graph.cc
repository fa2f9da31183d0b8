// GraphDef -> Graph, all of it or nothing.
//
// The whole definition is checked before the graph is touched: names, ops, attrs, edges and their
// types, versions, cycles. Only then nodes and edges are added, which nothing but a lack of memory
// can make fail any more; what was added then is taken back. Names are looked up once per node and
// once per input; everything after that works with indices, so that the time is linear in nodes and
// edges.
#include "graph/ir/import_graph.h"

#include <algorithm>

#include "graph/core/hash_map.h"
#include "graph/ir/graph_undo.h"
#include "graph/ir/name_attrs.h"
#include "graph/ir/unknown_ops.h"
#include "troupe/proto/function.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace {

// Outputs of one import, all nodes together: a number attr of a few bytes can ask for any number of
// them.
constexpr int64_t kMaxOutputs = int64_t{1} << 28;
// Producers before this version wrote shape [] for a placeholder of unknown shape.
constexpr int kScalarPlaceholderVersion = 24;

}  // namespace

absl::Status GraphImporter::At(int node, const absl::Status& status) const {
  const proto::NodeDef& def = def_.node(node);
  return WithAddress(status, def.name(), def.op(), def.device(), {});
}

absl::Status GraphImporter::CheckVersions() {
  const proto::VersionDef& v = def_.versions();
  if (v.producer() < 0 || v.min_consumer() < 0) {
    return InvalidArgument("the graph's versions are negative (producer ", v.producer(), ", min_consumer ",
                           v.min_consumer(), ")");
  }
  if (v.min_consumer() > kGraphVersion) {
    return InvalidArgument("the graph needs a reader of version ", v.min_consumer(),
                           " or newer, but this library has version ", kGraphVersion,
                           "; the graph was written by version ", v.producer());
  }
  for (int bad : v.bad_consumers()) {
    if (bad == kGraphVersion) {
      return InvalidArgument("the graph was written by version ", v.producer(),
                             ", which excludes readers of this library's version ", kGraphVersion);
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::FindOps() {
  struct Known {
    const OpDef* op = nullptr;
    std::shared_ptr<const OpDef> unknown;
  };
  HashMap<std::string_view, Known> known;
  std::vector<std::pair<std::string, std::string>> refused;
  for (int i = 0; i < def_.node_size(); ++i) {
    const std::string& name = def_.node(i).op();
    const auto [it, first] = known.try_emplace(name);
    Known& k = it->second;
    if (first) {
      k.op = graph_->ops().Find(name);
      if (k.op == nullptr && options_.keep_unknown_ops && !name.empty()) {
        k.unknown = UnknownOp(name);
        k.op = k.unknown.get();
      }
    }
    if (k.op == nullptr) refused.emplace_back(name, def_.node(i).name());
    pending_[i].op = k.op;
    pending_[i].unknown = k.unknown;
    has_unknown_ = has_unknown_ || k.unknown != nullptr;
  }
  if (refused.empty()) return absl::OkStatus();
  return UnknownOpsError("the graph has", refused, def_.has_library() ? &def_.library() : nullptr);
}

absl::Status GraphImporter::CheckDeprecations() {
  const int producer = def_.versions().producer();
  for (int i = 0; i < def_.node_size(); ++i) {
    const OpDef& op = *pending_[i].op;
    if (op.deprecated_since > 0 && producer >= op.deprecated_since) {
      return At(i, InvalidArgument("op '", op.name, "' is not available in graphs of version ", producer,
                                   "; it was removed in version ", op.deprecated_since, ": ", op.deprecation));
    }
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::NameNodes() {
  by_name_.reserve(def_.node_size());
  for (int i = 0; i < def_.node_size(); ++i) {
    const std::string& name = def_.node(i).name();
    if (absl::Status s = CheckNodeName(name); !s.ok()) return Annotate(s, StrCat("node ", i, " of the graph"));
    if (name == graph_->source()->name() || name == graph_->sink()->name()) {
      return At(i, InvalidArgument("the name is reserved: every graph has a node of this name"));
    }
    if (!by_name_.try_emplace(name, i).second) {
      return At(i, InvalidArgument("the graph has two nodes named '", name, "'"));
    }
  }
  const std::string prefix = options_.prefix.empty() ? "" : options_.prefix + "/";
  if (!prefix.empty()) {
    if (absl::Status s = CheckNodeName(options_.prefix); !s.ok()) return Annotate(s, "the import's prefix");
  }
  if (prefix.empty() && graph_->num_nodes() == 2) return absl::OkStatus();
  HashMap<std::string, int> taken;  // names given by uniquifying
  for (int i = 0; i < def_.node_size(); ++i) {
    std::string name = prefix + def_.node(i).name();
    const auto is_taken = [&](const std::string& n) {
      return graph_->Find(n) != nullptr || taken.contains(n) || (prefix.empty() && n != name && by_name_.contains(n));
    };
    if (is_taken(name)) {
      if (!options_.uniquify_names) return At(i, AlreadyExists("the graph has a node named '", name, "' already"));
      std::string unique;
      int k = 0;
      do unique = StrCat(name, "_", ++k);
      while (is_taken(unique) || (!prefix.empty() && by_name_.contains(unique.substr(prefix.size()))));
      taken.emplace(unique, i);
      name = std::move(unique);
    }
    if (name != def_.node(i).name()) pending_[i].new_name = std::move(name);
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::ReadAttrs(int i) {
  const proto::NodeDef& def = def_.node(i);
  Pending& p = pending_[i];
  const auto set = [&](const std::string& name, const proto::AttrValue& from) -> absl::Status {
    absl::StatusOr<AttrValue> v = AttrFromProto(from);
    if (!v.ok()) return Annotate(v.status(), StrCat("attr '", CEscape(name), "'"));
    p.attrs.Set(name, *std::move(v));
    return absl::OkStatus();
  };
  // In the definition's order, then the others by name: the wire has no order, and what is exported
  // again must not depend on a hash.
  size_t found = 0;
  for (const AttrDef& a : p.op->attrs) {
    const auto it = def.attr().find(a.name);
    if (it == def.attr().end()) continue;
    ++found;
    TROUPE_RETURN_IF_ERROR(set(it->first, it->second));
  }
  if (found < def.attr().size()) {
    std::vector<const std::string*> others;
    for (const auto& item : def.attr()) {
      if (p.op->FindAttr(item.first) == nullptr) others.push_back(&item.first);
    }
    std::sort(others.begin(), others.end(), [](const std::string* a, const std::string* b) { return *a < *b; });
    for (const std::string* name : others) TROUPE_RETURN_IF_ERROR(set(*name, def.attr().at(*name)));
  }
  if (def_.versions().producer() < kScalarPlaceholderVersion && p.op->Has(OpTrait::kPlaceholder)) {
    AttrValue* shape = p.attrs.Find("shape");
    const auto* s = shape == nullptr ? nullptr : shape->As<PartialTensorShape>();
    if (s != nullptr && s->rank() == 0) {
      const PartialTensorShape unknown;
      *shape = unknown;
    }
  }
  if (p.unknown == nullptr) TROUPE_RETURN_IF_ERROR(ValidateAttrs(*p.op, &p.attrs));
  RenameNodes(kAfterAttr, &p.attrs);
  RenameNodes(kRecomputesAttr, &p.attrs);
  return ReadColocation(i);
}

void GraphImporter::RenameNodes(std::string_view attr, AttrMap* attrs) const {
  AttrValue* value = attrs->Find(attr);
  const auto* names = value == nullptr ? nullptr : value->As<std::vector<std::string>>();
  if (names == nullptr) return;
  std::vector<std::string> renamed = *names;
  for (std::string& name : renamed) {
    const auto it = by_name_.find(std::string_view(name));
    if (it != by_name_.end() && !pending_[it->second].new_name.empty()) name = pending_[it->second].new_name;
  }
  *value = std::move(renamed);
}

absl::Status GraphImporter::ReadColocation(int i) {
  AttrValue* value = pending_[i].attrs.Find("_class");
  if (value == nullptr) return absl::OkStatus();
  const auto* classes = value->As<std::vector<std::string>>();
  if (classes == nullptr) return absl::OkStatus();
  std::vector<std::string> renamed = *classes;
  bool changed = false;
  for (std::string& c : renamed) {
    constexpr std::string_view kLoc = "loc:@";
    if (!c.starts_with(kLoc)) continue;
    const std::string_view name = std::string_view(c).substr(kLoc.size());
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) {
      if (graph_->Find(name) != nullptr) continue;
      return InvalidArgument("attr '_class' asks to place the node with node '", CEscape(name),
                             "', which does not exist");
    }
    if (!pending_[it->second].new_name.empty()) {
      c = StrCat(kLoc, pending_[it->second].new_name);
      changed = true;
    }
  }
  if (changed) *value = std::move(renamed);
  return absl::OkStatus();
}

absl::Status GraphImporter::ReadTypes(int i) {
  Pending& p = pending_[i];
  const int data_inputs = p.num_data_inputs;
  // Counted before the lists are made: a number attr may ask for millions of inputs that the node
  // does not have.
  for (const bool outputs : {false, true}) {
    int64_t count = 0;
    for (const ArgDef& arg : outputs ? p.op->outputs : p.op->inputs) {
      if (!arg.number_attr.empty()) {
        TROUPE_ASSIGN_OR_RETURN(int64_t n, GetAttr<int64_t>(p.attrs, arg.number_attr));
        if (n < 0) return InvalidArgument("attr '", arg.number_attr, "' = ", n, " is negative");
        count = n > kMaxOutputs - count ? kMaxOutputs : count + n;
      } else if (!arg.type_list_attr.empty()) {
        TROUPE_ASSIGN_OR_RETURN(std::vector<DType> types, GetAttr<std::vector<DType>>(p.attrs, arg.type_list_attr));
        count += types.size();
      } else {
        ++count;
      }
    }
    if (!outputs && count != data_inputs) {
      return InvalidArgument("op '", p.op->name, "' takes ", count, count == 1 ? " input" : " inputs",
                             " with these attrs, but the node has ", data_inputs);
    }
    if (outputs && (num_outputs_ += count) >= kMaxOutputs) {
      return InvalidArgument("the nodes of the graph have ", num_outputs_, " outputs or more: too many");
    }
  }
  TROUPE_RETURN_IF_ERROR(ArgTypes(p.op->inputs, p.attrs, &p.input_types));
  return ArgTypes(p.op->outputs, p.attrs, &p.output_types);
}

absl::Status GraphImporter::Check() {
  if (graph_->frozen()) return FailedPrecondition("the graph is frozen: nothing can be imported into it");
  TROUPE_RETURN_IF_ERROR(CheckVersions());
  pending_.resize(def_.node_size());
  TROUPE_RETURN_IF_ERROR(FindOps());
  TROUPE_RETURN_IF_ERROR(NameNodes());
  TROUPE_RETURN_IF_ERROR(CheckDeprecations());
  TROUPE_RETURN_IF_ERROR(ReadInputs());
  for (int i = 0; i < def_.node_size(); ++i) {
    if (absl::Status s = ReadAttrs(i); !s.ok()) return At(i, s);
    if (pending_[i].unknown != nullptr) continue;
    if (absl::Status s = ReadTypes(i); !s.ok()) return At(i, s);
  }
  if (has_unknown_) TROUPE_RETURN_IF_ERROR(TypesOfUnknown());
  TROUPE_RETURN_IF_ERROR(ThawConstants());
  TROUPE_RETURN_IF_ERROR(CheckEdgeTypes());
  TROUPE_RETURN_IF_ERROR(CheckCycles());
  TROUPE_RETURN_IF_ERROR(CheckOptions());
  return MergeLibrary();
}

absl::Status GraphImporter::CheckOptions() {
  for (const std::string& name : options_.control_dependencies) {
    Node* n = graph_->Find(name);
    if (n == nullptr)
      return InvalidArgument("ImportOptions.control_dependencies names node '", name,
                             "', which the graph does not have");
    roots_wait_for_.push_back(n);
  }
  for (const auto& [name, out] : options_.input_map) {
    if (out.node == nullptr || out.node->graph() != graph_)
      return InvalidArgument("ImportOptions.input_map maps '", name, "' to no node of the graph");
  }
  for (const std::string& text : options_.return_outputs) {
    Input in;
    if (absl::Status s = ReadInput(-1, text, &in); !s.ok()) return Annotate(s, "ImportOptions.return_outputs");
    if (in.port == kControlSlot)
      return InvalidArgument("ImportOptions.return_outputs names '", text, "', which is no tensor");
    const size_t outputs = SourceTypes(in).size();
    if (in.port >= static_cast<int>(outputs)) {
      return InvalidArgument("ImportOptions.return_outputs names '", text, "', but the node has ", outputs,
                             outputs == 1 ? " output" : " outputs");
    }
    returned_.push_back(in);
  }
  return absl::OkStatus();
}

absl::Status GraphImporter::MergeLibrary() {
  if (!def_.has_library()) return absl::OkStatus();
  // Protobuf's copy constructors lose what they have copied when memory runs out.
  auto merged = std::make_shared<proto::FunctionDefLibrary>();
  if (graph_->library() == nullptr) {
    merged->MergeFrom(def_.library());
    library_ = std::move(merged);
    return absl::OkStatus();
  }
  merged->MergeFrom(*graph_->library());
  HashMap<std::string_view, const proto::FunctionDef*> old;
  for (const proto::FunctionDef& f : graph_->library()->function()) old[f.signature().name()] = &f;
  for (const proto::FunctionDef& f : def_.library().function()) {
    const auto it = old.find(f.signature().name());
    if (it == old.end()) {
      *merged->add_function() = f;
    } else if (it->second->node_def_size() != f.node_def_size() || it->second->ByteSizeLong() != f.ByteSizeLong()) {
      return InvalidArgument("function '", f.signature().name(),
                             "' is in the graph's library already, with another body");
    }
  }
  merged->mutable_gradient()->MergeFrom(def_.library().gradient());
  library_ = std::move(merged);
  return absl::OkStatus();
}

absl::StatusOr<ImportResult> GraphImporter::Build() {
  std::vector<Node*> nodes(def_.node_size());
  GraphUndo undo(graph_);
  for (auto& [node, types] : grown_) {
    if (types != node->output_types()) undo.SetUnknownOutputs(node, std::move(types));
  }
  graph_->Reserve(def_.node_size());
  for (int i = 0; i < def_.node_size(); ++i) {
    Pending& p = pending_[i];
    const std::string& name = p.new_name.empty() ? def_.node(i).name() : p.new_name;
    nodes[i] = p.unknown == nullptr ? graph_->AddCheckedNode(name, p.op, std::move(p.attrs), std::move(p.input_types),
                                                             std::move(p.output_types))
                                    : graph_->AddUnknownNode(name, std::move(p.unknown), std::move(p.attrs),
                                                             std::move(p.input_types), std::move(p.output_types));
    const std::string& device = def_.node(i).device();
    nodes[i]->set_requested_device(device.empty() ? options_.default_device : device);
  }
  // A control input given twice is one edge; `last_user` tells without looking through the edges.
  std::vector<int> last_user(def_.node_size(), -1);
  for (int i = 0; i < def_.node_size(); ++i) {
    int slot = 0;
    for (const Input& in : InputsOf(i)) {
      Node* src = in.existing ? in.existing : nodes[in.node];
      if (in.port != kControlSlot) {
        TROUPE_RETURN_IF_ERROR(graph_->AddEdge(src, in.port, nodes[i], slot++).status());
      } else if (in.existing != nullptr) {
        graph_->AddControlEdge(src, nodes[i]);
      } else if (last_user[in.node] != i) {
        last_user[in.node] = i;
        graph_->AddControlEdgeUnchecked(src, nodes[i]);
      }
    }
    if (InputsOf(i).empty()) {
      for (Node* n : roots_wait_for_) graph_->AddControlEdge(n, nodes[i]);
    }
  }
  ImportResult result;
  for (const Input& in : returned_)
    result.return_outputs.push_back({in.existing ? in.existing : nodes[in.node], in.port});
  if (const auto& bad = def_.versions().bad_consumers(); !bad.empty()) {
    std::vector<std::string> kept;
    if (const auto it = graph_->collections().find(kBadConsumers); it != graph_->collections().end()) kept = it->second;
    for (const int v : bad) {
      const std::string text = StrCat(v);
      if (std::find(kept.begin(), kept.end(), text) == kept.end()) kept.push_back(text);
    }
    graph_->collection(kBadConsumers) = std::move(kept);
  }
  // Nothing takes memory from here on.
  undo.Keep();
  if (graph_->num_nodes() - 2 == def_.node_size()) {
    graph_->producer = def_.versions().producer();
    graph_->min_consumer = def_.versions().min_consumer();
  } else {
    graph_->producer = std::min(graph_->producer, def_.versions().producer());
    graph_->min_consumer = std::max(graph_->min_consumer, def_.versions().min_consumer());
  }
  if (library_ != nullptr) graph_->set_library(std::move(library_));
  return result;
}

absl::StatusOr<ImportResult> ImportGraphDef(const proto::GraphDef& def, const ImportOptions& options, Graph* graph) {
  if (graph == nullptr) return InvalidArgument("ImportGraphDef is given no graph to import into");
  GraphImporter importer(def, options, graph);
  TROUPE_RETURN_IF_ERROR(importer.Check());
  return importer.Build();
}

std::vector<std::string> UnknownOps(const proto::GraphDef& def, const OpRegistry& ops) {
  HashMap<std::string_view, bool> seen;
  std::vector<std::string> unknown;
  for (const proto::NodeDef& n : def.node()) {
    if (seen.try_emplace(n.op(), true).second && ops.Find(n.op()) == nullptr) unknown.push_back(n.op());
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

}  // namespace troupe
