#include "actors/step/remote_steps.h"

#include <algorithm>
#include <utility>

#include "actors/runtime/worker_actor.h"
#include "actors/signature/signature.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/step/remote_step.h"
#include "actors/threads/no_memory.h"
#include "kernels/device/session_containers.h"
#include "kernels/numerics_check.h"

namespace troupe {
namespace {

int64_t BytesOf(const part_letter& letter) {
  const auto* tensor = std::get_if<tensor_to_part>(&letter.message);
  return tensor != nullptr && tensor->value.valid() ? static_cast<int64_t>(tensor->value.bytes()) : 0;
}

// The signature of the parts that one task runs of a graph of another master.
std::shared_ptr<Signature> SignatureOf(const RegisteredGraph& graph, const link_graph& link, Runtime::Impl* runtime) {
  auto s = std::make_shared<Signature>();
  s->feeds.resize(link.feeds);
  s->fetches.resize(link.fetches);
  s->parts = graph.parts;
  s->tasks.assign(graph.parts.size(), link.task);
  s->first_part = link.first_part;
  for (const link_graph::Edge& e : link.edges) {
    EdgeTable::Edge& edge = s->edges[s->edges.Add(e.name)];
    edge.sender = e.sender;
    edge.receiver = e.receiver;
    edge.granted = e.granted;
    edge.incarnation = e.incarnation;
  }
  s->options.token_messages = link.token_messages;
  s->options.check_kernels = link.check_kernels;
  s->options.wire_messages = link.wire_messages;
  s->system = runtime->system;
  // A share of its own would keep the runtime, which has this graph. Its steps have one.
  const std::shared_ptr<Runtime> alive = runtime->self.lock();
  s->runtime = std::shared_ptr<Runtime>(std::shared_ptr<void>(), alive.get());
  s->closed = std::make_shared<std::atomic<bool>>(false);
  s->turns = runtime->turns.get();
  return alive != nullptr ? s : nullptr;
}

}  // namespace

void RemoteSession::Clear() const {
  for (const auto& d : runtime->devices) {
    d->containers()->Clear(OwnVariables(id));
    d->containers()->Clear(OwnState(id));
  }
}

absl::Status RemoteSteps::Keep(const register_graph& request, const std::string& task,
                               std::shared_ptr<const RegisteredGraph> graph) {
  if (!IsThere(request.master)) {
    return Unavailable("task ", task, " is not connected with the process of the session (incarnation ", request.master,
                       "); try again");
  }
  std::lock_guard<std::mutex> lock(mu_);
  Master& master = masters_[request.master];
  std::shared_ptr<RemoteSession>& session = master.sessions[request.session];
  if (session == nullptr) session = std::make_shared<RemoteSession>(request.session, runtime_);
  auto kept = std::make_shared<RemoteGraph>();
  kept->session = session;
  kept->task = task;
  const uint64_t handle = graph->handle;
  kept->parts = std::move(graph);
  master.graphs[{task, handle}] = std::move(kept);
  return absl::OkStatus();
}

void RemoteSteps::Link(const std::string& task, link_graph&& message) {
  // A number too many costs memory for each step.
  constexpr uint32_t kMost = 1 << 20;
  if (message.feeds > kMost || message.fetches > kMost || message.task >= message.tasks.size()) return;
  std::shared_ptr<RemoteGraph> graph;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto master = masters_.find(message.master);
    if (master == masters_.end()) return;
    const auto it = master->second.graphs.find({task, message.handle});
    if (it == master->second.graphs.end() || it->second->signature != nullptr) return;
    graph = it->second;
  }
  for (const auto& part : graph->parts->parts) {
    if (part->num_arguments > message.feeds || part->num_results > message.fetches) return;
  }
  std::shared_ptr<Signature> signature = SignatureOf(*graph->parts, message, runtime_);
  std::lock_guard<std::mutex> lock(mu_);
  graph->tasks = std::move(message.tasks);
  graph->number = message.task;
  graph->signature = std::move(signature);
}

void RemoteSteps::Drop(const std::string& task, const drop_graph& message) {
  std::shared_ptr<RemoteGraph> last;  // perhaps; without the lock
  std::lock_guard<std::mutex> lock(mu_);
  const auto master = masters_.find(message.master);
  if (master == masters_.end()) return;
  const auto it = master->second.graphs.find({task, message.handle});
  if (it == master->second.graphs.end()) return;
  last = std::move(it->second);
  master->second.graphs.erase(it);
}

