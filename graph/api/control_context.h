// Loops and branches while they are being built.
//
// The graph has no node for a loop: a While is a ring of Enter, Merge, Switch, NextIteration and
// Exit, a Cond consists of Switches and Merges. A body may use an outer value only after it was
// brought in: from outside of a loop by an Enter (is_constant) for every loop in between, from
// outside of a branch by a Switch on the branch's predicate. So while the functions of a While or
// Cond run, their scope carries a ControlFlowContext. Contexts form a chain, innermost first, that
// ends at null, the graph outside of all loops. ScopeShared stores the context of every node that
// was built through a scope; the context of other nodes (gradients) follows from their inputs.
//
// Rules, which are TensorFlow 1.x's:
//  - An input from an enclosing context is brought in through every context between, once for each
//    context and value.
//  - An input from a context that does not enclose the user is an error: such a value leaves its
//    loop only as a loop variable, its branch only as a result.
//  - A node in a loop that has no inputs, or only loop constants, gets a control edge from the
//    loop's pivot, so that it runs once in each iteration and not after the last one. A node in a
//    branch without inputs gets one from the branch's pivot.
//  - A control edge from outside of the loop becomes one from an Identity inside, of an Enter of an
//    output of that node.
//
// Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_GRAPH_API_CONTROL_CONTEXT_H_
#define TROUPE_GRAPH_API_CONTROL_CONTEXT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/api/scope_state.h"

namespace troupe {

class ControlFlowContext {
 public:
  enum class Kind { kCond, kWhile };
  Kind kind;
  std::string name;  // of the While or Cond, for messages
  ControlFlowContext* outer = nullptr;
  // Cond: the predicate, the branch's pivot (both live in `outer`), and which output of a Switch is
  // this branch.
  NodeOut pred, pivot;
  int branch = 0;
  // While. The pivots are the first loop variable, as the condition and as the body sees it: its
  // Merge, and the Identity behind its Switch. The latter is invalid until the condition is built.
  std::string frame_name;
  int64_t parallel_iterations = 10;
  NodeOut pivot_for_pred, pivot_for_body;
  // True when its function has returned: no more nodes can be built in it.
  bool closed = false;

  // The values that stand for outer values in this context.
  absl::flat_hash_map<NodeOut, NodeOut> external;
  // Stand-ins in this loop for outer nodes that are control inputs.
  absl::flat_hash_map<const Node*, Node*> external_controls;

  // The innermost loop: this or an enclosing one; null outside of loops.
  const ControlFlowContext* Loop() const {
    const ControlFlowContext* c = this;
    while (c != nullptr && c->kind != Kind::kWhile) c = c->outer;
    return c;
  }
  // The node after which nodes without inputs may run.
  Node* Pivot() const {
    if (kind == Kind::kCond) return pivot.node;
    return pivot_for_body.valid() ? pivot_for_body.node : pivot_for_pred.node;
  }
};

namespace internal {

// True when `inner` is `outer` or lies inside of it (everything lies inside of null).
bool Encloses(const ControlFlowContext* outer, const ControlFlowContext* inner);
// Runs a function of a While or Cond as the innermost one, and restores the one that was innermost
// before. An exception becomes a status in which `what` names the function.
absl::Status RunInside(ScopeShared& shared, std::shared_ptr<const ScopeState> state, std::string_view what,
                       const std::function<void()>& function);
// An error when `context`, or one around it, is closed.
absl::Status CheckOpen(const ControlFlowContext* context);
// The context in which `node`'s outputs may be used.
ControlFlowContext* ContextOf(ScopeShared& shared, const Node* node);

// The node that is being built: names and locates the nodes that bring its inputs in.
struct CaptureFor {
  std::string name;  // full name of the node
  SourceLocation location;
  const DeviceEntry* device = nullptr;
};
// `value` as it is called in `context`, adding Enters and Switches as needed.
absl::StatusOr<NodeOut> Capture(ScopeShared& shared, ControlFlowContext* context, NodeOut value, const CaptureFor& who);
// The control inputs that stand for `controls` in `context`. `own` receives how many of them keep a
// node without inputs from running when the context does not: nodes of the innermost loop, or of
// the branch.
absl::StatusOr<std::vector<Node*>> CaptureControls(ScopeShared& shared, ControlFlowContext* context,
                                                   const std::vector<Node*>& controls, const CaptureFor& who, int* own);
// Whether the rules above ask for the pivot's control edge. `inputs` are as brought in,
// `own_controls` as from CaptureControls.
bool NeedsPivot(const ControlFlowContext& context, const std::vector<NodeOut>& inputs, int own_controls);
// Notes that `node` belongs to `context` and infers its shapes. On an error the node is removed.
absl::Status Register(ScopeShared& shared, ControlFlowContext* context, Node* node);
// One primitive, in `context`, called `who.name` (made unique), on the device of `who`, or
// colocated.
absl::StatusOr<Node*> AddPrimitive(ScopeShared& shared, ControlFlowContext* context, std::string_view op,
                                   const CaptureFor& who, const std::vector<NodeOut>& inputs, AttrMap attrs,
                                   const std::vector<Node*>& controls, const Node* colocate = nullptr);
// Enter, or RefEnter for a reference.
absl::StatusOr<Node*> AddEnter(ScopeShared& shared, ControlFlowContext* loop, NodeOut value, bool is_constant,
                               const CaptureFor& who, const std::vector<Node*>& controls);
// Switch, or RefSwitch for a reference, colocated with `value`.
absl::StatusOr<Node*> AddSwitch(ScopeShared& shared, ControlFlowContext* context, NodeOut value, NodeOut pred,
                                const CaptureFor& who);
// Merge of two values; the second may come later (an invalid NodeOut), as the back edge of a loop
// does.
absl::StatusOr<Node*> AddMerge(ScopeShared& shared, ControlFlowContext* context, NodeOut first, NodeOut second,
                               const CaptureFor& who);

}  // namespace internal
}  // namespace troupe

#endif  // TROUPE_GRAPH_API_CONTROL_CONTEXT_H_
