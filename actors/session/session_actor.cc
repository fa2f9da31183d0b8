#include "actors/session/session_master.h"

#include <algorithm>
#include <optional>

#include "actors/threads/actor_thread.h"
#include "actors/messages/messages.h"
#include "actors/session/pending_run.h"
#include "actors/threads/surely.h"
#include "troupe/import_export.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

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
  // Under the lock of the user's token.
  void OnCancel() override { token.impl()->Cancel(); }

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
  caf::actor_system* const system = &self->system();
  auto answer = [system, me = caf::actor_cast<caf::actor>(self), id, metadata](const absl::Status& s,
                                                                               const std::vector<Tensor>& outputs) {
    SendSurely(*system, me, [&] { return step_answered{id, {s, outputs, metadata}}; });
  };
  compile_request asked{id, {}, r.fetches, r.targets, r.options.partition_graphs};
  std::vector<Tensor> values;
  for (const auto& [name, value] : r.feeds) {
    asked.feeds.push_back(name);
    values.push_back(value);
  }
  // The request may be gone when the signature has been compiled; what its token stands for is
  // shared.
  const CancellationToken token = request->token;
  const Deadline deadline = self->state.master->DeadlineOf(r.options);
  auto pending =
      PendingRun::Begin(self->state.master->shared_watch(), deadline, &request->token, std::move(values), answer);
  pending->WhenGivenUp([system, me = caf::actor_cast<caf::actor>(self), id] {
    SendSurely(
        *system, me, [&] { return withdraw_compile{id}; }, caf::actor_cast<caf::strong_actor_ptr>(me));
  });
  Reply<compile_reply> run_it = [pending, options = r.options, deadline, token, metadata](compile_reply reply) mutable {
    PendingRun::Taken run = pending->Take();
    if (!run.done) return;
    if (!reply.status.ok()) return run.done(reply.status, {});
    AddPartitionGraphs(reply, metadata.get());
    options.cancellation = &token;
    // Others wait for this actor's turn: only a step that takes no longer than sending it elsewhere
    // runs here.
    constexpr int64_t kLendMicros = 5;
    reply.found->RunAsync(options, deadline, absl::Span<const Tensor>(run.feeds), std::move(run.done), metadata.get(),
                          std::min(kLendMicros, reply.found->options.lend_thread_us));
  };
  self->state.master->Compile(std::move(asked), self->address(), std::move(run_it));
}

// CAF keeps an actor for ever that it has no memory to schedule, with all it was made of: that must
// not be the session and its share of the runtime.
using Box = std::shared_ptr<std::shared_ptr<SessionMaster>>;

caf::behavior SessionBehavior(SessionActor* self, const Box& box) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.master = std::move(*box);
  self->state.me = self->address();
  self->state.master->Attach(caf::actor_cast<caf::actor>(self));
  self->state.master->AskForDevices();
  return {
      [self](extend_request& m) { self->state.master->Extend(std::move(m), ReplyToSender<extend_reply>(self)); },
      [self](compile_request& m) {
        const caf::response_promise asked = self->make_response_promise();
        self->state.master->Compile(std::move(m), caf::actor_cast<caf::actor_addr>(asked.source()),
                                    ReplyTo<compile_reply>(asked.source(), asked.id()));
      },
      [self](withdraw_compile m) {
        self->state.master->Withdraw(caf::actor_cast<caf::actor_addr>(self->current_sender()), m.number);
      },
      [self](get_session_stats) { return session_stats{self->state.master->calls_waiting()}; },
      [self](const device_list& m) { self->state.master->DevicesCame(m); },
      [self](actor_failed& m) {
        SessionMaster& master = *self->state.master;
        if (master.wire_messages()) {
          if (auto copy = wire::ThroughBytes(master.system(), m); copy.ok()) m = *std::move(copy);
        }
        master.OnFailure(m);
        return failure_noted{};
      },
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
      [self](close_request) {
        self->state.master->End(absl::CancelledError("the session was closed"),
                                absl::CancelledError("the session is closed"));
        self->state.master->AnswerAll();
        return close_reply{};
      },
  };
}

}  // namespace

void AddPartitionGraphs(const compile_reply& reply, proto::RunMetadata* metadata) {
  for (const GraphValue& part : reply.graphs) ExportGraphDef(*part.graph, metadata->add_partition_graphs());
}

caf::actor SpawnSession(caf::actor_system& system, std::shared_ptr<SessionMaster> master) {
  NoLoggerAfter restore;
  const Box box = std::make_shared<std::shared_ptr<SessionMaster>>(std::move(master));
  try {
    return system.spawn<caf::hidden>(SessionBehavior, box);
  } catch (...) {
    box->reset();
    throw;
  }
}

}  // namespace troupe
