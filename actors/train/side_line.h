// A thread beside a loop of training that looks at something now and then, and says what it sees to
// whoever waits in the loop, by a step of a session of its own.
//
//   SideLine line(graph, options.session, [](SideLine& line) { ... line.Run(feeds, op) ... });
//
// Thread rule: made and destroyed by one thread; Run is for the tick.
#ifndef TROUPE_ACTORS_TRAIN_SIDE_LINE_H_
#define TROUPE_ACTORS_TRAIN_SIDE_LINE_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "troupe/session.h"

namespace troupe::train {

class SideLine {
 public:
  static constexpr std::chrono::milliseconds kLook{50};

  // `tick` is called every kLook.
  SideLine(const Graph* graph, const SessionOptions& session, std::function<void(SideLine&)> tick)
      : graph_(graph), options_(session), tick_(std::move(tick)), thread_([this] { Loop(); }) {}
  ~SideLine() {
    {
      std::lock_guard<std::mutex> lock(mu_);
      ended_ = true;
    }
    end_.notify_all();
    cancel_.Cancel();
    thread_.join();
  }
  SideLine(const SideLine&) = delete;
  SideLine& operator=(const SideLine&) = delete;

  // Within a second, or not at all.
  absl::Status Run(const Feeds& feeds, const Operation& op) {
    if (session_ == nullptr) {
      SessionOptions o = options_;
      o.share_variables = true;
      TROUPE_ASSIGN_OR_RETURN(session_, Session::Create(o));
      TROUPE_RETURN_IF_ERROR(session_->Extend(*graph_));
    }
    RunOptions run;
    run.timeout_ms = 1000;
    run.cancellation = &cancel_;
    absl::Status ran = session_->Run(run, feeds, {}, {op}, nullptr, nullptr);
    if (!ran.ok()) session_ = nullptr;
    return ran;
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mu_);
    while (!end_.wait_for(lock, kLook, [this] { return ended_; })) {
      lock.unlock();
      tick_(*this);
      lock.lock();
    }
  }

  const Graph* const graph_;
  const SessionOptions options_;
  const std::function<void(SideLine&)> tick_;
  std::unique_ptr<Session> session_;  // of the thread
  CancellationToken cancel_;
  std::mutex mu_;
  std::condition_variable end_;
  bool ended_ = false;  // guarded by mu_
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_SIDE_LINE_H_
