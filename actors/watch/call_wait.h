// Waits for the answer to one call: until the answer, the call's deadline, or its cancellation.
//
//   const Deadline deadline = Deadline::In(options.timeout_ms, now);
//   auto wait = std::make_shared<CallWait<absl::StatusOr<int>>>();
//   Ask([wait](auto answer) { wait->Set(std::move(answer)); });
//   return wait->Wait(deadline, options.cancellation, "the question was not answered");
//
// The answer may come after the caller has left: the answering side holds a share of the wait, and
// a late answer is dropped.
//
// Thread rule: all methods are thread safe; Wait is called once.
#ifndef TROUPE_ACTORS_WATCH_CALL_WAIT_H_
#define TROUPE_ACTORS_WATCH_CALL_WAIT_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/session.h"
#include "troupe/status.h"

namespace troupe {

using SteadyTime = std::chrono::steady_clock::time_point;

// Converts a user's milliseconds to a point in time. A time too far in the future to be represented
// becomes "never" (SteadyTime::max()).
SteadyTime TimeAfter(SteadyTime begun, int64_t ms);

struct Deadline {
  int64_t ms = 0;  // as the caller gave it, for messages; zero or less: there is none
  SteadyTime at = SteadyTime::max();
  static Deadline In(int64_t ms, SteadyTime now) { return ms > 0 ? Deadline{ms, TimeAfter(now, ms)} : Deadline{}; }
};

// Something that a cancellation token can end.
class Cancellable {
 public:
  // Called on the thread that cancels, under the token's lock. Must neither block nor call users'
  // code. One that throws std::bad_alloc is called again, and so are others, until all have heard.
  virtual void OnCancel() = 0;

 protected:
  ~Cancellable() = default;
};

struct CancellationToken::Impl {
  // Tells all. Throws std::bad_alloc, after which it is to be called again; not by who holds locks.
  void Cancel();

  std::mutex mu;
  bool cancelled = false;
  std::vector<Cancellable*> entries;
};

// Registers `what` with a token while this object lives; `what` must live at least as long. A null
// token never cancels.
class Cancellation {
 public:
  Cancellation(const CancellationToken* token, Cancellable* what);
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;
  // True when the token was cancelled before the registration. A later cancellation calls OnCancel.
  bool cancelled() const;

 private:
  const std::shared_ptr<CancellationToken::Impl> impl_;
  Cancellable* const what_;
};

absl::Status CancelledByCaller();

// Waits for an answer of type T, which must be constructible from an absl::Status.
template <class T>
class CallWait : public Cancellable {
 public:
  // The first answer counts. One that comes after Wait's end is dropped.
  void Set(T value) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!ended_ && !value_) value_.emplace(std::move(value));
    came_.notify_all();
  }
  // The answer; DEADLINE_EXCEEDED or CANCELLED when that comes first. `late`: what a missed
  // deadline is called, "the call was not answered".
  T Wait(const Deadline& deadline, const CancellationToken* token, std::string_view late) {
    const Cancellation cancellation(token, this);
    if (cancellation.cancelled()) OnCancel();
    std::unique_lock<std::mutex> lock(mu_);
    const auto over = [&] { return value_.has_value() || cancelled_; };
    if (deadline.at == SteadyTime::max()) {
      came_.wait(lock, over);
    } else {
      came_.wait_until(lock, deadline.at, over);
    }
    ended_ = true;
    if (value_) return *std::exchange(value_, std::nullopt);
    if (cancelled_) return T(CancelledByCaller());
    return T(DeadlineExceeded(late, " within ", deadline.ms, " ms"));
  }
  T Wait() { return Wait({}, nullptr, ""); }
  void OnCancel() override {
    std::lock_guard<std::mutex> lock(mu_);
    cancelled_ = true;
    came_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable came_;
  std::optional<T> value_;
  bool cancelled_ = false, ended_ = false;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_WATCH_CALL_WAIT_H_
