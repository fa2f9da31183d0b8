// Sends and schedules where a failed allocation must not lose an actor's turn.
//
// CAF puts a message into a mailbox first, and then tells its scheduler, which allocates. If that
// fails, the actor has a message for which nobody will resume it: later messages find the mailbox
// in use and do not schedule it either.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_THREADS_SURELY_H_
#define TROUPE_ACTORS_THREADS_SURELY_H_

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/exit_reason.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/no_stages.hpp>
#include <caf/ref_counted.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/system_messages.hpp>

#include <utility>

#include "actors/threads/no_memory.h"

namespace troupe {

// The scheduler of the actor system resumes `actor`, as soon as there is memory to note it.
inline void ScheduleSurely(caf::actor_system& system, caf::resumable* actor) noexcept {
  UntilMemoryAllows([&] { system.scheduler().enqueue(actor); });
}

// The scheduler calls `work`, soon. False, and nothing is called, when there is no memory for that.
template <class F>
bool RunUnderScheduler(caf::actor_system& system, F work) noexcept {
  class Job final : public caf::resumable, public caf::ref_counted {
   public:
    explicit Job(F work) : work_(std::move(work)) {}
    subtype_t subtype() const override { return function_object; }
    resume_result resume(caf::execution_unit*, size_t) override {
      work_();
      return done;
    }
    void intrusive_ptr_add_ref_impl() override { ref(); }
    void intrusive_ptr_release_impl() override { deref(); }

   private:
    F work_;
  };
  Job* job = nullptr;
  try {
    job = new Job(std::move(work));
    system.scheduler().enqueue(job);
    return true;
  } catch (const std::bad_alloc&) {
    delete job;
    return false;
  }
}

// Sends a message to an actor, which the scheduler resumes.
inline void EnqueueSurely(caf::actor_system& system, caf::abstract_actor* to,
                          caf::mailbox_element_ptr element) noexcept {
  class Unit final : public caf::execution_unit {
   public:
    using execution_unit::execution_unit;
    void exec_later(caf::resumable* actor) override { ScheduleSurely(this->system(), actor); }
  };
  Unit unit(&system);
  try {
    to->enqueue(std::move(element), &unit);
  } catch (const std::bad_alloc&) {
    // The actor is dead, and there is no memory for a refusal. Who asked hears it from a Listener
    // (messages/reply.h) that is dropped.
  }
}

// Sends what `make()` returns; nothing, if there is nobody. `make` may throw std::bad_alloc: CAF's
// messages of errors and exits allocate when they are made.
template <class F>
void SendSurely(caf::actor_system& system, const caf::actor& to, F&& make,
                const caf::strong_actor_ptr& from = nullptr) noexcept {
  if (!to) return;
  caf::mailbox_element_ptr element;
  UntilMemoryAllows([&] { element = caf::make_mailbox_element(from, caf::make_message_id(), caf::no_stages, make()); });
  EnqueueSurely(system, caf::actor_cast<caf::abstract_actor*>(to), std::move(element));
}

// The end of an actor, as its owner says it.
inline void StopSurely(caf::actor_system& system, const caf::actor& to) noexcept {
  SendSurely(system, to, [&] { return caf::exit_msg{to.address(), caf::exit_reason::user_shutdown}; });
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_SURELY_H_
