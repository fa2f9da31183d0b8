#include "actors/threads/lane.h"

#include <algorithm>
#include <caf/actor_system.hpp>

#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"

namespace troupe {
namespace {

thread_local int lane_depth = 0;

}  // namespace

bool InsideLane() { return lane_depth > 0; }
LaneTurn::LaneTurn() { ++lane_depth; }
LaneTurn::~LaneTurn() { --lane_depth; }

Lane::Lane(caf::actor_system* system, caf::execution_unit* elsewhere)
    : caf::execution_unit(system), elsewhere_(elsewhere), remote_(system, this) {}

Lane::~Lane() {
  for (; head_ < queue_.size(); ++head_) Elsewhere(queue_[head_]);
  for (caf::resumable* r : inbox_) Elsewhere(r);
}

void Lane::Own(std::vector<caf::resumable*> actors) {
  own_ = std::move(actors);
  // Each is queued once at most, and once more while it is being resumed.
  queue_.reserve(2 * own_.size());
  inbox_.reserve(2 * own_.size());
}

void Lane::Elsewhere(caf::resumable* actor) {
  if (elsewhere_ != nullptr) {
    elsewhere_->exec_later(actor);
  } else {
    ScheduleSurely(system(), actor);
  }
}

void Lane::Attach() {
  std::lock_guard<std::mutex> lock(mu_);
  thread_ = std::this_thread::get_id();
  attached_ = true;
  woken_ = false;
}

void Lane::Detach() {
  absl::InlinedVector<caf::resumable*, 4> left;
  {
    std::lock_guard<std::mutex> lock(mu_);
    attached_ = false;
    thread_ = std::thread::id();
  }
  // From here on nobody adds to the inbox, which keeps its room, as the queue does: clear() would
  // give it back.
  filled_.store(false, std::memory_order_relaxed);
  if (!inbox_.empty()) {
    UntilMemoryAllows([&] { left.reserve(2 * own_.size()); });
    left.swap(inbox_);
  }
  for (; head_ < queue_.size(); ++head_) Elsewhere(queue_[head_]);
  queue_.erase(queue_.begin(), queue_.end());
  head_ = 0;
  for (caf::resumable* r : left) Elsewhere(r);
}

void Lane::exec_later(caf::resumable* actor) {
  if (std::find(own_.begin(), own_.end(), actor) != own_.end()) {
    queue_.push_back(actor);
  } else {
    ScheduleSurely(system(), actor);
  }
}

void Lane::Remote::exec_later(caf::resumable* actor) {
  std::unique_lock<std::mutex> lock(lane_->mu_);
  if (!lane_->attached_) {
    // The lane may be gone as soon as somebody else has the actor.
    caf::actor_system& system = this->system();
    caf::execution_unit* const elsewhere = lane_->elsewhere_;
    lock.unlock();
    if (elsewhere == nullptr) return ScheduleSurely(system, actor);
    return elsewhere->exec_later(actor);
  }
  lane_->inbox_.push_back(actor);
  lane_->filled_.store(true, std::memory_order_release);
  lane_->woken_.store(true, std::memory_order_release);
  // Under the lock: the lane may be gone as soon as it has seen the actor.
  lane_->wake_.notify_one();
}

void Lane::TakeInbox() {
  std::lock_guard<std::mutex> lock(mu_);
  filled_.store(false, std::memory_order_relaxed);
  if (queue_.empty()) return queue_.swap(inbox_);
  queue_.insert(queue_.end(), inbox_.begin(), inbox_.end());
  // clear() would give the room back.
  inbox_.erase(inbox_.begin(), inbox_.end());
}

bool Lane::DrainSome() {
  // One message a turn, so that the caller can look at its deadline in between.
  constexpr size_t kThroughput = 1;
  // Each time: actors that resume each other for long keep nobody else waiting.
  if (filled_.load(std::memory_order_acquire)) [[unlikely]]
    TakeInbox();
  for (size_t end = queue_.size(); head_ < end;) {
    caf::resumable* r = queue_[head_++];
    switch (r->resume(this, kThroughput)) {
      case caf::resumable::resume_later:
        queue_.push_back(r);
        break;
      case caf::resumable::awaiting_message:
      case caf::resumable::done:
        caf::intrusive_ptr_release(r);
        break;
      case caf::resumable::shutdown_execution_unit:
        break;
    }
  }
  // Who has been resumed is forgotten: the queue stays as short as what waits, however many steps
  // the lane runs.
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
  return !queue_.empty() || filled_.load(std::memory_order_acquire);
}

void Lane::Wait() {
  // A job of the step that this thread has run itself rang the lane's own bell.
  if (head_ < queue_.size()) return;
  std::unique_lock<std::mutex> lock(mu_);
  wake_.wait(lock, [&] { return woken_ || !inbox_.empty(); });
  woken_ = false;
}

void Lane::Wake() {
  WakeIf([] { return true; });
}

}  // namespace troupe
