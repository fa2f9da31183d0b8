// Cond and Case.
#include <algorithm>
#include <functional>

#include "graph/api/control_context.h"
#include "troupe/control_flow.h"
#include "troupe/emit.h"

namespace troupe {

namespace {

using internal::CaptureFor;
using internal::ScopeShared;
using internal::ScopeState;

class CondBuilder {
 public:
  explicit CondBuilder(const ScopeAt& at) : at_(at), scope_(at.Sub("cond")), shared_(*scope_.state()->shared) {}

  OutputList Build(const Input& pred, const BranchFn& true_fn, const BranchFn& false_fn) {
    for (const BranchFn* fn : {&true_fn, &false_fn}) {
      if (*fn != nullptr) continue;
      at_.Fail(InvalidArgument("Cond: the ", fn == &true_fn ? "true" : "false", " branch has no function"));
      return {};
    }
    const Output p = AsOutput(Here("pred"), pred, DType::kBool);
    // The predicate's own switch: its outputs tell the branches apart for nodes without inputs.
    const Operation sw = EmitOp(Here(""), "Switch", {p, p});
    const Output switch_t = EmitOp(Here("switch_t"), "Identity", {sw.output(1)}).output(0);
    const Output switch_f = EmitOp(Here("switch_f"), "Identity", {sw.output(0)}).output(0);
    const Output pred_id = EmitOp(Here("pred_id"), "Identity", {p}).output(0);
    const std::vector<NodeOut> t = Branch(true_fn, pred_id, switch_t, 1);
    if (!at_.ok()) return OutputList(std::max<size_t>(t.size(), 1));
    const std::vector<NodeOut> f = Branch(false_fn, pred_id, switch_f, 0);
    if (!at_.ok()) return OutputList(std::max<size_t>(t.size(), 1));
    if (t.size() != f.size()) {
      at_.Fail(InvalidArgument("Cond: the true branch gives ", t.size(), " values, the false branch ", f.size()));
      return OutputList(t.size());
    }
    OutputList merged(t.size());
    for (size_t i = 0; i < t.size() && at_.ok(); ++i) {
      if (t[i].dtype() != f[i].dtype()) {
        at_.Fail(InvalidArgument("Cond: result ", i, " is ", Name(t[i].dtype()), " in the true branch ('",
                                 t[i].ToString(), "') and ", Name(f[i].dtype()), " in the false branch ('",
                                 f[i].ToString(), "')"));
        break;
      }
      absl::StatusOr<Node*> merge = internal::AddMerge(shared_, scope_.state()->context, f[i], t[i], Who("Merge"));
      if (merge.ok()) {
        merged[i] = Output({*merge, 0}, scope_.state());
      } else {
        at_.Fail(merge.status());
      }
    }
    return merged;
  }

 private:
  ScopeAt Here(const char* name) const { return ScopeAt(scope_.WithOpName(name), at_.location()); }
  CaptureFor Who(const char* name) const {
    return {scope_.prefix() + name, at_.location(), scope_.state()->device.get()};
  }

  // The branch's results as they arrive at the merges.
  std::vector<NodeOut> Branch(const BranchFn& fn, const Output& pred, const Output& pivot, int branch) {
    auto context = std::make_shared<ControlFlowContext>();
    context->kind = ControlFlowContext::Kind::kCond;
    context->name = scope_.prefix().substr(0, scope_.prefix().size() - 1);
    context->outer = scope_.state()->context;
    context->pred = pred;
    context->pivot = pivot;
    context->branch = branch;
    // These tell the branch themselves.
    context->external[pred] = pred;
    context->external[pivot] = pivot;
    auto state = std::make_shared<ScopeState>(*scope_.state());
    state->context = context.get();
    state->pinned = at_->state()->pinned;
    state->control.clear();  // whatever runs in the branch runs after the predicate, which has them
    if (at_.ok()) shared_.all_contexts.push_back(context);
    const Scope inside(state);
    BranchResult result;
    const std::string what = StrCat("the ", branch == 1 ? "true" : "false", " branch of '", context->name, "'");
    absl::Status empty;
    absl::Status run = internal::RunInside(shared_, state, what, [&] {
      try {
        result = fn(inside);
      } catch (const std::bad_function_call&) {
        // `fn` may be a wrapper around an empty one.
        empty = InvalidArgument(what, " is, or calls, a function without a target");
      }
    });
    run.Update(empty);
    if (!run.ok()) at_.Fail(run);
    if (result.values.empty() && result.run.valid() && at_.ok()) {
      result.values = {EmitOp(ScopeAt(inside.WithOpName("control_dependency")
                                          .WithLocation(at_.location())
                                          .WithControlDependencies(result.run),
                                      at_.location()),
                              "Identity", {pivot})
                           .output(0)};
    }
    std::vector<NodeOut> values(result.values.size());
    for (size_t i = 0; i < values.size() && at_.ok(); ++i) {
      Output v = result.values[i];
      if (v.valid() && IsRef(v.dtype())) v = EmitOp(ScopeAt(inside, at_.location()), "Identity", {v}).output(0);
      if (!v.valid() || v.node()->graph() != shared_.graph.get()) {
        at_.Fail(InvalidArgument("Cond: result ", i, " of the ", branch ? "true" : "false", " branch is ",
                                 v.valid() ? "of another graph" : "an empty Output"));
        break;
      }
      CaptureFor who = Who("");
      who.name.pop_back();
      absl::StatusOr<NodeOut> inner = internal::Capture(shared_, context.get(), v, who);
      if (!inner.ok()) {
        at_.Fail(inner.status());
        break;
      }
      values[i] = *inner;
    }
    context->closed = true;
    return values;
  }

  const ScopeAt& at_;
  const Scope scope_;
  ScopeShared& shared_;
};

OutputList CaseFrom(const ScopeAt& at, const std::vector<CaseBranch>& branches, size_t first,
                    const std::function<OutputList(const Scope&)>& otherwise) {
  const auto rest = [&](const Scope& s) -> OutputList {
    if (first + 1 == branches.size()) return otherwise(s);
    return CaseFrom(ScopeAt(s, at.location()), branches, first + 1, otherwise);
  };
  return Cond(at, branches[first].pred, branches[first].fn, rest);
}

}  // namespace

OutputList CondList(const ScopeAt& at, const Input& pred, const BranchFn& true_fn, const BranchFn& false_fn) {
  return CondBuilder(at).Build(pred, true_fn, false_fn);
}

OutputList Case(const ScopeAt& at, const std::vector<CaseBranch>& branches,
                const std::function<OutputList(const Scope&)>& otherwise) {
  const auto empty =
      std::find_if(branches.begin(), branches.end(), [](const CaseBranch& b) { return b.fn == nullptr; });
  if (empty != branches.end()) at.Fail(InvalidArgument("Case: branch ", empty - branches.begin(), " has no function"));
  if (otherwise == nullptr) at.Fail(InvalidArgument("Case: there is no function for the rest"));
  if (empty != branches.end() || otherwise == nullptr) return {};
  const Scope s = at.Sub("case");
  if (branches.empty()) return otherwise(s);
  return CaseFrom(ScopeAt(s, at.location()), branches, 0, otherwise);
}

}  // namespace troupe
