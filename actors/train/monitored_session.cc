#include "troupe/train/monitored_session.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "actors/watch/call_wait.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/train/ready_board.h"
#include "graph/core/guarded.h"
#include "graph/core/log.h"
#include "troupe/files.h"
#include "troupe/group.h"
#include "troupe/lookup.h"
#include "troupe/proto/config.pb.h"
#include "troupe/queues.h"
#include "troupe/train/coordinator.h"
#include "troupe/train/queue_runner.h"
#include "troupe/variable.h"

namespace troupe::train {
namespace {

// The names that a "ready" tensor lists.
absl::StatusOr<std::vector<std::string>> NotReady(Session& session, const Output& ready) {
  if (!ready.valid()) return std::vector<std::string>();
  std::vector<Tensor> out;
  TROUPE_RETURN_IF_ERROR(session.Run({}, {ready}, {}, &out));
  if (out[0].dtype() != DType::kString) {
    return InvalidArgument("'", ready.name(), "' is ", out[0].TypeAndShape(), ", but should list names");
  }
  const auto names = out[0].flat<std::string>();
  return std::vector<std::string>(names.begin(), names.end());
}

bool IsRecoverable(const absl::Status& s) { return absl::IsAborted(s) || absl::IsUnavailable(s); }

// "x" and "x:0" are one tensor.
std::string TensorKey(const std::string& name) { return name.find(':') == std::string::npos ? name + ":0" : name; }

}  // namespace

SessionCreator::~SessionCreator() = default;
std::shared_ptr<Runtime> SessionCreator::runtime() const { return nullptr; }
Companions::~Companions() = default;

absl::Status Scaffold::Finalize(const Scope& root) {
  if (finalized_) return absl::OkStatus();
  const std::vector<Variable> globals = VariablesIn(root, kGlobalVariables);
  if (!init.valid()) init = GlobalVariablesInitializer(root);
  if (!local_init.valid()) {
    local_init = LocalVariablesInitializer(root);
    if (root.graph()->collections().contains(kTableInitializers))
      local_init = Group(root, {local_init, TablesInitializer(root)});
  }
  if (!ready.valid()) ready = ReportUninitializedVariables(root);
  if (!ready_for_local_init.valid()) ready_for_local_init = ReportUninitializedVariables(root, globals);
  if (!saver && !globals.empty()) saver.emplace(root);
  TROUPE_RETURN_IF_ERROR(root.status());
  finalized_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Session>> SessionManager::NewSession(const SessionOptions& options) const {
  if (graph_ == nullptr || scaffold_ == nullptr) return InvalidArgument("a session without a graph or a scaffold");
  if (!scaffold_->finalized()) return FailedPrecondition("the scaffold of a session is not finalized");
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*graph_));
  return session;
}

absl::Status SessionManager::MakeReady(Session& session) const {
  TROUPE_ASSIGN_OR_RETURN(std::vector<std::string> missing, NotReady(session, scaffold_->ready_for_local_init));
  if (missing.empty() && scaffold_->local_init.valid()) {
    TROUPE_RETURN_IF_ERROR(session.Run({}, {}, {scaffold_->local_init}, nullptr));
  }
  if (missing.empty()) {
    TROUPE_ASSIGN_OR_RETURN(missing, NotReady(session, scaffold_->ready));
  }
  if (missing.empty()) return absl::OkStatus();
  return FailedPrecondition("variables have no value: ", StrJoin(missing, ", "));
}

