#include "actors/snapshot/step_gate.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "actors/threads/actor_thread.h"

namespace troupe {
namespace {

// How often who waits looks whether the session is closed, or the call is cancelled.
constexpr auto kLook = std::chrono::milliseconds(5);

absl::Status SessionIsClosed() { return Cancelled("the session is closed"); }

absl::Status HasNotBegun(const Deadline& deadline) {
  return DeadlineExceeded("the step has not begun within ", deadline.ms,
                          " ms: it waited until a snapshot of the session's state was taken");
}

}  // namespace

class StepGate::Call : public WatchedCall, public Cancellable, public std::enable_shared_from_this<Call> {
 public:
  using Begin = std::function<void(absl::Status)>;
  Call(std::shared_ptr<StepWatch> watch, const Deadline& deadline, Begin begin)
      : watch_(std::move(watch)), deadline_(deadline), begin_(std::move(begin)) {}
  // Before the call is queued. From now on its deadline and its token end it.
  void Watch(const CancellationToken* token) {
    if (deadline_.at != SteadyTime::max()) watch_->Add(shared_from_this(), deadline_.at);
    if (token == nullptr) return;
    auto cancellation = std::make_unique<Cancellation>(token, this);
    if (cancellation->cancelled()) OnCancel();
    std::lock_guard<std::mutex> lock(mu_);
    if (begin_ != nullptr) cancellation_.swap(cancellation);
  }
  // For one caller. Null when the call has been ended.
  Begin Take() {
    watch_->Remove(this);
    return End();
  }
  bool ended() const {
    std::lock_guard<std::mutex> lock(mu_);
    return begin_ == nullptr;
  }
  void TimeIsUp() override {
    bool cancelled = false;
    const Begin begin = End(&cancelled);
    // A callback that runs a step of updates would wait for the gate, and the gate for it.
    const NoBlockingHere refused;
    if (begin) begin(cancelled ? CancelledByCaller() : HasNotBegun(deadline_));
  }
  // Under the token's lock. The share that is made here is not the last: the others leave the
  // token's list, which waits for this, before they go.
  void OnCancel() override {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (begin_ == nullptr) return;
      cancelled_ = true;
    }
    if (std::shared_ptr<Call> me = weak_from_this().lock()) watch_->Add(std::move(me), SteadyTime::min());
  }

 private:
  Begin End(bool* cancelled = nullptr) {
    std::unique_ptr<Cancellation> left;  // goes without the lock
    std::lock_guard<std::mutex> lock(mu_);
    left.swap(cancellation_);
    if (cancelled != nullptr) *cancelled = cancelled_;
    return std::exchange(begin_, nullptr);
  }

  const std::shared_ptr<StepWatch> watch_;
  const Deadline deadline_;
  mutable std::mutex mu_;
  std::unique_ptr<Cancellation> cancellation_;
  Begin begin_;
  bool cancelled_ = false;
};

absl::Status StepGate::Ended(const Deadline& deadline, const CancellationToken* token) const {
  if (closed_->load(std::memory_order_relaxed)) return SessionIsClosed();
  if (token != nullptr && token->cancelled()) return CancelledByCaller();
  return std::chrono::steady_clock::now() >= deadline.at ? HasNotBegun(deadline) : absl::OkStatus();
}

absl::Status StepGate::Wait(const Deadline& deadline, const CancellationToken* token, int level) {
  std::unique_lock<std::mutex> lock(mu_);
  while (Holds(level)) {
    TROUPE_RETURN_IF_ERROR(Ended(deadline, token));
    changed_.wait_for(lock, kLook);
  }
  return absl::OkStatus();
}

bool StepGate::Queue(const Deadline& deadline, const CancellationToken* token, std::function<void(absl::Status)> begin,
                     int level) {
  const auto call = std::make_shared<Call>(watch_, deadline, std::move(begin));
  bool held = false, closed = false;
  try {
    call->Watch(token);
    std::lock_guard<std::mutex> lock(mu_);
    held = Holds(level);
    // Whoever closes the session does so first, and takes the queue then.
    closed = closed_->load();
    if (held && !closed) {
      if (queue_.size() >= look_through_) {
        std::erase_if(queue_, [](const std::shared_ptr<Call>& each) { return each->ended(); });
        look_through_ = 2 * queue_.size() + 64;
      }
      queue_.push_back(call);
      return true;
    }
  } catch (const std::bad_alloc&) {
    if (call->Take() != nullptr) throw;
    return true;
  }
  const Call::Begin refused = call->Take();
  if (!held) return refused == nullptr;
  if (refused) refused(SessionIsClosed());
  return true;
}

std::vector<std::shared_ptr<StepGate::Call>> StepGate::TakeQueue(bool open) {
  std::vector<std::shared_ptr<Call>> queue;
  std::lock_guard<std::mutex> lock(mu_);
  if (open) ShutBelow(0);
  queue.swap(queue_);
  changed_.notify_all();
  return queue;
}

void StepGate::EndQueued() {
  const NoBlockingHere refused;
  for (const auto& call : TakeQueue(false)) {
    if (const Call::Begin begin = call->Take()) begin(SessionIsClosed());
  }
}

void StepGate::StepOver() {
  std::lock_guard<std::mutex> lock(mu_);
  changed_.notify_all();
}

absl::Status StepGate::WhileShut(SteadyTime at, const std::function<int()>& busy,
                                 const std::function<absl::Status()>& work) {
  std::unique_lock<std::timed_mutex> one(one_, std::defer_lock);
  while (!one.try_lock_for(kLook)) {
    if (closed_->load(std::memory_order_relaxed)) return SessionIsClosed();
    if (std::chrono::steady_clock::now() >= at)
      return DeadlineExceeded("another snapshot of the session's state has not ended in time");
  }
  struct Opener {
    StepGate* gate;
    ~Opener() { gate->Open(); }
  } opener{this};
  ShutBelow(1);
  for (;;) {
    const int under_way = busy();
    if (under_way == 0) return work();
    if (closed_->load(std::memory_order_relaxed)) return SessionIsClosed();
    if (std::chrono::steady_clock::now() >= at) {
      return DeadlineExceeded(under_way, " steps that update variables or fill queues have not ended in time");
    }
    // A step that ends meanwhile is seen at the next look at the latest.
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_for(lock, kLook);
  }
}

void StepGate::Open() {
  const std::vector<std::shared_ptr<Call>> queue = TakeQueue(true);
  const NoBlockingHere refused;
  for (const auto& call : queue) {
    if (const Call::Begin begin = call->Take()) begin(absl::OkStatus());
  }
}

}  // namespace troupe
