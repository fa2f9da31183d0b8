// Takes back what was added to a graph, unless all of it came about.
//
// Problem: who adds many nodes may find no memory for the last of them, and a graph with a part of
// them is nobody's. Removing them would do, but leave holes in the ids.
//
// Contract: what is added between a GraphUndo's beginning and its Keep() is gone after its end,
// without taking memory; ids, the order of edges and the version are as before. REQUIRES: until
// then nodes are only added, edges lead only into new nodes, and nothing is removed.
//
// Thread rule: that of the graph.
#ifndef TROUPE_GRAPH_IR_GRAPH_UNDO_H_
#define TROUPE_GRAPH_IR_GRAPH_UNDO_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"

namespace troupe {

class TROUPE_HIDDEN GraphUndo {
 public:
  explicit GraphUndo(Graph* graph);
  ~GraphUndo();
  GraphUndo(const GraphUndo&) = delete;
  GraphUndo& operator=(const GraphUndo&) = delete;
  // Graph::SetUnknownOutputs, of a node that may have been there before.
  void SetUnknownOutputs(Node* node, std::vector<DType> types);
  // Graph::UniqueName, which gives the name again if nothing comes of it. REQUIRES: called once.
  std::string UniqueName(const std::string& base);
  void Keep() { graph_ = nullptr; }

 private:
  Graph* graph_;  // null: all was kept
  const size_t nodes_;
  const int64_t version_;
  std::vector<std::pair<Node*, std::vector<DType>>> types_;  // what they were
  std::string base_;
  int counter_ = 0;  // of base_'s names, as it was
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_GRAPH_UNDO_H_
