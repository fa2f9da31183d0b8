#include "actors/step/remote_step.h"

#include <algorithm>

#include <spdlog/spdlog.h>

#include "actors/messages/messages.h"
#include "actors/runtime/worker_actor.h"
#include "actors/signature/signature.h"
#include "actors/step/executor_set.h"
#include "actors/threads/no_memory.h"
#include "kernels/numerics_check.h"
#include "troupe/proto/config.pb.h"

namespace troupe {

void AnswerMaster(caf::actor_system& system, const caf::actor& master, parts_done&& answer) noexcept {
  parts_done without{answer.master, answer.step, answer.task, {}, answer.failed_check, answer.forgotten, {}, {}};
  absl::Status sent;
  UntilMemoryAllows([&] { sent = SendRemote(system, master, parts_done(answer)); });
  if (sent.ok()) return;
  UntilMemoryAllows([&] {
    without.status = answer.status.ok() ? Annotate(sent, "the results of a step") : answer.status;
    // One that is not there any more has forgotten the step.
    SendRemote(system, master, parts_done(without)).IgnoreError();
  });
}

void RemoteStep::Begin() {
  Signature& signature = *graph_->signature;
  arguments_.resize(signature.feeds.size());
  for (auto& [index, value] : asked_.arguments) {
    if (index < arguments_.size()) arguments_[index] = std::move(value);
  }
  asked_.arguments.clear();
  std::unique_ptr<ExecutorSet> set = signature.Lease();
  try {
    set->Renew();
  } catch (const std::bad_alloc&) {
    signature.Release(std::move(set));
    throw;
  }
  for (Tensor& t : arguments_) set->transport().Bind(&t);
  set_ = set.release();
  me_ = shared_from_this();
  set_->transport().LinkTo(me_);
  set_->Begin(this, absl::MakeConstSpan(arguments_), false);
  own_step_ = set_->step_id();
  RunOptions options;
  options.check_numerics = asked_.checks_numerics;
  options.numerics_folder = asked_.numerics_folder;
  set_->CheckNumerics(options);
  if (asked_.cancelled) set_->Stop(own_step_, absl::CancelledError("the step was told to end"));
}

void RemoteStep::Launch() noexcept {
  if (set_->empty()) return Over();
  set_->LaunchElsewhere(asked_.timed);
}

bool RemoteStep::Concerns(const actor_failed& failure) const {
  const auto& parts = graph_->parts->parts;
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return failure.Concerns(part->device->name()); });
}

void RemoteStep::PartDone() {
  if (set_->CountDown(1)) Over();
}

void RemoteStep::Over() {
  const std::shared_ptr<RemoteStep> me = std::move(me_);
  // From here on nobody who has a message for the step finds it.
  steps_->Over(asked_.master, asked_.step, graph_->number);
  set_->transport().LinkTo(nullptr);
  parts_done answer{asked_.master, asked_.step, graph_->number, {}, false, false, {}, {}};
  if (asked_.timed) {
    try {
      proto::RunMetadata metadata;
      RunOptions options;
      options.collect_stats = true;
      set_->FillMetadata(options, &metadata);
      metadata.SerializeToString(&answer.statistics);
    } catch (const std::bad_alloc&) {
      answer.statistics.clear();
    }
  }
  try {
    std::shared_ptr<UpdateLog> updates;
    answer.status = set_->FinishForMaster(&answer.results, &updates);
    answer.failed_check = updates != nullptr && updates->failed();
    // Whether they stay is known when all parts are done, wherever they are.
    if (updates != nullptr) steps_->KeepUpdates(asked_.master, asked_.step, graph_->number, std::move(updates));
  } catch (const std::bad_alloc&) {
    answer.status = absl::ResourceExhaustedError("no memory is left for the step");
  }
  arguments_.clear();
  graph_->signature->Release(std::unique_ptr<ExecutorSet>(set_));
  AnswerMaster(*steps_->runtime()->system, master_, std::move(answer));
  // Last: the runtime may end with it.
  const std::shared_ptr<Runtime> keep = std::move(runtime_);
}

void RemoteStep::ToMaster(PartAddress from, step_message&& message) noexcept {
  UntilMemoryAllows([&] {
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.step; }) m.step = asked_.step;
        },
        message);
    absl::Status sent =
        SendRemote(*steps_->runtime()->system, master_, step_letter{asked_.master, asked_.step, from, message});
    if (!sent.ok() && std::holds_alternative<result>(message)) set_->PartFails(from.part, sent);
  });
}

void RemoteStep::ResultCame(uint32_t index, Tensor value) {
  ToMaster({graph_->number, graph_->signature->first_part}, result{0, index, std::move(value)});
}

void RemoteStep::PartFailed(uint32_t part, const absl::Status& status) {
  ToMaster({graph_->number, part}, part_failed{0, status});
}

bool RemoteStep::Report(PartAddress from, stall_report& report) {
  ToMaster(from, std::move(report));
  return true;
}

absl::Status RemoteStep::ToPart(PartAddress to, part_message&& message) {
  if (to.task >= graph_->tasks.size()) return NotFound("the step has no part ", to.part, " on task ", to.task);
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.step; }) m.step = asked_.step;
      },
      message);
  Runtime::Impl& runtime = *steps_->runtime();
  const std::string& name = graph_->tasks[to.task];
  part_letter letter{asked_.master, asked_.step, to, std::move(message)};
  const RemoteTask now = runtime.remote->Find(name);
  if (now.worker) return SendRemote(*runtime.system, now.worker, std::move(letter));
  // Another task of this process, or of its own.
  for (const Runtime::Impl::Task& own : runtime.tasks) {
    if (own.name == name)
      return SendRemote(*runtime.system, runtime.directory->Find(WorkerName(name)), std::move(letter));
  }
  return Annotate(runtime.directory->WhyDown(WorkerName(name)), StrCat("task ", name));
}

}  // namespace troupe
