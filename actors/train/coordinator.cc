#include "troupe/train/coordinator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "actors/threads/actor_thread.h"
#include "actors/threads/aside.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/train/coordinator_impl.h"

namespace troupe::train {
namespace {

using Kind = CoordinatorRequest::Kind;

// Waits for the answer; false when it has not come within the time (negative: for ever).
bool Wait(StateRequest* request, int64_t timeout_ms) {
  struct Bell {
    std::mutex mu;
    std::condition_variable rung;
    bool rings = false;
  };
  const auto bell = std::make_shared<Bell>();
  request->WhenAnswered([bell] {
    std::lock_guard<std::mutex> lock(bell->mu);
    bell->rings = true;
    bell->rung.notify_all();
  });
  std::unique_lock<std::mutex> lock(bell->mu);
  const auto rings = [&] { return bell->rings; };
  if (timeout_ms >= 0) return bell->rung.wait_for(lock, std::chrono::milliseconds(timeout_ms), rings);
  bell->rung.wait(lock, rings);
  return true;
}

absl::Status MayBlock(std::string_view what) {
  if (!OnSchedulerThread() && !MustNotBlockHere()) return absl::OkStatus();
  return FailedPrecondition(what, " would block a thread that others need; WhenStopped does not");
}

}  // namespace

bool CoordinatorMachine::IsSo(Kind wait) const {
  const bool stopped = stopped_.load(std::memory_order_relaxed);
  return wait == Kind::kWaitStopped ? stopped
         : wait == Kind::kWaitEmpty ? members_.empty()
                                    : stopped || members_.empty();
}

void CoordinatorMachine::Tell(StateAnswers* answers) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto each = it++;
    if (!IsSo((*each)->kind)) continue;
    answers->Add(std::move(*each), absl::OkStatus());
    waiting_.erase(each);
  }
}

void CoordinatorMachine::Handle(const StateRequestPtr& request, StateAnswers* answers) {
  auto r = std::static_pointer_cast<CoordinatorRequest>(request);
  answers->Reserve(waiting_.size() + 1);
  switch (r->kind) {
    case Kind::kEnter:
      members_.emplace(r->number, r->name);
      break;
    case Kind::kLeave:
      members_.erase(r->number);
      break;
    case Kind::kStop:
      if (stopped_.load(std::memory_order_relaxed)) break;
      if (std::find(clean_stop_.begin(), clean_stop_.end(), r->why.code()) == clean_stop_.end()) error_ = r->why;
      stopped_.store(true, std::memory_order_release);
      break;
    case Kind::kAsk:
      r->why = error_;
      for (const auto& [number, name] : members_) r->members.push_back(name);
      break;
    case Kind::kWaitStopped:
    case Kind::kWaitEmpty:
    case Kind::kWaitEither:
      waiting_.push_back(std::move(r));
      return Tell(answers);
  }
  answers->Add(std::move(r), absl::OkStatus());
  Tell(answers);
}

void CoordinatorMachine::Withdraw(const StateRequestPtr& request, StateAnswers*) {
  waiting_.remove_if([&](const auto& w) { return w == request; });
}

std::unique_ptr<StateMailbox> OpenMailbox(const Runtime& runtime, std::shared_ptr<StateMachine> machine) {
  const std::shared_ptr<StateHost> host = StateHostOf(runtime.impl()->devices[0]->containers());
  if (host == nullptr) return std::make_unique<PlainMailbox>(std::move(machine));
  return host->Open(std::move(machine));
}

Coordinator::Coordinator(const Session& session, const CoordinatorOptions& options) : impl_(std::make_shared<Impl>()) {
  impl_->options = options;
  impl_->machine = std::make_shared<CoordinatorMachine>(options.clean_stop);
  impl_->mailbox = OpenMailbox(*session.runtime(), impl_->machine);
}

Coordinator::~Coordinator() { RequestStop(); }

Coordinator::Member& Coordinator::Member::operator=(Member&& other) noexcept {
  if (this != &other) {
    Leave();
    impl_ = std::move(other.impl_);
    number_ = other.number_;
  }
  return *this;
}

void Coordinator::Member::Leave() {
  if (const std::shared_ptr<Impl> impl = std::move(impl_)) impl->Leave(number_);
}

Coordinator::Member Coordinator::Enter(std::string name) {
  Member m;
  m.impl_ = impl_;
  m.number_ = impl_->Enter(std::move(name));
  return m;
}

bool Coordinator::ShouldStop() const { return impl_->machine->stopped(); }
void Coordinator::RequestStop(absl::Status why) { impl_->Stop(std::move(why)); }

void Coordinator::WhenStopped(std::function<void()> f) {
  if (f == nullptr) return;
  auto request = std::make_shared<CoordinatorRequest>(Kind::kWaitStopped);
  request->WhenAnswered([f = std::move(f)] { CallUser("what is called when a coordinator has stopped", f); });
  impl_->Ask(std::move(request));
}

absl::Status Coordinator::WaitForStop(int64_t timeout_ms) {
  TROUPE_RETURN_IF_ERROR(MayBlock("WaitForStop"));
  const auto stop = impl_->Ask(Kind::kWaitStopped);
  if (Wait(stop.get(), timeout_ms)) return stop->status();
  impl_->Withdraw(stop);
  return DeadlineExceeded("nobody asked the coordinator to stop within ", timeout_ms, " ms");
}

absl::Status Coordinator::Join() {
  TROUPE_RETURN_IF_ERROR(MayBlock("Join"));
  const auto either = impl_->Ask(Kind::kWaitEither);
  Wait(either.get(), -1);
  TROUPE_RETURN_IF_ERROR(either->status());
  const auto empty = impl_->Ask(Kind::kWaitEmpty);
  const bool all_left = Wait(empty.get(), impl_->options.grace_ms);
  if (!all_left) impl_->Withdraw(empty);
  const auto answer = impl_->Ask(Kind::kAsk);
  Wait(answer.get(), -1);
  TROUPE_RETURN_IF_ERROR(answer->status());
  TROUPE_RETURN_IF_ERROR(answer->why);
  if (all_left || answer->members.empty()) return absl::OkStatus();
  return DeadlineExceeded("the coordinator stopped, but these have not ended within ", impl_->options.grace_ms,
                          " ms: ", StrJoin(answer->members, ", "));
}

}  // namespace troupe::train
