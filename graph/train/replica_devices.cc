#include "troupe/train/replica_devices.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "graph/core/device_name.h"
#include "troupe/graph.h"

namespace troupe::train {
namespace {

const char* const kPsOps[] = {"Variable",
                              "VariableV2",
                              "VarHandleOp",
                              "MutableHashTable",
                              "MutableHashTableV2",
                              "MutableHashTableOfTensors",
                              "MutableHashTableOfTensorsV2",
                              "MutableDenseHashTable",
                              "MutableDenseHashTableV2"};

}  // namespace

DeviceFunction ReplicaDevices(const ReplicaDeviceOptions& options) {
  std::set<std::string> ps_ops(options.ps_ops.begin(), options.ps_ops.end());
  if (ps_ops.empty()) ps_ops.insert(std::begin(kPsOps), std::end(kPsOps));
  // A copy of the function counts with it.
  const auto next = std::make_shared<int>(0);
  return [options, ps_ops = std::move(ps_ops), next](const Node& node) -> std::string {
    if (options.ps_tasks <= 0) return node.requested_device();
    if (!options.merge_devices && !node.requested_device().empty()) return node.requested_device();
    absl::StatusOr<DeviceName> asked = DeviceName::Parse(node.requested_device());
    if (!asked.ok()) return node.requested_device();
    const absl::StatusOr<DeviceName> ps = DeviceName::Parse(options.ps_device);
    if (!ps.ok()) return options.ps_device;  // the scope says what is wrong with it
    if (ps_ops.contains(node.op().name) && (!asked->job || asked->job == ps->job)) {
      // A task that the node names is passed over, and counted all the same.
      const int task = (*next)++ % options.ps_tasks;
      DeviceName place = *ps;
      place.task = task;
      asked->FillFrom(place);
      return asked->ToString();
    }
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (!node.input(i).valid() || !(IsRef(node.input_type(i)) || node.input_type(i) == DType::kResource)) continue;
      const absl::StatusOr<DeviceName> there = DeviceName::Parse(node.input(i).node->requested_device());
      if (!there.ok() || there->IsEmpty()) continue;
      asked->FillFrom(*there);
      return asked->ToString();
    }
    const absl::StatusOr<DeviceName> worker = DeviceName::Parse(options.worker_device);
    if (!worker.ok()) return options.worker_device;
    asked->FillFrom(*worker);
    return asked->ToString();
  };
}

}  // namespace troupe::train
