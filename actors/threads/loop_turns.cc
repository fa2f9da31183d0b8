#include "actors/threads/loop_turns.h"

#include <atomic>
#include <caf/actor_system.hpp>
#include <new>
#include <optional>
#include <utility>

#include "actors/threads/actor_thread.h"
#include "actors/threads/surely.h"
#include "troupe/compute_threads.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// As long as the thread: CAF remembers in which unit an actor was resumed last.
thread_local std::optional<LoopTurns> of_thread;
thread_local LoopTurns* here = nullptr;
thread_local uint64_t messages = 0;
thread_local std::optional<Clock::time_point> ran_at;
std::atomic<uint64_t> turns_of_all{0};

}  // namespace

LoopTurns* LoopTurns::Here() { return here != nullptr && here->open_ && !here->time_over_ ? here : nullptr; }

uint64_t LoopTurns::Messages() { return messages; }
uint64_t LoopTurns::TurnsOfAll() { return turns_of_all.load(std::memory_order_relaxed); }
bool LoopTurns::HasRan() { return ran_at.has_value(); }
std::optional<Clock::time_point> LoopTurns::TakeRan() { return std::exchange(ran_at, std::nullopt); }

LoopTurns::Message::Message(caf::execution_unit* loop)
    : turns_([loop] {
        if (!of_thread || &of_thread->system() != &loop->system()) of_thread.emplace(&loop->system(), loop);
        of_thread->loop_ = loop;
        return &*of_thread;
      }()) {
  here = turns_;
  ++messages;
  turns_->open_ = true;
  turns_->time_over_ = false;
}

LoopTurns::Message::~Message() {
  turns_->open_ = false;
  here = nullptr;
}

void LoopTurns::exec_later(caf::resumable* actor) {
  auto* const turns = dynamic_cast<ShortTurns*>(actor);
  if (turns == nullptr) return loop_->exec_later(actor);
  if (open_ && !time_over_ && turns->MayRunInLoop()) {
    try {
      return queue_.push_back({actor, turns});
    } catch (const std::bad_alloc&) {
      // Whoever wakes it may have the lock that it would need to say where it belongs.
      return ScheduleSurely(system(), actor);
    }
  }
  turns->ResumeElsewhere();
}

void LoopTurns::Resume(const Waiting& next) {
  turns_of_all.fetch_add(1, std::memory_order_relaxed);
  const ComputeThreads::LoopOwner owner(next.actor);
  switch (next.actor->resume(this, 1)) {
    case caf::resumable::resume_later:
      return exec_later(next.actor);
    case caf::resumable::awaiting_message:
    case caf::resumable::done:
      return caf::intrusive_ptr_release(next.actor);
    case caf::resumable::shutdown_execution_unit:
      return;
  }
}

void LoopTurns::Drain() {
  if (queue_.empty()) return;
  const NoBlockingHere refuse;
  const ScopedFlushDenormals flush;
  const Clock::time_point begun = Clock::now();
  Clock::time_point before = begun;
  for (size_t i = 0; i < queue_.size(); ++i) {
    const Waiting next = queue_[i];
    if (time_over_) {
      next.turns->ResumeElsewhere();
      continue;
    }
    // It may be gone with its turn.
    const caf::intrusive_ptr<caf::resumable> keep(next.actor);
    if (!ran_at && next.turns->IsTalk()) ran_at = begun;
    Resume(next);
    const Clock::time_point now = Clock::now();
    if (now - before > kMost) next.turns->TookLong(now - before);
    time_over_ = now - begun > kMost;
    before = now;
  }
  queue_.clear();
}

}  // namespace troupe