absl::StatusOr<std::unique_ptr<Session>> SessionManager::RecoverSession(const SessionOptions& options,
                                                                        const std::string& folder,
                                                                        const std::string& checkpoint,
                                                                        bool* restored) const {
  *restored = false;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
  std::string path = checkpoint;
  if (path.empty() && !folder.empty()) {
    absl::StatusOr<std::string> newest = LatestCheckpoint(folder);
    // A list that names a checkpoint which has gone is no fresh start.
    if (!newest.ok() && (!absl::IsNotFound(newest.status()) || files::Exists(files::Join(folder, "checkpoint")))) {
      return newest.status();
    }
    if (newest.ok()) path = *newest;
  }
  if (path.empty()) return session;
  if (!scaffold_->saver) return FailedPrecondition("there is no Saver to restore ", path);
  Saver saver = *scaffold_->saver;
  TROUPE_RETURN_IF_ERROR(saver.Restore(*session, path));
  TROUPE_RETURN_IF_ERROR(MakeReady(*session));
  // Local variables have been initialized; those that were saved go on.
  TROUPE_RETURN_IF_ERROR(saver.Restore(*session, path, {.variables = false}));
  *restored = true;
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> SessionManager::PrepareSession(const SessionOptions& options,
                                                                        const std::string& folder,
                                                                        const std::string& checkpoint) const {
  bool restored = false;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, RecoverSession(options, folder, checkpoint, &restored));
  if (!restored) {
    if (scaffold_->init.valid()) {
      TROUPE_RETURN_IF_ERROR(session->Run(scaffold_->init_feeds, {}, {scaffold_->init}, nullptr));
    }
    if (scaffold_->init_function) TROUPE_RETURN_IF_ERROR(scaffold_->init_function(*session));
    TROUPE_RETURN_IF_ERROR(MakeReady(*session));
  }
  ReadyBoard(*session->runtime()).Tell();
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> SessionManager::WaitForSession(const SessionOptions& options,
                                                                        int64_t max_wait_ms) const {
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, NewSession(options));
  const SteadyTime limit =
      max_wait_ms < 0 ? SteadyTime::max() : TimeAfter(std::chrono::steady_clock::now(), max_wait_ms);
  ReadyBoard board(*session->runtime());
  // A chief in another process has a board of its own, so who waits for that looks now and then.
  const bool elsewhere = !options.target.empty() || session->runtime()->impl()->in_cluster;
  constexpr std::chrono::milliseconds kLook{200};
  for (;;) {
    // The count first: a chief that tells of itself from here on is not missed.
    const uint64_t told = board.Count();
    const absl::Status ready = MakeReady(*session);
    if (ready.ok()) return session;
    if (!absl::IsFailedPrecondition(ready)) return ready;
    const auto now = std::chrono::steady_clock::now();
    if (!board.WaitForMore(told, elsewhere ? std::min(limit, now + kLook) : limit) &&
        std::chrono::steady_clock::now() >= limit) {
      return DeadlineExceeded("no chief has made the session ready within ", max_wait_ms, " ms: ", ready.message());
    }
  }
}

ChiefSessionCreator::ChiefSessionCreator(const Scope& root, std::shared_ptr<Scaffold> scaffold, SessionOptions options,
                                         std::string folder, std::string checkpoint)
    : root_(root),
      scaffold_(std::move(scaffold)),
      options_(std::move(options)),
      folder_(std::move(folder)),
      checkpoint_(std::move(checkpoint)) {}

absl::StatusOr<std::unique_ptr<Session>> ChiefSessionCreator::CreateSession() {
  if (scaffold_ == nullptr) return InvalidArgument("a ChiefSessionCreator without a scaffold");
  TROUPE_RETURN_IF_ERROR(scaffold_->Finalize(root_));
  return SessionManager(root_.graph(), scaffold_).PrepareSession(options_, folder_, checkpoint_);
}

WorkerSessionCreator::WorkerSessionCreator(const Scope& root, std::shared_ptr<Scaffold> scaffold,
                                           SessionOptions options, int64_t max_wait_ms)
    : root_(root), scaffold_(std::move(scaffold)), options_(std::move(options)), max_wait_ms_(max_wait_ms) {}

absl::StatusOr<std::unique_ptr<Session>> WorkerSessionCreator::CreateSession() {
  if (scaffold_ == nullptr) return InvalidArgument("a WorkerSessionCreator without a scaffold");
  TROUPE_RETURN_IF_ERROR(scaffold_->Finalize(root_));
  return SessionManager(root_.graph(), scaffold_).WaitForSession(options_, max_wait_ms_);
}

namespace {

// The queue runners of a graph, as long as one session lives.
class RunnersOfGraph : public Companions {
 public:
  explicit RunnersOfGraph(const Session& session) : coordinator_(session) {}
  absl::Status Start(Session& session, const Graph& graph) { return StartQueueRunners(session, coordinator_, graph); }
  bool should_stop() const override { return coordinator_.ShouldStop(); }
  absl::Status Stop() override {
    coordinator_.RequestStop();
    return coordinator_.Join();
  }
  bool MayBeCutOffAtEnd() const override { return true; }

 private:
  Coordinator coordinator_;
};

}  // namespace

