// Estimates the cost of nodes and transfers from shapes. A mean time that the caller sets for a
// node (SetMeasured) comes first; sessions set none yet. Times are in nanoseconds.
//
// Thread rule: const methods may be called from several threads while no thread changes the model.
#ifndef TROUPE_GRAPH_PASSES_COST_MODEL_H_
#define TROUPE_GRAPH_PASSES_COST_MODEL_H_

#include <memory>
#include <string>
#include <string_view>

#include "graph/core/device_name.h"
#include "graph/core/hash_map.h"
#include "graph/passes/still_wanted.h"
#include "troupe/graph.h"
#include "troupe/shape_inference.h"

namespace troupe {

// A way from one device to another. The defaults are those of memory copies in a host, and of a 10
// Gbit/s network.
struct Link {
  double latency_ns = 0;
  double bytes_per_ns = 1;
};

struct CostModelOptions {
  Link same_task{2e3, 8};
  Link other_task{6e4, 1};
  double node_ns = 500;          // of every node, whatever it computes
  double bytes_per_ns = 4;       // of inputs read and outputs written by a CPU's kernel
  int64_t unknown_bytes = 4096;  // of a tensor whose shape is not known
  // How many times faster than a CPU a device of this type runs.
  HashMap<std::string, double> speed = {{"GPU", 20.0}};
};

class CostModel {
 public:
  explicit CostModel(CostModelOptions options = {}) : options_(std::move(options)) {}

  // The mean time of the node of this name in earlier steps. With a device type, for devices of
  // that type only.
  void SetMeasured(std::string_view node, double mean_ns, std::string_view device_type = {});
  // Sizes are taken from the shapes of this graph from now on. A node whose shape function refuses
  // has unknown sizes. Its only error is that of `wanted`.
  absl::Status InferShapes(const Graph& graph, StillWanted wanted = nullptr);

  double ExecutionNs(const Node& node, const DeviceName& device) const;
  double TransferNs(int64_t bytes, const DeviceName& from, const DeviceName& to) const;
  // Bytes of the tensor at this output.
  int64_t OutputBytes(NodeOut out) const;
  bool IsMeasured(const Node& node) const { return measured_.contains(node.name()); }

 private:
  CostModelOptions options_;
  HashMap<std::string, double> measured_;  // "name", or "name;TYPE"
  const Graph* graph_ = nullptr;
  std::shared_ptr<const ShapeRefiner> shapes_;
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_COST_MODEL_H_
