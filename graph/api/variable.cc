#include "troupe/variable.h"

#include <algorithm>

#include "graph/api/scope_state.h"
#include "troupe/const.h"
#include "troupe/emit.h"
#include "troupe/group.h"

namespace troupe {

namespace {

using internal::ScopeState;

// `scope` outside of loops, branches and control dependencies.
Scope Outermost(const Scope& scope) {
  auto s = std::make_shared<ScopeState>(*scope.state());
  s->context = nullptr;
  s->control.clear();
  return Scope(std::move(s), scope.op_name());
}

// A scope in which nodes are called below `node`: "w/Assign".
ScopeAt Below(const Scope& scope, const Node* node, const char* name, const SourceLocation& location) {
  auto s = std::make_shared<ScopeState>(*scope.state());
  s->prefix = node->name() + "/";
  return ScopeAt(Scope(std::move(s), name), location);
}

ScopeAt DefaultName(const ScopeAt& at, const char* name) {
  return at->op_name().empty() ? ScopeAt(at->WithOpName(name), at.location()) : at;
}

Output ReadHere(const ScopeAt& at, const Output& handle, DType dtype) {
  if (handle.dtype() == DType::kResource) return EmitOp(at, "ReadVariableOp", {handle}, {{"dtype", dtype}}).output(0);
  return EmitOp(at, "Identity", {handle}).output(0);
}

}  // namespace

Variable::Variable(const ScopeAt& at, const Input& initial_value, const VariableOptions& options) {
  if (internal::VariableMaker* const maker = at->state()->shared->variable_maker; maker != nullptr) {
    if (at.ok()) maker->Make(at, initial_value, options, this);
    return;
  }
  Scope scope = Outermost(at.scope());
  if (!options.name.empty()) scope = scope.WithOpName(options.name);
  if (scope.op_name().empty()) scope = scope.WithOpName("Variable");
  const SourceLocation& line = at.location();
  if (!at.ok()) return;
  if (initial_value.literal() != nullptr && !initial_value.literal()->error().ok()) {
    at.Fail(initial_value.literal()->error());
    return;
  }
  if (initial_value.literal() == nullptr && !initial_value.out().valid()) {
    at.Fail(InvalidArgument("the initial value of variable '", scope.op_name(), "' is an empty Output"));
    return;
  }
  dtype_ = options.dtype == DType::kInvalid ? BaseType(initial_value.dtype()) : options.dtype;
  shape_ = options.shape;
  if (!shape_.known_rank()) {
    shape_ = initial_value.literal() == nullptr ? scope.ShapeOf(initial_value.out())
                                                : PartialTensorShape(initial_value.literal()->value().shape());
  }
  AttrMap attrs{{"dtype", dtype_}, {"shape", shape_}};
  if (!options.container.empty()) attrs.Set("container", options.container);
  // The node has this very name: asking for a name again would give the next one, and the shared
  // name would be that of the next variable.
  const std::string name = scope.UniqueNodeName("");
  scope = scope.WithOpName(name.substr(scope.prefix().size()));
  if (options.use_resource || !options.shared_name.empty()) {
    attrs.Set("shared_name", options.shared_name.empty() ? name : options.shared_name);
  }
  handle_ =
      EmitOp(ScopeAt(scope, line), options.use_resource ? "VarHandleOp" : "VariableV2", {}, std::move(attrs)).output(0);
  if (!handle_.valid()) return;
  const Node* node = handle_.node();
  initial_value_ = initial_value.literal() == nullptr ? initial_value.out()
                   : options.dtype == DType::kInvalid
                       ? Const(Below(scope, node, "initial_value", line), *initial_value.literal())
                       : Const(Below(scope, node, "initial_value", line), *initial_value.literal(), dtype_);
  const ScopeAt assign = Below(scope, node, "Assign", line);
  if (options.use_resource) {
    initializer_ = EmitOp(assign, "AssignVariableOp", {handle_, initial_value_}, {{"dtype", dtype_}});
  } else {
    initializer_ = EmitOp(assign, "Assign", {handle_, initial_value_}, {{"validate_shape", shape_.IsFullyDefined()}});
  }
  if (!initializer_.valid()) return;
  Output::operator=(ReadHere(Below(scope, node, "Read", line), handle_, dtype_));
  if (!valid()) return;
  set_variable(handle_);
  std::vector<std::string> collections = options.collections;
  if (options.trainable) collections.emplace_back(kTrainableVariables);
  for (const std::string& c : collections) {
    std::vector<std::string>& list = scope.graph()->collection(c);
    if (std::find(list.begin(), list.end(), node->name()) == list.end()) list.push_back(node->name());
  }
}

Variable Variable::Find(const ScopeAt& at, std::string_view name) {
  Variable v;
  if (!at.ok()) return v;
  Node* node = at->graph()->Find(name);
  if (node == nullptr || !node->op().Has(OpTrait::kVariable) || node->num_outputs() == 0) {
    at.Fail(NotFound("there is no variable '", name, "'"));
    return v;
  }
  const Scope scope = Outermost(at.scope());
  v.handle_ = Output({node, 0}, scope.state());
  if (auto dtype = node->Attr<DType>("dtype"); dtype.ok()) v.dtype_ = *dtype;
  if (auto shape = node->Attr<PartialTensorShape>("shape"); shape.ok()) v.shape_ = *shape;
  if (Node* assign = at->graph()->Find(StrCat(name, "/Assign")); assign != nullptr && assign->num_inputs() == 2) {
    v.initializer_ = Operation(assign, scope.state());
    v.initial_value_ = Output(assign->input(1), scope.state());
  }
  for (const char* read : {"/Read", "/read", "/Read/ReadVariableOp"}) {
    Node* n = at->graph()->Find(StrCat(name, read));
    if (n == nullptr || n->num_outputs() != 1) continue;
    static_cast<Output&>(v) = Output({n, 0}, scope.state());
    v.set_variable(v.handle_);
    return v;
  }
  static_cast<Output&>(v) = ReadHere(Below(scope, node, "Read", at.location()), v.handle_, v.dtype_);
  if (v.valid()) v.set_variable(v.handle_);
  return v;
}

Output Variable::Read(const ScopeAt& at) const {
  return ReadHere(is_resource() ? at : DefaultName(at, "read"), handle_, dtype_);
}

Output Variable::Update(const ScopeAt& at, const char* name, const char* resource_op, const char* ref_op,
                        const Input& value) const {
  const ScopeAt here = DefaultName(at, name);
  if (!is_resource()) return EmitOp(here, ref_op, {handle_, value}).output(0);
  const Operation update = EmitOp(here, resource_op, {handle_, value}, {{"dtype", dtype_}});
  if (!update.valid()) return Output();
  const Scope after = at->WithControlDependencies(update);
  return ReadHere(Below(after, update.node(), "Read", at.location()), handle_, dtype_);
}

Output Variable::Assign(const ScopeAt& at, const Input& value) const {
  return Update(at, "Assign", "AssignVariableOp", "Assign", value);
}
Output Variable::AssignAdd(const ScopeAt& at, const Input& delta) const {
  return Update(at, "AssignAdd", "AssignAddVariableOp", "AssignAdd", delta);
}
Output Variable::AssignSub(const ScopeAt& at, const Input& delta) const {
  return Update(at, "AssignSub", "AssignSubVariableOp", "AssignSub", delta);
}

Output Variable::IsInitialized(const ScopeAt& at) const {
  return EmitOp(at, is_resource() ? "VarIsInitializedOp" : "IsVariableInitialized", {handle_}).output(0);
}

std::vector<Variable> VariablesIn(const ScopeAt& at, std::string_view collection) {
  std::vector<Variable> list;
  const std::vector<std::string> names = at->graph()->collection(collection);
  for (const std::string& name : names) list.push_back(Variable::Find(at, name));
  return list;
}

Operation VariablesInitializer(const ScopeAt& at, const std::vector<Variable>& variables) {
  std::vector<Operation> ops;
  for (const Variable& v : variables) {
    if (at.ok() && !v.initializer().valid())
      at.Fail(InvalidArgument("variable '", v.variable_name(), "' has no initializer"));
    // Its initializer may have the name of one that is here.
    if (at.ok() && v.handle().node()->graph() != at->graph())
      at.Fail(InvalidArgument("variable '", v.variable_name(), "' belongs to another graph"));
    ops.push_back(v.initializer());
  }
  return Group(DefaultName(at, "init"), ops);
}

Operation GlobalVariablesInitializer(const ScopeAt& at) {
  return VariablesInitializer(at, VariablesIn(at, kGlobalVariables));
}
Operation LocalVariablesInitializer(const ScopeAt& at) {
  return VariablesInitializer(at, VariablesIn(at, kLocalVariables));
}

Output ReportUninitializedVariables(const ScopeAt& at, const std::vector<Variable>& variables) {
  const Scope s = at.Sub("report_uninitialized_variables");
  std::vector<std::string> names;
  OutputList initialized;
  for (const Variable& v : variables) {
    names.push_back(v.variable_name());
    initialized.push_back(v.IsInitialized(s));
  }
  const Output all = Const(s, names);
  if (names.empty()) return all;
  const Output mask = EmitLists(s, "Pack", {initialized}).output(0);
  const Output where = EmitOp(s, "Where", {EmitOp(s, "LogicalNot", {mask}).output(0)}).output(0);
  const Output rows = EmitOp(s, "Reshape", {where, {-1}}).output(0);
  return EmitOp(s, "GatherV2", {all, rows, 0}).output(0);
}

Output ReportUninitializedVariables(const ScopeAt& at) {
  std::vector<Variable> list = VariablesIn(at, kGlobalVariables);
  for (Variable& v : VariablesIn(at, kLocalVariables)) list.push_back(std::move(v));
  return ReportUninitializedVariables(at, list);
}

}  // namespace troupe
