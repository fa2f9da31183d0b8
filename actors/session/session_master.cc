// The session's calls and its queue of work; what runs, and what ends it.
#include <algorithm>

#include "actors/session/add_graph.h"
#include "actors/messages/messages.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/session/session_master.h"
#include "actors/step/cancel_later.h"
#include "actors/threads/surely.h"
#include "kernels/device/session_containers.h"
#include "troupe/import_export.h"

namespace troupe {
namespace {

// The runtime's own come first.
std::vector<std::string> TasksOf(const Runtime::Impl& runtime) {
  std::vector<std::string> names;
  for (const auto& t : runtime.tasks) names.push_back(t.name);
  for (const std::string& name : runtime.remote->names()) names.push_back(name);
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
      tasks_(TasksOf(*runtime_->impl()), runtime_->impl()->directory, runtime_->impl()->tasks.size()) {}

void SessionState::Clear() {
  for (const auto& d : runtime_->impl()->devices) {
    d->containers()->Clear(OwnVariables(id_));
    d->containers()->Clear(OwnState(id_));
  }
  std::set<std::string> touched;
  {
    std::lock_guard<std::mutex> lock(mu_);
    touched = touched_;
  }
  Runtime::Impl& runtime = *runtime_->impl();
  for (const std::string& name : touched)
    runtime.remote->WhenThere(name, runtime.remote->Find(name).incarnation,
                              [system = runtime.system, end = withdraw_graph{id_, 0}](const caf::actor& worker) {
                                SendRemote(*system, worker, end).IgnoreError();
                              });
}

void SessionState::Touch(const std::string& task) {
  std::lock_guard<std::mutex> lock(mu_);
  touched_.insert(task);
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
  std::function<void()> begin;
  UntilMemoryAllows([&] { begin = DoNext(); });
  RunAside(runtime_->impl()->aside, std::move(begin));
}

std::function<void()> SessionMaster::DoNext() {
  return [until_exit = until_exit_, share = UnderWay::Share(under_way_), self = shared_from_this()]() mutable {
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
  };
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

void SessionMaster::Send(caf::mailbox_element_ptr request) {
  caf::actor to;
  absl::Status end;
  bool held = false;
  UntilMemoryAllows([&] {
    std::lock_guard<std::mutex> lock(mu_);
    to = actor_;
    end = end_;
    held = !to && end.ok();
    if (held) held_.push_back(std::move(request));
  });
  if (to) return EnqueueSurely(system(), caf::actor_cast<caf::abstract_actor*>(to), std::move(request));
  if (!held) UntilMemoryAllows([&] { Refuse(*request, end); });
}

void SessionMaster::Refuse(caf::mailbox_element& request, const absl::Status& status) {
  const caf::type_erased_tuple& content = request.content();
  if (content.match_elements<extend_request>()) ReplyTo<extend_reply>(request.sender, request.mid)({status});
  if (content.match_elements<compile_request>()) ReplyTo<compile_reply>(request.sender, request.mid)({status});
  if (content.match_elements<actor_failed>()) ReplyTo<failure_noted>(request.sender, request.mid)({status});
}

void SessionMaster::AnswerCalls(const std::vector<std::shared_ptr<ExtendCall>>& extends, const Calls& compiles,
                                const absl::Status& status) {
  for (const auto& call : compiles) call->Tell(status);
  for (const auto& call : extends) call->reply({status});
}

void SessionMaster::Attach(const caf::actor& actor) {
  std::vector<caf::mailbox_element_ptr> held;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (detached_ == actor.address()) return;
    actor_ = actor;
    held.swap(held_);
  }
  for (caf::mailbox_element_ptr& request : held)
    EnqueueSurely(system(), caf::actor_cast<caf::abstract_actor*>(actor), std::move(request));
}

void SessionMaster::TakeAllLocked(std::vector<std::shared_ptr<ExtendCall>>* extends, Calls* compiles) {
  // First all that may fail.
  std::vector<int64_t> ids;
  ids.reserve(waiting_.size());
  size_t calls = 0;
  for (const auto& [id, waiting] : waiting_) {
    ids.push_back(id);
    calls += waiting.calls.size();
  }
  compiles->reserve(calls);
  extends->reserve(queue_.size());
  // In the order in which they began.
  std::sort(ids.begin(), ids.end());
  for (const int64_t id : ids) TakeLocked(waiting_.find(id), compiles);
  if (std::exchange(parked_, std::nullopt)) working_ = false;
  for (Work& w : queue_) {
    if (w.extend != nullptr) extends->push_back(std::move(w.extend));
  }
  queue_.clear();
  withdrawn_ = 0;
}

void SessionMaster::Detach(const caf::actor_addr& actor) {
  std::vector<std::shared_ptr<ExtendCall>> extends;
  Calls compiles;
  decltype(registering_) registering;  // goes without the lock
  absl::Status why;
  UntilMemoryAllows([&] {
    const absl::Status died = absl::AbortedError("the session's actor has died; it is restarted");
    std::lock_guard<std::mutex> lock(mu_);
    TakeAllLocked(&extends, &compiles);
    if (actor_ && actor_.address() == actor) actor_ = nullptr;
    detached_ = actor;
    why = !end_.ok() ? end_ : died;
    // What the workers answer to this actor is lost.
    registering.swap(registering_);
    tasks_.AskAgain();
  });
  // Told twice they mind as little as told once.
  UntilMemoryAllows([&] {
    for (const auto& [compile, r] : registering) WithdrawGraph(r->Unanswered(), compile);
  });
  AnswerCalls(extends, compiles, why);
  if (tasks_.root_is_over()) Abandon("nobody restarts it");
}

void SessionMaster::Abandon(const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (actor_ || !end_.ok()) return;
  }
  GiveUp(why);
}

void SessionMaster::Close() {
  const absl::Status steps = absl::CancelledError("the session was closed"), calls = Cancelled("the session is closed");
  const bool aside = runtime_->impl()->aside;
  if (aside) End(steps, calls);
  if (const caf::actor to = actor()) {
    const auto closed = [weak = weak_from_this()](const close_reply& r) {
      // The actor has died instead; of an end that it knew of it has told who waits.
      const auto self = weak.lock();
      if (!r.status.ok() && self != nullptr && self->end().ok()) self->Close();
    };
    return AskThen<close_reply>(system(), to, close_request{}, Reply<close_reply>(closed));
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
  RunAside(runtime_->impl()->aside,
           [until_exit = until_exit_, share = UnderWay::Share(under_way_), self = shared_from_this()]() mutable {
             self->AnswerAll();
             self = nullptr;
           });
}

void SessionMaster::Extend(extend_request request, Reply<extend_reply> reply) {
  Work work;
  const auto call = work.extend = std::make_shared<ExtendCall>();
  call->asked = std::move(request);
  call->reply = std::move(reply);
  if (absl::Status s = Queue(std::move(work)); !s.ok()) call->reply({std::move(s)});
}

void SessionMaster::DoExtend(const Work& work) {
  absl::Status s = [&] {
    std::lock_guard<std::mutex> lock(mu_);
    return end_;
  }();
  extend_request& asked = work.extend->asked;
  if (s.ok()) {
    s = Guarded("Extend", [&]() -> absl::Status {
      if (asked.graph != nullptr) return AddGraph(*asked.graph, &graph_);
      if (asked.def != nullptr) return ImportGraphDef(*asked.def, {}, &graph_).status();
      return InvalidArgument("the request to extend the graph has no nodes");
    });
  }
  asked = {};  // what it refers to goes when the caller hears
  work.extend->reply({std::move(s)});
  NextWork();
}

std::shared_ptr<Signature> SessionMaster::Find(uint64_t number) const {
  for (auto& s : Living()) {
    if (s->number == number) return std::move(s);
  }
  return nullptr;
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

void SessionMaster::OnFailure(const actor_failed& failure) {
  CancelLater later;
  bool went = false;  // a task of another process
  {
    std::lock_guard<std::mutex> lock(mu_);
    tasks_.Forget(failure.place);
    const int64_t task = tasks_.Find(failure.place);
    went = task >= 0 && IsRemote(static_cast<uint32_t>(task));
    if (failure.incarnation != 0) tasks_.Renew(failure.place, failure.incarnation);
  }
  FailRegistering(failure.place);
  GoOn();
  for (const auto& s : Living()) {
    if (failure.incarnation != 0) s->edges.Renew(failure.place, failure.incarnation);
    if (!s->edges.Live() || (went && s->HasPartsAt(failure.place))) {
      s->SetStale();
      cache_->Remove(s.get());
    }
    const auto there = [&](const auto& part) { return failure.Concerns(part->device->name()); };
    if (std::any_of(s->parts.begin(), s->parts.end(), there)) s->AbortAll(failure.status);
  }
  // What kernels have registered is users': nobody may wait for it here.
  later.FlushAside(runtime_->impl()->aside);
}

void SessionMaster::End(const absl::Status& steps, const absl::Status& calls) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return;
    end_ = calls;
    closed_->store(true);
  }
  ended_.Cancel();
  AbortAll(steps);
  cache_->Clear();
  state_->Clear();
}

void SessionMaster::AnswerAll() {
  std::vector<std::shared_ptr<ExtendCall>> extends;
  Calls compiles;
  decltype(held_) held;
  absl::Status end;
  UntilMemoryAllows([&] {
    std::lock_guard<std::mutex> lock(mu_);
    TakeAllLocked(&extends, &compiles);
    end = end_;
    held.swap(held_);
    // What the workers are asked stays until they have answered: the session's end waits for that.
    lost_ |= !registering_.empty();
  });
  WithdrawAllGraphs();
  gate_->EndQueued();
  for (const caf::mailbox_element_ptr& request : held) Refuse(*request, end);
  AnswerCalls(extends, compiles, end);
}

std::vector<Signature::Asked> SessionMaster::Ask(
    const std::function<void(const std::shared_ptr<StepQuestion>&)>& answered) const {
  std::vector<Signature::Asked> asked;
  for (const auto& s : Living()) s->Ask(answered, &asked);
  return asked;
}

}  // namespace troupe
