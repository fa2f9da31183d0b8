// Shared by the fusing passes: replaces several nodes by one.
//
// Thread rule: the graph must be the caller's own.
#ifndef TROUPE_GRAPH_PASSES_FUSE_REWRITE_H_
#define TROUPE_GRAPH_PASSES_FUSE_REWRITE_H_

#include <string>
#include <vector>

#include "graph/core/hash_map.h"
#include "graph/passes/device_set.h"
#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"

namespace troupe {

// The consumers that are ops (SINK is none).
int NumConsumers(const Node& n);
// The one consumer of `n`'s only output, when a fused node may take the value's place: one data
// edge and nothing else leads out of `n`. Else null.
const Edge* OnlyUse(const Node& n);
// The producer of input i of `n`, if `n` is its only use and both have one device; else null.
Node* OwnInput(const Node& n, int i);
// Both nodes ask for, or have, the same device.
bool SameDevice(const Node& a, const Node& b);

// A node in the making: what it stands for, what it reads.
struct FusedNode {
  std::string op;
  AttrMap attrs;
  std::vector<NodeOut> inputs;
  // In the order in which they computed. The last one gives the name, the device and the location.
  std::vector<Node*> parts;
  // By output of the fused node: the value that it replaces.
  std::vector<NodeOut> outputs;
};

class Fuser {
 public:
  Fuser(Graph* graph, const KernelLookup& kernels, StillWanted wanted)
      : graph_(graph), kernels_(kernels), wanted_(wanted) {}
  // Once for each node that is looked at.
  absl::Status wanted() { return wanted_(); }
  Graph* graph() const { return graph_; }
  int removed() const { return removed_; }
  // True when a node of this op and type could run where `like` is.
  bool HasKernel(const std::string& op, const AttrMap& attrs, const Node& like);
  // Removes the parts and puts the fused node in their place.
  absl::StatusOr<Node*> Replace(FusedNode fused);

 private:
  Graph* graph_;
  const KernelLookup& kernels_;
  WantedCheck wanted_;
  HashMap<std::string, bool> has_kernel_;
  int removed_ = 0;
};

// The families. Each fuses all it finds.
absl::Status FuseProductSums(Fuser* fuser);  // AddN of MatMuls
absl::Status FuseProducts(Fuser* fuser);     // MatMul and Conv2D with bias and activation
absl::Status FuseBatchNorms(Fuser* fuser);   // those with an activation, and their gradients
absl::Status FuseConvolutionGradients(Fuser* fuser);
absl::Status FuseElementwise(Fuser* fuser);

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_FUSE_REWRITE_H_
