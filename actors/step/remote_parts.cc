#include "actors/step/remote_parts.h"

#include <algorithm>

#include "actors/messages/messages.h"
#include "actors/runtime/worker_actor.h"
#include "actors/step/freight.h"
#include "graph/core/clock.h"
#include "graph/core/log.h"
#include "kernels/numerics_check.h"

namespace troupe {

// Made when the library is loaded, since memory may be lacking when it is needed.
static const absl::Status& kTaskWent = *new absl::Status(Unavailable("the task of the parts was out of reach"));

RemoteParts::RemoteParts(std::shared_ptr<const RemotePlan> plan)
    : plan_(std::move(plan)), owed_(plan_->tasks.size()), sent_nanos_(plan_->tasks.size()) {}

size_t RemoteParts::Find(uint32_t number) const {
  const auto& tasks = plan_->tasks;
  return static_cast<size_t>(
      std::find_if(tasks.begin(), tasks.end(), [&](const auto& t) { return t.number == number; }) - tasks.begin());
}

bool RemoteParts::Takes(size_t task, uint32_t argument) const {
  const auto& arguments = plan_->tasks[task].arguments;
  return std::find(arguments.begin(), arguments.end(), argument) != arguments.end();
}

void RemoteParts::Prepare(int64_t step, const std::vector<Tensor>& arguments, bool partial, bool timed,
                          const NumericsCheck* numerics) {
  messages_.clear();
  for (const RemotePlan::Task& task : plan_->tasks) {
    run_parts& m = messages_.emplace_back();
    m.master = plan_->master;
    m.step = step;
    m.handle = task.handle;
    m.task = task.number;
    m.partial = partial;
    m.timed = timed;
    m.checks_numerics = numerics != nullptr;
    if (numerics != nullptr) m.numerics_folder = numerics->folder;
    if (partial) continue;
    for (const uint32_t i : task.arguments) {
      if (arguments[i].valid()) m.arguments.emplace_back(i, arguments[i]);
    }
  }
}

absl::Status RemoteParts::Launch(bool cancelled, int* missed) {
  absl::Status first;
  const int64_t step = messages_.empty() ? 0 : messages_.front().step;
  // Before anybody is looked for: whoever goes now finds what it owes.
  for (auto& owed : owed_) owed.store(step);
  const caf::actor port = plan_->directory->Find(WorkerName(plan_->port));
  for (size_t i = 0; i < messages_.size(); ++i) {
    const RemotePlan::Task& task = plan_->tasks[i];
    const RemoteTask now = plan_->remote->Find(plan_->NameOf(task));
    absl::Status sent;
    messages_[i].cancelled = cancelled;
    if (messages_[i].timed) sent_nanos_[i] = NowNanos();
    run_parts none{plan_->master, step, task.handle, task.number, true, true, false, false, {}, {}};
    if (!port) {
      sent = plan_->directory->WhyDown(WorkerName(plan_->port));
    } else if (!now.worker) {
      sent = plan_->directory->WhyDown(WorkerName(now.name));
    } else if (now.incarnation != task.incarnation) {
      sent = Aborted("task '", now.name, "' was restarted, and does not have the graph of the step any more");
    } else {
      sent = SendWithTensors(*plan_->system, *plan_->remote, plan_->master, now.worker, now.incarnation,
                             std::move(messages_[i]), FreightOut::Owner{plan_->master, step, FreightOut::kMasters},
                             caf::actor_cast<caf::strong_actor_ptr>(port));
    }
    if (sent.ok()) {
      // Who took the share since may not have found that there is something to end.
      if (!Owes(i, step)) AbortWhenThere(i, step, kTaskWent);
      continue;
    }
    if (TakeOwed(i, step)) ++*missed;
    // Others send to its parts already: it drops what came, and what comes.
    if (now.worker && port) SendRemote(*plan_->system, now.worker, std::move(none)).IgnoreError();
    if (first.ok()) first = std::move(sent);
  }
  messages_.clear();
  return first;
}

absl::Status RemoteParts::Send(const RemotePlan::Task& task, part_letter&& letter) const {
  const RemoteTask now = plan_->remote->Find(plan_->NameOf(task));
  if (now.incarnation != task.incarnation || !now.worker)
    return Aborted("task '", now.name, "' is not there any more, which has a part of the step");
  letter.master = plan_->master;
  const FreightOut::Owner owner{plan_->master, letter.step, FreightOut::kMasters};
  const auto port = caf::actor_cast<caf::strong_actor_ptr>(plan_->directory->Find(WorkerName(plan_->port)));
  return SendWithTensors(*plan_->system, *plan_->remote, plan_->master, now.worker, now.incarnation, std::move(letter),
                         owner, port);
}

absl::Status RemoteParts::ToPart(PartAddress to, part_message&& message) {
  const size_t task = Find(to.task);
  if (task == size()) return NotFound("the step has no part ", to.part, " on task ", to.task);
  part_letter letter{0, 0, to, std::move(message)};
  std::visit(
      [&](const auto& m) {
        if constexpr (requires { m.step; }) letter.step = m.step;
      },
      letter.message);
  // A question is for whatever step runs.
  if (std::holds_alternative<question>(letter.message)) letter.step = owed_[task].load();
  return Send(plan_->tasks[task], std::move(letter));
}

std::vector<RemoteLink::Part> RemoteParts::Parts() const {
  std::vector<Part> parts;
  for (size_t i = 0; i < size(); ++i) {
    const RemotePlan::Task& t = plan_->tasks[i];
    for (uint32_t k = 0; k < t.devices.size(); ++k)
      parts.push_back({{t.number, t.first_part + k}, t.devices[k], owed_[i].load() == 0});
  }
  return parts;
}

void RemoteParts::Settle(int64_t step, bool undo) noexcept {
  try {
    for (const RemotePlan::Task& t : plan_->tasks) {
      plan_->remote->WhenThere(plan_->NameOf(t), t.incarnation,
                               [system = plan_->system, settle = settle_step{plan_->master, step, t.number, undo}](
                                   const caf::actor& worker) { SendRemote(*system, worker, settle).IgnoreError(); });
    }
  } catch (const std::bad_alloc&) {
    LogError("no memory is left to settle the updates of a step elsewhere");
  }
}

void RemoteParts::SendAbort(size_t task, int64_t step, const absl::Status& status) noexcept {
  try {
    const RemotePlan::Task& t = plan_->tasks[task];
    Send(t, {0, step, {t.number, t.first_part}, abort_step{step, status}}).IgnoreError();
  } catch (const std::bad_alloc&) {
    // The call is answered without it; the parts there end by themselves, or with the connection.
  }
}

void RemoteParts::AbortWhenThere(size_t task, int64_t step, const absl::Status& status) noexcept {
  try {
    const RemotePlan::Task& t = plan_->tasks[task];
    const part_letter letter{plan_->master, step, {t.number, t.first_part}, abort_step{step, status}};
    plan_->remote->WhenThere(plan_->NameOf(t), t.incarnation,
                             [system = plan_->system, letter](const caf::actor& worker) {
                               SendRemote(*system, worker, letter).IgnoreError();
                             });
  } catch (const std::bad_alloc&) {
    // As in SendAbort.
  }
}

void RemoteParts::Abort(uint32_t but, int64_t step, const absl::Status& status) noexcept {
  if (const std::shared_ptr<Freight> freight = Freight::Of(plan_->master)) {
    freight->out.EndStep({plan_->master, step, FreightOut::kMasters});
    freight->in.Abort({plan_->master, step, FreightIn::kOwn});
  }
  for (size_t i = 0; i < size(); ++i) {
    const RemotePlan::Task& t = plan_->tasks[i];
    const bool its_own = but >= t.first_part && but - t.first_part < t.devices.size();
    if (!its_own && Owes(i, step)) SendAbort(i, step, status);
  }
}

}  // namespace troupe
