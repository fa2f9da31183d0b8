// The devices that a graph may be placed on, and the device types that have kernels: the facts
// about the machine that placement and partitioning need.
#ifndef TROUPE_GRAPH_PASSES_DEVICE_SET_H_
#define TROUPE_GRAPH_PASSES_DEVICE_SET_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/core/device_name.h"
#include "troupe/graph.h"

namespace troupe {

struct DeviceInfo {
  std::string name;  // full
  uint64_t incarnation = 0;
  int64_t memory_bytes = 0;  // 0 = no known limit
};

// Devices by index, in order of preference: the caller's own CPU first.
class DeviceSet {
 public:
  // INVALID_ARGUMENT for no device, more than 10,000, a partial name, a name that comes twice, or
  // more than 64 types.
  static absl::StatusOr<DeviceSet> Make(std::vector<DeviceInfo> devices);

  int size() const { return static_cast<int>(devices_.size()); }
  const DeviceInfo& info(int i) const { return devices_[i]; }
  const DeviceName& name(int i) const { return names_[i]; }
  // Index into types().
  int type_of(int i) const { return type_of_[i]; }
  const std::vector<std::string>& types() const { return types_; }
  // -1 when there is none.
  int Find(std::string_view full_name) const;
  // All names, for messages (the first 20).
  std::string DebugString() const;

 private:
  std::vector<DeviceInfo> devices_;
  std::vector<DeviceName> names_;
  std::vector<int> type_of_;
  std::vector<std::string> types_;
};

// The facts that the kernels' registry knows.
//
// Thread rule: const methods may be called from several threads.
class KernelLookup {
 public:
  virtual ~KernelLookup() = default;
  virtual bool HasKernel(const Node& node, const std::string& device_type) const = 0;
  // For messages: false when no kernel is registered for the op, whatever the device and the types.
  virtual bool HasAnyKernel(const Node& node) const { return true; }
  // Of several device types with a kernel the one with the highest number is preferred; of equals,
  // the device that stands first in the set.
  virtual int Priority(const Node& node, const std::string& device_type) const { return 0; }
  // Whether input or output `index` of the node is in host memory on a device of this type that has
  // memory of its own.
  virtual bool InHostMemory(const Node& node, const std::string& device_type, bool output, int index) const {
    return true;
  }
};

}  // namespace troupe

#endif  // TROUPE_GRAPH_PASSES_DEVICE_SET_H_
