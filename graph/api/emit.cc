#include "troupe/emit.h"

#include <algorithm>
#include <numeric>

#include "graph/api/control_context.h"
#include "graph/core/hash_map.h"
#include "troupe/node_builder.h"

namespace troupe {

namespace {

using internal::ScopeShared;
using internal::ScopeState;

std::string_view WhyEmpty(const Output& out) {
  return out.index() != internal::kBuiltNowhere
             ? std::string_view(" (default-constructed, or an output that its node does not have)")
             : ": it is the result of an operator that had no scope to build in (its operands are "
               "empty, or belong to a graph that has no Scope); make the graph's Scope first";
}

struct Arg {
  const Input* begin;
  size_t size;
  bool list;
};

class Emitter {
 public:
  Emitter(const ScopeAt& at, std::string_view op)
      : at_(at), state_(*at.scope().state()), shared_(*state_.shared), op_(op) {}

  absl::StatusOr<Node*> Build(const std::vector<Arg>& args, AttrMap attrs) {
    TROUPE_ASSIGN_OR_RETURN(def_, shared_.graph->ops().LookUp(op_));
    TROUPE_RETURN_IF_ERROR(internal::CheckOpen(state_.context));
    if (def_->control_flow == ControlFlow::kExit || def_->control_flow == ControlFlow::kNextIteration)
      TROUPE_RETURN_IF_ERROR(CheckInFrame(args));
    who_.name = at_->UniqueNodeName(op_);
    who_.location = at_.location();
    who_.device = state_.device.get();
    attrs_ = std::move(attrs);
    if (args.size() != def_->inputs.size()) {
      return InvalidArgument("op '", op_, "' takes ", def_->inputs.size(), " args, not ", args.size());
    }
    TROUPE_RETURN_IF_ERROR(CheckOutputs(args));
    NodeBuilder b(shared_.graph.get(), who_.name, op_, false);
    std::vector<NodeOut> flat;
    for (size_t i = 0; i < args.size(); ++i) {
      std::vector<NodeOut> outs;
      for (size_t k = 0; k < args[i].size; ++k) {
        TROUPE_ASSIGN_OR_RETURN(NodeOut out, Resolve(args, i, k));
        if (state_.context != nullptr || !shared_.all_contexts.empty()) {
          TROUPE_ASSIGN_OR_RETURN(out, internal::Capture(shared_, state_.context, out, who_));
        }
        flat.push_back(out);
        outs.push_back(out);
      }
      if (args[i].list) {
        b.InputList(std::move(outs));
      } else {
        b.Input(outs[0]);
      }
    }
    int own = 0;
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> controls,
                            internal::CaptureControls(shared_, state_.context, state_.control, who_, &own));
    b.Controls(controls);
    if (state_.context != nullptr && internal::NeedsPivot(*state_.context, flat, own))
      b.Control(state_.context->Pivot());
    AddScopeAttrs();
    for (const auto& [name, value] : attrs_) b.Attr(name, value);
    TROUPE_ASSIGN_OR_RETURN(Node* const node, b.Location(at_.location()).Build());
    absl::Status s = Place(node);
    if (!s.ok()) {
      shared_.graph->RemoveNode(node);
      return s;
    }
    TROUPE_RETURN_IF_ERROR(internal::Register(shared_, state_.context, node));
    return node;
  }

  absl::Status Address(const absl::Status& s) const {
    return WithAddress(s, who_.name.empty() ? at_->UniqueNodeName(op_) : who_.name, op_, "", at_.location());
  }

 private:
  absl::Status CheckOutputs(const std::vector<Arg>& args) const {
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string& name = def_->inputs[i].name;
      if (args[i].list != def_->inputs[i].IsList()) {
        return InvalidArgument("arg '", name, "' takes ", args[i].list ? "one value" : "a list", ", not ",
                               args[i].list ? "a list" : "one value");
      }
      for (size_t k = 0; k < args[i].size; ++k) {
        const Input& in = args[i].begin[k];
        if (in.literal() != nullptr) {
          if (!in.literal()->error().ok()) return Annotate(in.literal()->error(), StrCat("arg '", name, "'"));
        } else if (!in.out().valid()) {
          return InvalidArgument("arg '", name, "' is an empty Output", WhyEmpty(in.out()));
        } else if (in.out().node()->graph() != shared_.graph.get()) {
          return InvalidArgument("arg '", name, "' = '", in.out().name(), "' belongs to another graph");
        }
      }
    }
    return absl::OkStatus();
  }