void RemoteSteps::Forget(const std::string& session) {
  std::vector<std::shared_ptr<RemoteGraph>> graphs;
  std::vector<std::shared_ptr<RemoteSession>> sessions;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto& [incarnation, master] : masters_) {
    const auto it = master.sessions.find(session);
    if (it == master.sessions.end()) continue;
    sessions.push_back(std::move(it->second));
    master.sessions.erase(it);
    std::erase_if(master.graphs, [&](auto& each) {
      if (each.second->session->id != session) return false;
      graphs.push_back(std::move(each.second));
      return true;
    });
  }
}

void RemoteSteps::Run(const std::string& task, run_parts&& message, const caf::actor& master) {
  parts_done refused{message.master, message.step, message.task, {}, false, false, {}, {}};
  try {
    refused.status = Start(task, &message, master, &refused.forgotten);
  } catch (const std::bad_alloc&) {
    refused.status = absl::ResourceExhaustedError("no memory is left for the step");
  }
  if (!refused.status.ok()) AnswerMaster(*runtime_->system, master, std::move(refused));
}

absl::Status RemoteSteps::Start(const std::string& task, run_parts* message, const caf::actor& master,
                                bool* forgotten) {
  const std::shared_ptr<Runtime> alive = runtime_->self.lock();
  if (alive == nullptr || !IsThere(message->master))
    return Unavailable("task ", task, " is not connected with the master of the step");
  std::shared_ptr<RemoteGraph> graph;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = masters_.find(message->master);
    if (it != masters_.end()) {
      const auto found = it->second.graphs.find({task, message->handle});
      if (found != it->second.graphs.end() && found->second->signature != nullptr) graph = found->second;
    }
    *forgotten = graph == nullptr || !graph->signature->edges.Live();
    if (graph == nullptr)
      return Aborted("task ", task, " has no graph ", message->handle, " of the master of the step");
    const Key key{message->master, message->step, graph->number};
    // A message that comes twice is none.
    if (others_.contains(key) || it->second.over.contains({message->step, graph->number})) return absl::OkStatus();
    if (*forgotten) return Aborted("task ", task, " has a graph of devices that were restarted since");
    if (const auto early = early_.find(key); early != early_.end() && !early->second.lost.ok()) {
      absl::Status lost = early->second.lost;
      DropEarly(key);
      RememberOver(key);
      return lost;
    }
  }
  if (runtime_->turns != nullptr) TROUPE_RETURN_IF_ERROR(runtime_->turns->Start());
  const uint32_t number = graph->number;
  const auto step =
      std::make_shared<RemoteStep>(shared_from_this(), alive, std::move(graph), std::move(*message), master);
  step->Begin();
  CancelLater later;  // of what is early, and of what comes
  {
    std::lock_guard<std::mutex> lock(mu_);
    const Key key{step->master(), step->step(), number};
    others_[key] = step;
    if (const auto it = early_.find(key); it != early_.end()) {
      std::vector<part_letter> letters = std::move(it->second.letters);
      DropEarly(key);
      for (part_letter& letter : letters) DeliverTo(step.get(), std::move(letter));
    }
    // Its master may have gone since it was looked for.
    if (!IsThere(step->master()))
      step->set()->Stop(step->own_step(), absl::AbortedError("the master of the step went"));
  }
  step->Launch();
  return absl::OkStatus();
}

// Under the lock; kernels that hear of the step's end do so later (CancelLater).
void RemoteSteps::DeliverTo(RemoteStep* step, part_letter&& letter) {
  ExecutorSet* const set = step->set();
  const int64_t own = step->own_step();
  if (const auto* abort = std::get_if<abort_step>(&letter.message)) return set->Stop(own, abort->status);
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.step; }) m.step = own;
        if constexpr (requires { m.value; }) set->transport().Bind(&m.value);
      },
      letter.message);
  if (letter.to.part - step->graph().signature->first_part >= set->executors().size()) return;
  const bool asks = std::holds_alternative<question>(letter.message);
  const absl::Status s = set->transport().Deliver(letter.to, std::move(letter.message));
  // What is refused is missed by its receiver.
  if (!s.ok() && !asks) set->Stop(own, s);
}

