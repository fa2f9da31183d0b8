#include "troupe/train/queue_runner.h"

#include <chrono>

#include "actors/runtime/runtime_impl.h"
#include "actors/threads/no_memory.h"
#include "actors/watch/step_watch.h"
#include "actors/train/coordinator_impl.h"
#include "actors/train/runner_machine.h"

namespace troupe::train {
namespace {

using RequestKind = RunnerRequest::Kind;

// Starts the steps that the machine asks for, and tells it how they end. Lives as long as one of
// them runs; the coordinator's list of those who wait for the stop has it, too, until it leaves.
class Runner : public std::enable_shared_from_this<Runner> {
 public:
  Runner(const Session& session, const Coordinator& coordinator, const QueueRunner& spec)
      : coordinator_(coordinator.impl()),
        mailbox_(OpenMailbox(*session.runtime(),
                             std::make_shared<RunnerMachine>(spec.queue, spec.enqueue_ops.size(), spec.queue_closed))),
        watch_(std::make_shared<StepWatch>(session.runtime()->impl()->clock, nullptr)) {}
  absl::Status Prepare(Session& session, const QueueRunner& spec) {
    if (spec.enqueue_ops.empty()) return InvalidArgument("it has nothing to run");
    for (const std::string& op : spec.enqueue_ops) {
      TROUPE_ASSIGN_OR_RETURN(Callable c, session.Prepare({}, {}, {op}));
      enqueue_.push_back(std::move(c));
    }
    if (!spec.close_op.empty()) {
      TROUPE_ASSIGN_OR_RETURN(close_, session.Prepare({}, {}, {spec.close_op}));
    }
    if (!spec.cancel_op.empty()) {
      TROUPE_ASSIGN_OR_RETURN(cancel_, session.Prepare({}, {}, {spec.cancel_op}));
    }
    return absl::OkStatus();
  }
  void Start(const std::string& queue) {
    if (enqueue_.empty()) return;
    member_ = coordinator_->Enter(StrCat("runner of queue '", queue, "'"));
    when_stopped_ = std::make_shared<CoordinatorRequest>(CoordinatorRequest::Kind::kWaitStopped);
    when_stopped_->WhenAnswered([self = shared_from_this()] {
      // Of a runtime that has ended, or a coordinator that went without a word.
      self->Tell(RequestKind::kStop, absl::OkStatus(), 0);
    });
    coordinator_->Ask(when_stopped_);
    for (size_t i = 0; i < enqueue_.size(); ++i) Enqueue(i);
  }

 private:
  // Runs the close or cancel op again, by the clock.
  class Retry : public WatchedCall {
   public:
    Retry(std::shared_ptr<Runner> runner, const Callable& op, RequestKind ended)
        : runner_(std::move(runner)), op_(op), ended_(ended) {}
    void TimeIsUp() override { runner_->Run(op_, ended_, 0); }

   private:
    const std::shared_ptr<Runner> runner_;
    const Callable& op_;  // of the runner
    const RequestKind ended_;
  };

  void Enqueue(size_t i) { Run(enqueue_[i], RequestKind::kEnqueueEnded, i); }
  void Run(const Callable& op, RequestKind ended, size_t i) {
    // An enqueue waits for room as long as it takes, whatever time the session's other steps have.
    RunOptions without_deadline;
    without_deadline.timeout_ms = -1;
    RunCallback done;
    UntilMemoryAllows([&] {
      done = [self = shared_from_this(), ended, i](const absl::Status& s, const std::vector<Tensor>&) {
        self->Tell(ended, s, i);
      };
    });
    op.RunAsync(without_deadline, {}, std::move(done));
  }
  // A step that nobody hears the end of would be waited for at the end of all.
  void Tell(RequestKind kind, const absl::Status& ended, size_t i) {
    UntilMemoryAllows([&] {
      const auto request = std::make_shared<RunnerRequest>(kind, ended);
      request->WhenAnswered([self = shared_from_this(), r = request.get(), i] { self->Do(*r, i); });
      mailbox_->Send({StateLetter::Kind::kAsk, request});
    });
  }
  // What the machine asks for.
  struct Next {
    bool again = false, close = false, cancel = false, leave = false;
    std::chrono::milliseconds pause{0};
  };
  void Do(const RunnerRequest& r, size_t i) {
    if (!r.status().ok()) return Leave();  // its actor is gone for good, and with it the runtime
    const Next next{r.again, r.close, r.cancel, r.leave, r.pause};
    if (r.failure.ok()) return Do(next, i);
    // When the coordinator knows it: a step that finds the queue cancelled asks there for the
    // cause, and would take it for the end of the input. Its actor may be down.
    UntilMemoryAllows([&] {
      const auto stop = std::make_shared<CoordinatorRequest>(CoordinatorRequest::Kind::kStop);
      stop->why = r.failure;
      stop->WhenAnswered([self = shared_from_this(), next, i] { self->Do(next, i); });
      coordinator_->Ask(stop);
    });
  }
  void Do(const Next& next, size_t i) {
    if (next.again) Enqueue(i);
    if (next.close) RunIfAny(close_, RequestKind::kCloseEnded, next.pause);
    if (next.cancel) RunIfAny(cancel_, RequestKind::kCancelEnded, next.pause);
    if (next.leave) Leave();
  }
  void RunIfAny(const Callable& op, RequestKind ended, std::chrono::milliseconds pause) {
    if (!op.valid()) return Tell(ended, absl::OkStatus(), 0);
    if (pause.count() == 0) return Run(op, ended, 0);
    // Rare: the step was cut off by a death. A runner has no thread that could wait.
    UntilMemoryAllows(
        [&] { watch_->Add(std::make_shared<Retry>(shared_from_this(), op, ended), watch_->Now() + pause); });
  }
  void Leave() {
    // What was given to the coordinator keeps this object alive.
    UntilMemoryAllows([&] { coordinator_->Withdraw(when_stopped_); });
    UntilMemoryAllows([&] { coordinator_->Leave(member_); });
  }

  const std::shared_ptr<Coordinator::Impl> coordinator_;
  const std::unique_ptr<StateMailbox> mailbox_;
  const std::shared_ptr<StepWatch> watch_;
  std::vector<Callable> enqueue_;
  Callable close_, cancel_;
  int64_t member_ = 0;
  std::shared_ptr<CoordinatorRequest> when_stopped_;
};

}  // namespace

absl::Status StartQueueRunners(Session& session, Coordinator& coordinator, const std::vector<QueueRunner>& runners) {
  std::vector<std::shared_ptr<Runner>> made;
  for (const QueueRunner& spec : runners) {
    made.push_back(std::make_shared<Runner>(session, coordinator, spec));
    TROUPE_RETURN_IF_ERROR(
        Annotate(made.back()->Prepare(session, spec), StrCat("the runner of queue '", spec.queue, "'")));
  }
  for (size_t i = 0; i < made.size(); ++i) made[i]->Start(runners[i].queue);
  return absl::OkStatus();
}

absl::Status StartQueueRunners(Session& session, Coordinator& coordinator, const Graph& graph) {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<QueueRunner> runners, QueueRunnersOf(graph));
  return StartQueueRunners(session, coordinator, runners);
}

}  // namespace troupe::train
