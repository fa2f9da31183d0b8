// Sends and schedules where a failed allocation must not lose an actor's turn.
//
// CAF puts a message into a mailbox first, and then tells its scheduler, which allocates. If that
// fails, the actor has a message for which nobody will resume it: later messages find the mailbox
// in use and do not schedule it either.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_THREADS_SURELY_H_
#define TROUPE_ACTORS_THREADS_SURELY_H_

#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/no_stages.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include <utility>

#include "actors/threads/no_memory.h"

namespace troupe {

// The scheduler of the actor system resumes `actor`, as soon as there is memory to note it.
inline void ScheduleSurely(caf::actor_system& system, caf::resumable* actor) noexcept {
  UntilMemoryAllows([&] { system.scheduler().enqueue(actor); });
}

// Sends what `make()` returns to an actor, which the scheduler resumes. `make` may throw
// std::bad_alloc: CAF's messages of errors and exits allocate when they are made.
template <class F>
void SendSurely(caf::actor_system& system, const caf::actor& to, F&& make) noexcept {
  class Unit final : public caf::execution_unit {
   public:
    using execution_unit::execution_unit;
    void exec_later(caf::resumable* actor) override { ScheduleSurely(this->system(), actor); }
  };
  Unit unit(&system);
  caf::mailbox_element_ptr element;
  UntilMemoryAllows(
      [&] { element = caf::make_mailbox_element(nullptr, caf::make_message_id(), caf::no_stages, make()); });
  to->enqueue(std::move(element), &unit);
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_SURELY_H_
