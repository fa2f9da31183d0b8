// A Callable: a signature that its holder runs without looking its names up, and that is compiled
// anew when a device that it names was restarted.
#include <memory>
#include <utility>
#include <vector>

#include "actors/threads/inside_actor.h"
#include "actors/messages/messages.h"
#include "actors/threads/process.h"
#include "actors/session/session_calls.h"
#include "actors/session/session_elsewhere.h"
#include "actors/step/answers.h"

namespace troupe {
namespace {

// Compiles what `old` was compiled for anew. Blocks.
absl::StatusOr<std::shared_ptr<Signature>> Renew(const std::shared_ptr<Signature>& old, const Deadline& deadline,
                                                 const CancellationToken* token) {
  const std::shared_ptr<SessionMaster> master = old->master.lock();
  if (master == nullptr) return old;  // the session is closed, which is what a step of it says
  if (InsideActor()) return RefuseRunInActor("the first Run after a device was restarted");
  TROUPE_ASSIGN_OR_RETURN(
      std::shared_ptr<Signature> fresh,
      CompileAndWait(master, {0, old->feeds, old->fetches, old->targets, false}, deadline, token, nullptr));
  old->SetSuccessor(fresh);
  return fresh;
}

// The one that `s` has been followed by, or itself.
std::shared_ptr<Signature> Latest(std::shared_ptr<Signature> s) {
  const std::shared_ptr<Signature> first = s;
  while (s->stale()) {
    std::shared_ptr<Signature> next = s->successor();
    if (next == nullptr) break;
    s = std::move(next);
  }
  if (s != first) first->SetSuccessor(s);
  return s;
}

absl::Status RunRenewed(const std::shared_ptr<Signature>& signature, const RunOptions& options,
                        absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs, proto::RunMetadata* metadata) {
  const Deadline deadline = signature->DeadlineOf(options);
  std::shared_ptr<Signature> s = Latest(signature);
  if (s->stale()) {
    TROUPE_ASSIGN_OR_RETURN(s, Renew(s, deadline, options.cancellation));
  }
  return s->RunBlocking(options, deadline, feeds, outputs, metadata);
}

void RunRenewedAsync(const std::shared_ptr<Signature>& signature, const RunOptions& options,
                     absl::Span<const Tensor> feeds, RunCallback done, proto::RunMetadata* metadata) {
  const Deadline deadline = signature->DeadlineOf(options);
  const std::shared_ptr<Signature> s = Latest(signature);
  const std::shared_ptr<SessionMaster> master = s->stale() ? s->master.lock() : nullptr;
  if (master == nullptr) return s->RunAsync(options, deadline, feeds, std::move(done), metadata);
  if (absl::Status wrong = s->CheckFeeds(feeds); !wrong.ok()) return CallDone(done, std::move(wrong), {});
  RunOptions plain = options;
  plain.partition_graphs = false;  // a Callable has none to give
  CompileAndRun(master, s, {0, s->feeds, s->fetches, s->targets, false}, plain, deadline, feeds, std::move(done),
                metadata, [s](const std::shared_ptr<Signature>& fresh) { s->SetSuccessor(fresh); });
}

}  // namespace

absl::Status Callable::Usable() const {
  if (signature_ == nullptr && elsewhere_ == nullptr)
    return FailedPrecondition("the Callable is empty: it was not made by Session::Prepare, or was moved from");
  return process_ == ThisProcess() ? absl::OkStatus() : OfAnotherProcess("session");
}
// Of one whose signature is not here, or that may not be used.
absl::Status Callable::RunElsewhere(const RunOptions& options, absl::Span<const Tensor> feeds,
                                    std::vector<Tensor>* outputs, proto::RunMetadata* metadata) const {
  TROUPE_RETURN_IF_ERROR(Usable());
  if (InsideActor()) return RefuseInActor("Run");
  TROUPE_ASSIGN_OR_RETURN(run_request step, elsewhere_->Step(options, feeds));
  return elsewhere_->session->Run(std::move(step), outputs, metadata);
}
absl::Status Callable::Run(absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs) const {
  return Run({}, feeds, outputs);
}
absl::Status Callable::Run(const RunOptions& options, absl::Span<const Tensor> feeds, std::vector<Tensor>* outputs,
                           proto::RunMetadata* metadata) const {
  if (signature_ == nullptr || process_ != ThisProcess()) [[unlikely]]
    return RunElsewhere(options, feeds, outputs, metadata);
  if (signature_->stale()) [[unlikely]]
    return RunRenewed(signature_, options, feeds, outputs, metadata);
  return signature_->RunBlocking(options, signature_->DeadlineOf(options), feeds, outputs, metadata);
}
void Callable::RunAsync(const RunOptions& options, absl::Span<const Tensor> feeds, RunCallback done,
                        proto::RunMetadata* metadata) const {
  if (done == nullptr) [[unlikely]]
    return NoCallback();
  if (signature_ == nullptr || process_ != ThisProcess()) [[unlikely]] {
    if (absl::Status s = Usable(); !s.ok()) return CallDone(done, std::move(s), {});
    absl::StatusOr<run_request> step = elsewhere_->Step(options, feeds);
    if (!step.ok()) return CallDone(done, step.status(), {});
    // The callback may destroy this, also while the call is being begun on this thread.
    const std::shared_ptr<SessionElsewhere> there = elsewhere_->session;
    return there->RunAsync(*std::move(step), std::move(done), metadata);
  }
  if (signature_->stale()) [[unlikely]]
    return RunRenewedAsync(signature_, options, feeds, std::move(done), metadata);
  signature_->RunAsync(options, signature_->DeadlineOf(options), feeds, std::move(done), metadata);
}

}  // namespace troupe
