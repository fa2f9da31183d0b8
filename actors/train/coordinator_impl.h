// A coordinator as its members and the runners see it.
//
// Thread rule: thread safe.
#ifndef TROUPE_ACTORS_TRAIN_COORDINATOR_IMPL_H_
#define TROUPE_ACTORS_TRAIN_COORDINATOR_IMPL_H_

#include <memory>

#include "actors/train/coordinator_machine.h"
#include "troupe/train/coordinator.h"

namespace troupe::train {

struct Coordinator::Impl {
  std::shared_ptr<CoordinatorMachine> machine;
  std::unique_ptr<StateMailbox> mailbox;
  CoordinatorOptions options;
  std::atomic<int64_t> last_member{0};

  std::shared_ptr<CoordinatorRequest> Ask(CoordinatorRequest::Kind kind) {
    return Ask(std::make_shared<CoordinatorRequest>(kind));
  }
  std::shared_ptr<CoordinatorRequest> Ask(std::shared_ptr<CoordinatorRequest> request) {
    mailbox->Send({StateLetter::Kind::kAsk, request});
    return request;
  }
  void Withdraw(const std::shared_ptr<CoordinatorRequest>& request) {
    request->Leave();
    mailbox->Send({StateLetter::Kind::kWithdraw, request});
  }
  void Stop(absl::Status why) {
    auto request = std::make_shared<CoordinatorRequest>(CoordinatorRequest::Kind::kStop);
    request->why = std::move(why);
    Ask(std::move(request));
  }
  int64_t Enter(std::string name) {
    auto request = std::make_shared<CoordinatorRequest>(CoordinatorRequest::Kind::kEnter);
    const int64_t number = request->number = ++last_member;
    request->name = std::move(name);
    Ask(std::move(request));
    return number;
  }
  void Leave(int64_t number) {
    auto request = std::make_shared<CoordinatorRequest>(CoordinatorRequest::Kind::kLeave);
    request->number = number;
    Ask(std::move(request));
  }
};

// The mailbox of a machine that belongs to no container: an actor of the runtime's first device.
std::unique_ptr<StateMailbox> OpenMailbox(const Runtime& runtime, std::shared_ptr<StateMachine> machine);

}  // namespace troupe::train

#endif  // TROUPE_ACTORS_TRAIN_COORDINATOR_IMPL_H_