struct MonitoredSession::Impl {
  explicit Impl(const Scope& r) : root(r) {}
  const Scope root;  // keeps the graph
  std::unique_ptr<SessionCreator> creator;
  MonitoredSessionOptions options;
  std::unique_ptr<Session> session;
  std::weak_ptr<Runtime> runtime;  // of the last session
  std::vector<std::unique_ptr<Companions>> companions;
  bool stop = false, closed = false;
  absl::Status failed;
  absl::Status beside;  // the error of companions that ended before the steps did; Close gives it
  int made = 0;

  // A call of a hook; what it throws is its error.
  template <class F>
  static auto Call(const char* what, F&& f) {
    return Guarded(what, std::forward<F>(f));
  }

  // The first error of those that worked beside the steps. `at_end`: there will be no further step,
  // so it is no error that a death has cut off those who fill the queues; unless a step has met the
  // end of the input, for which the death may be the reason.
  absl::Status StopCompanions(bool at_end = false) {
    absl::Status first;
    for (auto& c : companions) {
      const absl::Status s = Guarded("Companions::Stop", [&] { return c->Stop(); });
      const bool cut_off = at_end && failed.ok() && IsRecoverable(s);
      if (cut_off && StopsOrThrows("Companions::MayBeCutOffAtEnd", [&] { return c->MayBeCutOffAtEnd(); })) {
        LogWarning("queue runners were cut off at the end of a monitored session: ", s.ToString());
      } else {
        first.Update(s);
      }
    }
    companions.clear();
    return first;
  }
  // What ends with a session.
  absl::Status Drop(bool at_end = false) {
    const absl::Status s = StopCompanions(at_end);
    if (session != nullptr) session->Close().IgnoreError();
    session = nullptr;
    return s;
  }
  // What a user's class throws here says that training cannot go on.
  template <class F>
  bool StopsOrThrows(const char* what, F&& f) {
    const absl::StatusOr<bool> stops = Guarded(what, [&]() -> absl::StatusOr<bool> { return f(); });
    if (!stops.ok()) beside.Update(stops.status());
    return !stops.ok() || *stops;
  }
  bool CompanionsEnded() {
    return std::any_of(companions.begin(), companions.end(), [this](const auto& c) {
      return StopsOrThrows("Companions::should_stop", [&] { return c->should_stop(); });
    });
  }
  // A new session may do better; not where this process's own server was stopped, which a session
  // that could not be made does not tell.
  bool Recovers(const absl::Status& s) const {
    std::shared_ptr<Runtime> its = creator->runtime();
    if (its == nullptr) its = runtime.lock();
    return IsRecoverable(s) && (its == nullptr || !HasLeftCluster(*its));
  }
  absl::Status MakeOnce() {
    TROUPE_ASSIGN_OR_RETURN(session,
                            Guarded("SessionCreator::CreateSession", [&] { return creator->CreateSession(); }));
    if (session == nullptr) return InvalidArgument("SessionCreator::CreateSession gave no session");
    runtime = session->runtime()->impl()->self;
    ++made;
    if (options.start_queue_runners && root.graph()->collections().contains(kQueueRunners)) {
      auto runners = std::make_unique<RunnersOfGraph>(*session);
      TROUPE_RETURN_IF_ERROR(runners->Start(*session, *root.graph()));
      companions.push_back(std::move(runners));
    }
    if (options.start_companions) {
      TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Companions> own,
                              Guarded("start_companions", [&] { return options.start_companions(*session); }));
      if (own != nullptr) companions.push_back(std::move(own));
    }
    for (const auto& hook : options.hooks) {
      TROUPE_RETURN_IF_ERROR(Call("Hook::AfterCreateSession", [&] { return hook->AfterCreateSession(*session); }));
    }
    return absl::OkStatus();
  }
  // `left`: how many more may be made after a failure that can be recovered.
  absl::Status Make(int* left) {
    stop = false;
    beside = absl::OkStatus();
    std::chrono::milliseconds pause(1);
    for (;;) {
      if (session != nullptr) {
        Drop().IgnoreError();
        absl::Status ended;
        for (const auto& hook : options.hooks)
          ended.Update(Call("Hook::SessionEnded", [&] { return hook->SessionEnded(); }));
        TROUPE_RETURN_IF_ERROR(ended);
      }
      const absl::Status s = MakeOnce();
      if (s.ok() || !Recovers(s) || --*left < 0) {
        if (!s.ok()) Drop().IgnoreError();
        return s;
      }
      // What died may be restarted after a second only.
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(1000));
    }
  }
  absl::Status Step(const Feeds& feeds, const Names& fetches, const Names& targets, std::vector<Tensor>* outputs);
};

