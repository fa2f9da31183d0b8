// Forward values that are computed a second time for the gradients, instead of being kept until
// these use them (RecomputeOptions).
//
// The forward nodes are divided into *segments*. A gradient node that belongs to a forward node of
// a segment, and reads a value of the same segment, reads that of a copy of the value's node. The
// copies of a segment read each other; what comes from outside of the segment, the copies read as
// it is, and so it is *kept*. So is what gradients of other segments read.
//
//   forward:    x -> a -> b -> c -> ...           a', b': copies; x and c are kept
//   gradients:  x ~> a' -> b' -> grad(c) -> grad(b) -> grad(a)
//
// When copies run: they read kept values through an Identity each (~>), which waits for the
// gradients that the segment's first reader of copies waits for, and for those gradients of the
// segment before that read forward values, or are results. So copies of two segments are not held
// at once, nor the gradients that those of weights are made of. A NoOp for each segment names the
// nodes that it is to run after (kAfterAttr): they are waited for in steps that need them, and no
// step needs them for that alone.
//
// What depends on a segment's copies is left out of what these wait for, with all that earlier
// NoOps wait for in the graph: so there is no cycle. Left out are also nodes that do not run in
// every step: their dead tokens would kill the copies.
//
// Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), and the memory
// optimizer of TensorFlow. Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_GRAPH_AUTODIFF_RECOMPUTE_H_
#define TROUPE_GRAPH_AUTODIFF_RECOMPUTE_H_

#include <memory>
#include <string>
#include <vector>

#include "graph/autodiff/forward_graph.h"
#include "graph/core/hash_map.h"
#include "troupe/gradients.h"

namespace troupe::autodiff {

class Recompute {
 public:
  // What the walk knows when it has added the gradients.
  struct Walk {
    Graph* graph = nullptr;
    const ForwardGraph* forward = nullptr;
    std::string prefix;                         // of new nodes' names
    int first_new = 0;                          // nodes from this number on are gradients'
    const HashMap<int, const Node*>* made_for;  // by a gradient node's number: its forward node
    const HashSet<NodeOut>* seeds;              // the gradients of the ys
  };

  Recompute(const Walk& walk, const RecomputeOptions& options) : walk_(walk), options_(options) {}
  // INVALID_ARGUMENT for options that contradict each other, and for a scope below which nothing
  // can be computed again.
  absl::Status Run();

 private:
  static constexpr int kNone = -1;
  // What a gradient node reads of the forward nodes.
  struct Use {
    Node* reader;
    int input;
    NodeOut value;
    int reader_segment;  // of the plan that was made last
  };
  struct Plan {
    std::vector<int> segments;  // by node number
    int num_segments = 0;
    HashSet<NodeOut> kept;
    std::vector<char> copied;  // by node number
  };

  // --- Which values (recompute_plan.cc) ---
  absl::Status FindUses();
  // Integers that follow from shapes and constants: small, and constants when shapes are known.
  bool IsOfShapes(const Node& n) const;
  bool MayCopy(const Node* n) const;
  absl::Status DivideByScopes(Plan* plan);
  absl::Status DivideByBudget(Plan* plan);
  // Into `parts` segments of about as many bytes, cut where few bytes cross. The last one is left
  // to the rest: its values are used as soon as they are all there.
  void Divide(int parts, Plan* plan) const;
  // A gradient's node that needs no gradient is of the segment of its forward node.
  int SegmentOf(const Node* n, const std::vector<int>& segments) const;
  void ChooseCopies(Plan* plan);
  bool IsCopied(NodeOut v, const Plan& plan) const { return plan.copied[v.node->id()] && !plan.kept.contains(v); }
  // The most bytes of forward values that are there at once while the gradients are computed.
  int64_t PeakBytes(const Plan& plan) const;
  int64_t Bytes(NodeOut v) const;
  // Where in the forward pass it is made.
  int ForwardPosition(const Node* n) const;
  // Held for the gradients' sake: not a weight or constant, which is there anyway.
  bool Weighs(const Node* n) const { return weighs_[n->id()]; }
  bool FindWeight(const Node& n) const;
  bool FindDead(const Node& n) const;

  // --- The copies (recompute.cc) ---
  absl::Status AddCopies(const Plan& plan);
  absl::StatusOr<Node*> Barrier(NodeOut value, int segment);
  absl::Status CopyOf(Node* n, const Plan& plan);
  bool ReadsCopy(const Use& u, const Plan& plan) const {
    return u.reader_segment != kNone && u.reader_segment == SegmentOf(u.value.node, plan.segments) &&
           IsCopied(u.value, plan);
  }
  bool IsNew(const Node* n) const { return n->id() >= static_cast<int>(is_gradient_.size()); }
  absl::Status OrderCopies(const Plan& plan);

  const Walk walk_;
  const RecomputeOptions& options_;
  std::vector<Node*> order_;       // all nodes, in topological order
  std::vector<int> position_;      // in order_, by node number
  std::vector<char> is_gradient_;  // by node number: computes with a gradient of a y
  std::vector<char> of_shapes_;    // by node number: IsOfShapes
  std::vector<char> weighs_;       // by node number: Weighs
  std::vector<char> may_be_dead_;  // by node number: not in every step, or not once: in a loop or branch
  std::vector<Use> uses_;          // in the order of their readers
  std::unique_ptr<ShapeRefiner> shapes_;
  HashMap<int, Node*> copy_of_;                                    // by node number
  HashMap<NodeOut, std::vector<std::pair<int, Node*>>> barriers_;  // by kept value: segment, Identity
  std::vector<std::vector<Node*>> barriers_in_;                    // by segment
  HashMap<int, std::vector<const Node*>> after_;                   // by node number: who runs after it
};

}  // namespace troupe::autodiff

#endif  // TROUPE_GRAPH_AUTODIFF_RECOMPUTE_H_
