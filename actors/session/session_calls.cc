#include "actors/session/session_calls.h"

#include <atomic>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/session/pending_run.h"
#include "graph/core/log.h"
#include "troupe/proto/config.pb.h"

namespace troupe {
namespace {

std::atomic<int64_t> next_compile{1};

// Sends a request to the session's actor, which may be elsewhere: in wire mode both the request and
// its reply pass through their bytes. `heard` is called once; returns what names the asker.
template <class R, class Message>
caf::actor_addr Ask(const std::shared_ptr<SessionMaster>& master, Message message, Reply<R> heard) {
  caf::actor_system& system = master->system();
  if (master->wire_messages()) {
    absl::StatusOr<Message> copy = wire::ThroughBytes(system, message);
    if (!copy.ok()) {
      heard(R{copy.status()});
      return {};
    }
    message = *std::move(copy);
    heard = [&system, to = std::make_shared<Reply<R>>(std::move(heard)), weak = std::weak_ptr(master)](R reply) {
      absl::StatusOr<R> read = wire::ThroughBytes(system, reply);
      if (!read.ok()) return (*to)(R{read.status()});
      if constexpr (std::is_same_v<R, compile_reply>) {
        const std::shared_ptr<SessionMaster> session = weak.lock();
        if (session != nullptr && read->status.ok()) read->found = session->Find(read->signature);
        if (read->status.ok() && read->found == nullptr)
          read->status = Aborted("the session has no signature ", read->signature);
      }
      (*to)(*std::move(read));
    };
  }
  const caf::strong_actor_ptr me = NewListener<R>(system, std::move(heard));
  master->Send(AsRequest(me, std::move(message)));
  return caf::actor_cast<caf::actor_addr>(me);
}

// Asks for a signature. Returns what takes the question back, if it has not been answered.
std::function<void()> AskForSignature(const std::shared_ptr<SessionMaster>& master, compile_request request,
                                      Reply<compile_reply> heard) {
  const int64_t number = request.number = next_compile.fetch_add(1);
  return
      [asker = Ask<compile_reply>(master, std::move(request), std::move(heard)), number, weak = std::weak_ptr(master)] {
        const std::shared_ptr<SessionMaster> session = weak.lock();
        caf::strong_actor_ptr me = caf::actor_cast<caf::strong_actor_ptr>(asker);
        if (session == nullptr || me == nullptr) return;  // it has been answered
        session->Send(caf::make_mailbox_element(std::move(me), caf::make_message_id(), {}, withdraw_compile{number}));
      };
}

}  // namespace

absl::Status RefuseInActor(std::string_view what) {
  return FailedPrecondition(what,
                            " waits for other threads, so it may not be called in an actor's handler or a callback");
}

absl::Status RefuseRunInActor(std::string_view which) {
  return FailedPrecondition(RefuseInActor(which).message(), ": use RunAsync, or send the session actor a run message");
}

void NoCallback() { LogError("RunAsync was given no callback: nothing is run"); }

void ExtendThen(const std::shared_ptr<SessionMaster>& master, extend_request request, Reply<extend_reply> heard) {
  Ask<extend_reply>(master, std::move(request), std::move(heard));
}
void CompileThen(const std::shared_ptr<SessionMaster>& master, compile_request request, Reply<compile_reply> heard) {
  (void)AskForSignature(master, std::move(request), std::move(heard));
}

absl::Status ExtendAndWait(const std::shared_ptr<SessionMaster>& master, extend_request request) {
  CallWait<absl::Status> waiter;
  Ask<extend_reply>(master, std::move(request), [&](extend_reply reply) { waiter.Set(std::move(reply.status)); });
  return waiter.Wait();
}

absl::StatusOr<std::shared_ptr<Signature>> CompileAndWait(const std::shared_ptr<SessionMaster>& master,
                                                          compile_request request, const Deadline& deadline,
                                                          const CancellationToken* token, proto::RunMetadata* parts) {
  auto wait = std::make_shared<CallWait<compile_reply>>();
  request.graphs = parts != nullptr;
  const auto withdraw =
      AskForSignature(master, std::move(request), [wait](compile_reply reply) { wait->Set(std::move(reply)); });
  compile_reply reply = wait->Wait(deadline, token, "the step's signature was not compiled");
  if (!reply.status.ok()) {
    withdraw();
    return reply.status;
  }
  if (parts != nullptr) AddPartitionGraphs(reply, parts);
  return std::move(reply.found);
}

void CompileAndRun(const std::shared_ptr<SessionMaster>& master, std::shared_ptr<void> keep, compile_request request,
                   const RunOptions& run_options, const Deadline& deadline, const FeedValues& feed_values,
                   RunCallback done, proto::RunMetadata* metadata,
                   std::function<void(const std::shared_ptr<Signature>&)> compiled) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < feed_values.size(); ++i) values.push_back(feed_values[i]);
  auto pending =
      PendingRun::Begin(master->shared_watch(), deadline, run_options.cancellation, std::move(values), std::move(done));
  request.graphs = run_options.partition_graphs && metadata != nullptr;
  // The token may be gone by the actor's turn; what it stands for is shared.
  const CancellationToken token = run_options.cancellation != nullptr ? *run_options.cancellation : CancellationToken();
  pending->WhenGivenUp(AskForSignature(master, std::move(request),
                                       [pending, keep = std::move(keep), options = RunOptions(run_options), deadline,
                                        token, metadata, compiled = std::move(compiled)](compile_reply reply) mutable {
                                         PendingRun::Taken run = pending->Take();
                                         if (reply.status.ok() && compiled) compiled(reply.found);
                                         if (!run.done) return;
                                         if (!reply.status.ok()) return CallDone(run.done, std::move(reply.status), {});
                                         if (metadata != nullptr) AddPartitionGraphs(reply, metadata);
                                         if (options.cancellation != nullptr) options.cancellation = &token;
                                         reply.found->RunAsync(options, deadline, absl::Span<const Tensor>(run.feeds),
                                                               std::move(run.done), metadata);
                                       }));
}

}  // namespace troupe
