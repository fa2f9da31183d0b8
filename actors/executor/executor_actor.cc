#include "actors/executor/executor_actor.h"

#include <caf/all.hpp>

#include "actors/threads/actor_thread.h"
#include "actors/threads/lean_actor.h"
#include "actors/threads/loop_turns.h"
#include "actors/threads/surely.h"
#include "actors/threads/turn_threads.h"
#include "actors/executor/turn.h"
#include "actors/messages/messages.h"
#include "actors/threads/no_memory.h"
#include "graph/core/guarded.h"

namespace troupe {
namespace {

// Then others get their turn. The scheduler lets an actor take 50 of them in a row
// (runtime/runtime.cc): some 5 ms of null nodes.
constexpr int64_t kTurnNodes = 2000;

class ExecutorActor : public LeanActor<ExecutorActor>, public ShortTurns {
 public:
  ExecutorActor(caf::actor_config& cfg, std::shared_ptr<Executor> executor)
      : LeanActor(cfg), executor_(std::move(executor)), long_turn_(executor_->long_turn()) {
    set_error_handler([](caf::error&) {});
    set_default_handler(caf::drop);
    // CAF's own handler prints. Without memory for that, the actor would be neither alive nor dead.
    set_exception_handler([](std::exception_ptr&) { return caf::error(); });
  }
  const char* name() const override { return "troupe.executor"; }

  caf::behavior make_behavior() override {
    return {
        [this](const run_step& m) { Run(m); },
        [this](doorbell) { Hear(); },
        [this](const token_message& m) { Do([&] { executor_->OnToken(std::move(*m.token)); }); },
        [this](go_on) { Do([&] { executor_->OnContinue(); }); },
    };
  }
  bool Take(caf::type_erased_tuple& content) {
    if (content.match_elements<run_step>()) {
      Run(content.get_as<run_step>(0));
    } else if (content.match_elements<doorbell>()) {
      Hear();
    } else {
      return false;
    }
    return true;
  }
  // Its group has named the loop, or not (StepGroup::Home).
  bool MayRunInLoop() const override { return true; }
  void ResumeElsewhere() noexcept override {
    if (executor_ != nullptr) return executor_->ResumeElsewhere();
    ScheduleSurely(home_system(), this);
  }
  void TookLong(std::chrono::nanoseconds turn) override {
    int64_t longest = long_turn_->load();
    while (longest < turn.count() && !long_turn_->compare_exchange_weak(longest, turn.count())) {
    }
  }
  void on_exit() override {
    if (executor_ == nullptr) return;
    executor_->OnKilled();
    executor_.reset();
  }

 private:
  void Run(const run_step& m) {
    Do([&] { executor_->OnRunStep(m.input); });
  }
  void Hear() {
    Do([&] { executor_->OnDoorbell(); });
  }
  // CAF would let the actor die of an exception, with words for which there may be no memory.
  template <class F>
  void Do(F f) noexcept {
    if (executor_->dead()) return;
    try {
      f();
    } catch (...) {
      executor_->End(ThrownStatus("the executor of the step"));
    }
  }

  std::shared_ptr<Executor> executor_;
  const std::shared_ptr<std::atomic<int64_t>> long_turn_;
};

// Made when the library is loaded: an actor may die because memory has run out.
const absl::Status& kKilled = *new absl::Status(
    absl::AbortedError("an executor actor was killed while the step ran; it is replaced for the next step"));

template <class T>
caf::mailbox_element_ptr Element(T&& message) {
  return caf::make_mailbox_element(nullptr, caf::make_message_id(), caf::no_stages, std::forward<T>(message));
}

template <class T>
void Enqueue(const caf::actor& to, T message, caf::execution_unit* home) {
  to->enqueue(Element(std::move(message)), home);
}

}  // namespace

void Executor::Spawn(caf::actor_system& system) {
  NoLoggerAfter restore;
  actor_ = system.spawn<ExecutorActor, caf::hidden + caf::lazy_init>(shared_from_this());
  auto* const self = dynamic_cast<caf::scheduled_actor*>(caf::actor_cast<caf::abstract_actor*>(actor_));
  resumable_ = self;
  // Its behaviour is made now: when its first message comes there may be no memory for it.
  caf::scoped_execution_unit here(&system);
  if (!self->activate(&here)) throw std::bad_alloc();
  self->context(nullptr);
  doorbell_ = Element(doorbell{});
}

void Executor::Prepare(run_step&& message) {
  step_id_ = message.input.context->step_id;
  if (abort_.load(std::memory_order_relaxed) == nullptr) abort_.store(new Arrival);
  run_step_ = Element(std::move(message));
}

void Executor::Start(caf::execution_unit* home) noexcept {
  starting_.store(true);
  actor_->enqueue(std::move(run_step_), home);
  if (dead_.load() && starting_.exchange(false)) Done(kKilled);
}

void Executor::OnRunStep(const StepInput& input) {
  starting_.store(false, std::memory_order_relaxed);
  owes_ = true;
  turn_nanos_ = 0;
  state_.Begin(input);
  Go();
}

void Executor::OnDoorbell() {
  try {
    doorbell_ = Element(doorbell{});
  } catch (const std::bad_alloc&) {
    // Whoever rings next makes it.
  }
  // A node that has waited runs at once, and counts for what the step costs.
  const bool timed = !state_.idle() && state_.timed();
  const int64_t start = timed ? NowNanos() : 0;
  state_.TakeArrivals();
  if (timed) turn_nanos_ += NowNanos() - start;
  Go();
}

void Executor::OnToken(Token token) {
  state_.Deliver(std::move(token));
  Go();
}

void Executor::Go() {
  if (state_.idle()) return;
  const bool timed = state_.timed();
  const int64_t start = timed ? state_.Now() : 0;
  const bool more = state_.Drain(kTurnNodes);
  if (timed) turn_nanos_ += state_.Now() - start;
  if (more) {
    // Without it nobody would go on.
    UntilMemoryAllows([&] { Enqueue(actor_, go_on{}, group_->Home()); });
    return;
  }
  if (!state_.done()) return state_.Rest();
  StepInput input;
  absl::Status status = state_.Finish(&input);
  Done(std::move(status), std::move(input));
}

void Executor::Done(absl::Status status, StepInput&& input) {
  owes_ = false;
  transport_->ToStep(address_, step_message(std::in_place_type<part_done>, step_id_, std::move(status),
                                            std::move(input), state_.part().num_results));
}

void Executor::PartFails(const absl::Status& status) { transport_->ToStep(address_, part_failed{step_id_, status}); }

void Executor::ResultReady(uint32_t index, Tensor value) {
  transport_->ToStep(address_, result{step_id_, index, std::move(value)});
}

void Executor::LeaveGroup() noexcept {
  std::lock_guard<std::mutex> lock(in_group_);
  dead_.store(true);
}

void Executor::OnKilled() { End(kKilled); }

void Executor::End(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(in_group_);
    dead_.store(true);
  }
  if (starting_.exchange(false)) return Done(status);
  if (!owes_) return;
  // Kernels that still run keep this object alive; what they post will be dropped with it.
  if (state_.idle()) return Done(status);
  state_.Abort(status);
  StepInput input;
  absl::Status finished = state_.Finish(&input);
  Done(std::move(finished), std::move(input));
}

