// While.
#include "graph/api/control_context.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"

namespace troupe {

namespace {

using internal::CaptureFor;
using internal::ScopeShared;
using internal::ScopeState;

// Every shape that `inner` describes is one that `outer` describes.
bool Within(const PartialTensorShape& inner, const PartialTensorShape& outer) {
  if (!outer.known_rank()) return true;
  if (inner.rank() != outer.rank()) return false;
  for (int d = 0; d < outer.rank(); ++d) {
    if (outer.dim(d) >= 0 && outer.dim(d) != inner.dim(d)) return false;
  }
  return true;
}

class WhileBuilder {
 public:
  WhileBuilder(const ScopeAt& at, const WhileOptions& options)
      : at_(at), options_(options), scope_(at.Sub("while")), shared_(*scope_.state()->shared) {}

  absl::StatusOr<OutputList> Build(const InputList& inputs, const LoopCondFn& cond, const LoopBodyFn& body) {
    if (inputs.size() == 0) return InvalidArgument("While needs at least one loop variable");
    if (options_.parallel_iterations < 1) {
      return InvalidArgument("While: parallel_iterations must be positive, not ", options_.parallel_iterations);
    }
    if (!options_.shape_invariants.empty() && options_.shape_invariants.size() != inputs.size()) {
      return InvalidArgument("While: ", options_.shape_invariants.size(), " shape invariants for ", inputs.size(),
                             " loop variables");
    }
    ControlFlowContext* const outer = scope_.state()->context;
    context_ = std::make_shared<ControlFlowContext>();
    context_->kind = ControlFlowContext::Kind::kWhile;
    context_->name = scope_.prefix().substr(0, scope_.prefix().size() - 1);
    context_->outer = outer;
    context_->frame_name = scope_.prefix() + "while_context";
    context_->parallel_iterations = options_.parallel_iterations;
    shared_.all_contexts.push_back(context_);

    TROUPE_RETURN_IF_ERROR(EnterVariables(inputs));
    context_->pivot_for_pred = {merges_[0], 0};
    state_ = std::make_shared<ScopeState>(*scope_.state());
    state_->context = context_.get();
    state_->pinned = at_->state()->pinned;
    state_->control.clear();  // the Enters have them

    TROUPE_ASSIGN_OR_RETURN(const NodeOut going, BuildCondition(cond));
    std::vector<NodeOut> switches;
    for (Node* merge : merges_) {
      TROUPE_ASSIGN_OR_RETURN(Node* const sw,
                              internal::AddSwitch(shared_, context_.get(), {merge, 0}, going, Who("Switch")));
      switches.push_back({sw, 0});
    }
    OutputList inside;
    for (const NodeOut sw : switches) {
      TROUPE_ASSIGN_OR_RETURN(Node* const id, internal::AddPrimitive(shared_, context_.get(), "Identity",
                                                                     Who("Identity"), {{sw.node, 1}}, {}, {}));
      inside.push_back(Output({id, 0}, state_));
    }
    context_->pivot_for_body = inside[0];
    TROUPE_RETURN_IF_ERROR(BuildBody(body, inside));
    context_->closed = true;

    OutputList exits;
    for (const NodeOut sw : switches) {
      TROUPE_ASSIGN_OR_RETURN(Node* const exit,
                              internal::AddPrimitive(shared_, outer, "Exit", Who("Exit"), {sw}, {}, {}));
      exits.push_back(Output({exit, 0}, scope_.state()));
    }
    if (!options_.back_prop) {
      for (Output& e : exits) e = EmitOp(ScopeAt(scope_, at_.location()), "StopGradient", {e}).output(0);
    }
    return exits;
  }

 private:
  CaptureFor Who(const char* name) const {
    return {scope_.prefix() + name, at_.location(), scope_.state()->device.get()};
  }
  ScopeAt Inside(const char* name) const { return ScopeAt(Scope(state_, name), at_.location()); }

