#include "actors/executor/executor_actor.h"

#include <caf/all.hpp>

#include "actors/actor_thread.h"
#include "actors/executor/turn.h"
#include "actors/messages.h"
#include "actors/no_memory.h"
#include "graph/core/guarded.h"

namespace troupe {
namespace {

// Then others get their turn. The scheduler lets an actor take 50 of them in a row (runtime.cc):
// some 5 ms of null nodes.
constexpr int64_t kTurnNodes = 2000;

class ExecutorActor : public caf::event_based_actor {
 public:
  ExecutorActor(caf::actor_config& cfg, std::shared_ptr<Executor> executor)
      : caf::event_based_actor(cfg), executor_(std::move(executor)) {
    set_error_handler([](caf::error&) {});
    set_default_handler(caf::drop);
  }
  const char* name() const override { return "troupe.executor"; }

  caf::behavior make_behavior() override {
    return {
        [this](const run_step& m) { Do([&] { executor_->OnRunStep(m.input); }); },
        [this](doorbell) { Do([&] { executor_->OnDoorbell(); }); },
        [this](const token_message& m) { Do([&] { executor_->OnToken(std::move(*m.token)); }); },
        [this](go_on) { Do([&] { executor_->OnContinue(); }); },
    };
  }
  void on_exit() override {
    if (executor_ == nullptr) return;
    executor_->OnKilled();
    executor_.reset();
  }

