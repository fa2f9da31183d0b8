// The canonical key of an edge that was cut between two parts.
//
// A `_Send` and its `_Recv` find each other by a string that both can compute from their attrs
// alone. Within a step it is unique together with the iteration of the value; the incarnation keeps
// a tensor of a device's predecessor from being taken for one of its own.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_CONTROL_EDGE_KEY_H_
#define TROUPE_KERNELS_CONTROL_EDGE_KEY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/graph.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"

namespace troupe {

// "send_device;incarnation;recv_device;tensor_name", the incarnation as 16 hexadecimal digits.
std::string EdgeKey(std::string_view send_device, uint64_t send_incarnation, std::string_view recv_device,
                    std::string_view tensor_name);
// The key of a `_Send`, `_Recv`, `_HostSend` or `_HostRecv` node, from its attrs.
absl::StatusOr<std::string> EdgeKey(const Node& node);
// The same for its kernel, which fails when an attr is missing.
std::string EdgeKey(KernelInit& init);
// A definition with what all four have behind their tensor and its type; without trait, shape and
// doc.
OpBuilder EdgeEnd(OpBuilder op);

}  // namespace troupe

#endif  // TROUPE_KERNELS_CONTROL_EDGE_KEY_H_
