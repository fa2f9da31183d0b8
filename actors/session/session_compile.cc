// How a signature is compiled: its graph is cut into parts (session_passes.cc), of each of which a
// worker makes what an executor runs (session_workers.cc).
#include <algorithm>
#include <cstdlib>

#include "actors/messages/messages.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/worker_actor.h"
#include "actors/session/session_master.h"
#include "actors/signature/remote_plan.h"

namespace troupe {

void SessionMaster::DoCompile(const Work& work) {
  bool waits = false;
  absl::Status s = Guarded("compiling", [&] { waits = WaitForDevices(work); });
  if (waits) return;
  std::shared_ptr<Registering> p;
  UntilMemoryAllows([&] {
    auto share = UnderWay::Share(under_way_);
    p = std::make_shared<Registering>();
    p->under_way = std::move(share);
  });
  p->master = shared_from_this();
  p->compile = work.compile;
  p->waiting = work.waiting;
  // From here on the next work begins when `p` goes.
  bool sent = false;  // to a worker at least, perhaps
  const auto send = [&]() -> absl::Status {
    std::vector<register_graph> messages = std::move(p->messages);
    if (messages.empty()) return absl::OkStatus();
    p->answers.resize(messages.size());
    caf::actor from;
    {
      // Before the workers are looked for, as in AskForDevices.
      std::lock_guard<std::mutex> lock(mu_);
      from = actor_;
      // Without an actor, or after the end, all who waited have been answered.
      if (!from || !waiting_.contains(p->waiting)) return absl::OkStatus();
      registering_.emplace(p->waiting, p);
    }
    sent = true;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (options_.wire_messages) {
        TROUPE_ASSIGN_OR_RETURN(messages[i], wire::ThroughBytes(*runtime_->impl()->system, messages[i]));
      }
      if (IsRemote(p->tasks[i])) state_->Touch(tasks_.name(p->tasks[i]));
      TROUPE_RETURN_IF_ERROR(ToWorker(p->tasks[i], from, std::move(messages[i])));
    }
    // Whoever withdrew it meanwhile may have told workers that did not know of it yet.
    if (!Wanted(work.waiting).ok()) WithdrawGraph(p->tasks, work.waiting);
    return absl::OkStatus();
  };
  if (s.ok())
    s = Guarded("compiling", [&]() -> absl::Status {
      TROUPE_RETURN_IF_ERROR(Partition(
          work.compile->asked, [&] { return Wanted(work.waiting); }, p.get()));
      return send();
    });
  if (s.ok()) {
    if (p->answers.empty()) Finish(p);  // there is nothing to run
    return;
  }
  {
    // First: those that are told may answer CANCELLED at once, which is not why it failed.
    std::lock_guard<std::mutex> lock(mu_);
    registering_.erase(work.waiting);
  }
  if (sent) UntilMemoryAllows([&] { WithdrawGraph(p->tasks, work.waiting); });
  AnswerThose(work.waiting, s);
}

void SessionMaster::GraphRegistered(graph_registered answer) {
  const std::shared_ptr<const RegisteredGraph> until_found = answer.graph;
  const int64_t of = tasks_.Find(answer.task);
  if (of < 0) return;
  const bool remote = IsRemote(static_cast<uint32_t>(of));
  if (options_.wire_messages && !remote) {
    auto copy = wire::ThroughBytes(*runtime_->impl()->system, answer);
    if (copy.ok()) {
      answer = *std::move(copy);
    } else {
      answer.status = copy.status();
    }
  }
  std::shared_ptr<Registering> p;
  std::vector<uint32_t> unanswered;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = registering_.find(answer.compile);
    if (it == registering_.end()) {
      // Nobody waits for it any more.
      if (remote) DropRemote(static_cast<uint32_t>(of), answer);
      return;
    }
    p = it->second;
    bool all = true;
    for (size_t i = 0; i < p->tasks.size(); ++i) {
      if (!p->answers[i] && tasks_.name(p->tasks[i]) == answer.task) {
        // What came through bytes is found where it lives.
        if (answer.status.ok() && answer.graph == nullptr && !remote)
          answer.graph = runtime_->impl()->tasks[p->tasks[i]].graphs->Find(answer.handle);
        p->answers[i] = answer;
      }
      all &= p->answers[i].has_value();
    }
    if (!all && answer.status.ok()) return;
    unanswered = p->Unanswered();
    registering_.erase(it);
  }
  WithdrawGraph(unanswered, answer.compile);
  if (!answer.status.ok()) return AnswerThose(answer.compile, answer.status);
  Finish(p);
}

