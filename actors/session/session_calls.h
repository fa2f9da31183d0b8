// What a program asks of its session's actor, from a thread that is no actor's: new nodes, and
// signatures for the calls of a session or of a Callable. The calls are messages
// (wire/session_messages.h); in wire mode they and their replies pass through their bytes.
//
// Thread rule: any thread; CompileAndWait and ExtendAndWait block.
#ifndef TROUPE_ACTORS_SESSION_SESSION_CALLS_H_
#define TROUPE_ACTORS_SESSION_SESSION_CALLS_H_

#include <functional>
#include <memory>
#include <string_view>

#include "actors/watch/call_wait.h"
#include "actors/signature/feed_values.h"
#include "actors/session/session_master.h"

namespace troupe {

// FAILED_PRECONDITION: the error for a call that waits, on a thread on which nobody may.
absl::Status RefuseInActor(std::string_view what);
// The same for a Run; the message names the other ways to run a step.
absl::Status RefuseRunInActor(std::string_view which);

// Logs that a RunAsync was given no callback, for a caller that then runs nothing: nobody could be
// told how the step ended. Logged only at that end, the message would not stand beside its call.
void NoCallback();

// Both answer `heard` once, on any thread.
void ExtendThen(const std::shared_ptr<SessionMaster>& master, extend_request request, Reply<extend_reply> heard);
void CompileThen(const std::shared_ptr<SessionMaster>& master, compile_request request, Reply<compile_reply> heard);
absl::Status ExtendAndWait(const std::shared_ptr<SessionMaster>& master, extend_request request);
// `parts`, unless it is null, gets the graphs of the parts.
absl::StatusOr<std::shared_ptr<Signature>> CompileAndWait(const std::shared_ptr<SessionMaster>& master,
                                                          compile_request request, const Deadline& deadline,
                                                          const CancellationToken* token, proto::RunMetadata* parts);
// Runs a step when its signature has been compiled. `keep` lives until then; `compiled` may be
// empty.
void CompileAndRun(const std::shared_ptr<SessionMaster>& master, std::shared_ptr<void> keep, compile_request request,
                   const RunOptions& run_options, const Deadline& deadline, const FeedValues& feed_values,
                   RunCallback done, proto::RunMetadata* metadata,
                   std::function<void(const std::shared_ptr<Signature>&)> compiled);

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_SESSION_CALLS_H_