void RemoteSteps::Deliver(part_letter&& letter) {
  CancelLater later;
  std::lock_guard<std::mutex> lock(mu_);
  if (letter.master == runtime_->incarnation) {
    const auto it = own_.find(letter.step);
    if (it == own_.end()) return;
    ExecutorSet* const set = it->second;
    // Only what parts tell each other: nobody else ends a step of this process.
    if (!std::holds_alternative<tensor_to_part>(letter.message) && !std::holds_alternative<grant>(letter.message))
      return;
    if (letter.to.part >= set->executors().size()) return;
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.step; }) m.step = letter.step;
          if constexpr (requires { m.value; }) set->transport().Bind(&m.value);
        },
        letter.message);
    if (absl::Status s = set->transport().Deliver(letter.to, std::move(letter.message)); !s.ok())
      set->Abort(letter.step, s);
    return;
  }
  const Key key{letter.master, letter.step, letter.to.task};
  if (const auto it = others_.find(key); it != others_.end()) return DeliverTo(it->second.get(), std::move(letter));
  const auto master = masters_.find(letter.master);
  // A master that has registered nothing here has no step here.
  if (master == masters_.end() || master->second.over.contains({letter.step, letter.to.task})) return;
  if (!IsThere(letter.master) || std::holds_alternative<question>(letter.message)) return;
  Keep(key, std::move(letter));
}

void RemoteSteps::Keep(const Key& key, part_letter&& letter) {
  const auto [it, is_new] = early_.try_emplace(key);
  if (is_new) {
    early_in_order_.push_back(key);
    if (early_in_order_.size() > limits_.steps) DropEarly(Key(early_in_order_.front()));
  }
  Early& early = it->second;
  const int64_t bytes = BytesOf(letter);
  if (!early.lost.ok()) return;
  if (early_messages_ >= limits_.messages || early_bytes_ + bytes > limits_.bytes) {
    const auto master = masters_.find(std::get<0>(key));
    std::string what = "an abort";
    uint32_t edge = 0;
    if (const auto* t = std::get_if<tensor_to_part>(&letter.message)) edge = t->edge;
    if (const auto* g = std::get_if<grant>(&letter.message)) edge = g->edge;
    // The edges of one graph tell more than a number.
    for (const auto& [name, graph] : master->second.graphs) {
      if (graph->signature == nullptr || !graph->signature->edges.Has(edge)) continue;
      const std::string& key_name = graph->signature->edges[edge].name;
      what = StrCat("tensor '", EdgeTensor(key_name), "' of ", EdgeSender(key_name));
      if (graph->number == letter.to.task) break;
    }
    early_messages_ -= early.letters.size();
    early_bytes_ -= std::exchange(early.bytes, 0);
    early.letters.clear();
    early.lost = ResourceExhausted("more messages than ", limits_.messages, ", or more bytes than ", limits_.bytes,
                                   ", wait for steps that have not begun in this process; the next is of ", what);
    return;
  }
  early.letters.push_back(std::move(letter));
  early.bytes += bytes;
  early_bytes_ += bytes;
  ++early_messages_;
}

void RemoteSteps::DropEarly(const Key& key) {
  const auto it = early_.find(key);
  if (it == early_.end()) return;
  early_messages_ -= it->second.letters.size();
  early_bytes_ -= it->second.bytes;
  early_.erase(it);
  std::erase(early_in_order_, key);
}

void RemoteSteps::RememberOver(const Key& key) {
  const auto [master, step, task] = key;
  const auto it = masters_.find(master);
  if (it == masters_.end()) return;
  Master& m = it->second;
  if (!m.over.insert({step, task}).second) return;
  m.over_in_order.emplace_back(step, task);
  if (m.over_in_order.size() <= limits_.steps) return;
  m.over.erase(m.over_in_order.front());
  m.over_in_order.pop_front();
}

void RemoteSteps::KeepUpdates(uint64_t master, int64_t step, uint32_t task, std::shared_ptr<UpdateLog> updates) {
  std::lock_guard<std::mutex> lock(mu_);
  // Of a master that went nobody settles it; what has failed here is taken back.
  const auto it = masters_.find(master);
  if (it == masters_.end()) return;
  auto& unsettled = it->second.unsettled;
  unsettled[{step, task}] = std::move(updates);
  // A master that settles nothing keeps no more than so many.
  if (unsettled.size() > limits_.steps) unsettled.erase(unsettled.begin());
}

void RemoteSteps::Settle(const settle_step& message) {
  std::shared_ptr<UpdateLog> updates;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = masters_.find(message.master);
    if (it == masters_.end()) return;
    auto node = it->second.unsettled.extract({message.step, message.task});
    if (!node) return;
    updates = std::move(node.mapped());
  }
  if (message.undo) UntilMemoryAllows([&] { updates->UndoAll(); });
}