// The hooks' layer.
absl::Status MonitoredSession::Impl::Step(const Feeds& feeds, const Names& fetches, const Names& targets,
                                          std::vector<Tensor>* outputs) {
  RunContext context(*session, feeds, fetches, targets);
  Feeds all_feeds = feeds;
  Names all_fetches = fetches;
  std::set<std::string> fed;
  for (const auto& [name, value] : feeds) fed.insert(TensorKey(name));
  std::vector<size_t> counts;
  bool stats = false;
  RunOptions run;
  for (const auto& hook : options.hooks) {
    TROUPE_ASSIGN_OR_RETURN(RunArgs args, Call("Hook::BeforeRun", [&] { return hook->BeforeRun(context); }));
    counts.push_back(args.fetches.size());
    stats |= args.collect_stats;
    run.check_numerics |= args.check_numerics;
    if (run.numerics_folder.empty()) run.numerics_folder = args.numerics_folder;
    all_fetches.insert(all_fetches.end(), args.fetches.begin(), args.fetches.end());
    for (auto& [name, value] : args.feeds) {
      if (!fed.insert(TensorKey(name)).second) {
        return InvalidArgument("'", name, "' is fed by a hook, and by another one or the caller of Run, too");
      }
      all_feeds.emplace_back(std::move(name), std::move(value));
    }
  }
  run.collect_stats = stats;
  proto::RunMetadata metadata;
  std::vector<Tensor> all;
  TROUPE_RETURN_IF_ERROR(session->Run(run, all_feeds, all_fetches, targets, &all, stats ? &metadata : nullptr));
  // What died beside the step may have stopped those who fill the queues: a hook would save that.
  if (CompanionsEnded()) {
    beside.Update(StopCompanions());
    if (IsRecoverable(beside)) return std::exchange(beside, absl::OkStatus());
    stop = true;
  }
  auto next = all.begin() + static_cast<std::ptrdiff_t>(fetches.size());
  for (size_t i = 0; i < options.hooks.size(); ++i) {
    RunValues values;
    const auto end = next + static_cast<std::ptrdiff_t>(counts[i]);
    values.fetches.assign(next, end);
    next = end;
    values.metadata = stats ? &metadata : nullptr;
    TROUPE_RETURN_IF_ERROR(Call("Hook::AfterRun", [&] { return options.hooks[i]->AfterRun(context, values); }));
  }
  stop |= context.stop_requested();
  all.resize(fetches.size());
  if (outputs != nullptr) *outputs = std::move(all);
  return absl::OkStatus();
}

