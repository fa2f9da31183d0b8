// A play in which a session's actor is asked, and the answers are written down.
#ifndef TROUPE_TESTS_CAST_ASKED_H_
#define TROUPE_TESTS_CAST_ASKED_H_

#include <string>

#include "tests/cast/play.h"

namespace troupe {

// Calls whose answers are written down.
struct Asked : Play {
  std::string said;
  std::string Go() {
    return stage.Play([this] { return std::exchange(said, ""); });
  }
  void Note(const char* what, const absl::Status& s) {
    StrAppend(&said, what, " ", absl::StatusCodeToString(s.code()), "; ");
  }

  void AskExtend(const char* name) {
    AskThen<extend_reply>(stage.system(), ActorOf(*session), OneMore(name),
                          [this](const extend_reply& r) { Note("extend", r.status); });
  }
  // Returns who asks.
  caf::strong_actor_ptr AskCompile(const Names& feeds, const Names& fetches) {
    auto asker = NewListener<compile_reply>(stage.system(), Reply<compile_reply>([this](const compile_reply& r) {
                                              BOOST_TEST(r.status.ok() == (r.found != nullptr));
                                              Note("compile", r.status);
                                            }));
    caf::actor_cast<caf::abstract_actor*>(ActorOf(*session))
        ->enqueue(AsRequest(asker, compile_request{7, feeds, fetches, {}, false}), nullptr);
    return asker;
  }
  void Withdraw(const caf::strong_actor_ptr& asker) {
    caf::actor_cast<caf::abstract_actor*>(ActorOf(*session))
        ->enqueue(caf::make_mailbox_element(asker, caf::make_message_id(), {}, withdraw_compile{7}), nullptr);
  }
  void AskClose() {
    AskThen<close_reply>(stage.system(), ActorOf(*session), close_request{},
                         [this](const close_reply& r) { Note("close", r.status); });
  }
};

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_ASKED_H_
