#include "actors/step/remote_step.h"

#include <algorithm>

#include "actors/messages/messages.h"
#include "actors/runtime/worker_actor.h"
#include "actors/signature/signature.h"
#include "actors/step/executor_set.h"
#include "actors/threads/aside.h"
#include "actors/threads/loop_turns.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"
#include "graph/core/clock.h"
#include "kernels/numerics_check.h"
#include "troupe/proto/config.pb.h"

namespace troupe {

namespace {

// Sends what `make()` returns, which is small, as soon as there is memory for it.
template <class F>
absl::Status SendWhenMemoryAllows(caf::actor_system& system, const caf::actor& to, F&& make) noexcept {
  absl::Status sent;
  UntilMemoryAllows([&] {
    sent = SendFar(system, to, make(), nullptr);
    if (absl::IsResourceExhausted(sent)) throw std::bad_alloc();
  });
  return sent;
}

// Who hears what receivers say.
caf::strong_actor_ptr PortOf(const Runtime::Impl& runtime) {
  return caf::actor_cast<caf::strong_actor_ptr>(runtime.directory->Find(WorkerName(runtime.tasks[0].name)));
}

}  // namespace

void AnswerMaster(Runtime::Impl* runtime, const caf::actor& master, parts_done&& answer) noexcept {
  absl::Status sent = kNoMemory;
  try {
    const caf::actor now = WorkerOfProcess(*runtime->remote, answer.master);
    sent = SendWithTensors(*runtime->system, *runtime->remote, runtime->incarnation, now ? now : master, answer.master,
                           parts_done(answer), std::nullopt, PortOf(*runtime));
  } catch (const std::bad_alloc&) {
    // Then without the results, as for any other reason.
  }
  if (sent.ok()) return;
  // One that is not there any more has forgotten the step.
  SendWhenMemoryAllows(*runtime->system, master, [&] {
    parts_done without{answer.master, answer.step, answer.task, {}, answer.failed_check, answer.forgotten, {}, {}};
    without.status = answer.status.ok() ? Annotate(sent, "the results of a step") : answer.status;
    return without;
  }).IgnoreError();
}

void RemoteStep::Begin() {
  if (asked_.timed) came_nanos_ = NowNanos();
  Signature& signature = *graph_->signature;
  arguments_.resize(signature.feeds.size());
  for (auto& [index, value] : asked_.arguments) {
    if (index < arguments_.size()) arguments_[index] = std::move(value);
  }
  asked_.arguments.clear();
  std::unique_ptr<ExecutorSet> set = signature.Lease();
  try {
    set->Renew();
    for (Tensor& t : arguments_) set->transport().Bind(&t);
  } catch (const std::bad_alloc&) {
    signature.Release(std::move(set));
    throw;
  }
  // From here on nothing throws: who has the set gives it back at the step's end.
  set_ = set.release();
  me_ = shared_from_this();
  set_->transport().LinkTo(me_);
  set_->Begin(this, absl::MakeConstSpan(arguments_), false);
  own_step_ = set_->step_id();
  RunOptions options;
  options.check_numerics = asked_.checks_numerics;
  options.numerics_folder = std::move(asked_.numerics_folder);
  set_->CheckNumerics(options);
  set_->LetRunInLoop(absl::MakeConstSpan(arguments_), true);
  if (asked_.cancelled) set_->Stop(own_step_, kToldToEnd);
}

void RemoteStep::Launch() noexcept {
  if (set_->empty()) return Over();
  set_->Launch(set_->Home(), asked_.timed);
}

bool RemoteStep::Concerns(const actor_failed& failure) const {
  const auto& parts = graph_->parts->parts;
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return failure.Concerns(part->device->name()); });
}

bool HasEdgesWith(const RemoteGraph& graph, const std::string& task) {
  const EdgeTable& edges = graph.signature->edges;
  // The sender of an edge is told by its name only, unless it is granted.
  const auto sends = [&](std::string_view name, const std::string& from) {
    return EdgeSender(name).substr(0, from.size() + 1) == from + "/";
  };
  for (uint32_t i = 0; i < edges.size(); ++i) {
    const uint32_t to = edges[i].receiver.task;
    if (to >= graph.tasks.size()) continue;
    const bool there = graph.tasks[to] == task && sends(edges[i].name, graph.task);
    if (there || (to == graph.number && sends(edges[i].name, task))) return true;
  }
  return false;
}

void RemoteStep::PartDone() {
  if (!set_->CountDown(1)) return;
  caf::actor_system& system = set_->lane().system();
  // With the last share of a graph its session's state may go, and what the program keeps in it.
  const bool here = set_->MayEndHere() && (LoopTurns::Here() == nullptr || graph_.use_count() > 1);
  if (here || !RunUnderScheduler(system, [this] { Over(); })) Over();
}

