// Messages between the runtime's own actors, and the numbers of all of them for CAF. What stands
// here stays within one process; what may leave it is declared in wire/ and, for users' actors, in
// troupe/actors.h.
//
// Thread rule: a message belongs to its receiver once it is sent.
#ifndef TROUPE_ACTORS_MESSAGES_MESSAGES_H_
#define TROUPE_ACTORS_MESSAGES_MESSAGES_H_

#include <caf/all.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "actors/executor/step_state.h"
#include "actors/wire/remote_messages.h"
#include "actors/wire/session_messages.h"
#include "troupe/actors.h"

namespace troupe {

struct token_message {
  std::shared_ptr<Token> token;
};
struct doorbell {};
struct go_on {};
// To a supervisor, by its own timer: the child with this number is due.
struct restart_child {
  uint64_t number = 0;
};
// To a supervisor: there is another child in its list, which runs already (Children::Adopt).
struct add_child {
  std::string name;
};
// Answered by child_removed when the child is gone, also if there was none of that name.
struct remove_child {
  std::string name;
};
struct child_removed {};
// To a session, answered by session_stats.
struct get_session_stats {};
struct session_stats {
  // Requests that wait for a signature and have not been withdrawn.
  uint64_t calls_waiting = 0;
};
// To a container: what a snapshot waited for has been saved.
struct resources_gathered {
  int64_t request = 0;
};
// To a device: the steps that it asked have answered, or have had their time.
struct holders_known {
  int64_t request = 0;
  bool time_is_over = false;
};
// To a device: the free blocks have been given back.
struct blocks_returned {
  int64_t request = 0;
  int64_t bytes = 0;
};
// To a device, by itself: whether it has been idle since it was asked last.
struct look_whether_idle {};
// To the actor of a resource that is asked (state/state_actors.h). One that is dropped unopened,
// because its actor died, goes back to its seat. A copy is an opened one.
class StateRequest;
class StateSeat;
struct state_letter {
  state_letter() = default;
  state_letter(state_letter&&) = default;
  state_letter(const state_letter&) {}
  state_letter& operator=(state_letter&&) = delete;
  ~state_letter();
  std::shared_ptr<StateSeat> to;  // null when it was opened
  uint64_t incarnation = 0;       // of the actor
  uint8_t kind = 0;               // a StateLetter::Kind
  std::shared_ptr<StateRequest> request;
};
// To a container: resources with actors of their own have been made, which it watches from now on.
struct states_came {};
// To the readiness actor: a chief has made its variables ready; how often it was told that; answer
// when it is more than that.
struct chief_ready {};
struct get_ready_count {};
struct await_ready {
  uint64_t after = 0;
  std::chrono::steady_clock::time_point until;  // who asks waits no longer
};
struct ready_count {
  uint64_t count = 0;
};
// To a session: the step that it runs for another actor is over.
struct step_answered {
  int64_t request = 0;
  run_reply reply;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, doorbell&) {
  return f(caf::meta::type_name("doorbell"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, go_on&) {
  return f(caf::meta::type_name("go_on"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, restart_child& x) {
  return f(x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, add_child& x) {
  return f(x.name);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, remove_child& x) {
  return f(x.name);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, child_removed&) {
  return f(caf::meta::type_name("child_removed"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, get_session_stats&) {
  return f(caf::meta::type_name("get_session_stats"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, session_stats& x) {
  return f(x.calls_waiting);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, resources_gathered& x) {
  return f(x.request);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, holders_known& x) {
  return f(x.request, x.time_is_over);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, blocks_returned& x) {
  return f(x.request, x.bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, look_whether_idle&) {
  return f(caf::meta::type_name("look_whether_idle"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, step_answered& x) {
  return f(x.request, x.reply);
}

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_cast, caf::id_block::troupe::end)
CAF_ADD_TYPE_ID(troupe_cast, (troupe::run_step))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::token_message))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::doorbell))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::go_on))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::restart_child))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::add_child))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::remove_child))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::child_removed))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::get_session_stats))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::session_stats))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::list_devices))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::device_list))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::register_graph))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::graph_registered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::withdraw_graph))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::actor_failed))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::failure_noted))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::step_answered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::resources_gathered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::holders_known))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::blocks_returned))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::look_whether_idle))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::state_letter))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::states_came))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::chief_ready))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::get_ready_count))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::await_ready))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::ready_count))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::extend_request))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::extend_reply))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::compile_request))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::compile_reply))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::withdraw_compile))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::close_request))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::close_reply))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::link_graph))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::drop_graph))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::run_parts))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::parts_done))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::part_letter))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::step_letter))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::to_container))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::settle_step))
CAF_END_TYPE_ID_BLOCK(troupe_cast)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::token_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::state_letter)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::states_came)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::chief_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::get_ready_count)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::await_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ready_count)

#endif  // TROUPE_ACTORS_MESSAGES_MESSAGES_H_
