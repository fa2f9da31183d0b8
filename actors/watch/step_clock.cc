#include "actors/watch/step_clock.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "actors/threads/actor_thread.h"
#include "actors/watch/step_watch.h"

namespace troupe {

struct ThreadClock::State {
  void Run();
  // REQUIRES: mu is held.
  void Note(std::weak_ptr<StepWatch> watch, const StepWatch* key, SteadyTime when);

  std::mutex mu;
  std::condition_variable changed;
  struct Alarm {
    std::weak_ptr<StepWatch> watch;
    SteadyTime when;
  };
  std::map<const StepWatch*, Alarm> alarms;  // few: one a session
  bool stop = false;
};

ThreadClock::ThreadClock() : state_(std::make_shared<State>()), thread_([state = state_] { state->Run(); }) {}

ThreadClock::~ThreadClock() {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->stop = true;
    state_->changed.notify_all();
  }
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void ThreadClock::Wake(const std::shared_ptr<StepWatch>& watch, SteadyTime when) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->Note(watch, watch.get(), when);
}

void ThreadClock::Forget(const StepWatch* watch) {
  std::lock_guard<std::mutex> lock(state_->mu);
  state_->alarms.erase(watch);
}

size_t ThreadClock::alarms() const {
  std::lock_guard<std::mutex> lock(state_->mu);
  return state_->alarms.size();
}

void ThreadClock::State::Note(std::weak_ptr<StepWatch> watch, const StepWatch* key, SteadyTime when) {
  if (when == SteadyTime::max()) return;
  const auto [it, is_new] = alarms.try_emplace(key, Alarm{watch, when});
  if (!is_new) it->second = {std::move(watch), std::min(when, it->second.when)};
  changed.notify_all();
}

// Deadlines must be kept when memory has run out: nothing here allocates.
void ThreadClock::State::Run() {
  const NoBlockingHere no_blocking;
  std::unique_lock<std::mutex> lock(mu);
  while (!stop) {
    const auto first = std::min_element(alarms.begin(), alarms.end(),
                                        [](const auto& a, const auto& b) { return a.second.when < b.second.when; });
    if (first == alarms.end() || first->second.when == SteadyTime::max()) {
      changed.wait(lock);
      continue;
    }
    if (first->second.when > std::chrono::steady_clock::now()) {
      changed.wait_until(lock, SteadyTime(first->second.when));
      continue;
    }
    const StepWatch* key = first->first;
    const std::weak_ptr<StepWatch> weak = first->second.watch;
    first->second.when = SteadyTime::max();
    lock.unlock();
    SteadyTime next = SteadyTime::max();
    // The last share of the watch may go here, and with it the clock.
    if (const std::shared_ptr<StepWatch> watch = weak.lock()) next = watch->Look();
    lock.lock();
    // A watch that has ended was forgotten, and another may have been made where it was.
    const auto it = alarms.find(key);
    if (it != alarms.end() && !weak.expired()) it->second.when = std::min(next, it->second.when);
  }
}

}  // namespace troupe