std::string RemoteStep::Statistics() const try {
  proto::RunMetadata metadata, end;
  RunOptions options;
  options.collect_stats = true;
  set_->FillMetadata(options, &metadata);
  proto::StepTrace::Process* const own = metadata.mutable_step_trace()->mutable_own();
  own->set_task(graph_->task);
  own->set_begin_nanos(came_nanos_);
  std::string bytes;
  if (!metadata.SerializeToString(&bytes)) return "";
  // The master tells how the clocks stand from when the answer left. Bytes that follow add to the
  // message before them.
  end.mutable_step_trace()->mutable_own()->set_end_nanos(NowNanos());
  if (!end.AppendToString(&bytes)) return "";
  return bytes;
} catch (const std::bad_alloc&) {
  return "";
}

void RemoteStep::Over() {
  // Once the master has the answer, this process may be told to end: it waits for the shares below.
  std::shared_ptr<void> at_exit;
  UntilMemoryAllows([&] { at_exit = UntilExit(); });
  // Goes last of what is the step's: the runtime may end with it.
  const std::shared_ptr<Runtime> keep = std::move(runtime_);
  const std::shared_ptr<RemoteStep> me = std::move(me_);
  // From here on nobody who has a message for the step finds it.
  steps_->Over(asked_.master, asked_.step, graph_->number);
  set_->transport().LinkTo(nullptr);
  parts_done answer{asked_.master, asked_.step, graph_->number, {}, false, false, {}, {}};
  if (asked_.timed) answer.statistics = Statistics();
  std::shared_ptr<UpdateLog> updates;
  try {
    answer.status = set_->FinishForMaster(&answer.results, &updates);
    answer.failed_check = updates != nullptr && updates->failed();
  } catch (const std::bad_alloc&) {
    answer.status = kNoMemory;
    answer.results.clear();
  }
  // Whether they stay is known when all parts are done, wherever they are.
  if (asked_.checks_numerics) steps_->KeepUpdates(asked_.master, asked_.step, graph_->number, std::move(updates));
  arguments_.clear();
  graph_->signature->Release(std::unique_ptr<ExecutorSet>(set_));
  if (!answer.status.ok()) steps_->freight().out.EndStep(owner());
  AnswerMaster(steps_->runtime(), master_, std::move(answer));
}

void RemoteStep::ToMaster(PartAddress from, step_message&& message) noexcept {
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.step; }) m.step = asked_.step;
      },
      message);
  caf::actor_system& system = *steps_->runtime()->system;
  const auto make = [&] { return step_letter{asked_.master, asked_.step, from, message}; };
  if (!std::holds_alternative<result>(message)) return SendWhenMemoryAllows(system, master_, make).IgnoreError();
  absl::Status sent = kNoMemory;
  try {
    const Runtime::Impl& runtime = *steps_->runtime();
    const caf::actor now = WorkerOfProcess(*runtime.remote, asked_.master);
    sent = SendWithTensors(system, *runtime.remote, runtime.incarnation, now ? now : master_, asked_.master, make(),
                           owner(), PortOf(runtime));
  } catch (const std::bad_alloc&) {
    // The step fails for it.
  }
  // The part that made it has not failed, and must end as well.
  if (!sent.ok()) set_->PartFails(LocalTransport::kAll, sent);
}

void RemoteStep::ResultCame(uint32_t index, Tensor value) {
  ToMaster({graph_->number, graph_->signature->first_part}, result{0, index, std::move(value)});
}

void RemoteStep::PartFailed(uint32_t part, const absl::Status& status) {
  // Of the whole task: its master leaves out none but the task.
  if (part == LocalTransport::kAll) part = graph_->signature->first_part;
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
  uint32_t edge = 0;
  const auto* const tensor = std::get_if<tensor_to_part>(&message);
  if (tensor != nullptr) edge = tensor->edge;
  absl::Status sent = ToTask(graph_->tasks[to.task], {asked_.master, asked_.step, to, std::move(message)});
  if (sent.ok() || tensor == nullptr) return sent;
  const std::string& key = graph_->signature->edges[edge].name;
  return Annotate(sent, StrCat("tensor '", EdgeTensor(key), "' for task ", graph_->tasks[to.task]));
}

absl::Status RemoteStep::ToTask(const std::string& name, part_letter&& letter) const {
  const Runtime::Impl& runtime = *steps_->runtime();
  const RemoteTask now = runtime.remote->Find(name);
  const auto send = [&](const caf::actor& worker, uint64_t incarnation) {
    return SendWithTensors(*runtime.system, *runtime.remote, runtime.incarnation, worker, incarnation,
                           std::move(letter), owner(), PortOf(runtime));
  };
  if (now.worker) return send(now.worker, now.incarnation);
  // Another task of this process, or of its own.
  for (const Runtime::Impl::Task& own : runtime.tasks) {
    if (own.name == name) return send(runtime.directory->Find(WorkerName(name)), runtime.incarnation);
  }
  return Annotate(runtime.directory->WhyDown(WorkerName(name)), StrCat("task ", name));
}

void RemoteStep::Abort(uint32_t, int64_t, const absl::Status&) noexcept {
  Freight& freight = steps_->freight();
  freight.out.EndStep(owner());
  freight.in.Abort(owner());
}

}  // namespace troupe
