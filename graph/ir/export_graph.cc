// Graph -> GraphDef, and op definitions to their wire form.
#include <algorithm>
#include <cstdlib>

#include "troupe/import_export.h"
#include "troupe/proto/function.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/proto/op_def.pb.h"

namespace troupe {
namespace {

void ArgToProto(const ArgDef& arg, proto::OpDef::ArgDef* p) {
  p->set_name(arg.name);
  if (arg.type != DType::kInvalid) p->set_type(static_cast<proto::DataType>(arg.type));
  p->set_type_attr(arg.type_attr);
  p->set_number_attr(arg.number_attr);
  p->set_type_list_attr(arg.type_list_attr);
  p->set_is_ref(arg.is_ref);
}

}  // namespace

void ExportNodeDef(const Node& node, proto::NodeDef* def, bool strip_defaults) {
  def->Clear();
  def->set_name(node.name());
  def->set_op(node.op().name);
  def->set_device(node.device());
  for (int i = 0; i < node.num_inputs(); ++i) {
    const NodeOut in = node.input(i);
    if (!in.valid()) {
      def->add_input();  // keeps the places of the others; an import refuses it by name
    } else if (in.index == 0) {
      def->add_input(in.node->name());
    } else {
      def->add_input(in.ToString());
    }
  }
  std::vector<const Node*> waits_for;
  for (const Edge* e : node.in_edges()) {
    if (e->IsControl() && e->src->IsOp()) waits_for.push_back(e->src);
  }
  std::sort(waits_for.begin(), waits_for.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  for (const Node* n : waits_for) def->add_input(StrCat("^", n->name()));
  for (const auto& [name, value] : node.attrs()) {
    if (strip_defaults) {
      const AttrDef* a = node.op().FindAttr(name);
      if (a != nullptr && a->default_value.has_value() && a->default_value == value) continue;
    }
    AttrToProto(value, &(*def->mutable_attr())[name]);
  }
}

void ExportGraphDef(const Graph& graph, proto::GraphDef* def, bool strip_defaults) {
  def->Clear();
  def->mutable_node()->Reserve(graph.num_nodes());
  for (int i = 2; i < graph.num_node_ids(); ++i) {
    if (const Node* n = graph.node(i)) ExportNodeDef(*n, def->add_node(), strip_defaults);
  }
  def->mutable_versions()->set_producer(graph.producer);
  def->mutable_versions()->set_min_consumer(graph.min_consumer);
  if (const auto bad = graph.collections().find(kBadConsumers); bad != graph.collections().end()) {
    for (const std::string& v : bad->second) def->mutable_versions()->add_bad_consumers(std::atoi(v.c_str()));
  }
  if (graph.library() != nullptr) *def->mutable_library() = *graph.library();
}

void ExportOpDef(const OpDef& op, proto::OpDef* def) {
  def->Clear();
  def->set_name(op.name);
  for (const ArgDef& arg : op.inputs) ArgToProto(arg, def->add_input_arg());
  for (const ArgDef& arg : op.outputs) ArgToProto(arg, def->add_output_arg());
  for (const AttrDef& a : op.attrs) {
    proto::OpDef::AttrDef* p = def->add_attr();
    p->set_name(a.name);
    p->set_type(a.kind);
    if (a.default_value.has_value()) AttrToProto(a.default_value, p->mutable_default_value());
    p->set_has_minimum(a.has_minimum);
    if (a.has_minimum) p->set_minimum(a.minimum);
    if (!a.allowed_types.empty()) AttrToProto(a.allowed_types, p->mutable_allowed_values());
    if (!a.allowed_strings.empty()) AttrToProto(a.allowed_strings, p->mutable_allowed_values());
  }
  const size_t line = op.doc.find('\n');
  def->set_summary(op.doc.substr(0, line));
  if (line != std::string::npos) def->set_description(op.doc.substr(line + 1));
  if (op.deprecated_since > 0) {
    def->mutable_deprecation()->set_version(op.deprecated_since);
    def->mutable_deprecation()->set_explanation(op.deprecation);
  }
  def->set_is_stateful(op.stateful());
  def->set_is_commutative(op.Has(OpTrait::kCommutative));
  def->set_is_aggregate(op.Has(OpTrait::kAggregate));
  def->set_allows_uninitialized_input(op.Has(OpTrait::kAllowsUninitializedInput));
}

}  // namespace troupe
