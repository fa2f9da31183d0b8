// A compiled signature, for tests that lease its executors themselves.
#ifndef TROUPE_TESTS_ACTORS_SIGNATURES_H_
#define TROUPE_TESTS_ACTORS_SIGNATURES_H_

#include <future>
#include <memory>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"

namespace troupe {

// Asks the session's actor. Null when it has none, or cannot compile it.
inline std::shared_ptr<Signature> SignatureOf(const Session& session, const Names& feeds, const Names& fetches,
                                              const Names& targets = {}) {
  auto made = std::make_shared<std::promise<std::shared_ptr<Signature>>>();
  AskThen<compile_reply>(*session.runtime()->impl()->system, ActorOf(session),
                         compile_request{1, feeds, fetches, targets, false},
                         [made](compile_reply r) { made->set_value(std::move(r.found)); });
  return made->get_future().get();
}

}  // namespace troupe

#endif  // TROUPE_TESTS_ACTORS_SIGNATURES_H_
