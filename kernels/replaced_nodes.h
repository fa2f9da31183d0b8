// The nodes that a fused node replaces, so that its errors name the nodes of the user's program.
//
// Thread rule: immutable after construction.
#ifndef TROUPE_KERNELS_REPLACED_NODES_H_
#define TROUPE_KERNELS_REPLACED_NODES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/kernel.h"

namespace troupe {

class ReplacedNodes {
 public:
  // From attrs "_replaces", "_replaced_ops", "_replaced_at" and "_bias_first", which need not be
  // there: a fused op may be in a graph as such.
  explicit ReplacedNodes(const Node& node);
  // `status` with the address of the first of them with op `op`; as it is when there is none.
  absl::Status At(const absl::Status& status, std::string_view op, const KernelNode& node) const;
  // The same of the one with this name.
  absl::Status AtNamed(const absl::Status& status, std::string_view name, const KernelNode& node) const;
  // The same of the one at this place in their order.
  absl::Status AtPart(const absl::Status& status, int place, const KernelNode& node) const;
  // In the order in which they computed; empty when it is not known.
  const std::vector<std::string>& ops() const { return ops_; }
  // In the Add among them, what is added to the product stands before it.
  bool bias_first() const { return bias_first_; }

 private:
  struct Line {
    std::string file;
    uint32_t number = 0;
  };
  std::vector<std::string> names_, ops_;
  std::vector<Line> lines_;  // empty: all were made where the fused node says
  bool bias_first_ = false;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_REPLACED_NODES_H_
