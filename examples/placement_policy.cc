// A placement policy of the program's own: the layers of a network stand on two devices in blocks,
// so that only one tensor crosses.
#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "troupe/placement.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/troupe.h"

using namespace troupe;

namespace {

constexpr int kLayers = 6;

// The number of the layer in "layer3/MatMul"; -1.
int LayerOf(const std::string& node) {
  int layer = -1;
  const size_t end = std::min(node.find('/'), node.size());
  if (!node.starts_with("layer") || !absl::SimpleAtoi(node.substr(5, end - 5), &layer)) return -1;
  return layer;
}

// [policy]
// The first half of the layers on the first device, the second on the second, weights with the
// layer whose name they have. What is no layer stays with its input.
absl::StatusOr<std::string> Halves(const PlacementQuestion& question) {
  const int layer = LayerOf(question.node.name());
  if (layer < 0) return question.inputs.empty() ? std::string() : question.inputs[0];
  return question.devices[layer < kLayers / 2 ? 0 : 1];
}
// [/policy]

absl::Status Run() {
  const Scope root = Scope::NewRootScope();
  Output y = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  for (int i = 0; i < kLayers; ++i) {
    const Scope layer = root.NewSubScope("layer" + std::to_string(i));
    const Variable w(layer.WithOpName("w"), Tensor::Of<float>({1, 1, 0, 1}, TensorShape({2, 2})));
    y = ops::MatMul(layer, y, w.Read(layer));
  }
  y = ops::Identity(root.WithOpName("y"), y);
  const Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::Create({.runtime_options = {.threads = 2, .cpu_devices = 2}}));
  TROUPE_RETURN_IF_ERROR(SetPlacementPolicy(*session, Halves));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {init}, nullptr));
  std::vector<Tensor> out;
  RunOptions options;
  options.partition_graphs = true;
  proto::RunMetadata metadata;
  TROUPE_RETURN_IF_ERROR(
      session->Run(options, {{"x", Tensor::Of<float>({1, 0}, TensorShape({1, 2}))}}, {"y"}, {}, &out, &metadata));
  int sends = 0;
  for (const proto::GraphDef& part : metadata.partition_graphs()) {
    int products = 0;
    for (const proto::NodeDef& node : part.node()) {
      products += node.op() == "MatMul" ? 1 : 0;
      sends += node.op() == "_Send" || node.op() == "_HostSend" ? 1 : 0;
    }
    std::printf("a part with %d products\n", products);
    if (products != kLayers / 2) return absl::InternalError("the layers are not placed as the policy says");
  }
  std::printf("%d tensors cross, y = [%g %g]\n", sends, out[0].data<float>()[0], out[0].data<float>()[1]);
  if (sends != 1) return absl::InternalError("more tensors cross than need to");
  return out[0].data<float>()[1] == kLayers ? session->Close() : absl::InternalError("a wrong result");
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() && std::fflush(stdout) == 0 ? 0 : 1;
}
