// An actor whose usual messages cost little.
//
// Problem: CAF looks first whether a message is one of seven of its own, then for the handler that
// takes it, and reads the clock at each turn, for streams. For an actor that does next to nothing
// with most messages this is half of what they cost.
//
// Contract: Self::Take is shown each message first. The rest goes CAF's way, to the behaviour. An
// exception of Take ends the actor as one of a handler does. What Take takes is not answered,
// nor asks it for the sender. Self asks nobody by CAF's `request` (the answers would pass through
// Take), and has neither streams nor a timeout (caf::after).
//
// Thread rule: that of the actor.
#ifndef TROUPE_ACTORS_THREADS_LEAN_ACTOR_H_
#define TROUPE_ACTORS_THREADS_LEAN_ACTOR_H_

#include <caf/event_based_actor.hpp>
#include <caf/execution_unit.hpp>
#include <caf/mailbox_element.hpp>

#include <cstddef>

namespace troupe {

// Self has `bool Take(caf::type_erased_tuple& content)`: whether it was one of the usual messages,
// which is handled then.
template <class Self>
class LeanActor : public caf::event_based_actor {
 public:
  using caf::event_based_actor::event_based_actor;

  using caf::event_based_actor::consume;
  caf::invoke_message_result consume(caf::mailbox_element& x) override {
    if (static_cast<Self*>(this)->Take(x.content())) return caf::invoke_message_result::consumed;
    return caf::event_based_actor::consume(x);
  }

  resume_result resume(caf::execution_unit* unit, size_t max_throughput) override {
    if (!activate(unit)) return done;
    size_t handled = 0;
    mailbox_visitor visit{this, handled, max_throughput};
    constexpr size_t kQuantum = 3, kUrgent = 2;  // CAF's
    while (handled < max_throughput) {
      mailbox().fetch_more();
      const auto urgent = get_urgent_queue().new_round(kUrgent * kQuantum, visit);
      const bool normal = !urgent.stop_all && get_normal_queue().new_round(kQuantum, visit).consumed_items;
      if (!urgent.consumed_items && !normal) {
        if (mailbox().try_block()) return awaiting_message;
        mailbox().new_round(kQuantum, visit);  // what somebody sent to a stream
      }
      if (finalize()) return done;
    }
    return mailbox().try_block() ? awaiting_message : resume_later;
  }
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_LEAN_ACTOR_H_
