#include "actors/session_actor.h"

#include <algorithm>
#include <optional>

#include "actors/actor_thread.h"
#include "actors/messages.h"
#include "actors/pending_run.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

// What a user's actor asked for, until it has its answer. Ends by the user's token, or with the
// session's actor: nobody would hear of the step any more. Used again for another request unless
// its token was cancelled.
struct Request : public Cancellable {
  void Begin(const CancellationToken* users) {
    if (users == nullptr) return;
    users_.emplace(users, this);
    if (users_->cancelled()) token.Cancel();
  }
  void End() { users_.reset(); }
  void OnCancel() override { token.Cancel(); }

  CancellationToken token;
  // CAF answers no request whose promise is merely forgotten.
  caf::typed_response_promise<run_reply> promise;

 private:
  std::optional<Cancellation> users_;
};

struct SessionActorState {
  std::shared_ptr<SessionMaster> master;
  caf::actor_addr me;
  std::map<int64_t, std::shared_ptr<Request>> waiting;
  std::vector<std::shared_ptr<Request>> free;
  int64_t last_request = 0;
  const char* name = "troupe.session";

  std::shared_ptr<Request> NewRequest() {
    if (free.empty()) return std::make_shared<Request>();
    std::shared_ptr<Request> request = std::move(free.back());
    free.pop_back();
    return request;
  }
  void Release(std::shared_ptr<Request> request) {
    constexpr size_t kKept = 64;
    request->End();
    request->promise = {};
    if (free.size() < kKept && !request->token.cancelled()) free.push_back(std::move(request));
  }
  ~SessionActorState() {
    // First: whoever is told to try again finds the next incarnation.
    if (master != nullptr) master->Detach(me);
    for (auto& [id, request] : waiting) {
      request->token.Cancel();
      request->promise.deliver(
          run_reply{absl::AbortedError("the session's actor ended before the step did"), {}, nullptr});
    }
  }
};
using SessionActor = caf::stateful_actor<SessionActorState>;

// Runs a step for another actor. The promise belongs to this actor, so the answer passes through
// its turn.
void RunFor(SessionActor* self, int64_t id, const std::shared_ptr<Request>& request, const run_request& r) {
  auto metadata =
      r.options.collect_stats || r.options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
  auto answer = [me = caf::actor_cast<caf::actor>(self), id, metadata](absl::Status s, std::vector<Tensor> outputs) {
    caf::anon_send(me, step_answered{id, {std::move(s), std::move(outputs), metadata}});
  };
  auto call = std::make_shared<CompileCall>();
  std::vector<Tensor> values;
  for (const auto& [name, value] : r.feeds) {
    call->feeds.push_back(name);
    values.push_back(value);
  }
  call->fetches = r.fetches;
  call->targets = r.targets;
  call->key = SignatureKey(call->feeds, call->fetches, call->targets);
  // The compile goes on when the request has been answered, so it writes to what it shares.
  auto made = r.options.partition_graphs ? std::make_shared<proto::RunMetadata>() : nullptr;
  call->parts = made.get();
  // The request may be gone when the signature has been compiled; what its token stands for is
  // shared.
  const CancellationToken token = request->token;
  const Deadline deadline = self->state.master->DeadlineOf(r.options);
  auto pending =
      PendingRun::Begin(self->state.master->shared_watch(), deadline, &request->token, std::move(values), answer);
  call->given_up = [pending] { return pending->answered(); };
  call->done = [pending, made, options = r.options, deadline, token,
                metadata](absl::StatusOr<std::shared_ptr<Signature>> s) mutable {
    PendingRun::Taken run = pending->Take();
    if (!run.done) return;
    if (!s.ok()) return run.done(s.status(), {});
    if (made != nullptr) metadata->MergeFrom(*made);
    options.cancellation = &token;
    // Others wait for this actor's turn: only a step that takes no longer than sending it elsewhere
    // runs here.
    constexpr int64_t kLendMicros = 5;
    (*s)->RunAsync(options, deadline, absl::Span<const Tensor>(run.feeds), std::move(run.done), metadata.get(),
                   std::min(kLendMicros, (*s)->options.lend_thread_us));
  };
  self->state.master->Compile(std::move(call));
}

caf::behavior SessionBehavior(SessionActor* self, std::shared_ptr<SessionMaster> master) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.master = std::move(master);
  self->state.me = self->address();
  self->state.master->Attach(caf::actor_cast<caf::actor>(self));
  self->state.master->AskForDevices();
  return {
      [self](const std::shared_ptr<ExtendCall>& call) { self->state.master->Extend(call); },
      [self](const std::shared_ptr<CompileCall>& call) { self->state.master->Compile(call); },
      [self](get_session_stats) { return session_stats{self->state.master->calls_waiting()}; },
      [self](const device_list& m) { self->state.master->DevicesCame(m); },
      [self](graph_registered& m) { self->state.master->GraphRegistered(std::move(m)); },
      [self](step_answered& m) {
        auto request = self->state.waiting.extract(m.request);
        if (!request) return;
        request.mapped()->promise.deliver(std::move(m.reply));
        self->state.Release(std::move(request.mapped()));
      },
      [self](const run_request& r) {
        const int64_t id = ++self->state.last_request;
        std::shared_ptr<Request> request = self->state.NewRequest();
        request->Begin(r.options.cancellation);
        request->promise = self->make_response_promise<run_reply>();
        self->state.waiting[id] = request;
        RunFor(self, id, request, r);
        return request->promise;
      },
      [self](const std::shared_ptr<CloseCall>& call) {
        self->state.master->End(absl::CancelledError("the session was closed"),
                                absl::CancelledError("the session is closed"));
        self->state.master->AnswerAll();
        call->done(absl::OkStatus());
      },
  };
}

}  // namespace

caf::actor SpawnSession(caf::actor_system& system, std::shared_ptr<SessionMaster> master) {
  NoLoggerAfter restore;
  return system.spawn<caf::hidden>(SessionBehavior, std::move(master));
}

}  // namespace troupe
