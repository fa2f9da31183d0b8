// The answer to one message, given once. If an actor dies, or destroys the reply without an answer,
// the caller gets ABORTED. So no caller waits forever.
//
// Thread rule: one thread at a time; the answer is given on the thread that calls or destroys the
// reply.
#ifndef TROUPE_ACTORS_REPLY_H_
#define TROUPE_ACTORS_REPLY_H_

#include <functional>
#include <utility>

#include "troupe/status.h"

namespace troupe {

// T must be constructible from an absl::Status.
template <class T>
class Reply {
 public:
  Reply() = default;
  template <class F>
  Reply(F f) : f_(std::move(f)) {}  // NOLINT: a call is made with a lambda
  Reply(Reply&& o) noexcept : f_(std::exchange(o.f_, nullptr)) {}
  Reply& operator=(Reply&& o) noexcept {
    Drop();
    f_ = std::exchange(o.f_, nullptr);
    return *this;
  }
  ~Reply() { Drop(); }
  void operator()(T value) {
    if (auto f = std::exchange(f_, nullptr)) f(std::move(value));
  }

 private:
  void Drop() {
    if (f_) (*this)(T(absl::AbortedError("the actor that was asked ended without an answer")));
  }
  std::function<void(T)> f_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_REPLY_H_
