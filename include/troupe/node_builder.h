// Adds nodes without their typed builders. For gradient functions, passes and importers.
//
// Thread rule: a builder and its graph belong to one thread at a time.
#ifndef TROUPE_NODE_BUILDER_H_
#define TROUPE_NODE_BUILDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"

namespace TROUPE_EXPORT troupe {

// NodeBuilder(graph, "loss/mul", "Mul").Input(a).Input(b).Build(): type attrs (T, N, type lists)
// are inferred from the inputs.
class NodeBuilder {
 public:
  // The name is made unique when `unique_name`; otherwise a taken name is ALREADY_EXISTS.
  NodeBuilder(Graph* graph, std::string_view name, std::string_view op, bool unique_name = true);
  ~NodeBuilder();
  NodeBuilder& Input(NodeOut out);
  NodeBuilder& Input(Node* node, int index = 0) { return Input(NodeOut{node, index}); }
  // One arg that is a list.
  NodeBuilder& InputList(std::vector<NodeOut> outs);
  NodeBuilder& Control(Node* node);
  NodeBuilder& Controls(const std::vector<Node*>& nodes);
  NodeBuilder& Attr(std::string_view name, AttrValue value);
  NodeBuilder& Device(std::string_view device);
  NodeBuilder& AssignedDevice(std::string_view device);
  NodeBuilder& Location(SourceLocation l);
  // A loop's Merge is built before its back edge exists: `args` beyond those given stay
  // unconnected.
  NodeBuilder& AllowMissingInputs();
  // INVALID_ARGUMENT with the op's signature when the inputs do not fit.
  absl::StatusOr<Node*> Build();

 private:
  struct Arg {
    std::vector<NodeOut> outs;
    bool list;
  };
  Graph* graph_;
  std::string name_, op_;
  bool unique_name_;
  std::vector<Arg> args_;
  std::vector<Node*> control_;
  AttrMap attrs_;
  std::string device_, assigned_device_;
  SourceLocation location_;
  bool allow_missing_ = false;
};

}  // namespace troupe

#endif  // TROUPE_NODE_BUILDER_H_
