// The session's calls and its queue of work; what runs, and what ends it.
#include <algorithm>
#include <iterator>

#include "actors/messages.h"
#include "actors/session_actor.h"
#include "actors/step/cancel_later.h"
#include "kernels/device/session_containers.h"

namespace troupe {
namespace {

std::vector<std::string> NamesOf(const std::deque<Runtime::Impl::Task>& tasks) {
  std::vector<std::string> names;
  for (const auto& t : tasks) names.push_back(t.name);
  return names;
}

}  // namespace

std::string SignatureKey(const Names& feeds, const Names& fetches, const Names& targets) {
  std::string key;
  AppendSignatureKey(feeds, fetches, targets, &key);
  return key;
}

SessionMaster::SessionMaster(std::shared_ptr<Runtime> runtime, SessionOptions options, std::string id,
                             std::shared_ptr<std::atomic<bool>> closed)
    : runtime_(std::move(runtime)),
      options_(std::move(options)),
      id_(std::move(id)),
      state_(std::make_shared<SessionState>(runtime_, id_)),
      closed_(std::move(closed)),
      watch_(std::make_shared<StepWatch>(
          runtime_->impl()->clock,
          [report = options_.on_stall](const std::string& text) { ReportStall(report, text); })),
      cache_(std::make_shared<SignatureCache>(options_.max_signatures)),
      tasks_(NamesOf(runtime_->impl()->tasks), runtime_->impl()->directory) {}

void SessionState::Clear() {
  for (const auto& d : runtime_->impl()->devices) {
    d->containers()->Clear(OwnVariables(id_));
    d->containers()->Clear(OwnState(id_));
  }
}

Deadline SessionMaster::DeadlineOf(const RunOptions& run) const {
  const int64_t ms = run.timeout_ms != 0 ? run.timeout_ms : options_.operation_timeout_ms;
  return ms <= 0 ? Deadline() : Deadline::In(ms, watch_->Now());
}

absl::Status SessionMaster::Queue(Work work) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    // What comes after the end would wait for what has not heard of it.
    if (!end_.ok()) return end_;
    queue_.push_back(std::move(work));
    if (working_) return absl::OkStatus();
    working_ = true;
  }
  StartWork();
  return absl::OkStatus();
}

void SessionMaster::StartWork() {
  auto share = UnderWay::Share(under_way_);
  RunAside(runtime_->impl()->aside, [share = std::move(share), self = shared_from_this()]() mutable {
    Work work;
    {
      std::lock_guard<std::mutex> lock(self->mu_);
      if (self->queue_.empty()) {
        self->working_ = false;
      } else {
        work = std::move(self->queue_.front());
        self->queue_.pop_front();
      }
    }
    if (work.extend != nullptr) self->DoExtend(work);
    if (work.compile != nullptr) self->DoCompile(work);
    // Before the share: who waits for it may end the actor system next.
    work = Work();
    self = nullptr;
  });
}

void SessionMaster::NextWork() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    working_ = !queue_.empty();
    if (!working_) return;
  }
  StartWork();
}

caf::actor SessionMaster::actor() const {
  std::lock_guard<std::mutex> lock(mu_);
  return actor_;
}

void SessionMaster::Send(Call call) {
  caf::actor to;
  absl::Status end;
  {
    std::lock_guard<std::mutex> lock(mu_);
    to = actor_;
    end = end_;
    if (!to && end.ok()) return held_.push_back(std::move(call));
  }
  if (to) return std::visit([&](auto& c) { caf::anon_send(to, std::move(c)); }, call);
  AnswerCalls({std::move(call)}, end);
}

void SessionMaster::AnswerCalls(std::vector<Call> calls, const absl::Status& status) {
  struct Answerer {
    const absl::Status& status;
    void operator()(const std::shared_ptr<ExtendCall>& call) const { call->done(status); }
    void operator()(const std::shared_ptr<CompileCall>& call) const {
      CallUser("a callback", [&] { call->done(status); });
    }
  };
  for (const Call& call : calls) std::visit(Answerer{status}, call);
}

void SessionMaster::Attach(const caf::actor& actor) {
  std::vector<Call> held;
  {
    std::lock_guard<std::mutex> lock(mu_);
    actor_ = actor;
    held.swap(held_);
  }
  for (Call& call : held) std::visit([&](auto& c) { caf::anon_send(actor, std::move(c)); }, call);
}

