// The forward graph as the gradient builder sees it: its loops with their variables, and the
// conditions under which each node is alive.
//
// A *guard* is a set of (predicate, side): the sides of Switches that a token has passed through,
// within one iteration of its frame. A tensor is alive exactly when all of its guard holds. A Merge
// takes away what its inputs do not share. The Switches that end a loop are no part of it:
// inside a body everything is alive in every iteration unless a conditional says otherwise.
//
// Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_GRAPH_AUTODIFF_FORWARD_GRAPH_H_
#define TROUPE_GRAPH_AUTODIFF_FORWARD_GRAPH_H_

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "troupe/graph.h"
#include "troupe/shape_inference.h"

namespace troupe::autodiff {

struct LoopVar {
  Node* enter = nullptr;
  Node* merge = nullptr;
  Node* next = nullptr;         // NextIteration
  Node* loop_switch = nullptr;  // null when nothing uses the value
  Node* exit = nullptr;         // null when nothing uses the result
};

// A frame: of the forward graph, or one that the gradient builder adds to run a forward loop
// backwards.
struct LoopFrame {
  std::string name;             // "" for the root
  LoopFrame* parent = nullptr;  // null for the root
  int64_t parallel_iterations = 10;
  int guard = 0;  // the loop's, in an iteration of the parent

  // Of a forward frame.
  std::vector<Node*> enters;
  std::vector<LoopVar> vars;
  Node* loop_cond = nullptr;

  // Of a backward frame.
  LoopFrame* reverses = nullptr;
  // Runs once in each iteration that computes; also set for the frame where ys and xs live when
  // that is a loop's.
  Node* pivot = nullptr;
  Node* enter_gate = nullptr;  // dead when the loop is, in the parent: all that enters waits for it
  Node* next_count = nullptr;  // NextIteration of the counter; waits for `pops_done`
  Node* pops_done = nullptr;
  Node* count_enter = nullptr;    // of the counter, in the parent
  Node* count_exit = nullptr;     // alive when all iterations have run, and all that they pushed and popped has been
  Node* forward_index = nullptr;  // the forward counter's increment: pushes come after it
  Node* forward_next = nullptr;   // its NextIteration: waits for `pushes_done`
  Node* pushes_done = nullptr;
  absl::flat_hash_map<NodeOut, NodeOut> values;  // forward values as seen here
  absl::flat_hash_map<int, Node*> gates;         // by guard
};

struct GuardItem {
  NodeOut pred;
  int side;
  int order;  // grows along the graph: a predicate comes after those that guard it
  friend bool operator<(const GuardItem& a, const GuardItem& b) {
    return std::pair(a.order, a.side) < std::pair(b.order, b.side);
  }
};

class ForwardGraph {
 public:
  explicit ForwardGraph(Graph* graph) : graph_(graph) {}
  // Reads the graph. INVALID_ARGUMENT when its frames or its order are broken, UNIMPLEMENTED when
  // conditionals are nested too deep.
  absl::Status Build();

  LoopFrame* root() { return &frames_.front(); }
  LoopFrame* AddFrame(LoopFrame frame) { return &frames_.emplace_back(std::move(frame)); }
  // The frame a node runs in (Enter and Exit: the inner one), and the one its output is in.
  LoopFrame* FrameOf(const Node* n) const { return frame_of_[n->id()]; }
  LoopFrame* OutputFrame(NodeOut v) const {
    LoopFrame* f = FrameOf(v.node);
    return v.node->IsExit() ? f->parent : f;
  }
  // Tells where a new node is.
  void Place(const Node* n, LoopFrame* frame, int guard = 0);

  int GuardOf(const Node* n) const { return guard_of_[n->id()]; }
  int GuardOf(NodeOut v) const;
  const std::vector<GuardItem>& Items(int guard) const { return guards_[guard]; }
  int Intern(std::vector<GuardItem> items);

  // True for the Switch that ends a loop, and for the Merge that begins it.
  bool IsLoopSwitch(const Node* n) const;
  bool IsLoopMerge(const Node* n) const;
  // The variable of a loop's Merge or Switch; null when it is none.
  LoopVar* VarOf(const Node* n) const;
  // A constant of the loop (an Enter with is_constant).
  static bool IsConstantEnter(const Node* n);

  const std::vector<Node*>& order() const { return order_; }
  // Position in order(); new nodes have none (-1).
  int Position(const Node* n) const { return n->id() < static_cast<int>(position_.size()) ? position_[n->id()] : -1; }
  PartialTensorShape Shape(NodeOut v) const { return shapes_->shape(v); }
  const HandleInfo* Handle(NodeOut v) const { return shapes_->handle(v); }

 private:
  absl::Status FindFrames();
  void FindLoops();
  void FindGuards();
  int NodeGuard(const Node* n);
  int Union(int a, int b);
  int Intersection(int a, int b);
  int WithSide(int guard, const Node* switch_node, int side);
  void InferShapes();
  static NodeOut Predicate(const Node* switch_node);

  Graph* graph_;
  std::deque<LoopFrame> frames_;
  std::vector<Node*> order_;
  std::vector<int> position_;
  std::vector<LoopFrame*> frame_of_;
  std::vector<int> guard_of_;
  std::vector<std::vector<GuardItem>> guards_;
  bool too_deep_ = false;  // a guard has more items than can be kept for each node
  std::map<std::vector<std::pair<int, int>>, int> guard_ids_;
  absl::flat_hash_map<const Node*, std::pair<LoopFrame*, int>> vars_;
  std::unique_ptr<ShapeRefiner> shapes_;
};

}  // namespace troupe::autodiff

#endif  // TROUPE_GRAPH_AUTODIFF_FORWARD_GRAPH_H_
