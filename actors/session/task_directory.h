// What a session knows of the workers, by task: who answers for it, in which incarnation, and which
// devices it has. The runtime's directory names the actor that is alive; the rest the worker tells.
//
//   state (of one task)  event                                  next
//   unknown              the session asks                       asked
//   asked                device_list with the question's number known
//   asked, known         an actor of the task has died          unknown; the devices that it had are kept
//   asked                the answer may be lost                 unknown
//
// Thread rule: the owner's lock guards it; worker and WhyDown may be called without.
#ifndef TROUPE_ACTORS_SESSION_TASK_DIRECTORY_H_
#define TROUPE_ACTORS_SESSION_TASK_DIRECTORY_H_

#include <caf/all.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/supervision/supervisor.h"
#include "actors/wire/graph_messages.h"
#include "graph/passes/device_set.h"

namespace troupe {

class TaskDirectory {
 public:
  // In this order, which is that of their devices. From number `own` on others have them, which may
  // never have been there.
  TaskDirectory(const std::vector<std::string>& tasks, std::shared_ptr<const Directory> actors, size_t own);

  size_t size() const { return tasks_.size(); }
  const std::string& name(uint32_t task) const { return tasks_[task].name; }
  // Negative when there is no such task.
  int64_t Find(std::string_view task) const;
  // Null while the worker is being restarted.
  caf::actor worker(uint32_t task) const;
  absl::Status WhyDown(uint32_t task) const;
  // Whether nobody restarts workers and sessions any more.
  bool root_is_over() const { return actors_->root_is_over(); }
  // That of the worker that answered last; 0: none has.
  uint64_t incarnation(uint32_t task) const { return tasks_[task].incarnation; }

  // The questions to those tasks that are unknown. They count as asked from now on.
  std::vector<std::pair<uint32_t, list_devices>> ToAsk();
  // Takes an answer, unless it is to an older question.
  void Told(const device_list& answer);
  // Whether an answer is to come.
  bool Waits() const;
  // `place`: the name of a task, or of a device of it.
  void Forget(std::string_view place);
  void ForgetAll();
  // The incarnation of a device that lives, as told last; 0: the device is not known.
  uint64_t IncarnationOf(std::string_view device) const;
  void Renew(std::string_view device, uint64_t incarnation);
  // The answers that are to come may be lost, or that of one task is: ToAsk gives the questions
  // again.
  void AskAgain();
  void AskAgain(uint32_t task);
  // Of all tasks, as told last; WhyDown of a task that has never told any. Those of others that
  // have never told are left out.
  absl::StatusOr<std::vector<DeviceInfo>> Devices() const;
  const std::vector<device_list::Device>& devices(uint32_t task) const { return tasks_[task].devices; }
  bool HasDevices(uint32_t task) const { return !tasks_[task].devices.empty(); }

 private:
  enum class State : uint8_t { kUnknown, kAsked, kKnown };
  struct Task {
    std::string name;
    State state = State::kUnknown;
    int64_t number = 0;  // of the last question
    uint64_t incarnation = 0;
    std::vector<device_list::Device> devices;
  };
  std::vector<Task> tasks_;
  const std::shared_ptr<const Directory> actors_;
  const size_t own_;
  int64_t last_number_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_TASK_DIRECTORY_H_