 private:
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
};

// Made when the library is loaded: an actor may die because memory has run out.
const absl::Status& kKilled = *new absl::Status(
    absl::AbortedError("an executor actor was killed while the step ran; it is replaced for the next step"));
const absl::Status& kNoMemory = *new absl::Status(ResourceExhausted("no memory is left for the step"));

template <class T>
caf::mailbox_element_ptr Element(T message) {
  return caf::make_mailbox_element(nullptr, caf::make_message_id(), caf::no_stages, std::move(message));
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

void Executor::Prepare(const StepInput& input) {
  step_id_ = input.context->step_id;
  if (abort_.load(std::memory_order_relaxed) == nullptr) abort_.store(new Arrival);
  run_step_ = Element(run_step{input});
}

void Executor::Prepare(begin_step message) {
  auto own = std::make_shared<OwnStep>();
  own->step_id = message.step;
  own->cancelled.store(message.cancelled);
  own->arguments = std::move(message.arguments);
  own->results.resize(message.num_results);
  StepInput input;
  input.context = own;
  input.arguments = own->arguments.data();
  input.results = own->results.data();
  input.partial = message.partial;
  input.token_messages = message.token_messages;
  input.check_kernels = message.check_kernels;
  input.measure = message.measure;
  input.timings = message.timed ? &own->timings : nullptr;
  {
    std::lock_guard<std::mutex> lock(own_mu_);
    own_ = std::move(own);
  }
  Prepare(input);
}

void Executor::Start(caf::execution_unit* home) noexcept {
  starting_.store(true);
  actor_->enqueue(std::move(run_step_), home);
  if (dead_.load() && starting_.exchange(false)) group_->PartDone(this, kKilled);
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
  state_.TakeArrivals();
  Go();
}

void Executor::OnToken(Token token) {
  state_.Deliver(std::move(token));
  Go();
}

void Executor::Go() {
  if (state_.idle()) return;
  const bool timed = state_.timed();
  const int64_t start = timed ? NowNanos() : 0;
  const bool more = state_.Drain(kTurnNodes);
  if (timed) turn_nanos_ += NowNanos() - start;
  if (more) {
    // Without it nobody would go on.
    UntilMemoryAllows([&] { Enqueue(actor_, go_on{}, group_->Home()); });
    return;
  }
  if (!state_.done()) return state_.Rest();
  Done(state_.Finish());
}

void Executor::Done(const absl::Status& status) {
  owes_ = false;
  // Only the thread that begins a step, and this turn, change it.
  if (own_ == nullptr) [[likely]]
    return group_->PartDone(this, status);
  std::shared_ptr<OwnStep> own;
  {
    std::lock_guard<std::mutex> lock(own_mu_);
    own = std::move(own_);
  }
  own->cancellations.Clear();
  own->cancellations.Cancel();  // a kernel that is left hears that it comes too late
  part_done m;
  m.step = own->step_id;
  m.status = status;
  try {
    for (uint32_t i = 0; i < own->results.size(); ++i) {
      if (own->results[i].valid()) m.results.emplace_back(i, std::move(own->results[i]));
    }
    for (const NodeTiming& t : own->timings) m.statistics.push_back({t.node, t.thread, t.start_nanos, t.end_nanos});
  } catch (const std::bad_alloc&) {
    return group_->PartDone(this, kNoMemory);
  }
  group_->PartDone(this, std::move(m));
}

void Executor::CancelOwn(int64_t step_id) {
  std::shared_ptr<OwnStep> own;
  {
    std::lock_guard<std::mutex> lock(own_mu_);
    if (own_ != nullptr && own_->step_id == step_id) own = own_;
  }
  if (own != nullptr) own->Cancel();
}

void Executor::PartFails(const absl::Status& status) {
  if (own_ != nullptr) CancelOwn(own_->step_id);
  group_->PartFails(this, status);
}

void Executor::ResultReady(uint32_t index) {
  if (own_ == nullptr) return group_->ResultReady(index);
  group_->ResultCame({own_->step_id, index, std::move(own_->results[index])});
}

void Executor::OnKilled() { End(kKilled); }

void Executor::End(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(in_group_);
    dead_.store(true);
  }
  if (starting_.exchange(false)) return group_->PartDone(this, status);
  if (!owes_) return;
  // Kernels that still run keep this object alive; what they post will be dropped with it.
  if (state_.idle()) return Done(status);
  state_.Abort(status);
  Done(state_.Finish());
}

void Executor::Ring() noexcept {
  caf::mailbox_element_ptr bell = std::move(doorbell_);
  if (bell == nullptr) UntilMemoryAllows([&] { bell = Element(doorbell{}); });
  actor_->enqueue(std::move(bell), group_->Home());
}

// Called by kernels that end outside of the turn. The actor may have been killed meanwhile, and its
// group may have gone with the step.
void Executor::RingDoorbell() {
  std::lock_guard<std::mutex> lock(in_group_);
  if (!dead_.load(std::memory_order_relaxed)) Ring();
}

void Executor::Post(Arrival* arrival) noexcept {
  if (state_.PostArrival(arrival)) Ring();
}

void Executor::Abort(int64_t step_id, const absl::Status& status) noexcept {
  // Of a step that is told to end a second time the first message is on its way.
  Arrival* a = abort_.exchange(nullptr);
  if (a == nullptr) a = new (std::nothrow) Arrival;
  if (a == nullptr) return;
  a->kind = Arrival::Kind::kAbort;
  a->step_id = step_id;
  a->status = status;
  Post(a);
}

void Executor::Report(std::function<void(StepReport)> answer) {
  auto* a = new Arrival;
  a->kind = Arrival::Kind::kReport;
  a->report = std::move(answer);
  Post(a);
}

absl::Status Executor::SendToPart(const std::string& key, uint64_t tag, Tensor value, bool dead) {
  const int64_t edge = group_->edges().Find(key);
  if (edge < 0) return NotFound("no part of the step receives '", key, "'");
  const auto number = static_cast<uint32_t>(edge);
  const EdgeTable::Edge& e = group_->edges()[number];
  return group_->Deliver(e.receiver, tensor_to_part{step_id_, number, tag, dead, std::move(value), e.incarnation});
}

void Executor::Grant(const std::string& key, uint64_t tag) {
  const int64_t edge = group_->edges().Find(key);
  if (edge < 0) return;
  const auto number = static_cast<uint32_t>(edge);
  const EdgeTable::Edge& e = group_->edges()[number];
  if (!e.granted) return;
  // Who is not granted the value does not send it: this part would wait for ever.
  if (absl::Status s = group_->Deliver(e.sender, grant{step_id_, number, tag, e.incarnation}); !s.ok())
    Abort(step_id_, s);
}

void Executor::Receive(part_message message) {
  struct Taker {
    Executor* self;
    // Null for an edge that nobody knows.
    std::unique_ptr<Arrival> OfEdge(Arrival::Kind kind, int64_t step, uint32_t edge, uint64_t iteration) const {
      if (!self->group_->edges().Has(edge)) return nullptr;
      auto a = std::make_unique<Arrival>();
      a->kind = kind;
      a->step_id = step;
      a->key = self->group_->edges()[edge].name;
      a->tag = iteration;
      return a;
    }
    void operator()(tensor_to_part& m) const {
      auto a = OfEdge(Arrival::Kind::kTensor, m.step, m.edge, m.iteration);
      if (a == nullptr) return;
      a->outputs.push_back(std::move(m.value));
      a->dead = m.dead;
      self->Post(a.release());
    }
    void operator()(grant& m) const {
      if (auto a = OfEdge(Arrival::Kind::kGrant, m.step, m.edge, m.iteration)) self->Post(a.release());
    }
    void operator()(argument& m) const {
      auto a = std::make_unique<Arrival>();
      a->kind = Arrival::Kind::kArgument;
      a->step_id = m.step;
      a->tag = m.index;
      a->outputs.push_back(std::move(m.value));
      self->Post(a.release());
    }
    void operator()(abort_step& m) const {
      self->Abort(m.step, m.status);
      self->CancelOwn(m.step);
    }
  };
  std::visit(Taker{this}, message);
}

void Executor::PostToken(Token token) {
  Enqueue(actor_, token_message{std::make_shared<Token>(std::move(token))}, group_->Home());
}

}  // namespace troupe
