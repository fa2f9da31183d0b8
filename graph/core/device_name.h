// Names of devices: "/job:worker/replica:0/task:1/device:GPU:0", in full or in part.
//
// A user may ask for a part of a name ("/job:ps", "/device:GPU:*", "/cpu:0", "CPU:0"); a device
// always has all of it. Each field is optional, and a missing one means "any". Placement merges
// what several nodes ask for and looks for devices that fulfil the result.
//
// Forms that are read: fields "/job:", "/replica:", "/task:", "/device:TYPE:ID" in any order, each
// at most once, "*" for any; the legacy "/cpu:0" and "/gpu:0" in either case; the local "TYPE:ID"
// and "TYPE". The empty text names nothing and fits everything.
//
// Source of the semantics: white paper, sections 3 and 4.3; TensorFlow's DeviceNameUtils. Thread
// rule: a plain value.
#ifndef TROUPE_GRAPH_CORE_DEVICE_NAME_H_
#define TROUPE_GRAPH_CORE_DEVICE_NAME_H_

#include <optional>
#include <string>
#include <string_view>

#include "troupe/status.h"

namespace troupe {

struct DeviceName {
  std::optional<std::string> job;
  std::optional<int> replica;
  std::optional<int> task;
  std::optional<std::string> type;  // upper case: "CPU", "GPU"
  std::optional<int> id;

  // INVALID_ARGUMENT "'/jub:a' is no device name: ..." for anything else than the forms above.
  static absl::StatusOr<DeviceName> Parse(std::string_view text);
  // As Parse, but every field must be there: the name of a device that exists.
  static absl::StatusOr<DeviceName> ParseFull(std::string_view text);

  // Canonical: the fields that are set, in the order job, replica, task, device. A type without id
  // is "/device:GPU:*".
  std::string ToString() const;
  // "/job:worker/replica:0/task:1" (the fields that are set): the name of the task.
  std::string TaskName() const;
  // "/device:GPU:0", "" when neither type nor id is set.
  std::string LocalName() const;

  bool IsEmpty() const { return !job && !replica && !task && !type && !id; }
  // Every field is set.
  bool IsComplete() const { return job && replica && task && type && id; }
  // Every field that is set here is set to the same in `other`: `other` fulfils this request.
  bool Matches(const DeviceName& other) const;
  // No field is set differently in both.
  bool IsCompatibleWith(const DeviceName& other) const;
  bool SameTask(const DeviceName& other) const {
    return job == other.job && replica == other.replica && task == other.task;
  }
  // Fields that are missing here, from `defaults`. A type set here keeps its id: "/device:GPU"
  // never takes the id of a "/device:CPU:1".
  void FillFrom(const DeviceName& defaults);

  friend bool operator==(const DeviceName& a, const DeviceName& b) = default;
};

// Adds the constraints of `other` to `target`. INVALID_ARGUMENT names the field in which they
// differ. With `allow_soft`, jobs, replicas and tasks must still agree, but a conflict of types
// drops type and id, and one of ids drops the id. `target` is unchanged after an error.
absl::Status MergeDevNames(DeviceName* target, const DeviceName& other, bool allow_soft = false);

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_DEVICE_NAME_H_
