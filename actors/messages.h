// Messages between the runtime's own actors. They stay within one process and are never serialised.
// Messages for users' actors are declared in troupe/actors.h.
//
// Thread rule: a message belongs to its receiver once it is sent.
#ifndef TROUPE_ACTORS_MESSAGES_H_
#define TROUPE_ACTORS_MESSAGES_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>

#include "actors/executor/step_state.h"
#include "troupe/actors.h"

namespace troupe {

class SessionMaster;
struct ExtendCall;
struct CompileCall;
struct CloseCall;
struct RegisterGraphCall;
struct DeviceStatsCall;
struct ContainerListCall;
struct ContainerResetCall;
using MasterThen = std::function<void(SessionMaster&)>;

struct run_step {
  StepInput input;
};
struct token_message {
  std::shared_ptr<Token> token;
};
struct doorbell {};
struct go_on {};
struct restart_child {
  size_t index;
};

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_cast, caf::id_block::troupe::end)
CAF_ADD_TYPE_ID(troupe_cast, (troupe::run_step))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::token_message))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::doorbell))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::go_on))
CAF_ADD_TYPE_ID(troupe_cast, (troupe::restart_child))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::ExtendCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::CompileCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::CloseCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::RegisterGraphCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::DeviceStatsCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::ContainerListCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::ContainerResetCall>))
CAF_ADD_TYPE_ID(troupe_cast, (std::shared_ptr<troupe::MasterThen>))
CAF_END_TYPE_ID_BLOCK(troupe_cast)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::token_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::doorbell)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::go_on)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::restart_child)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::ExtendCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::CompileCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::CloseCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::RegisterGraphCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::DeviceStatsCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::ContainerListCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::ContainerResetCall>)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(std::shared_ptr<troupe::MasterThen>)

#endif  // TROUPE_ACTORS_MESSAGES_H_