MonitoredSession::MonitoredSession(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MonitoredSession::~MonitoredSession() { impl_->Drop().IgnoreError(); }

absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredSession::Create(const Scope& root,
                                                                           std::unique_ptr<SessionCreator> creator,
                                                                           MonitoredSessionOptions options) {
  auto impl = std::make_unique<Impl>(root);
  if (creator == nullptr) return InvalidArgument("a MonitoredSession without a SessionCreator");
  impl->creator = std::move(creator);
  impl->options = std::move(options);
  for (const auto& hook : impl->options.hooks) {
    if (hook == nullptr) return InvalidArgument("a hook of a MonitoredSession is null");
  }
  for (const auto& hook : impl->options.hooks)
    TROUPE_RETURN_IF_ERROR(Impl::Call("Hook::Begin", [&] { return hook->Begin(root); }));
  TROUPE_RETURN_IF_ERROR(root.status());
  int left = impl->options.max_recoveries;
  TROUPE_RETURN_IF_ERROR(impl->Make(&left));
  return std::unique_ptr<MonitoredSession>(new MonitoredSession(std::move(impl)));
}

absl::Status MonitoredSession::Run(const FeedList& feeds, const NameList& fetches, const NameList& targets,
                                   std::vector<Tensor>* outputs) {
  Impl& m = *impl_;
  if (m.closed) return FailedPrecondition("the MonitoredSession is closed");
  if (!m.failed.ok()) return FailedPrecondition("the MonitoredSession has ended with: ", m.failed.message());
  if (m.stop) return FailedPrecondition("a step after the end was asked for: look at ShouldStop");
  for (int left = m.options.max_recoveries;;) {
    absl::Status s = m.Step(feeds.get(), fetches.get(), targets.get(), outputs);
    if (s.ok()) return s;
    // The step may have failed because of what has failed beside it.
    if (m.CompanionsEnded()) {
      const absl::Status first = m.StopCompanions();
      if (!first.ok()) s = first;
    }
    if (m.Recovers(s) && --left >= 0) {
      s = m.Make(&left);
      if (s.ok()) continue;
    }
    m.failed = s;
    return s;
  }
}

// Companions may meet the loss of a session before a step does.
bool MonitoredSession::ShouldStop() {
  Impl& m = *impl_;
  if (m.closed || m.stop || !m.failed.ok() || !m.beside.ok()) return true;
  if (std::any_of(m.options.hooks.begin(), m.options.hooks.end(), [&m](const auto& h) {
        return m.StopsOrThrows("Hook::ShouldStop", [&] { return h->ShouldStop(); });
      })) {
    return true;
  }
  if (!m.CompanionsEnded()) return false;
  m.beside.Update(m.StopCompanions());
  m.stop = true;
  int left = m.options.max_recoveries;
  if (!m.Recovers(m.beside) || --left < 0) return true;
  m.beside = m.Make(&left);
  m.stop = !m.beside.ok();
  return m.stop;
}

absl::Status MonitoredSession::Close() {
  Impl& m = *impl_;
  if (m.closed) return absl::OkStatus();
  m.closed = true;
  absl::Status first = absl::IsOutOfRange(m.beside) ? absl::OkStatus() : m.beside;
  if (m.session != nullptr && (m.failed.ok() || absl::IsOutOfRange(m.failed))) {
    for (const auto& hook : m.options.hooks)
      first.Update(Impl::Call("Hook::End", [&] { return hook->End(*m.session); }));
  }
  const absl::Status dropped = m.Drop(/*at_end=*/true);
  if (!absl::IsOutOfRange(dropped)) first.Update(dropped);
  return first;
}

Session* MonitoredSession::session() const { return impl_->session.get(); }
int MonitoredSession::sessions_made() const { return impl_->made; }

absl::StatusOr<std::unique_ptr<MonitoredSession>> MonitoredTrainingSession(const Scope& root,
                                                                           MonitoredTrainingOptions options) {
  if (options.scaffold == nullptr) options.scaffold = std::make_shared<Scaffold>();
  MonitoredSessionOptions how;
  for (const auto& [name, every] :
       {std::pair("save_checkpoint", options.save_checkpoint), std::pair("save_summaries", options.save_summaries),
        std::pair("count_steps", options.count_steps)}) {
    if (every.valid() || every.never()) continue;
    return InvalidArgument("MonitoredTrainingOptions.", name, " has ", every.steps, " steps and ", every.seconds,
                           " seconds: give one of them, as Every{.steps = 100}, or neither");
  }
  how.start_queue_runners = options.start_queue_runners;
  how.start_companions = options.start_companions;
  how.hooks = options.hooks;
  std::unique_ptr<SessionCreator> creator;
  if (!options.is_chief) {
    creator = std::make_unique<WorkerSessionCreator>(root, options.scaffold, options.session, options.max_wait_ms);
    return MonitoredSession::Create(root, std::move(creator), std::move(how));
  }
  how.hooks.insert(how.hooks.end(), options.chief_only_hooks.begin(), options.chief_only_hooks.end());
  if (!options.checkpoint_folder.empty()) {
    TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<FileWriter> made, FileWriter::Create(options.checkpoint_folder));
    const std::shared_ptr<FileWriter> events = std::move(made);
    TROUPE_RETURN_IF_ERROR(events->AddGraph(*root.graph()));
    if (options.count_steps.valid())
      how.hooks.push_back(std::make_shared<StepCounterHook>(events, options.count_steps));
    if (options.save_summaries.valid() && options.scaffold->summary.valid()) {
      how.hooks.push_back(
          std::make_shared<SummarySaverHook>(events, options.scaffold->summary, options.save_summaries));
    }
    if (options.save_checkpoint.valid()) {
      CheckpointSaverOptions saving;
      saving.folder = options.checkpoint_folder;
      saving.every = options.save_checkpoint;
      saving.events = events;
      saving.scaffold = options.scaffold;
      how.hooks.push_back(std::make_shared<CheckpointSaverHook>(std::move(saving)));
    }
  }
  creator = std::make_unique<ChiefSessionCreator>(root, options.scaffold, options.session, options.checkpoint_folder);
  return MonitoredSession::Create(root, std::move(creator), std::move(how));
}

}  // namespace troupe::train
