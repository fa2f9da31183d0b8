// Conditionals and loops, built of the primitives Switch, Merge, Enter, Exit, NextIteration and
// LoopCond, as TensorFlow 1.x's cond_v1 and while_v1 do.
//
//   Output y = Cond(scope, pred, [&](const Scope& s) { return ops::Square(s, x); }, [&](const Scope& s) { return ops::Neg(s, x); });
//   OutputList r = While(scope, {0, 1.0f},
//                        [&](const Scope& s, const OutputList& v) { return v[0] < n; },
//                        [&](const Scope& s, const OutputList& v) -> OutputList { return {v[0] + 1, v[1] * x}; });
//
// The functions are called once, while the graph is built, with the scope to build in. They may use
// any Output of the functions around them: a value from outside of a loop is brought in by
// Enter(is_constant), through every loop between; one from outside of a branch by a Switch on the
// predicate. Only the returned values leave the loop or branch: using another inner value outside
// is an error that names the value. A node that depends neither on a loop variable nor on a value
// from outside gets a control edge from the loop's (branch's) pivot, so that it runs once in each
// iteration (only when the branch is taken).
//
// Gradients find loops and branches in the graph itself, so they need nothing from here.
//
// Names are TensorFlow's: cond/Switch, cond/switch_t, cond/switch_f, cond/pred_id, cond/Merge;
// while/Enter, while/Merge, while/LoopCond, while/Switch, while/Identity, while/NextIteration,
// while/Exit; a captured value is <user>/Enter or <user>/Switch.
//
// Errors are the scope's, with the line of the call: a predicate that is no bool scalar, branches
// that return different types or numbers of values, a body whose results do not fit the loop
// variables in number, type or shape.
//
// Source of the semantics: section 4.4 of TensorFlow's white paper for the primitives; tf.cond,
// tf.case and tf.while_loop of TensorFlow 1 for the functions.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_CONTROL_FLOW_H_
#define TROUPE_CONTROL_FLOW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

// What a branch gives: values, or only something to run.
struct BranchResult {
  OutputList values;
  Operation run;
};
using BranchFn = std::function<BranchResult(const Scope&)>;

// The merged results of both branches (and, when they give none, one bool that stands for having
// run).
OutputList CondList(const ScopeAt& at, const Input& pred, const BranchFn& true_fn, const BranchFn& false_fn);

namespace internal {
template <class F>
using BranchType = std::remove_cvref_t<std::invoke_result_t<F, const Scope&>>;
template <class F>
BranchFn MakeBranch(F fn) {
  using R = BranchType<F>;
  // Of what may be null: a pointer to a function, a std::function.
  if constexpr (std::is_pointer_v<F> || requires { fn.operator bool(); }) {
    if (!fn) return nullptr;
  }
  return [fn = std::move(fn)](const Scope& s) -> BranchResult {
    if constexpr (std::is_base_of_v<Output, R>) {
      return {{static_cast<const Output&>(fn(s))}, Operation()};
    } else if constexpr (std::is_same_v<R, Operation>) {
      return {{}, fn(s)};
    } else {
      return {fn(s), Operation()};
    }
  };
}
}  // namespace internal

// Both functions take a scope; both return an Output, or both an OutputList, or both an Operation,
// and so does Cond. Named "cond" unless WithOpName says otherwise.
template <class T, class F>
auto Cond(const ScopeAt& at, const Input& pred, T true_fn, F false_fn) {
  using R = internal::BranchType<T>;
  OutputList merged =
      CondList(at, pred, internal::MakeBranch(std::move(true_fn)), internal::MakeBranch(std::move(false_fn)));
  if constexpr (std::is_base_of_v<Output, R>) {
    return merged.empty() ? Output() : merged[0];
  } else if constexpr (std::is_same_v<R, Operation>) {
    return merged.empty() ? Operation() : Operation(merged[0]);
  } else {
    return merged;
  }
}

// The first branch whose predicate (a bool scalar) holds, else `otherwise`: Conds, one in the
// other. All branches give as many values, of equal types. Named "case" unless WithOpName says
// otherwise.
struct CaseBranch {
  Output pred;
  std::function<OutputList(const Scope&)> fn;
};
OutputList Case(const ScopeAt& at, const std::vector<CaseBranch>& branches,
                const std::function<OutputList(const Scope&)>& otherwise);

struct WhileOptions {
  int64_t parallel_iterations = 10;  // iterations that may be in flight at once
  bool back_prop = true;             // false: gradients stop at the loop's results
  int64_t maximum_iterations = -1;   // the loop ends after so many, whatever its condition says; -1: no bound
  // One for each loop variable, where its shape changes from iteration to iteration; by default it
  // must stay what it is on entry.
  std::vector<PartialTensorShape> shape_invariants;
};
using LoopCondFn = std::function<Output(const Scope&, const OutputList&)>;
using LoopBodyFn = std::function<OutputList(const Scope&, const OutputList&)>;

// The loop variables after the last iteration. Named "while" unless WithOpName says otherwise.
OutputList While(const ScopeAt& at, const InputList& loop_vars, const LoopCondFn& cond, const LoopBodyFn& body,
                 const WhileOptions& options = {});
// With one variable.
Output While(const ScopeAt& at, const Input& loop_var, const std::function<Output(const Scope&, const Output&)>& cond,
             const std::function<Output(const Scope&, const Output&)>& body, const WhileOptions& options = {});

}  // namespace troupe

#endif  // TROUPE_CONTROL_FLOW_H_