void SessionMaster::Detach(const caf::actor_addr& actor) {
  std::vector<Call> calls;
  decltype(registering_) registering;  // goes without the lock
  absl::Status why;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (actor_ && actor_.address() == actor) actor_ = nullptr;
    why = !end_.ok() ? end_ : absl::AbortedError("the session's actor has died; it is restarted");
    for (auto& [id, waiting] : waiting_) calls.insert(calls.end(), waiting.calls.begin(), waiting.calls.end());
    waiting_.clear();
    calls_waiting_ = 0;
    joinable_.clear();
    for (Work& w : queue_) {
      if (w.extend != nullptr) calls.push_back(std::move(w.extend));
    }
    queue_.clear();
    // What the workers answer to this actor is lost.
    registering.swap(registering_);
    tasks_.AskAgain();
    if (std::exchange(parked_, std::nullopt)) working_ = false;
  }
  AnswerCalls(std::move(calls), why);
}

void SessionMaster::Close() {
  const absl::Status steps = absl::CancelledError("the session was closed"), calls = Cancelled("the session is closed");
  const bool aside = runtime_->impl()->aside;
  if (aside) End(steps, calls);
  if (const caf::actor to = actor()) {
    auto call = std::make_shared<CloseCall>();
    call->done = [weak = weak_from_this()](const absl::Status& s) {
      // The actor has died instead; of an end that it knew of it has told who waits.
      if (const auto self = weak.lock(); !s.ok() && self != nullptr && self->end().ok()) self->Close();
    };
    return caf::anon_send(to, std::move(call));
  }
  End(steps, calls);
  AnswerAside();
}

void SessionMaster::GiveUp(const std::string& why) {
  End(absl::AbortedError("the session's actor failed too often and is not restarted"),
      FailedPrecondition("the session's actor failed too often and is not restarted; the last time: ", why));
  AnswerAside();
}

// Users' callbacks may take their time, and their caller may hold locks.
void SessionMaster::AnswerAside() {
  RunAside(runtime_->impl()->aside, [share = UnderWay::Share(under_way_), self = shared_from_this()]() mutable {
    self->AnswerAll();
    self = nullptr;
  });
}

void SessionMaster::Extend(std::shared_ptr<ExtendCall> call) {
  Work work;
  work.extend = call;
  if (absl::Status s = Queue(std::move(work)); !s.ok()) call->done(std::move(s));
}

void SessionMaster::DoExtend(const Work& work) {
  absl::Status s = [&] {
    std::lock_guard<std::mutex> lock(mu_);
    return end_;
  }();
  if (s.ok()) s = Guarded("Extend", [&] { return work.extend->import(&graph_); });
  work.extend->import = nullptr;  // what it refers to goes when the caller hears
  work.extend->done(std::move(s));
  NextWork();
}

void SessionMaster::Compile(std::shared_ptr<CompileCall> call) {
  Work work;
  Calls given_up;
  absl::Status refused;
  if (call->parts == nullptr && !closed()) {
    if (auto known = cache_->Find(call->key)) return CallUser("a callback", [&] { call->done(std::move(known)); });
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    refused = end_;
    if (refused.ok()) {
      // A compile that does not end holds up all others; meanwhile only those stay that wait.
      if (calls_waiting_ >= sweep_at_) given_up = TakeGivenUpLocked();
      // One who asks for the parts' graphs as well has them made first, and alone.
      const bool joins = call->parts == nullptr;
      work.waiting = last_waiting_ + 1;
      if (joins) work.waiting = joinable_.try_emplace(call->key, work.waiting).first->second;
      Waiting& waiting = waiting_[work.waiting];
      waiting.calls.push_back(call);
      ++calls_waiting_;
      if (waiting.calls.size() > 1) return;
      ++last_waiting_;
      if (joins) waiting.key = call->key;
    }
  }
  if (!refused.ok()) return CallUser("a callback", [&] { call->done(std::move(refused)); });
  if (absl::Status s = SomeWorker(); !s.ok()) return AnswerThose(work.waiting, s);
  work.compile = std::move(call);
  const int64_t waiting = work.waiting;
  if (absl::Status s = Queue(std::move(work)); !s.ok()) AnswerThose(waiting, s);
}

