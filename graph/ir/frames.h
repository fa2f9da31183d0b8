// Computes in which frame every node of a graph runs.
//
// A loop is a frame: Enter nodes with the same attr "frame_name" lead into it, Exit nodes out of
// it. The executor, the partitioner, the gradient builder and constant folding all need to know,
// for a node, the frame it belongs to and the frame around that one. An Enter and an Exit count as
// nodes of the inner frame: an Enter's token arrives in the parent, an Exit's leaves to the parent.
//
// Source of the semantics: white paper, section 4.4. Thread rule: a pure function of a graph that
// no thread changes meanwhile.
#ifndef TROUPE_GRAPH_IR_FRAMES_H_
#define TROUPE_GRAPH_IR_FRAMES_H_

#include <string>
#include <vector>

#include "troupe/graph.h"

namespace troupe {

struct FrameInfo {
  // An Enter that leads into the node's frame (of several, always the same one for all nodes of the
  // frame but the Enters, which have themselves); SOURCE for the root frame; null for a node that
  // nothing reaches (a cycle without an Enter).
  const Node* frame = nullptr;
  // As `frame`, for the frame around it. SOURCE for the root frame itself.
  const Node* parent_frame = nullptr;
  // Attr "frame_name" of the Enters; "" for the root frame.
  std::string frame_name;
};

// Fills `info` by node id (null nodes have a default entry). INVALID_ARGUMENT, naming both nodes,
// when a node has inputs from different frames, when Enters of one frame name stand in different
// parents, or when a frame has two LoopConds; naming the node, when an Enter has no frame name or
// an Exit is outside of any frame. Unreachable nodes are no error.
absl::Status BuildFrameInfo(const Graph& graph, std::vector<FrameInfo>* info);

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_FRAMES_H_