  // An Exit or NextIteration that somebody builds by hand: an Enter must lead to it.
  absl::Status CheckInFrame(const std::vector<Arg>& args) const {
    if (state_.context != nullptr && state_.context->Loop() != nullptr) return absl::OkStatus();
    // Backwards, with the number of loops that were left on the way.
    std::vector<std::pair<const Node*, int>> stack;
    HashSet<const Node*> seen;
    const auto visit = [&](const Node* n, int left) {
      if (seen.insert(n).second) stack.emplace_back(n, left + (n->IsExit() ? 1 : 0));
    };
    for (const Arg& arg : args) {
      for (size_t k = 0; k < arg.size; ++k) {
        if (arg.begin[k].literal() == nullptr) visit(arg.begin[k].out().node(), 0);
      }
    }
    while (!stack.empty()) {
      const auto [n, left] = stack.back();
      stack.pop_back();
      if (n->IsEnter() && left == 0) return absl::OkStatus();
      for (const Edge* e : n->in_edges()) {
        if (!e->src->IsNextIteration() && e->src->IsOp()) visit(e->src, left - (n->IsEnter() ? 1 : 0));
      }
    }
    return InvalidArgument(def_->control_flow == ControlFlow::kExit ? "an Exit" : "a NextIteration",
                           " must be inside a loop's frame, but no Enter node leads to it");
  }

  // The type that literals for attr `attr` should have; kInvalid when nothing tells.
  DType TypeOfAttr(const std::vector<Arg>& args, const std::string& attr) const {
    if (const AttrValue* v = attrs_.Find(attr)) {
      if (const DType* t = v->As<DType>()) return *t;
    }
    for (const bool literals : {false, true}) {
      for (size_t i = 0; i < args.size(); ++i) {
        if (def_->inputs[i].type_attr != attr) continue;
        for (size_t k = 0; k < args[i].size; ++k) {
          const Input& in = args[i].begin[k];
          if (in.literal() == nullptr || (literals && !in.literal()->weak())) return BaseType(in.dtype());
        }
      }
    }
    return DType::kInvalid;
  }

  // For a weak literal without a hint: its own type, or, where the op does not take that, the op's
  // default.
  static DType OwnType(const OpDef& def, const std::string& attr, DType own) {
    const AttrDef* a = def.FindAttr(attr);
    if (a == nullptr || a->allowed_types.empty()) return own;
    if (std::find(a->allowed_types.begin(), a->allowed_types.end(), own) != a->allowed_types.end()) return own;
    if (const DType* t = a->default_value.As<DType>()) return *t;
    return IsInteger(own) ? a->allowed_types.front() : own;
  }

  absl::StatusOr<NodeOut> Resolve(const std::vector<Arg>& args, size_t i, size_t k) {
    const Input& in = args[i].begin[k];
    const ArgDef& arg = def_->inputs[i];
    if (in.literal() == nullptr) return in.out().out();
    Tensor value = in.literal()->value();
    if (in.literal()->weak()) {
      DType want = arg.type;
      if (!arg.type_attr.empty()) {
        want = TypeOfAttr(args, arg.type_attr);
        if (want == DType::kInvalid) {
          want = WidestLiteral(args, arg.type_attr);
          want = OwnType(*def_, arg.type_attr, want);
        }
      }
      if (want != DType::kInvalid) {
        absl::StatusOr<Tensor> converted = ConvertLiteral(value, want);
        if (!converted.ok()) return Annotate(converted.status(), StrCat("arg '", arg.name, "'"));
        value = *std::move(converted);
      }
    }
    ScopeState state = state_;
    state.prefix = who_.name + "/";
    state.control.clear();
    const ScopeAt here(Scope(std::make_shared<const ScopeState>(std::move(state)), arg.name), at_.location());
    const DType dtype = value.dtype();
    const Operation op = Emit(here, "Const", {}, {{"dtype", dtype}, {"value", value}});
    if (!op.valid()) return at_->status();
    return NodeOut{op.node(), 0};
  }

  // The type in which all weak literals of one attr fit: floating point where one of them is.
  DType WidestLiteral(const std::vector<Arg>& args, const std::string& attr) const {
    DType widest = DType::kInvalid;
    for (size_t i = 0; i < args.size(); ++i) {
      if (def_->inputs[i].type_attr != attr) continue;
      for (size_t k = 0; k < args[i].size; ++k) {
        const DType t = args[i].begin[k].dtype();
        const auto rank = [](DType d) {
          return d == DType::kInvalid ? 0 : IsInteger(d) ? 1 : IsFloating(d) ? 2 : IsComplex(d) ? 3 : 4;
        };
        if (rank(t) > rank(widest) || (rank(t) == rank(widest) && SizeOf(t) > SizeOf(widest))) widest = t;
      }
    }
    return widest;
  }

  void AddScopeAttrs() {
    if (!state_.container.empty() && def_->stateful() && def_->FindAttr("container") != nullptr) {
      const AttrValue* v = attrs_.Find("container");
      const std::string* set = v == nullptr ? nullptr : v->As<std::string>();
      if (set == nullptr || set->empty()) attrs_.Set("container", state_.container);
    }
    if (state_.colocate != nullptr && !attrs_.Has("_class"))
      attrs_.Set("_class", internal::ColocationGroups(*state_.colocate));
  }

