// Loops that span devices.
//
// A Recv in the body of a loop must know in which frame and iteration it is, and whether there is a
// next one, although the loop's condition is computed on another device. So every device that
// receives something inside a frame, or sends from one without going round itself, gets a small
// loop of its own in that frame (white paper, section 4.4):
//
//      Const or the control loop of the frame around
//        |
//      Enter -> Merge -> Switch -> NextIteration -> (back to Merge)
//                          ^
//                       LoopCond of the frame, received from its device in every iteration
//
// and its Merge, which fires once in each iteration, is a control input of the device's Recvs in
// that frame. A value that is there in the first iteration only (of an Enter, before it comes to a
// Merge) is received in that one only: its Recv waits for the small loop's Enter.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_CONTROL_LOOPS_H_
#define TROUPE_GRAPH_PASSES_CONTROL_LOOPS_H_

#include <string>
#include <vector>

#include "graph/core/hash_map.h"
#include "graph/ir/frames.h"

namespace troupe {

class ControlLoops {
 public:
  // Adds the control loops to a placed graph. First moves control flow nodes to the device of their
  // values: Switch and Exit to that of their data input, Enter and NextIteration to that of their
  // consumer. An Enter of a constant gets a copy on every device that reads it, so that the value
  // crosses once and not in each iteration. References that are read on another device are read on
  // the variable's (reference_reads.h). Errors: INVALID_ARGUMENT for a loop across devices without
  // LoopCond, and those of BuildFrameInfo.
  static absl::StatusOr<ControlLoops> Add(Graph* graph);

  // The node for which a Recv on `device` of a token from `src` must wait. Null outside of loops.
  Node* Pivot(const Node& src, const std::string& device) const;
  // False when no node of the graph is in a loop.
  bool any() const { return !loops_.empty(); }

 private:
  struct Loop {
    Node *enter = nullptr, *merge = nullptr;
  };
  explicit ControlLoops(Graph* graph) : graph_(graph) {}
  const std::string& TokenFrame(const Node& src) const;
  absl::Status FindFirstOnly();
  bool IsFirstOnly(const Node& src) const;
  absl::Status AddFor(const std::string& frame, const std::string& device, const Node& because);
  absl::StatusOr<Loop> MakeLoop(const Node& enter, Node* loop_cond, const std::string& device);

  Graph* graph_;
  std::vector<FrameInfo> info_;               // of the nodes before loops were added
  std::vector<char> first_only_;              // of the same, within the frame in which their tokens travel
  HashMap<std::string, Node*> loop_conds_;    // by frame name
  HashMap<std::string, const Node*> enters_;  // by frame name
  HashMap<std::string, Loop> loops_;          // by frame name and device
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_CONTROL_LOOPS_H_
