// What it costs the steps of several processes that a task went, or that an actor of this process
// has died.
#include <algorithm>
#include <utility>

#include "actors/runtime/worker_actor.h"
#include "actors/signature/signature.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/step/remote_step.h"
#include "actors/step/remote_steps.h"
#include "actors/threads/aside.h"
#include "actors/threads/no_memory.h"
#include "kernels/numerics_check.h"

namespace troupe {

// A share that has been taken must not be lost to a want of memory.
std::unique_lock<std::mutex> RemoteSteps::LockWithRoom(Lost* lost) {
  for (size_t room = 0;;) {
    UntilMemoryAllows([&] { lost->reserve(room); });
    std::unique_lock<std::mutex> lock(mu_);
    room = 0;
    for (const auto& [step, set] : own_) room += set->remote()->size();
    if (room <= lost->capacity()) return lock;
  }
}

namespace {

// The parts of a task end by themselves if there is no memory for it, or with the connection.
void AbortAt(caf::actor_system& system, const caf::actor& worker, const RemotePlan& plan, const RemotePlan::Task& task,
             int64_t step, const absl::Status& why) noexcept try {
  if (!worker) return;
  SendRemote(system, worker, part_letter{plan.master, step, {task.number, task.first_part}, abort_step{step, why}})
      .IgnoreError();
} catch (const std::bad_alloc&) {
}

}  // namespace

// A step that ends calls the program back. Whoever tells of a death has heartbeats to send, or is
// the network's thread.
void RemoteSteps::AnswerAside(Lost&& lost, const absl::Status& why) {
  if (lost.empty()) return;
  struct Work {
    Lost lost;
    absl::Status why;
    // The runtime's end waits for it as for a graph that is worked on.
    std::shared_ptr<GraphsInWork> in_work;
    std::shared_ptr<GraphsInWork::Job> job;
  };
  std::shared_ptr<Work> work;
  UntilMemoryAllows([&] {
    const auto in_work = runtime_->tasks.front().in_work;
    work = std::make_shared<Work>(Work{{}, why, in_work, in_work->Begin({})});
  });
  work->lost = std::move(lost);
  RunAside(runtime_->aside, [work] {
    for (const auto& [step, set] : work->lost) set->RemoteLost(step, work->why);
    work->in_work->End(*work->job);
  });
}

void RemoteSteps::TellLost(const std::string& task, const absl::Status& why) {
  for (const auto& [incarnation, master] : masters_) {
    const caf::actor port = WorkerOfProcess(*runtime_->remote, incarnation);
    if (!port) continue;
    for (const auto& [key, each] : master.over) {
      const std::shared_ptr<const RemoteGraph> graph = each.lock();
      if (graph == nullptr || graph->signature == nullptr || !HasEdgesWith(*graph, task)) continue;
      SendRemote(
          *runtime_->system, port,
          step_letter{incarnation, key.first, {key.second, graph->signature->first_part}, part_failed{key.first, why}})
          .IgnoreError();
    }
  }
}

void RemoteSteps::TaskWent(const RemoteTask& task, const absl::Status& why, bool worker_only) {
  CancelLater later;
  // What was on its way is lost, and what would tell of it.
  freight_->out.PeerWent(task.incarnation);
  Lost lost;
  Master gone;
  {
    const std::unique_lock<std::mutex> lock = LockWithRoom(&lost);
    for (const auto& [step, set] : own_) {
      RemoteParts& parts = *set->remote();
      for (size_t i = 0; i < parts.size(); ++i) {
        const RemotePlan::Task& its = parts.plan().tasks[i];
        // A step may have begun since on the next incarnation.
        if (parts.plan().NameOf(its) != task.name || its.incarnation != task.incarnation) continue;
        if (!parts.TakeOwed(i, step)) continue;
        lost.emplace_back(step, set);
        // It may be there still, and not know that it was taken for gone.
        AbortAt(*runtime_->system, task.worker, parts.plan(), its, step, why);
        if (worker_only) parts.AbortWhenThere(i, step, why);
      }
    }
    // What parts here and there send each other may be lost. Of its own steps, whose process may be
    // there still, it tells itself.
    for (const auto& [key, step] : others_) {
      if (step->master() != task.incarnation && HasEdgesWith(step->graph(), task.name))
        step->set()->Stop(step->own_step(), why);
    }
    TellLost(task.name, why);
    if (!worker_only) {
      for (const auto& [key, step] : others_) {
        if (step->master() == task.incarnation) step->set()->Stop(step->own_step(), why);
      }
      if (const auto it = masters_.find(task.incarnation); it != masters_.end()) {
        gone = std::move(it->second);
        masters_.erase(it);
      }
      clocks_.erase(task.incarnation);
      std::vector<Key> early;
      for (const auto& [key, letters] : early_) {
        if (std::get<0>(key) == task.incarnation) early.push_back(key);
      }
      for (const Key& key : early) DropEarly(key);
    }
  }
  AnswerAside(std::move(lost), why);
  HandOn(freight_->in.PeerWent(task.incarnation, why));
  // Nobody says any more whether they stay; what failed its own check does not.
  for (const auto& [key, each] : gone.unsettled) {
    if (each.updates != nullptr && each.updates->failed()) UntilMemoryAllows([&] { each.updates->UndoAll(); });
  }
  // What kernels have registered is users': nobody may wait for it here.
  later.FlushAside(runtime_->aside);
}

void RemoteSteps::ActorFailed(const actor_failed& failure) {
  CancelLater later;
  // The worker, which may have been told that it may send, and that pieces had come.
  const auto& tasks = runtime_->tasks;
  const bool port =
      std::any_of(tasks.begin(), tasks.end(), [&](const auto& task) { return task.name == failure.place; });
  if (port) freight_->out.Fail(failure.status);
  Lost lost;
  {
    const std::unique_lock<std::mutex> lock = LockWithRoom(&lost);
    for (const auto& [key, step] : others_) {
      if (step->Concerns(failure)) step->set()->Stop(step->own_step(), failure.status);
    }
    for (auto& [incarnation, master] : masters_) {
      for (auto& [name, graph] : master.graphs) {
        if (failure.incarnation != 0 && graph->signature != nullptr)
          graph->signature->edges.Renew(failure.place, failure.incarnation);
      }
    }
    // The port of this process's own steps: answers may have been in its mailbox.
    for (const auto& [step, set] : own_) {
      if (set->remote()->plan().port != failure.place) continue;
      for (size_t i = 0; i < set->remote()->size(); ++i) {
        if (!set->remote()->TakeOwed(i, step)) continue;
        set->remote()->SendAbort(i, step, failure.status);
        lost.emplace_back(step, set);
      }
    }
  }
  AnswerAside(std::move(lost), failure.status);
  if (port) HandOn(freight_->in.Fail(failure.status));
  later.FlushAside(runtime_->aside);
}

}  // namespace troupe
