#include "actors/snapshot/step_gate.h"

#include <chrono>
#include <new>
#include <system_error>
#include <thread>

#include "actors/threads/actor_thread.h"

namespace troupe {
namespace {

// How often who waits looks whether the session is closed, or the call is cancelled.
constexpr auto kLook = std::chrono::milliseconds(5);

// Calls `look` every few milliseconds on a thread of its own, as long as it lives. When the system
// has no thread left, nothing is looked at.
class Lookout {
 public:
  explicit Lookout(std::function<void()> look) : look_(std::move(look)) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
    }
  }
  ~Lookout() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      over_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mu_);
    while (!changed_.wait_for(lock, kLook, [this] { return over_; })) {
      lock.unlock();
      try {
        look_();
      } catch (const std::bad_alloc&) {
        // The next look may have memory.
      }
      lock.lock();
    }
  }
  const std::function<void()> look_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace

absl::Status StepGate::Ended(const Deadline& deadline, const CancellationToken* token) const {
  if (closed_->load(std::memory_order_relaxed)) return Cancelled("the session is closed");
  if (token != nullptr && token->cancelled()) return CancelledByCaller();
  if (std::chrono::steady_clock::now() >= deadline.at) {
    return DeadlineExceeded("the step has not begun within ", deadline.ms,
                            " ms: it waited until a snapshot of the session's state was taken");
  }
  return absl::OkStatus();
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
  std::lock_guard<std::mutex> lock(mu_);
  if (!Holds(level)) return false;
  queue_.push_back({deadline, token != nullptr ? std::optional(*token) : std::nullopt, std::move(begin)});
  return true;
}

void StepGate::StepOver() {
  std::lock_guard<std::mutex> lock(mu_);
  changed_.notify_all();
}

void StepGate::LookThroughQueue() {
  std::list<std::pair<Queued, absl::Status>> ended;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = queue_.begin(); it != queue_.end();) {
      absl::Status s = Ended(it->deadline, it->token ? &*it->token : nullptr);
      if (s.ok()) {
        ++it;
        continue;
      }
      ended.emplace_back(std::move(*it), std::move(s));
      it = queue_.erase(it);
    }
  }
  // A callback that runs a step of updates would wait for the gate, and the gate for the callback.
  const NoBlockingHere refused;
  for (auto& [call, status] : ended) call.begin(std::move(status));
}

absl::Status StepGate::WhileShut(SteadyTime at, const std::function<int()>& busy,
                                 const std::function<absl::Status()>& work) {
  std::unique_lock<std::timed_mutex> one(one_, std::defer_lock);
  while (!one.try_lock_for(kLook)) {
    if (closed_->load(std::memory_order_relaxed)) return Cancelled("the session is closed");
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
    if (under_way == 0) {
      // An update of another session may keep a variable for long.
      const Lookout lookout([this] { LookThroughQueue(); });
      return work();
    }
    if (closed_->load(std::memory_order_relaxed)) return Cancelled("the session is closed");
    if (std::chrono::steady_clock::now() >= at) {
      return DeadlineExceeded(under_way, " steps that update variables or fill queues have not ended in time");
    }
    LookThroughQueue();
    // A step that ends meanwhile is seen at the next look at the latest.
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_for(lock, kLook);
  }
}

void StepGate::Open() {
  std::list<Queued> begin;
  {
    std::lock_guard<std::mutex> lock(mu_);
    ShutBelow(0);
    begin.swap(queue_);
    changed_.notify_all();
  }
  const NoBlockingHere refused;
  for (Queued& call : begin) call.begin(absl::OkStatus());
}

}  // namespace troupe
