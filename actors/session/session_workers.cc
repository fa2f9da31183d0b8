// What a session asks the workers of its tasks, and what it tells them.
#include "actors/messages/messages.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/worker_actor.h"
#include "actors/session/session_master.h"
#include "actors/signature/remote_plan.h"
#include "actors/threads/surely.h"
#include "graph/core/device_name.h"
#include "kernels/device/session_containers.h"

namespace troupe {

absl::Status SessionMaster::SomeWorker() const {
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_.worker(i)) return absl::OkStatus();
  }
  return tasks_.WhyDown(0);
}

template <class Message>
absl::Status SessionMaster::ToWorker(uint32_t task, const caf::actor& from, Message message) {
  const caf::actor worker = tasks_.worker(task);
  if (!worker || !from) return tasks_.WhyDown(task);
  if (IsRemote(task))
    return SendRemote(system(), worker, std::move(message), caf::actor_cast<caf::strong_actor_ptr>(from));
  EnqueueSurely(system(), caf::actor_cast<caf::abstract_actor*>(worker),
                caf::make_mailbox_element(caf::actor_cast<caf::strong_actor_ptr>(from), caf::make_message_id(),
                                          caf::no_stages, std::move(message)));
  return absl::OkStatus();
}

template absl::Status SessionMaster::ToWorker(uint32_t, const caf::actor&, register_graph);

std::vector<uint32_t> SessionMaster::Registering::Unanswered() const {
  std::vector<uint32_t> waits;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) waits.push_back(tasks[i]);
  }
  return waits;
}

void SessionMaster::WithdrawGraph(const std::vector<uint32_t>& tasks, int64_t waiting) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    lost_ |= waiting != 0 && !tasks.empty();
    if (!end_.ok()) waiting = 0;
  }
  for (const uint32_t task : tasks) {
    withdraw_graph message{id_, waiting};
    if (options_.wire_messages) message = wire::ThroughBytes(*runtime_->impl()->system, message).value();
    if (waiting == 0) {
      TellEnd(task, std::move(message));
    } else if (const caf::actor worker = tasks_.worker(task)) {
      // One that dies with it leaves no graph that is worked on to the next.
      if (IsRemote(task)) {
        SendRemote(system(), worker, message).IgnoreError();
      } else {
        SendSurely(system(), worker, [&] { return message; });
      }
    }
  }
}

// The next worker of the task would not know which of the graphs that the last one left are of
// sessions that have ended, and what their kernels make would stay.
void SessionMaster::TellEnd(uint32_t task, withdraw_graph message) {
  // What it has of the session there goes with SessionState, too.
  if (IsRemote(task)) return SendRemote(system(), tasks_.worker(task), std::move(message)).IgnoreError();
  const std::string& name = tasks_.name(task);
  std::vector<std::shared_ptr<ResourceContainers>> containers;
  for (const auto& d : runtime_->impl()->devices) {
    if (DeviceName::ParseFull(d->name())->TaskName() == name) containers.push_back(d->shared_containers());
  }
  // Without a share of the runtime: the message may outlive the session.
  const auto heard = [message, containers, in_work = runtime_->impl()->tasks[task].in_work](const Handled& by) {
    if (by.status.ok()) return;
    in_work->Withdraw(message);
    for (const auto& c : containers) {
      c->Clear(OwnVariables(message.session));
      c->Clear(OwnState(message.session));
    }
  };
  AskThen<Handled>(system(), tasks_.worker(task), std::move(message), Reply<Handled>(heard));
}

void SessionMaster::WithdrawAllGraphs() {
  std::vector<uint32_t> all;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!std::exchange(lost_, false)) return;
  }
  for (uint32_t i = 0; i < tasks_.size(); ++i) all.push_back(i);
  WithdrawGraph(all, 0);
}

void SessionMaster::AskForDevices() {
  // A task counts as asked before its worker is looked for: if that dies now, OnFailure finds the
  // question.
  caf::actor from;
  std::vector<std::pair<uint32_t, list_devices>> questions;
  {
    std::lock_guard<std::mutex> lock(mu_);
    from = actor_;
    questions = tasks_.ToAsk();
  }
  for (auto& [task, question] : questions) {
    if (options_.wire_messages) question = wire::ThroughBytes(*runtime_->impl()->system, question).value();
    if (ToWorker(task, from, question).ok()) continue;
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.AskAgain(task);
  }
}

