#include "actors/session/task_directory.h"

#include <algorithm>

#include "actors/runtime/worker_actor.h"

namespace troupe {

TaskDirectory::TaskDirectory(const std::vector<std::string>& tasks, std::shared_ptr<const Directory> actors, size_t own)
    : actors_(std::move(actors)), own_(own) {
  for (const std::string& name : tasks) tasks_.emplace_back().name = name;
}

int64_t TaskDirectory::Find(std::string_view task) const {
  const auto it = std::find_if(tasks_.begin(), tasks_.end(), [&](const Task& t) { return t.name == task; });
  return it == tasks_.end() ? -1 : it - tasks_.begin();
}

caf::actor TaskDirectory::worker(uint32_t task) const { return actors_->Find(WorkerName(tasks_[task].name)); }

absl::Status TaskDirectory::WhyDown(uint32_t task) const { return actors_->WhyDown(WorkerName(tasks_[task].name)); }

std::vector<std::pair<uint32_t, list_devices>> TaskDirectory::ToAsk() {
  std::vector<std::pair<uint32_t, list_devices>> questions;
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].state != State::kUnknown) continue;
    tasks_[i].state = State::kAsked;
    tasks_[i].number = ++last_number_;
    questions.emplace_back(i, list_devices{last_number_});
  }
  return questions;
}

void TaskDirectory::Told(const device_list& answer) {
  const int64_t i = Find(answer.task);
  if (i < 0) return;
  Task& task = tasks_[static_cast<size_t>(i)];
  if (task.state != State::kAsked || task.number != answer.number) return;
  task.state = State::kKnown;
  task.incarnation = answer.incarnation;
  task.devices = answer.devices;
}

bool TaskDirectory::Waits() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const Task& t) { return t.state == State::kAsked; });
}

void TaskDirectory::Forget(std::string_view place) {
  for (Task& t : tasks_) {
    if (place.starts_with(t.name) && (place.size() == t.name.size() || place[t.name.size()] == '/'))
      t.state = State::kUnknown;
  }
}

void TaskDirectory::ForgetAll() {
  for (Task& t : tasks_) t.state = State::kUnknown;
}

uint64_t TaskDirectory::IncarnationOf(std::string_view device) const {
  for (const Task& t : tasks_) {
    for (const device_list::Device& d : t.devices) {
      if (d.name == device) return d.incarnation;
    }
  }
  return 0;
}

void TaskDirectory::Renew(std::string_view device, uint64_t incarnation) {
  for (Task& t : tasks_) {
    for (device_list::Device& d : t.devices) {
      if (d.name == device) d.incarnation = incarnation;
    }
  }
}

void TaskDirectory::AskAgain() {
  for (uint32_t i = 0; i < tasks_.size(); ++i) AskAgain(i);
}

void TaskDirectory::AskAgain(uint32_t task) {
  if (tasks_[task].state == State::kAsked) tasks_[task].state = State::kUnknown;
}

absl::StatusOr<std::vector<DeviceInfo>> TaskDirectory::Devices() const {
  std::vector<DeviceInfo> devices;
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i].devices.empty() && i < own_) return WhyDown(i);
    for (const device_list::Device& d : tasks_[i].devices) devices.push_back({d.name, d.incarnation, 0});
  }
  return devices;
}

}  // namespace troupe