void SessionMaster::FailRegistering(const std::string& task) {
  std::vector<std::shared_ptr<Registering>> failed;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (auto it = registering_.begin(); it != registering_.end();) {
      const auto each = it++;
      const Registering& r = *each->second;
      bool waits = false;
      for (size_t i = 0; i < r.tasks.size(); ++i) waits |= !r.answers[i] && tasks_.name(r.tasks[i]) == task;
      if (!waits) continue;
      failed.push_back(std::move(each->second));
      registering_.erase(each);
    }
  }
  for (const auto& r : failed) {
    WithdrawGraph(r->Unanswered(), r->waiting);
    AnswerThose(r->waiting, absl::AbortedError("the actor that was asked ended without an answer"));
  }
}

void SessionMaster::Finish(const std::shared_ptr<Registering>& p) {
  if (p->compile->asked.graphs) return FinishExport(*p);
  const Answer answer = Guarded("compiling", [&] { return Register(*p); });
  p->linked = answer.ok();
  if (answer.ok() && (*answer)->stale()) {
    // A device has died since its edges were named. The work begins when this one is over.
    {
      std::lock_guard<std::mutex> lock(mu_);
      tasks_.ForgetAll();
    }
    Work again;
    again.compile = p->compile;
    again.waiting = p->waiting;
    if (Queue(std::move(again)).ok()) return;
  }
  AnswerThose(p->waiting, answer);
}

// Compiled parts are not kept as graphs, so they are made again.
void SessionMaster::FinishExport(const Registering& p) {
  Calls calls;
  {
    std::lock_guard<std::mutex> lock(mu_);
    calls = TakeLocked(p.waiting);
  }
  for (const auto& call : calls) {
    for (const auto& answer : p.answers) {
      for (const GraphValue& part : answer->graphs) call->graphs.push_back(part);
    }
    call->asked.graphs = false;
    Compile(call);
  }
}

SessionMaster::Answer SessionMaster::Register(const Registering& p) {
  const std::shared_ptr<Signature>& signature = p.signature;
  std::vector<PartEdges> edges;
  std::vector<uint32_t> tasks;
  for (size_t i = 0; i < p.answers.size(); ++i) {
    const graph_registered& answer = *p.answers[i];
    if (IsRemote(p.tasks[i])) {
      if (answer.parts.size() != p.remote[i].devices.size())
        return absl::AbortedError(StrCat("the worker of ", answer.task, " has another graph"));
      for (const PartEdges& e : answer.parts) edges.push_back(e);
      tasks.resize(edges.size(), p.tasks[i]);
      continue;
    }
    if (answer.graph == nullptr || answer.graph->parts.size() != answer.parts.size())
      return absl::AbortedError(StrCat("the worker of ", answer.task, " has no graph ", answer.handle));
    for (const auto& part : answer.graph->parts) signature->parts.push_back(part);
    for (const PartEdges& e : answer.parts) edges.push_back(e);
    tasks.resize(edges.size(), p.tasks[i]);
  }
  signature->tasks = tasks;
  signature->edges = EdgesBetween(edges, tasks);
  for (uint32_t i = 0; i < signature->edges.size(); ++i) {
    EdgeTable::Edge& edge = signature->edges[i];
    const size_t device = edge.name.find(';');
    if (device == std::string::npos) continue;
    edge.incarnation = std::strtoull(edge.name.c_str() + device + 1, nullptr, 16);
  }
  TROUPE_RETURN_IF_ERROR(LinkRemote(p, signature.get()));
  const auto restarted = [&] {
    return signature->remote != nullptr &&
           std::any_of(signature->remote->tasks.begin(), signature->remote->tasks.end(), [&](const auto& t) {
             const RemoteTask now = signature->remote->remote->Find(signature->remote->NameOf(t));
             return now.incarnation != t.incarnation || !now.worker;
           });
  };
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!end_.ok()) return end_;
    if (signatures_.size() >= look_through_) {
      std::erase_if(signatures_, [](const std::weak_ptr<Signature>& s) { return s.expired(); });
      look_through_ = 2 * signatures_.size() + 64;
    }
    signature->number = ++last_signature_;
    signatures_.push_back(signature);
    // Edges are named as their devices were told; some may have died since.
    for (const PartEdges& e : edges) signature->edges.Renew(e.device, tasks_.IncarnationOf(e.device));
  }
  // From here on OnFailure finds it.
  if (!signature->edges.Live() || restarted()) {
    signature->SetStale();
    return signature;
  }
  cache_->Add(p.compile->key, signature);
  // Whoever ends the session meanwhile clears before or after this.
  if (closed()) cache_->Clear();
  if (signature->stale()) cache_->Remove(signature.get());
  return signature;
}

}  // namespace troupe
