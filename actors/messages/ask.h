// A request to an actor by a thread that may wait, and is no actor.
//
// Thread rule: any thread that may block (threads/actor_thread.h).
#ifndef TROUPE_ACTORS_MESSAGES_ASK_H_
#define TROUPE_ACTORS_MESSAGES_ASK_H_

#include <caf/all.hpp>
#include <string_view>
#include <utility>

#include "actors/threads/actor_thread.h"
#include "actors/wire/wire.h"

namespace troupe {

// The reply to `message`; ABORTED when the actor ends without one, DEADLINE_EXCEEDED when `wait` is
// over before it comes (with the message `late` and " in time"). `through_bytes`: both pass through
// their bytes, as if the actor were in another process (wire/wire.h).
template <class R, class Message>
absl::StatusOr<R> Ask(caf::actor_system& system, const caf::actor& to, Message message, bool through_bytes,
                      caf::duration wait = caf::infinite, std::string_view late = "the actor did not answer") {
  if (through_bytes) {
    TROUPE_ASSIGN_OR_RETURN(message, wire::ThroughBytes(system, message));
  }
  absl::StatusOr<R> answer = absl::AbortedError("the actor that was asked ended without an answer");
  {
    NoLoggerAfter restore;
    caf::scoped_actor self(system, true);
    self->request(to, wait, std::move(message))
        .receive([&](R& reply) { answer = std::move(reply); },
                 [&](const caf::error& e) {
                   if (e == caf::sec::request_timeout) answer = DeadlineExceeded(late, " in time");
                 });
  }
  if (through_bytes && answer.ok()) return wire::ThroughBytes(system, *answer);
  return answer;
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_MESSAGES_ASK_H_