void Executor::Ring() noexcept {
  UntilMemoryAllows([this] { RingBell(TakeBell()); });
}

caf::mailbox_element_ptr Executor::TakeBell() {
  if (doorbell_ != nullptr) return std::move(doorbell_);
  return Element(doorbell{});
}

void Executor::RingBell(caf::mailbox_element_ptr bell) noexcept { actor_->enqueue(std::move(bell), group_->Home()); }

// Called by kernels that end outside of the turn, and by those who admit one to a variable. The
// actor may have been killed meanwhile, and its group may have gone with the step.
void Executor::RingDoorbell() {
  // Without memory it waits without the lock, which whoever kills the executor takes.
  UntilMemoryAllows([this] {
    std::lock_guard<std::mutex> lock(in_group_);
    if (!dead_.load(std::memory_order_relaxed)) RingBell(TakeBell());
  });
}

void Executor::ResumeElsewhere() noexcept {
  // Without memory it waits without the lock, as RingDoorbell.
  UntilMemoryAllows([this] {
    {
      std::lock_guard<std::mutex> lock(in_group_);
      TurnThreads* const elsewhere = dead_.load(std::memory_order_relaxed) ? nullptr : group_->Elsewhere();
      if (elsewhere != nullptr) return elsewhere->TryExecLater(resumable_);
    }
    actor_->home_system().scheduler().enqueue(resumable_);
  });
}

void Executor::Post(Arrival* arrival) noexcept {
  if (state_.PostArrival(arrival)) Ring();
}

void Executor::Abort(int64_t step_id, const absl::Status& status) noexcept {
  // Of a step that is told to end a second time the first message is on its way.
  Arrival* a = abort_.exchange(nullptr);
  if (a == nullptr) a = new (std::nothrow) Arrival;
  if (a == nullptr) return;
  a->message = abort_step{step_id, status};
  Post(a);
}

absl::Status Executor::SendToPart(part_message message) {
  const EdgeTable& edges = group_->edges();
  if (auto* const g = std::get_if<grant>(&message)) {
    const EdgeTable::Edge& edge = edges[g->edge];
    g->incarnation = edge.incarnation;
    const int64_t step = g->step;
    absl::Status s = transport_->Deliver(edge.sender, std::move(message));
    // Who is not granted the value does not send it: this part would wait for ever.
    if (!s.ok()) Abort(step, s);
    return s;
  }
  auto& tensor = std::get<tensor_to_part>(message);
  const EdgeTable::Edge& edge = edges[tensor.edge];
  tensor.incarnation = edge.incarnation;
  return transport_->Deliver(edge.receiver, std::move(message));
}

void Executor::Receive(part_message message) {
  std::visit(
      [this]<class T>(T& m) {
        if constexpr (std::is_same_v<T, abort_step>) {
          Abort(m.step, m.status);
        } else {
          // An edge that nobody knows is nobody's.
          if constexpr (requires { m.edge; }) {
            if (!group_->edges().Has(m.edge)) return;
          }
          Post(new Arrival(std::move(m)));
        }
      },
      message);
}

void Executor::PostToken(Token token) {
  Enqueue(actor_, token_message{std::make_shared<Token>(std::move(token))}, group_->Home());
}

}  // namespace troupe