void RemoteSteps::Over(uint64_t master, int64_t step, uint32_t task) {
  std::shared_ptr<RemoteStep> last;
  std::lock_guard<std::mutex> lock(mu_);
  const Key key{master, step, task};
  const auto it = others_.find(key);
  if (it != others_.end()) {
    last = std::move(it->second);
    others_.erase(it);
  }
  RememberOver(key);
}

void RemoteSteps::Done(parts_done&& message) {
  ExecutorSet* set = nullptr;
  size_t task = 0;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = own_.find(message.step);
    if (message.master != runtime_->incarnation || it == own_.end()) return;
    set = it->second;
    task = set->remote()->Find(message.task);
    // From here on the step waits for this thread.
    if (task == set->remote()->size() || !set->remote()->TakeOwed(task, message.step)) return;
  }
  set->RemoteDone(task, std::move(message));
}

void RemoteSteps::Tell(step_letter&& message) {
  ExecutorSet* set = nullptr;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = own_.find(message.step);
    if (message.master != runtime_->incarnation || it == own_.end()) return;
    set = it->second;
    const size_t task = set->remote()->Find(message.from.task);
    // While the task is owed, which changes under the lock, the step is not over.
    if (task == set->remote()->size() || !set->remote()->Owes(task, message.step)) return;
    set->CountUp();
  }
  set->RemoteTells(std::move(message));
}

void RemoteSteps::Begin(int64_t step, ExecutorSet* set) {
  std::lock_guard<std::mutex> lock(mu_);
  own_[step] = set;
}

void RemoteSteps::End(int64_t step) {
  std::lock_guard<std::mutex> lock(mu_);
  own_.erase(step);
}

void RemoteSteps::TaskWent(const RemoteTask& task, const absl::Status& why, bool worker_only) {
  CancelLater later;
  std::vector<std::pair<int64_t, ExecutorSet*>> lost;
  Master gone;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [step, set] : own_) {
      for (size_t i = 0; i < set->remote()->size(); ++i) {
        const RemotePlan& plan = set->remote()->plan();
        if (plan.NameOf(plan.tasks[i]) == task.name && set->remote()->TakeOwed(i, step)) lost.emplace_back(step, set);
      }
    }
    if (!worker_only) {
      for (const auto& [key, step] : others_) {
        if (step->master() == task.incarnation) step->set()->Stop(step->own_step(), why);
      }
      if (const auto it = masters_.find(task.incarnation); it != masters_.end()) {
        gone = std::move(it->second);
        masters_.erase(it);
      }
      std::vector<Key> early;
      for (const auto& [key, letters] : early_) {
        if (std::get<0>(key) == task.incarnation) early.push_back(key);
      }
      for (const Key& key : early) DropEarly(key);
    }
  }
  for (const auto& [step, set] : lost) set->RemoteLost(step, why);
  // Nobody says any more whether they stay; what failed its own check does not.
  for (const auto& [key, updates] : gone.unsettled) {
    if (updates->failed()) UntilMemoryAllows([&] { updates->UndoAll(); });
  }
  // What kernels have registered is users': nobody may wait for it here.
  later.FlushAside(runtime_->aside);
}

void RemoteSteps::ActorFailed(const actor_failed& failure) {
  CancelLater later;
  std::vector<std::pair<int64_t, ExecutorSet*>> lost;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& [key, step] : others_) {
      if (step->Concerns(failure)) step->set()->Stop(step->own_step(), failure.status);
    }
    for (auto& [incarnation, master] : masters_) {
      for (auto& [name, graph] : master.graphs) {
        if (failure.incarnation != 0 && graph->signature != nullptr)
          graph->signature->edges.Renew(failure.place, failure.incarnation);
      }
    }
    // The port of this process's own steps: answers may have been in its mailbox.
    for (const auto& [step, set] : own_) {
      if (set->remote()->plan().port != failure.place) continue;
      for (size_t i = 0; i < set->remote()->size(); ++i) {
        if (!set->remote()->TakeOwed(i, step)) continue;
        set->remote()->SendAbort(i, step, failure.status);
        lost.emplace_back(step, set);
      }
    }
  }
  for (const auto& [step, set] : lost) set->RemoteLost(step, failure.status);
  later.FlushAside(runtime_->aside);
}

size_t RemoteSteps::graphs() const {
  size_t n = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [incarnation, master] : masters_) n += master.graphs.size();
  return n;
}

void RemoteSteps::Close() {
  std::map<uint64_t, Master> gone;
  std::lock_guard<std::mutex> lock(mu_);
  gone.swap(masters_);
  early_.clear();
}

}  // namespace troupe