  absl::Status Place(Node* node) const {
    if (state_.colocate != nullptr) {
      node->set_requested_device(state_.colocate->requested_device());
      return absl::OkStatus();
    }
    if (state_.device == nullptr) return absl::OkStatus();
    TROUPE_ASSIGN_OR_RETURN(std::string device, internal::RequestedDevice(state_.device.get(), node));
    node->set_requested_device(std::move(device));
    return absl::OkStatus();
  }

  const ScopeAt& at_;
  const ScopeState& state_;
  ScopeShared& shared_;
  std::string_view op_;
  const OpDef* def_ = nullptr;
  internal::CaptureFor who_;
  AttrMap attrs_;
};

Operation EmitArgs(const ScopeAt& at, std::string_view op, const std::vector<Arg>& args, AttrMap attrs) {
  if (!at.ok()) return Operation();
  Emitter e(at, op);
  absl::StatusOr<Node*> node = e.Build(args, std::move(attrs));
  if (!node.ok()) {
    at->Fail(e.Address(node.status()), at.location());
    return Operation();
  }
  return Operation(*node, at->state());
}

}  // namespace

Operation Emit(const ScopeAt& at, const char* op, std::initializer_list<ArgRef> args,
               std::initializer_list<AttrRef> attrs) {
  std::vector<Arg> list;
  list.reserve(args.size());
  for (const ArgRef& a : args) {
    if (a.input != nullptr) {
      list.push_back({a.input, 1, false});
    } else {
      list.push_back({a.list->size() == 0 ? nullptr : &*a.list->begin(), a.list->size(), true});
    }
  }
  AttrMap map;
  for (const AttrRef& a : attrs) map.Set(a.name(), a.Make());
  return EmitArgs(at, op, list, std::move(map));
}

Operation EmitOp(const ScopeAt& at, std::string_view op, const std::vector<Input>& args, AttrMap attrs) {
  std::vector<Arg> list;
  for (const Input& a : args) list.push_back({&a, 1, false});
  return EmitArgs(at, op, list, std::move(attrs));
}

Operation EmitLists(const ScopeAt& at, std::string_view op, const std::vector<InputList>& args, AttrMap attrs) {
  const OpDef* def = at->graph()->ops().Find(op);
  std::vector<Arg> list;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_list = def == nullptr || i >= def->inputs.size() || def->inputs[i].IsList() || args[i].size() != 1;
    list.push_back({args[i].size() == 0 ? nullptr : &*args[i].begin(), args[i].size(), is_list});
  }
  return EmitArgs(at, op, list, std::move(attrs));
}

Output AsOutput(const ScopeAt& at, const Input& input, DType hint) {
  if (input.literal() == nullptr) {
    if (at.ok() && !input.out().valid()) at.Fail(InvalidArgument("an empty Output was given", WhyEmpty(input.out())));
    return input.out();
  }
  if (at.ok() && !input.literal()->error().ok()) at.Fail(input.literal()->error());
  absl::StatusOr<Tensor> value = input.literal()->value();
  if (input.literal()->weak() && hint != DType::kInvalid && at.ok()) value = ConvertLiteral(*value, hint);
  if (!value.ok()) at.Fail(value.status());
  if (!at.ok()) return Output();
  const DType dtype = value->dtype();
  return Emit(at, "Const", {}, {{"dtype", dtype}, {"value", *value}}).output(0);
}

Input AllAxes(const ScopeAt& at, const Input& input) {
  const int rank = input.literal() != nullptr ? input.literal()->value().shape().rank()
                   : input.out().valid()      ? at->ShapeOf(input.out()).rank()
                                              : 0;
  if (rank >= 0) {
    std::vector<int32_t> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    return axes;
  }
  const ScopeAt below(at->NewSubScope("axes"), at.location());
  const Output ranks = EmitOp(below, "Rank", {input}).output(0);
  return EmitOp(below, "Range", {0, ranks, 1}).output(0);
}

OutputList OutputsOf(const Operation& op, int first, int count) {
  OutputList list;
  for (int i = 0; i < count; ++i) list.push_back(op.output(first + i));
  return list;
}

OutputList OutputsOf(const Operation& op, std::string_view arg) {
  if (!op.valid()) return {};
  const auto range = ArgRange(op.node()->op().outputs, op.node()->attrs(), arg);
  return range.ok() ? OutputsOf(op, range->first, range->second - range->first) : OutputList();
}

Output OutputOf(const Operation& op, std::string_view arg) {
  const OutputList list = OutputsOf(op, arg);
  return list.empty() ? Output() : list[0];
}

}  // namespace troupe
