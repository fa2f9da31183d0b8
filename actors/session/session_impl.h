// The implementation of a Session: what its methods share (session.cc, session_state.cc,
// partial_runs.cc). The session itself is its SessionMaster.
//
// Thread rule: all methods are thread safe; the members are set before the session is shared,
// except those that set_mu guards.
#ifndef TROUPE_ACTORS_SESSION_SESSION_IMPL_H_
#define TROUPE_ACTORS_SESSION_SESSION_IMPL_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "actors/threads/inside_actor.h"
#include "actors/session/partial_runs.h"
#include "actors/threads/process.h"
#include "actors/session/session_elsewhere.h"
#include "actors/session/session_master.h"
#include "actors/session/session_calls.h"
#include "graph/core/hash_map.h"

namespace troupe {

struct Session::Impl : std::enable_shared_from_this<Session::Impl> {
  explicit Impl(const SessionOptions& o) : options(o), partial(static_cast<size_t>(o.max_partial_runs)) {}

  const int process = ThisProcess();
  std::shared_ptr<Runtime> runtime;
  SessionOptions options;
  std::string id;
  std::shared_ptr<SessionMaster> master;
  std::shared_ptr<SignatureCache> cache;  // the master's
  // Where the session stands if not here: there is no master then, and `closed` is set, so that a
  // call which may find its signature here looks for this only when it does not.
  std::shared_ptr<SessionElsewhere> elsewhere;
  std::shared_ptr<std::atomic<bool>> closed = std::make_shared<std::atomic<bool>>(false);

  PartialRuns partial;  // of its calls of PartialRunSetup

  std::mutex set_mu;
  HashSet<std::string> set_nodes;  // by which variables are set: the graph has them

  void End() {
    master->Close();
    partial.GiveUpAll();
  }
  std::string actor_name() const { return StrCat("session:", id); }
  // Waits until there is no actor any more, nor will be.
  void EndActor();
  // No step of the session is asked any more what it waits for.
  void ForgetQuestions();
  // The session's actor hears no more news of workers.
  void ForgetMessages();

  template <class FeedNames>
  std::shared_ptr<Signature> Cached(const FeedNames& feeds, const Names& fetches, const Names& targets,
                                    std::string* key) {
    return cache->Find([&](std::string* k) { AppendSignatureKey(feeds, fetches, targets, k); }, key);
  }

  // Why no call can be made any more.
  absl::Status Usable() const {
    if (process != ThisProcess()) return OfAnotherProcess("session");
    if (closed->load(std::memory_order_relaxed)) return WhyClosed();
    return absl::OkStatus();
  }
  absl::Status WhyClosed() const {
    return elsewhere == nullptr ? master->end() : Unimplemented("a session in a server cannot do this");
  }
  // Why no call can be made any more, wherever the session stands.
  absl::Status UsableThere() const {
    if (process != ThisProcess()) return OfAnotherProcess("session");
    return elsewhere == nullptr ? Usable() : elsewhere->Usable();
  }

  absl::Status Extend(extend_request request) {
    TROUPE_RETURN_IF_ERROR(UsableThere());
    if (InsideActor()) return RefuseInActor("Extend");
    return elsewhere != nullptr ? elsewhere->Extend(request) : ExtendAndWait(master, std::move(request));
  }

  // A call's deadline counts from its beginning: compiling and running share it.
  Deadline DeadlineOf(int64_t timeout_ms) const {
    return timeout_ms <= 0 ? Deadline() : Deadline::In(timeout_ms, runtime->impl()->clock->Now());
  }
  Deadline DeadlineOf(const RunOptions& run) const {
    return DeadlineOf(run.timeout_ms != 0 ? run.timeout_ms : options.operation_timeout_ms);
  }

  template <class FeedNames>
  absl::StatusOr<std::shared_ptr<Signature>> Find(const FeedNames& feeds, const Names& fetches, const Names& targets,
                                                  const Deadline& deadline = {},
                                                  const CancellationToken* token = nullptr,
                                                  proto::RunMetadata* parts = nullptr) {
    TROUPE_RETURN_IF_ERROR(Usable());
    std::string key;
    if (auto s = Cached(feeds, fetches, targets, &key); s != nullptr && parts == nullptr) return s;
    if (InsideActor()) return RefuseRunInActor("the first Run of a signature");
    return CompileAndWait(master, {0, FeedNamesOf(feeds), fetches, targets, false}, deadline, token, parts);
  }
  static proto::RunMetadata* PartsOf(const RunOptions& options, proto::RunMetadata* metadata) {
    return options.partition_graphs ? metadata : nullptr;
  }
  // A call that another process answers, on a thread that may wait.
  absl::Status MayAsk(std::string_view what) const {
    TROUPE_RETURN_IF_ERROR(UsableThere());
    return InsideActor() ? RefuseInActor(what) : absl::OkStatus();
  }
  static Names FeedNamesOf(const Names& names) { return names; }
  static Names FeedNamesOf(const Feeds& feeds) {
    Names names;
    for (const auto& [name, value] : feeds) names.push_back(name);
    return names;
  }
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_SESSION_IMPL_H_
