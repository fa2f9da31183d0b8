#include "graph/passes/device_set.h"

#include <algorithm>

#include "graph/core/hash_map.h"

namespace troupe {
namespace {
constexpr size_t kMaxDevices = 10000;
constexpr size_t kMaxTypes = 64;  // sets of types are words
constexpr int kMaxNamed = 20;
}  // namespace

absl::StatusOr<DeviceSet> DeviceSet::Make(std::vector<DeviceInfo> devices) {
  if (devices.empty()) return InvalidArgument("there is no device to run anything on");
  if (devices.size() > kMaxDevices) return InvalidArgument("more than ", kMaxDevices, " devices");
  DeviceSet set;
  HashMap<std::string, int> seen;
  for (DeviceInfo& d : devices) {
    TROUPE_ASSIGN_OR_RETURN(DeviceName name, DeviceName::ParseFull(d.name));
    d.name = name.ToString();
    if (!seen.emplace(d.name, 0).second) return InvalidArgument("there are two devices '", d.name, "'");
    const auto type = std::find(set.types_.begin(), set.types_.end(), *name.type);
    set.type_of_.push_back(static_cast<int>(type - set.types_.begin()));
    if (type == set.types_.end()) set.types_.push_back(*name.type);
    set.names_.push_back(std::move(name));
  }
  if (set.types_.size() > kMaxTypes) return InvalidArgument("more than ", kMaxTypes, " types of devices");
  set.devices_ = std::move(devices);
  return set;
}

int DeviceSet::Find(std::string_view full_name) const {
  for (int i = 0; i < size(); ++i) {
    if (devices_[i].name == full_name) return i;
  }
  return -1;
}

std::string DeviceSet::DebugString() const {
  std::string s;
  for (int i = 0; i < std::min(size(), kMaxNamed); ++i) StrAppend(&s, i > 0 ? ", " : "", devices_[i].name);
  if (size() > kMaxNamed) StrAppend(&s, " and ", size() - kMaxNamed, " more");
  return s;
}

}  // namespace troupe
