#include "troupe/actors/step_clock.h"

#include <algorithm>
#include <system_error>

#include <spdlog/spdlog.h>

#include "troupe/actors/actor_thread.h"
#include "troupe/actors/step_watch.h"

namespace troupe {

ThreadClock::~ThreadClock() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void ThreadClock::Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) {
  std::lock_guard<std::mutex> lock(mu_);
  Note(watch, watch.get(), when);
  if (thread_.joinable() || stop_) return;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& e) {
    // The next step that is watched tries again.
    spdlog::error("deadlines are not met: the system has no thread left for their clock ({})", e.what());
  }
}

// REQUIRES: mu_ is held.
void ThreadClock::Note(std::weak_ptr<StepWatch> watch, const StepWatch* key, SteadyTime when) {
  if (when == SteadyTime::max()) return;
  const auto [it, is_new] = alarms_.try_emplace(key, Alarm{watch, when});
  if (!is_new) {
    // Another watch may have been made where one was that has gone.
    it->second = {std::move(watch), it->second.watch.expired() ? when : std::min(when, it->second.when)};
  }
  changed_.notify_all();
}

void ThreadClock::Run() {
  const NoBlockingHere no_blocking;
  std::unique_lock<std::mutex> lock(mu_);
  while (!stop_) {
    const auto first = std::min_element(alarms_.begin(), alarms_.end(),
                                        [](const auto& a, const auto& b) { return a.second.when < b.second.when; });
    if (first == alarms_.end()) {
      changed_.wait(lock);
      continue;
    }
    if (first->second.when > Now()) {
      changed_.wait_until(lock, SteadyTime(first->second.when));
      continue;
    }
    const StepWatch* key = first->first;
    std::weak_ptr<StepWatch> weak = std::move(first->second.watch);
    alarms_.erase(first);
    lock.unlock();
    SteadyTime next = SteadyTime::max();
    if (const std::shared_ptr<StepWatch> watch = weak.lock()) next = watch->Look();
    lock.lock();
    Note(std::move(weak), key, next);
  }
}

}  // namespace troupe
