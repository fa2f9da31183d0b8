#include "kernels/control/edge_key.h"

namespace troupe {

std::string EdgeKey(std::string_view send_device, uint64_t send_incarnation, std::string_view recv_device,
                    std::string_view tensor_name) {
  char hex[16];
  for (int i = 15; i >= 0; --i, send_incarnation >>= 4) hex[i] = "0123456789abcdef"[send_incarnation & 15];
  return StrCat(send_device, ";", std::string_view(hex, sizeof hex), ";", recv_device, ";", tensor_name);
}

absl::StatusOr<std::string> EdgeKey(const Node& node) {
  TROUPE_ASSIGN_OR_RETURN(const std::string send_device, node.Attr<std::string>("send_device"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t incarnation, node.Attr<int64_t>("send_device_incarnation"));
  TROUPE_ASSIGN_OR_RETURN(const std::string recv_device, node.Attr<std::string>("recv_device"));
  TROUPE_ASSIGN_OR_RETURN(const std::string tensor_name, node.Attr<std::string>("tensor_name"));
  return EdgeKey(send_device, static_cast<uint64_t>(incarnation), recv_device, tensor_name);
}

std::string EdgeKey(KernelInit& init) {
  absl::StatusOr<std::string> key = EdgeKey(init.node());
  if (key.ok()) return *std::move(key);
  init.Fail(key.status());
  return "";
}

OpBuilder EdgeEnd(OpBuilder op) {
  op.Attr("tensor_name: string")
      .Attr("send_device: string")
      .Attr("send_device_incarnation: int")
      .Attr("recv_device: string")
      .Attr("client_terminated: bool = false")
      .Stateful()
      .NotDifferentiable("it is made when a graph is cut into parts, after gradients were built");
  return op;
}

}  // namespace troupe