bool SessionMaster::WaitForDevices(const Work& work) {
  AskForDevices();
  std::lock_guard<std::mutex> lock(mu_);
  if (!tasks_.Waits()) return false;
  parked_ = work;
  return true;
}

void SessionMaster::GoOn() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!parked_ || tasks_.Waits()) return;
    queue_.push_front(*std::exchange(parked_, std::nullopt));
  }
  StartWork();
}

void SessionMaster::DevicesCame(const device_list& answer) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.Told(answer);
  }
  GoOn();
}

std::vector<std::pair<std::string, std::string>> SessionMaster::RemoteDevices() const {
  std::vector<std::pair<std::string, std::string>> devices;
  std::lock_guard<std::mutex> lock(mu_);
  for (uint32_t i = 0; i < tasks_.size(); ++i) {
    if (!IsRemote(i)) continue;
    for (const device_list::Device& d : tasks_.devices(i)) devices.emplace_back(d.name, tasks_.name(i));
  }
  return devices;
}

void SessionMaster::DropRemote(uint32_t task, const graph_registered& answer) {
  if (!answer.status.ok() || answer.handle == 0) return;
  RemoteTasks& remote = *runtime_->impl()->remote;
  const std::string& name = tasks_.name(task);
  remote.WhenThere(name, remote.Find(name).incarnation,
                   [in = &system(), drop = drop_graph{runtime_->impl()->incarnation, answer.handle}](
                       const caf::actor& worker) { SendRemote(*in, worker, drop).IgnoreError(); });
}

void SessionMaster::DropRemote(const Registering& r) {
  for (size_t i = 0; i < r.answers.size(); ++i) {
    if (r.answers[i] && IsRemote(r.tasks[i])) DropRemote(r.tasks[i], *r.answers[i]);
  }
}

absl::Status SessionMaster::LinkRemote(const Registering& p, Signature* signature) {
  const Runtime::Impl& runtime = *runtime_->impl();
  auto plan = std::make_shared<RemotePlan>();
  plan->master = runtime.incarnation;
  plan->port = runtime.tasks[0].name;
  plan->system = runtime.system;
  plan->remote = runtime.remote;
  plan->directory = runtime.directory;
  for (uint32_t i = 0; i < tasks_.size(); ++i) plan->names.push_back(tasks_.name(i));
  auto first = static_cast<uint32_t>(signature->parts.size());
  for (size_t i = 0; i < p.tasks.size(); ++i) {
    if (!IsRemote(p.tasks[i])) continue;
    const Registering::Remote& r = p.remote[i];
    plan->tasks.push_back({p.tasks[i], r.incarnation, p.answers[i]->handle, first, r.devices, r.arguments});
    first += static_cast<uint32_t>(r.devices.size());
  }
  if (plan->tasks.empty()) return absl::OkStatus();
  link_graph link;
  link.master = plan->master;
  link.tasks = plan->names;
  link.feeds = static_cast<uint32_t>(signature->feeds.size());
  link.fetches = static_cast<uint32_t>(signature->fetches.size());
  link.token_messages = options_.token_messages;
  link.check_kernels = options_.check_kernels;
  link.wire_messages = options_.wire_messages;
  for (uint32_t e = 0; e < signature->edges.size(); ++e) {
    const EdgeTable::Edge& edge = signature->edges[e];
    link.edges.push_back({edge.name, edge.sender, edge.receiver, edge.granted, edge.incarnation});
  }
  for (const RemotePlan::Task& task : plan->tasks) {
    link.handle = task.handle;
    link.task = task.number;
    link.first_part = task.first_part;
    // A worker that is not there any more makes the signature stale.
    SendRemote(system(), tasks_.worker(task.number), link_graph(link)).IgnoreError();
  }
  signature->remote = std::move(plan);
  return absl::OkStatus();
}

}  // namespace troupe