absl::Status SessionMaster::Wanted(int64_t waiting) {
  std::vector<std::shared_ptr<CompileCall>> gone;
  std::lock_guard<std::mutex> lock(mu_);
  if (!end_.ok()) return end_;
  const auto it = waiting_.find(waiting);
  if (it != waiting_.end()) {
    for (const auto& call : it->second.calls) {
      if (!call->given_up || !call->given_up()) return absl::OkStatus();
    }
    // Who asks from now on has the compile begin anew.
    gone = TakeLocked(waiting);
  }
  return Cancelled("nobody waits for the signature any more");
}

std::vector<std::shared_ptr<CompileCall>> SessionMaster::TakeLocked(int64_t waiting) {
  const auto it = waiting_.find(waiting);
  if (it == waiting_.end()) return {};
  std::vector<std::shared_ptr<CompileCall>> calls = std::move(it->second.calls);
  calls_waiting_ -= calls.size();
  const auto joinable = joinable_.find(it->second.key);
  if (joinable != joinable_.end() && joinable->second == waiting) joinable_.erase(joinable);
  waiting_.erase(it);
  return calls;
}

SessionMaster::Calls SessionMaster::TakeGivenUpLocked() {
  Calls taken;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const auto each = it++;
    Calls& calls = each->second.calls;
    const auto gone = std::stable_partition(calls.begin(), calls.end(), [](const std::shared_ptr<CompileCall>& call) {
      return !call->given_up || !call->given_up();
    });
    taken.insert(taken.end(), std::make_move_iterator(gone), std::make_move_iterator(calls.end()));
    calls.erase(gone, calls.end());
    if (!calls.empty()) continue;
    const auto joinable = joinable_.find(each->second.key);
    if (joinable != joinable_.end() && joinable->second == each->first) joinable_.erase(joinable);
    waiting_.erase(each);
  }
  std::erase_if(queue_, [&](const Work& w) { return w.compile != nullptr && !waiting_.contains(w.waiting); });
  calls_waiting_ -= taken.size();
  sweep_at_ = 2 * calls_waiting_ + 64;
  return taken;
}

void SessionMaster::AnswerThose(int64_t waiting, const Answer& answer) {
  std::vector<std::shared_ptr<CompileCall>> calls;
  {
    std::lock_guard<std::mutex> lock(mu_);
    calls = TakeLocked(waiting);
  }
  for (const auto& call : calls) CallUser("a callback", [&] { call->done(answer); });
}

std::vector<std::shared_ptr<Signature>> SessionMaster::Living() const {
  std::vector<std::shared_ptr<Signature>> living;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& weak : signatures_) {
    if (auto s = weak.lock()) living.push_back(std::move(s));
  }
  return living;
}

void SessionMaster::AbortAll(const absl::Status& status) {
  const CancelLater later;  // one step's callbacks do not keep the others waiting
  for (const auto& s : Living()) s->AbortAll(status);
}

void SessionMaster::OnFailure(const Failure& failure) {
  const CancelLater later;
  {
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.Forget(failure.place);
  }
  FailRegistering(failure.place);
  GoOn();
  for (const auto& s : Living()) {
    if (!s->edges.Live()) {
      s->SetStale();
      cache_->Remove(s.get());
    }
    const auto there = [&](const auto& part) { return failure.Concerns(part->device->name()); };
    if (std::any_of(s->parts.begin(), s->parts.end(), there)) s->AbortAll(failure.status);
  }
}

void SessionMaster::End(const absl::Status& steps, const absl::Status& calls) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return;
    end_ = calls;
    closed_->store(true);
  }
  AbortAll(steps);
  cache_->Clear();
  state_->Clear();
}

void SessionMaster::AnswerAll() {
  decltype(waiting_) waiting;
  decltype(registering_) registering;  // goes without the lock
  std::vector<Call> calls;
  absl::Status end;
  {
    std::lock_guard<std::mutex> lock(mu_);
    end = end_;
    calls.swap(held_);
    waiting.swap(waiting_);
    calls_waiting_ = 0;
    joinable_.clear();
    registering.swap(registering_);
    if (std::exchange(parked_, std::nullopt)) working_ = false;
    for (Work& w : queue_) {
      if (w.extend != nullptr) calls.push_back(std::move(w.extend));
    }
    queue_.clear();
  }
  for (const auto& [id, those] : waiting) calls.insert(calls.end(), those.calls.begin(), those.calls.end());
  AnswerCalls(std::move(calls), end);
}

std::vector<Signature::Asked> SessionMaster::Ask(
    const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const {
  std::vector<Signature::Asked> asked;
  for (const auto& s : Living()) s->Ask(answered, &asked);
  return asked;
}

}  // namespace troupe
