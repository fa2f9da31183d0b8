#include "actors/call/caller.h"

#include <mutex>
#include <utility>

#include "actors/threads/surely.h"
#include "actors/watch/call_wait.h"
#include "actors/wire/remote_messages.h"

namespace troupe {
namespace {

using end_call = caf::atom_constant<caf::atom("end_call")>;

// A time too long to be counted is none.
caf::duration DurationOf(std::chrono::milliseconds timeout) {
  const SteadyTime at = TimeAfter(std::chrono::steady_clock::now(), timeout.count());
  return at == SteadyTime::max() ? caf::duration(caf::infinite) : caf::duration(timeout);
}

void TellToEnd(const caf::actor& caller) {
  SendSurely(caller.home_system(), caller, [] { return end_call::value; });
}

// What the step's list of cancellations knows of the call. The step may be told to end before the
// actor is there, and after it has gone.
struct Ending {
  void End() {
    caf::actor now;  // hears of it without the lock
    {
      std::lock_guard<std::mutex> lock(mu);
      ended = true;
      now = caller;
    }
    if (now) TellToEnd(now);
  }
  // False: the call is to end.
  bool Begin(const caf::actor& actor) {
    std::lock_guard<std::mutex> lock(mu);
    if (ended) return false;
    caller = actor;
    return true;
  }
  // The list may have this longer than the call lasts.
  void Forget() {
    std::lock_guard<std::mutex> lock(mu);
    ended = true;
    caller = nullptr;
  }
  std::mutex mu;
  caf::actor caller;
  bool ended = false;
};

struct Call {
  StepContext* step = nullptr;
  std::shared_ptr<NamedActor> who;
  std::chrono::milliseconds timeout{0};
  actor_call message;
  std::function<absl::Status(std::vector<Tensor>&&)> take;
  DoneFn done;
  std::shared_ptr<Ending> ending;
  CancellationList::Id cancellation = 0;

  void Finish(const absl::Status& status) {
    if (done == nullptr) return;
    ending->Forget();
    step->cancellations.Deregister(cancellation);
    std::exchange(done, nullptr)(status);
  }
};

absl::Status Dead(const Call& call, const caf::error& why) {
  return Unavailable("actor '", call.who->name, "' is dead, or cannot be reached: ", call.who->system->render(why));
}

// Of what CAF says instead of an answer.
absl::Status StatusOf(const Call& call, const caf::error& e) {
  const std::string& name = call.who->name;
  if (e == caf::sec::request_timeout)
    return absl::DeadlineExceededError(
        StrCat("actor '", name, "' did not answer within ", call.timeout.count(), " ms"));
  if (e == caf::sec::unexpected_message)
    return FailedPrecondition("actor '", name, "' does not take the message actor_call");
  if (e == caf::sec::unexpected_response)
    return FailedPrecondition("actor '", name, "' answered with something else than one actor_answer");
  if (e.category() == caf::atom("exit") || e == caf::sec::request_receiver_down || e == caf::sec::remote_linking_failed)
    return Dead(call, e);
  return FailedPrecondition("actor '", name, "' refused the call: ", call.who->system->render(e));
}

class Caller : public caf::event_based_actor {
 public:
  Caller(caf::actor_config& config, std::shared_ptr<Call> call)
      : caf::event_based_actor(config), call_(std::move(call)) {}
  const char* name() const override { return "troupe.caller"; }
  // Whatever ends the actor, its step hears of it.
  void on_exit() override {
    // The one that was called would keep a note of each call, and this one's memory, as long as it
    // lives.
    demonitor(call_->who->actor);
    call_->Finish(absl::AbortedError("the actor that made the call was killed"));
  }
  caf::behavior make_behavior() override {
    // A request to another process is not answered when its receiver is gone there and that is not
    // known here yet.
    set_down_handler([this](const caf::down_msg& down) { Finish(Dead(*call_, down.reason)); });
    monitor(call_->who->actor);
    request(call_->who->actor, DurationOf(call_->timeout), std::move(call_->message))
        .then(
            [this](actor_answer& answer) {
              Finish(answer.status.ok() ? call_->take(std::move(answer.tensors))
                                        : Annotate(answer.status, StrCat("actor '", call_->who->name, "'")));
            },
            [this](const caf::error& e) { Finish(StatusOf(*call_, e)); });
    return {[this](end_call) { Finish(absl::CancelledError("the step was told to end")); }};
  }

 private:
  void Finish(const absl::Status& status) {
    quit();
    call_->Finish(status);
  }
  const std::shared_ptr<Call> call_;
};

}  // namespace

void StartCall(KernelContext& ctx, std::shared_ptr<NamedActor> who, std::chrono::milliseconds timeout,
               actor_call&& message, std::function<absl::Status(std::vector<Tensor>&&)> take, DoneFn done) {
  if (who->actor.node() != who->system->node()) {
    // CAF would send an empty message in its place.
    if (const absl::Status crosses = CheckCross(message.tensors); !crosses.ok())
      return done(Annotate(crosses, StrCat("actor '", who->name, "'")));
  }
  auto call = std::make_shared<Call>();
  call->ending = std::make_shared<Ending>();
  call->step = ctx.step();
  call->who = std::move(who);
  call->timeout = timeout;
  call->message = std::move(message);
  call->take = std::move(take);
  const absl::Status ended = absl::CancelledError("the step was told to end");
  call->cancellation = ctx.step()->cancellations.Register([ending = call->ending] { ending->End(); });
  if (call->cancellation == 0) return done(ended);
  call->done = std::move(done);
  const std::shared_ptr<Ending> ending = call->ending;
  caf::actor_system& system = *call->who->system;
  caf::actor caller;
  try {
    caller = system.spawn<Caller, caf::hidden>(call);
  } catch (const std::exception& e) {
    // Nobody has the call but this.
    return call->Finish(absl::ResourceExhaustedError(StrCat("no actor could be made for the call: ", e.what())));
  }
  // From here on the call may have ended. Told before: the actor hears of it now.
  if (!ending->Begin(caller)) TellToEnd(caller);
}

}  // namespace troupe
