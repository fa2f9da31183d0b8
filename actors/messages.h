// Messages between the runtime's own actors. They stay within one process and are never serialised.
// Messages for users' actors are declared in troupe/actors.h.
//
// Thread rule: a message belongs to its receiver once it is sent.
#ifndef TROUPE_ACTORS_MESSAGES_H_
#define TROUPE_ACTORS_MESSAGES_H_

#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "actors/executor/step_state.h"
#include "troupe/actors.h"

namespace troupe {

class SessionMaster;
struct ChildSpec;
struct ExtendCall;
struct CompileCall;
struct CloseCall;
struct RegisterGraphCall;

struct token_message {
  std::shared_ptr<Token> token;
};
struct doorbell {};
struct go_on {};
// To a supervisor, by its own timer: the child with this number is due.
struct restart_child {
  uint64_t number = 0;
};
// To the runtime's supervisor: a child that runs already.
struct add_child {
  std::shared_ptr<ChildSpec> spec;
  caf::actor first;
};
// Answered by child_removed when the child is gone, also if there was none of that name.
struct remove_child {
  std::string name;
};
struct child_removed {};
// To a session, answered by session_stats.
struct get_session_stats {};
struct session_stats {
  // Calls that wait for a signature, also those that have given up since the last sweep.
  uint64_t calls_waiting = 0;
};
// To a session: the parts of the compile with this number are there, or an error. What the worker
// has made lies with the master (SessionMaster::PartsCame).
struct parts_registered {
  int64_t compile = 0;
};
// To a container: what a snapshot waited for has been saved. To a device: the steps that it asked
// have answered, or have had their time; the free blocks have been given back.
struct resources_gathered {
  int64_t request = 0;
};
struct holders_known {
  int64_t request = 0;
  bool time_is_over = false;
};
struct blocks_returned {
  int64_t request = 0;
  int64_t bytes = 0;
};
// To a device, by itself: whether it has been idle since it was asked last.
struct look_whether_idle {};
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
CAF_ADD_TYPE_ID(troupe_cast, (troupe::parts_registered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::step_answered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::resources_gathered))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::holders_known))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::blocks_returned))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::look_whether_idle))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::chief_ready))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::get_ready_count))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::await_ready))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::ready_count))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::ExtendCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::CompileCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::CloseCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::RegisterGraphCall>))
CAF_END_TYPE_ID_BLOCK(troupe_cast)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::token_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::doorbell)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::go_on)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::restart_child)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::add_child)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::remove_child)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::child_removed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::get_session_stats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::session_stats)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::parts_registered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::step_answered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::resources_gathered)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::holders_known)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::blocks_returned)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::look_whether_idle)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::chief_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::get_ready_count)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::await_ready)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::ready_count)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::ExtendCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::CompileCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::CloseCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::RegisterGraphCall>)

#endif  // TROUPE_ACTORS_MESSAGES_H_