  absl::Status EnterVariables(const InputList& inputs) {
    ControlFlowContext* const outer = context_->outer;
    std::vector<NodeOut> values;
    for (const Input& in : inputs) {
      Output v = AsOutput(ScopeAt(scope_, at_.location()), in);
      if (v.valid() && IsRef(v.dtype())) v = EmitOp(ScopeAt(scope_, at_.location()), "Identity", {v}).output(0);
      if (!v.valid()) return at_->ok() ? InvalidArgument("While: a loop variable is an empty Output") : at_->status();
      if (v.node()->graph() != shared_.graph.get())
        return InvalidArgument("While: '", v.name(), "' belongs to another graph");
      CaptureFor who = Who("");
      who.name.pop_back();
      TROUPE_ASSIGN_OR_RETURN(const NodeOut value, internal::Capture(shared_, outer, v, who));
      values.push_back(value);
    }
    int own = 0;
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> controls,
                            internal::CaptureControls(shared_, outer, scope_.state()->control, Who("Enter"), &own));
    for (size_t i = 0; i < values.size(); ++i) {
      // A constant of the loop around this one would start it once and for all: the loop's pivot
      // makes it once an iteration.
      std::vector<Node*> after = controls;
      if (const ControlFlowContext* loop = outer == nullptr ? nullptr : outer->Loop();
          loop != nullptr && internal::NeedsPivot(*loop, {values[i]}, 0)) {
        after.push_back(outer->Pivot());
      }
      TROUPE_ASSIGN_OR_RETURN(Node* const enter,
                              internal::AddEnter(shared_, context_.get(), values[i], false, Who("Enter"), after));
      enters_.push_back(enter);
    }
    for (size_t i = 0; i < enters_.size(); ++i) {
      TROUPE_ASSIGN_OR_RETURN(Node* const merge,
                              internal::AddMerge(shared_, context_.get(), {enters_[i], 0}, {}, Who("Merge")));
      const PartialTensorShape entered = shared_.refiner.shape({enters_[i], 0});
      if (!options_.shape_invariants.empty() && !Within(entered, options_.shape_invariants[i])) {
        return InvalidArgument("While: loop variable ", i, " enters with shape ", entered.DebugString(),
                               ", which its invariant ", options_.shape_invariants[i].DebugString(), " does not allow");
      }
      TROUPE_RETURN_IF_ERROR(shared_.refiner.SetShape(
          {merge, 0}, options_.shape_invariants.empty() ? entered : options_.shape_invariants[i]));
      merges_.push_back(merge);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<NodeOut> BuildCondition(const LoopCondFn& cond) {
    OutputList vars;
    for (Node* merge : merges_) vars.push_back(Output({merge, 0}, state_));
    Output going;
    TROUPE_RETURN_IF_ERROR(internal::RunInside(shared_, state_, StrCat("the condition of loop '", context_->name, "'"),
                                               [&] { going = cond(Scope(state_), vars); }));
    TROUPE_RETURN_IF_ERROR(at_->status());
    if (!going.valid()) return InvalidArgument("While: the condition is an empty Output");
    const PartialTensorShape shape = scope_.ShapeOf(going);
    if (going.dtype() != DType::kBool || (shape.known_rank() && shape.rank() != 0)) {
      return InvalidArgument("While: the condition '", going.name(), "' must be a bool scalar, not ",
                             Name(going.dtype()), " ", shape.DebugString());
    }
    const Output loop_cond = EmitOp(Inside("LoopCond"), "LoopCond", {going}).output(0);
    TROUPE_RETURN_IF_ERROR(at_->status());
    return loop_cond.out();
  }

  absl::Status BuildBody(const LoopBodyFn& body, const OutputList& vars) {
    OutputList results;
    TROUPE_RETURN_IF_ERROR(internal::RunInside(shared_, state_, StrCat("the body of loop '", context_->name, "'"),
                                               [&] { results = body(Scope(state_), vars); }));
    TROUPE_RETURN_IF_ERROR(at_->status());
    if (results.size() != vars.size()) {
      return InvalidArgument("While: the body gives ", results.size(), " values for ", vars.size(), " loop variables");
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].valid()) return InvalidArgument("While: result ", i, " of the body is an empty Output");
      const NodeOut merge{merges_[i], 0};
      if (BaseType(results[i].dtype()) != merge.dtype()) {
        return InvalidArgument("While: loop variable ", i, " is ", Name(merge.dtype()), ", but the body makes it ",
                               Name(results[i].dtype()), " ('", results[i].name(), "')");
      }
      const PartialTensorShape before = shared_.refiner.shape(merge), after = scope_.ShapeOf(results[i]);
      if (!Within(after, before)) {
        return InvalidArgument("While: loop variable ", i, " has shape ", before.DebugString(),
                               ", but after an iteration ", after.DebugString(), " ('", results[i].name(),
                               "'); say which dimensions change with shape_invariants");
      }
      const Operation next = EmitOp(Inside("NextIteration"), "NextIteration", {results[i]});
      TROUPE_RETURN_IF_ERROR(at_->status());
      TROUPE_RETURN_IF_ERROR(shared_.graph->AddEdge({next.node(), 0}, merges_[i], 1).status());
    }
    return absl::OkStatus();
  }

