#include "troupe/node_builder.h"

#include "graph/ir/graph_undo.h"

namespace troupe {
namespace {

// Which input told an attr, for messages: the name of the attr, of the arg, and the value.
struct Told {
  std::string attr, arg;
  NodeOut by;
};

// "'x' ('a:0')".
std::string InputText(std::string_view arg, NodeOut value) {
  return value.valid() ? StrCat("'", arg, "' ('", value.ToString(), "')") : StrCat("'", arg, "'");
}

// Sets attr `name` to `value`, which arg `arg` has, or checks that it agrees with what is set.
absl::Status Agree(AttrMap* attrs, const std::string& name, AttrValue value, std::string_view arg, NodeOut by,
                   std::vector<Told>* told) {
  const AttrValue* have = attrs->Find(name);
  if (have == nullptr) {
    attrs->Set(name, std::move(value));
    told->push_back({name, std::string(arg), by});
    return absl::OkStatus();
  }
  if (*have == value) return absl::OkStatus();
  const DType *is = value.As<DType>(), *must = have->As<DType>();
  const bool types = is != nullptr && must != nullptr;
  std::string because = StrCat("attr '", name, "' is ", have->DebugString());
  NodeOut other;
  for (const Told& t : *told) {
    if (t.attr != name) continue;
    other = t.by;
    because = StrCat("attr ", name, " is ", have->DebugString(), " because of ", InputText(t.arg, t.by));
  }
  std::string hint;
  const auto literal = [](NodeOut v, DType t) { return v.valid() && v.node->IsConstant() && t == DType::kDouble; };
  if (types && IsFloating(*is) && IsFloating(*must) && (literal(by, *is) || literal(other, *must))) {
    const NodeOut constant = literal(by, *is) ? by : other;
    hint = StrCat("; '", constant.ToString(), "' is a constant of type float64: in C++ 0.5 is a double, 0.5f a float");
  }
  return InvalidArgument("input ", InputText(arg, by), types ? " is " : " has ", value.DebugString(), ", but ", because,
                         hint);
}

absl::Status InferAttrs(const OpDef& op, size_t at, const std::vector<NodeOut>& outs, bool list, AttrMap* attrs,
                        std::vector<Told>* told) {
  const ArgDef& arg = op.inputs[at];
  if (arg.IsList() != list) {
    return InvalidArgument("arg '", arg.name, "' takes ", arg.IsList() ? "a list" : "one value", ", not ",
                           list ? "a list" : "one value");
  }
  const auto type_of = [&](NodeOut o) { return BaseType(o.dtype()); };
  if (!arg.type_list_attr.empty()) {
    std::vector<DType> types;
    for (NodeOut o : outs) types.push_back(type_of(o));
    return Agree(attrs, arg.type_list_attr, std::move(types), arg.name, {}, told);
  }
  if (!arg.number_attr.empty()) {
    TROUPE_RETURN_IF_ERROR(Agree(attrs, arg.number_attr, static_cast<int64_t>(outs.size()), arg.name, {}, told));
  }
  for (NodeOut o : outs) {
    if (!arg.type_attr.empty()) {
      TROUPE_RETURN_IF_ERROR(Agree(attrs, arg.type_attr, type_of(o), arg.name, o, told));
    } else if (arg.type != type_of(o)) {
      return InvalidArgument("input ", InputText(arg.name, o), " is ", Name(o.dtype()), ", but must be ",
                             Name(arg.type));
    }
  }
  return absl::OkStatus();
}

}  // namespace

NodeBuilder::NodeBuilder(Graph* graph, std::string_view name, std::string_view op, bool unique_name)
    : graph_(graph), name_(name), op_(op), unique_name_(unique_name) {}
NodeBuilder::~NodeBuilder() = default;
NodeBuilder& NodeBuilder::Input(NodeOut out) {
  args_.push_back({{out}, false});
  return *this;
}
NodeBuilder& NodeBuilder::InputList(std::vector<NodeOut> outs) {
  args_.push_back({std::move(outs), true});
  return *this;
}
NodeBuilder& NodeBuilder::Control(Node* node) {
  if (node != nullptr) control_.push_back(node);
  return *this;
}
NodeBuilder& NodeBuilder::Controls(const std::vector<Node*>& nodes) {
  for (Node* n : nodes) Control(n);
  return *this;
}
NodeBuilder& NodeBuilder::Attr(std::string_view name, AttrValue value) {
  attrs_.Set(name, std::move(value));
  return *this;
}
NodeBuilder& NodeBuilder::Device(std::string_view device) {
  device_ = device;
  return *this;
}
NodeBuilder& NodeBuilder::AssignedDevice(std::string_view device) {
  assigned_device_ = device;
  return *this;
}
NodeBuilder& NodeBuilder::Location(SourceLocation l) {
  location_ = l;
  return *this;
}
NodeBuilder& NodeBuilder::AllowMissingInputs() {
  allow_missing_ = true;
  return *this;
}

absl::StatusOr<Node*> NodeBuilder::Build() {
  const auto address = [&](const absl::Status& s) { return WithAddress(s, name_, op_, device_, location_); };
  absl::StatusOr<const OpDef*> found = graph_->ops().LookUp(op_);
  if (!found.ok()) return address(found.status());
  const OpDef& op = **found;
  if (args_.size() > op.inputs.size() || (args_.size() < op.inputs.size() && !allow_missing_)) {
    return address(InvalidArgument("op '", op_, "' takes ", op.inputs.size(), " args, not ", args_.size()));
  }
  std::vector<NodeOut> flat;
  std::vector<Told> told;
  for (size_t i = 0; i < args_.size(); ++i) {
    for (NodeOut o : args_[i].outs) {
      if (!o.valid()) return address(InvalidArgument("arg '", op.inputs[i].name, "' is not valid"));
      if (o.index < 0 || o.index >= o.node->num_outputs()) {
        return address(InvalidArgument("'", o.ToString(), "' does not exist: '", o.node->name(), "' has ",
                                       o.node->num_outputs(), o.node->num_outputs() == 1 ? " output" : " outputs"));
      }
      flat.push_back(o);
    }
    if (allow_missing_ && op.inputs[i].IsList() && attrs_.Has(op.inputs[i].number_attr)) continue;
    if (absl::Status s = InferAttrs(op, i, args_[i].outs, args_[i].list, &attrs_, &told); !s.ok()) return address(s);
  }
  for (const Node* c : control_) {
    if (c->graph() != graph_)
      return address(InvalidArgument("control input '^", c->name(), "' belongs to another graph"));
  }
  GraphUndo undo(graph_);
  const std::string name = unique_name_ ? undo.UniqueName(name_) : name_;
  absl::StatusOr<Node*> node = graph_->AddNode(name, op_, std::move(attrs_));
  if (!node.ok()) return HasAddress(node.status()) || location_.known() ? address(node.status()) : node.status();
  Node* n = *node;
  n->set_requested_device(device_);
  if (!assigned_device_.empty()) n->set_assigned_device(assigned_device_);
  n->set_location(location_);
  for (size_t i = 0; i < flat.size(); ++i) {
    absl::StatusOr<Edge*> e = graph_->AddEdge(flat[i], n, static_cast<int>(i));
    if (!e.ok()) return address(e.status());
  }
  for (Node* c : control_) graph_->AddControlEdge(c, n);
  undo.Keep();
  return n;
}

}  // namespace troupe
