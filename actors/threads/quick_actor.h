// An actor some of whose messages the network's thread may handle where they come (loop_turns.h).
//
// State says which: `static bool IsQuick(const caf::type_erased_tuple&)`, of a message, and
// `bool MayRunInLoop() const`, of the actor as it is now. What is not quick waits for the
// scheduler, and so does everything behind it. If State has a `kByTheClock`, what is quick comes
// so, and nothing is likely to follow it.
//
//   caf::behavior Behavior(QuickActor<State>* self, ...);
//   system.spawn<caf::hidden>(Behavior, ...);
//
// Thread rule: that of the actor; enqueue from any thread.
#ifndef TROUPE_ACTORS_THREADS_QUICK_ACTOR_H_
#define TROUPE_ACTORS_THREADS_QUICK_ACTOR_H_

#include <atomic>
#include <caf/downstream_msg.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/upstream_msg.hpp>
#include <utility>

#include "actors/threads/loop_turns.h"
#include "actors/threads/surely.h"

namespace troupe {

template <class State>
class QuickActor : public caf::stateful_actor<State>, public ShortTurns {
 public:
  explicit QuickActor(caf::actor_config& cfg) : caf::stateful_actor<State>(cfg) {}
  bool MayRunInLoop() const override { return slow_.load() == 0 && this->state.MayRunInLoop(); }
  bool IsTalk() const override {
    return !requires { State::kByTheClock; };
  }
  void ResumeElsewhere() noexcept override { ScheduleSurely(this->home_system(), this); }

  using caf::stateful_actor<State>::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit* unit) override {
    // Before it can be taken.
    if (element != nullptr && IsSlow(element->content())) slow_.fetch_add(1);
    caf::stateful_actor<State>::enqueue(std::move(element), unit);
  }
  using caf::stateful_actor<State>::consume;
  caf::invoke_message_result consume(caf::mailbox_element& element) override {
    // Whoever handles it may take what is in it.
    const bool slow = IsSlow(element.content());
    const caf::invoke_message_result result = caf::stateful_actor<State>::consume(element);
    if (slow && result != caf::invoke_message_result::skipped) slow_.fetch_sub(1);
    return result;
  }

 private:
  // What is sent to a stream of CAF's is dropped without being consumed.
  static bool IsSlow(const caf::type_erased_tuple& m) {
    return !State::IsQuick(m) && !m.match_elements<caf::upstream_msg>() && !m.match_elements<caf::downstream_msg>();
  }

  std::atomic<int> slow_{0};  // messages in the mailbox that are not quick
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_QUICK_ACTOR_H_