  const ScopeAt& at_;
  const WhileOptions& options_;
  const Scope scope_;
  ScopeShared& shared_;
  std::shared_ptr<ControlFlowContext> context_;
  std::shared_ptr<ScopeState> state_;
  std::vector<Node*> enters_, merges_;
};

}  // namespace

namespace {

void CheckTargets(const ScopeAt& at, bool cond, bool body) {
  if (!cond || !body) at.Fail(InvalidArgument("While: the ", cond ? "body" : "condition", " has no function"));
}

}  // namespace

OutputList While(const ScopeAt& at, const InputList& loop_vars, const LoopCondFn& cond, const LoopBodyFn& body,
                 const WhileOptions& options) {
  const size_t n = loop_vars.size();
  CheckTargets(at, cond != nullptr, body != nullptr);
  if (!at.ok()) return OutputList(n);
  absl::StatusOr<OutputList> exits = OutputList(n);
  if (options.maximum_iterations < 0) {
    exits = WhileBuilder(at, options).Build(loop_vars, cond, body);
  } else {
    // A counter in front of the user's variables.
    std::vector<Input> vars{int64_t{0}};
    vars.insert(vars.end(), loop_vars.begin(), loop_vars.end());
    WhileOptions counted = options;
    if (!counted.shape_invariants.empty()) {
      counted.shape_invariants.insert(counted.shape_invariants.begin(), PartialTensorShape(TensorShape()));
    }
    const auto users = [](const OutputList& v) { return OutputList(v.begin() + 1, v.end()); };
    exits =
        WhileBuilder(at, counted)
            .Build(
                vars,
                [&](const Scope& s, const OutputList& v) {
                  const ScopeAt here(s, at.location());
                  const Output below = EmitOp(here, "Less", {v[0], options.maximum_iterations}).output(0);
                  return EmitOp(here, "LogicalAnd", {below, cond(s, users(v))}).output(0);
                },
                [&](const Scope& s, const OutputList& v) {
                  OutputList next{EmitOp(ScopeAt(s.WithOpName("add"), at.location()), "AddV2", {v[0], 1}).output(0)};
                  for (Output& o : body(s, users(v))) next.push_back(std::move(o));
                  return next;
                });
    if (exits.ok()) exits->erase(exits->begin());
  }
  if (!exits.ok()) {
    at.Fail(exits.status());
    return OutputList(n);
  }
  return *std::move(exits);
}

Output While(const ScopeAt& at, const Input& loop_var, const std::function<Output(const Scope&, const Output&)>& cond,
             const std::function<Output(const Scope&, const Output&)>& body, const WhileOptions& options) {
  CheckTargets(at, cond != nullptr, body != nullptr);
  if (!at.ok()) return Output();
  return While(
      at, InputList{loop_var}, [&](const Scope& s, const OutputList& v) { return cond(s, v[0]); },
      [&](const Scope& s, const OutputList& v) { return OutputList{body(s, v[0])}; }, options)[0];
}

}  // namespace troupe
