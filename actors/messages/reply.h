// The answer to one request, given once, and whom it reaches. If an actor dies, or drops the
// request without an answer, whoever asked gets ABORTED. So no caller waits forever.
//
//   // Who asks, and is no actor; from any thread:
//   AskThen<compile_reply>(system, to, compile_request{...}, [](compile_reply r) { ... });
//   // The actor that is asked, in its handler:
//   Reply<compile_reply> reply = ReplyToSender<compile_reply>(self);
//   ... reply(compile_reply{...});  // now or later, on any thread
//
// Request and reply are messages of CAF's, so either side may be anywhere. A Listener is the
// receiver of a reply for somebody who is no actor: it has no mailbox, and tells what it is sent at
// once, on the thread that sends it.
//
// Thread rule: a Reply belongs to one thread at a time; the answer is given on the thread that
// calls or destroys it. Listeners, AskThen: any thread.
#ifndef TROUPE_ACTORS_MESSAGES_REPLY_H_
#define TROUPE_ACTORS_MESSAGES_REPLY_H_

#include <caf/all.hpp>
#include <atomic>
#include <functional>
#include <type_traits>
#include <utility>

#include "actors/threads/aside.h"
#include "actors/threads/surely.h"
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

// An answer to the message that an actor is handling, sent to whoever sent it.
template <class T>
Reply<T> ReplyTo(caf::strong_actor_ptr sender, caf::message_id id) {
  return Reply<T>([to = std::move(sender), id](T value) {
    if (!to) return;
    caf::mailbox_element_ptr answer;
    UntilMemoryAllows([&] { answer = caf::make_mailbox_element(nullptr, id.response_id(), caf::no_stages, T(value)); });
    EnqueueSurely(*to->home_system, caf::actor_cast<caf::abstract_actor*>(to), std::move(answer));
  });
}
template <class T, class Actor>
Reply<T> ReplyToSender(Actor* self) {
  const caf::response_promise promise = self->make_response_promise();
  return ReplyTo<T>(promise.source(), promise.id());
}

// The answer of a handler that returns nothing: the message was handled.
struct Handled {
  absl::Status status;
};

template <class T>
class Listener : public caf::monitorable_actor {
 public:
  explicit Listener(Reply<T> heard, caf::actor_config config = caf::actor_config())
      : caf::monitorable_actor(config), heard_(std::move(heard)) {}
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (what == nullptr || !what->mid.is_response() || over_.exchange(true)) return;
    // An error is CAF's word for "nobody is there"; so it says what a dropped reply says.
    CallUser("a callback", [&] {
      Reply<T> heard = std::move(heard_);
      caf::type_erased_tuple& content = what->content();
      if constexpr (std::is_same_v<T, Handled>) {
        if (content.empty()) heard(Handled{});
      } else {
        if (content.match_elements<T>()) heard(std::move(content.get_mutable_as<T>(0)));
      }
    });
  }

 private:
  std::atomic<bool> over_{false};
  Reply<T> heard_;
};

template <class T>
caf::strong_actor_ptr NewListener(caf::actor_system& system, Reply<T> heard) {
  return caf::make_actor<Listener<T>, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system,
                                                             std::move(heard));
}

// A message that `sender` asks an answer to. Each sender asks once.
template <class Message>
caf::mailbox_element_ptr AsRequest(caf::strong_actor_ptr sender, Message message) {
  return caf::make_mailbox_element(std::move(sender), caf::message_id(1).with_normal_priority(), {},
                                   std::move(message));
}

template <class T, class Message>
void AskThen(caf::actor_system& system, const caf::actor& to, Message message, Reply<T> heard) {
  if (!to) return;  // the reply says so
  auto listener = NewListener<T>(system, std::move(heard));
  EnqueueSurely(system, caf::actor_cast<caf::abstract_actor*>(to), AsRequest(std::move(listener), std::move(message)));
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_MESSAGES_REPLY_H_
