#include "actors/runtime/remote_tasks.h"

#include <chrono>
#include <thread>
#include <utility>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/runtime/worker_actor.h"
#include "actors/step/remote_steps.h"
#include "actors/wire/freight_messages.h"

namespace troupe {

RemoteTasks::RemoteTasks(const std::vector<std::string>& names, std::shared_ptr<Directory> directory, Went went,
                         std::function<void(const RemoteTask&)> came)
    : names_(names), directory_(std::move(directory)), went_(std::move(went)), came_(std::move(came)) {
  for (const std::string& name : names_) {
    tasks_[name];
    directory_->Lose(WorkerName(name), Unavailable("task '", name, "' has not been there yet"));
  }
}

void RemoteTasks::Came(RemoteTask task) {
  const auto it = tasks_.find(task.name);
  if (it == tasks_.end() || !task.worker || task.incarnation == 0) return;
  RemoteTask before{task.name, 0, nullptr};
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = it->second;
    if (left_ || (e.incarnation == task.incarnation && e.worker == task.worker)) return;
    before.incarnation = e.incarnation;
    before.worker = e.worker;
  }
  if (before.incarnation != 0 && before.incarnation != task.incarnation) {
    TaskGoes(task.name, before.incarnation, Aborted("task '", task.name, "' was restarted"));
  } else if (before.worker) {
    WorkerEnds(task.name, before.worker.address());
  }
  std::vector<std::function<void(const caf::actor&)>> later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (left_) return;
    later.swap(it->second.later);
    it->second = {task.incarnation, task.worker};
    directory_->Set(WorkerName(task.name), task.worker, task.incarnation);
  }
  for (const auto& send : later) send(task.worker);
  if (came_) came_(task);  // a test's
  // Of an actor elsewhere this is called when it has ended there, and when the connection has.
  task.worker->attach_functor([weak = weak_from_this(), name = task.name, worker = task.worker.address()] {
    if (const auto self = weak.lock()) self->WorkerEnds(name, worker);
  });
}

void RemoteTasks::TaskGoes(const std::string& name, uint64_t incarnation, const absl::Status& why) {
  const auto it = tasks_.find(name);
  if (it == tasks_.end() || incarnation == 0) return;
  RemoteTask gone{name, incarnation, nullptr};
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = it->second;
    if (e.incarnation != incarnation) return;
    gone.worker = e.worker;
    e = {};
    directory_->Lose(WorkerName(name), why);
  }
  TellWent(gone, why, false);
}

void RemoteTasks::WorkerEnds(const std::string& name, const caf::actor_addr& worker) {
  const auto it = tasks_.find(name);
  RemoteTask gone{name, 0, nullptr};
  const absl::Status why = Unavailable("the worker of task '", name, "' has ended, or is out of reach; try again");
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = it->second;
    if (!e.worker || e.worker.address() != worker) return;
    gone.incarnation = e.incarnation;
    gone.worker = std::exchange(e.worker, nullptr);
    directory_->Lose(WorkerName(name), why);
  }
  TellWent(gone, why, true);
}

void RemoteTasks::TellWent(const RemoteTask& task, const absl::Status& why, bool worker_only) {
  struct Telling {
    explicit Telling(std::atomic<int>* count) : count(count) { count->fetch_add(1); }
    ~Telling() { count->fetch_sub(1); }
    std::atomic<int>* const count;
  };
  const Telling now(&telling_);
  if (!ended_.load()) went_(task, why, worker_only);
}

void RemoteTasks::End() {
  ended_.store(true);
  while (telling_.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void RemoteTasks::Leave(const absl::Status& why) {
  std::vector<std::pair<std::string, uint64_t>> there;
  {
    std::lock_guard<std::mutex> lock(mu_);
    left_ = true;
    for (const auto& [name, entry] : tasks_) {
      if (entry.incarnation != 0) there.emplace_back(name, entry.incarnation);
    }
  }
  for (const auto& [name, incarnation] : there) TaskGoes(name, incarnation, why);
}

RemoteTask RemoteTasks::Find(const std::string& name) const {
  const auto it = tasks_.find(name);
  if (it == tasks_.end()) return {name, 0, nullptr};
  std::lock_guard<std::mutex> lock(mu_);
  return {name, it->second.incarnation, it->second.worker};
}

void RemoteTasks::WhenThere(const std::string& name, uint64_t incarnation,
                            std::function<void(const caf::actor&)> send) {
  const auto it = tasks_.find(name);
  if (it == tasks_.end()) return;
  caf::actor worker;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = it->second;
    if (e.incarnation != incarnation || incarnation == 0) return;
    worker = e.worker;
    if (!worker) e.later.push_back(send);
  }
  if (worker) send(worker);
}

bool RemoteTasks::Lives(uint64_t incarnation) const {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [name, entry] : tasks_) {
    if (entry.incarnation == incarnation) return true;
  }
  return false;
}

void TaskCame(Runtime& runtime, RemoteTask task) { runtime.impl()->remote->Came(std::move(task)); }

void TaskWent(Runtime& runtime, const std::string& task, uint64_t incarnation, const absl::Status& why) {
  // Its steps did not ask for that: to them it is lost, as if it had died.
  const bool in_order = absl::IsCancelled(why);
  runtime.impl()->remote->TaskGoes(task, incarnation, in_order ? Unavailable(why.message()) : why);
}

void LeaveCluster(Runtime& runtime) {
  // Told of each of the others, but it is not they who left.
  runtime.impl()->remote->Leave(Unavailable("task ", runtime.impl()->tasks[0].name, " has left its cluster"));
}

bool HasLeftCluster(const Runtime& runtime) {
  const std::shared_ptr<RemoteTasks>& remote = runtime.impl()->remote;
  return remote != nullptr && remote->left();
}

caf::actor WorkerOf(const Runtime& runtime, const std::string& task) {
  for (const Runtime::Impl::Task& own : runtime.impl()->tasks) {
    if (own.name == task) return runtime.impl()->directory->Find(WorkerName(task));
  }
  return nullptr;
}

void WatchWorkers(Runtime& runtime, std::function<void(const std::string&, const caf::actor&)> changed) {
  std::lock_guard<std::mutex> lock(runtime.impl()->worker_mu);
  runtime.impl()->worker_changed = std::move(changed);
}

uint64_t IncarnationOf(const Runtime& runtime) { return runtime.impl()->incarnation; }
SentBytes TensorBytesSent(const Runtime& runtime) {
  const FreightOut& out = runtime.impl()->remote_steps->freight().out;
  return {out.bytes_in_messages(), out.bytes_in_shared_memory()};
}

void AddCastMessageTypes(caf::actor_system_config* config) {
  AddMessageTypes(config);
  config->add_message_types<caf::id_block::troupe_cast>();
  config->add_message_types<caf::id_block::troupe_freight>();
}

}  // namespace troupe
