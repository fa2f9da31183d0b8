// Messages of the cast that stay within one process. None crosses hosts, so none is serialised.
#ifndef TROUPE_ACTORS_MESSAGES_H_
#define TROUPE_ACTORS_MESSAGES_H_

#include <caf/all.hpp>
#include <functional>
#include <memory>

#include "troupe/actors/executor/step_state.h"
#include "troupe/actors/session.h"

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
// What users' actors ask of a session's actor, and its answer.
struct run_request {
  Feeds feeds;
  Names fetches, targets;
  RunOptions options;  // a token must live until the actor has taken the message
};
struct run_reply {
  absl::Status status;
  std::vector<Tensor> outputs;
  std::shared_ptr<proto::RunMetadata> metadata;  // when the options ask for it
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

// A block of our own, far from where users' blocks begin, so that a service may have both.
CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id + 400)
CAF_ADD_TYPE_ID(troupe, (troupe::run_step))
CAF_ADD_TYPE_ID(troupe, (troupe::token_message))
CAF_ADD_TYPE_ID(troupe, (troupe::doorbell))
CAF_ADD_TYPE_ID(troupe, (troupe::go_on))
CAF_ADD_TYPE_ID(troupe, (troupe::run_request))
CAF_ADD_TYPE_ID(troupe, (troupe::run_reply))
CAF_ADD_TYPE_ID(troupe, (troupe::restart_child))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::ExtendCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::CompileCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::CloseCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::RegisterGraphCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::DeviceStatsCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::ContainerListCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::ContainerResetCall>))
CAF_ADD_TYPE_ID(troupe, (std::shared_ptr<troupe::MasterThen>))
CAF_END_TYPE_ID_BLOCK(troupe)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_step)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::token_message)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::doorbell)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::go_on)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_request)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::run_reply)
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
