#include "actors/step/remote_steps.h"

#include <algorithm>
#include <utility>

#include "actors/runtime/worker_actor.h"
#include "actors/signature/signature.h"
#include "actors/step/cancel_later.h"
#include "actors/step/executor_set.h"
#include "actors/step/remote_step.h"
#include "actors/threads/loop_turns.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/surely.h"
#include "kernels/device/session_containers.h"
#include "kernels/numerics_check.h"

namespace troupe {
namespace {

// What could not be read comes without its value (wire/remote_messages.cc).
absl::Status WasRead(const part_letter& letter, const EdgeTable& edges) {
  const auto* const t = std::get_if<tensor_to_part>(&letter.message);
  if (t == nullptr || t->dead || t->value.valid()) return absl::OkStatus();
  if (!edges.Has(t->edge)) return ResourceExhausted("a tensor from another process could not be read");
  const std::string& edge = edges[t->edge].name;
  return ResourceExhausted("tensor '", EdgeTensor(edge), "' of ", EdgeSender(edge),
                           " could not be read in the process of its receiver");
}

// Made when the library is loaded, since memory may be lacking when they are needed.
const absl::Status& kNotRead =
    *new absl::Status(ResourceExhausted("a value of the step could not be read in another process"));
const absl::Status& kRuntimeEnds = *new absl::Status(Unavailable("the runtime of the step's task ends"));
const absl::Status& kMasterWent = *new absl::Status(absl::AbortedError("the master of the step went"));

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

RemoteSteps::RemoteSteps(Runtime::Impl* runtime)
    : runtime_(runtime),
      freight_(Freight::Make(runtime->system, runtime->incarnation, runtime->directory, runtime->compute)) {}

absl::Status RemoteSteps::Keep(const register_graph& request, const std::string& task,
                               std::shared_ptr<const RegisteredGraph> graph) {
  std::lock_guard<std::mutex> lock(mu_);
  // Under the lock: who goes later finds what is kept here.
  if (!IsThere(request.master)) {
    return Unavailable("task ", task, " is not connected with the process of the session (incarnation ", request.master,
                       "); try again");
  }
  Master& master = masters_[request.master];
  std::shared_ptr<RemoteSession>& session = master.sessions[request.session];
  if (session == nullptr) {
    // A step of before its master went and came may run still: what it ends must not be the state
    // of the session that goes on.
    std::erase_if(sessions_, [](const auto& each) { return each.second.expired(); });
    std::weak_ptr<RemoteSession>& known = sessions_[request.session];
    session = known.lock();
    if (session == nullptr) known = session = std::make_shared<RemoteSession>(request.session, runtime_);
  }
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
  std::shared_ptr<Signature> signature;
  try {
    signature = SignatureOf(*graph->parts, message, runtime_);
  } catch (const std::bad_alloc&) {
    return;  // as of a link that did not come: the graph's steps are refused
  }
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
    refused.status = kNoMemory;
  }
  if (refused.status.ok()) return;
  Refuse({message.master, message.step, message.task});
  AnswerMaster(runtime_, master, std::move(refused));
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
    if (const auto early = early_.find(key); early != early_.end() && !early->second.lost.ok())
      return early->second.lost;
  }
  // What there was no memory for when the message was read.
  const auto& values = message->arguments;
  if (std::any_of(values.begin(), values.end(), [](const auto& each) { return !each.second.valid(); }))
    return ResourceExhausted("task ", task, " could not read the arguments of the step");
  if (runtime_->turns != nullptr) TROUPE_RETURN_IF_ERROR(runtime_->turns->Start());
  const uint32_t number = graph->number;
  const auto step =
      std::make_shared<RemoteStep>(shared_from_this(), alive, std::move(graph), std::move(*message), master);
  const Key key{step->master(), step->step(), number};
  std::map<Key, std::shared_ptr<RemoteStep>> entry{{key, step}};
  std::map<std::pair<int64_t, uint32_t>, Unsettled> settled;
  if (step->checks_numerics()) settled.try_emplace({step->step(), number});
  step->Begin();
  // From here on only the step's end gives back what it has, so what has no memory ends it.
  CancelLater later;  // of what is early, and of what comes
  {
    std::lock_guard<std::mutex> lock(mu_);
    others_.merge(entry);
    if (const auto it = early_.find(key); it != early_.end()) {
      std::vector<part_letter> letters = TakeEarly(it);
      try {
        for (part_letter& letter : letters) DeliverTo(step.get(), std::move(letter));
      } catch (const std::bad_alloc&) {
        step->set()->Stop(step->own_step(), kNoMemory);
      }
    }
    if (const auto it = masters_.find(step->master()); it != masters_.end() && !settled.empty()) {
      auto& unsettled = it->second.unsettled;
      unsettled.merge(settled);
      // A master that settles nothing keeps no more than so many.
      if (unsettled.size() > limits_.steps) unsettled.erase(unsettled.begin());
    }
    // Its master may have gone since it was looked for.
    if (!IsThere(step->master())) step->set()->Stop(step->own_step(), kMasterWent);
  }
  try {
    HandOn(freight_->in.Begin(key));
  } catch (const std::bad_alloc&) {
    step->set()->Stop(step->own_step(), kNoMemory);
  }
  step->Launch();
  return absl::OkStatus();
}

// Under the lock; kernels that hear of the step's end do so later (CancelLater).
void RemoteSteps::DeliverTo(RemoteStep* step, part_letter&& letter) {
  ExecutorSet* const set = step->set();
  set->Came(BytesOf(letter));
  const int64_t own = step->own_step();
  if (const auto* abort = std::get_if<abort_step>(&letter.message)) return set->Stop(own, abort->status);
  std::visit(
      [&](auto& m) {
        if constexpr (requires { m.step; }) m.step = own;
        if constexpr (requires { m.value; }) set->transport().Bind(&m.value);
      },
      letter.message);
  if (letter.to.part - step->graph().signature->first_part >= set->executors().size()) return;
  // A value is fed to the task, for all of its parts that take it.
  if (const auto* fed = std::get_if<argument>(&letter.message)) {
    if (!fed->value.valid()) return set->Stop(own, kNotRead);
    for (const auto& e : set->executors()) {
      if (fed->index >= e->state().part().num_arguments) continue;
      if (absl::Status s = set->transport().Deliver(e->address(), *fed); !s.ok()) set->Stop(own, s);
    }
    return;
  }
  const bool asks = std::holds_alternative<question>(letter.message);
  if (absl::Status read = WasRead(letter, set->edges()); !read.ok()) return set->Stop(own, read);
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
    set->Came(BytesOf(letter));
    std::visit(
        [&](auto& m) {
          if constexpr (requires { m.step; }) m.step = letter.step;
          if constexpr (requires { m.value; }) set->transport().Bind(&m.value);
        },
        letter.message);
    try {
      absl::Status s = WasRead(letter, set->edges());
      if (s.ok()) s = set->transport().Deliver(letter.to, std::move(letter.message));
      if (!s.ok()) set->Abort(letter.step, s);
    } catch (const std::bad_alloc&) {
      set->Abort(letter.step, kNoMemory);
    }
    return;
  }
  const Key key{letter.master, letter.step, letter.to.task};
  if (const auto it = others_.find(key); it != others_.end()) {
    const std::shared_ptr<RemoteStep> step = it->second;
    try {
      return DeliverTo(step.get(), std::move(letter));
    } catch (const std::bad_alloc&) {
      return step->set()->Stop(step->own_step(), kNoMemory);
    }
  }
  const auto master = masters_.find(letter.master);
  // A master that has registered nothing here has no step here.
  if (master == masters_.end() || master->second.over.contains({letter.step, letter.to.task})) return;
  if (!IsThere(letter.master) || std::holds_alternative<question>(letter.message)) return;
  try {
    Keep(key, std::move(letter));
  } catch (const std::bad_alloc&) {
    if (const auto it = early_.find(key); it != early_.end() && it->second.lost.ok()) Lose(&it->second, kNoMemory);
  }
}

void RemoteSteps::Refuse(const Key& key) {
  std::lock_guard<std::mutex> lock(mu_);
  if (others_.contains(key)) return;
  DropEarly(key);
  RememberOver(key);
}

// Ending a step needs no memory: one that cannot be remembered is forgotten.
void RemoteSteps::RememberOver(const Key& key, const std::shared_ptr<const RemoteGraph>& graph) noexcept {
  const auto [master, step, task] = key;
  const auto it = masters_.find(master);
  if (it == masters_.end()) return;
  Master& m = it->second;
  if (m.over.contains({step, task})) return;
  try {
    m.over_in_order.emplace_back(step, task);
  } catch (const std::bad_alloc&) {
    return;
  }
  try {
    m.over.try_emplace({step, task}, graph);
  } catch (const std::bad_alloc&) {
    return m.over_in_order.pop_back();
  }
  if (m.over_in_order.size() <= limits_.steps) return;
  m.over.erase(m.over_in_order.front());
  m.over_in_order.pop_front();
}

void RemoteSteps::KeepUpdates(uint64_t master, int64_t step, uint32_t task, std::shared_ptr<UpdateLog> updates) {
  // Of a master that went nobody settles it; what has failed here is taken back.
  bool undo = updates != nullptr && updates->failed();
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (const auto it = masters_.find(master); it != masters_.end()) {
      auto& unsettled = it->second.unsettled;
      const auto found = unsettled.find({step, task});
      if (found != unsettled.end() && updates != nullptr && !found->second.settled) {
        found->second.updates = std::move(updates);
        return;
      }
      if (found != unsettled.end()) {
        undo |= found->second.undo;
        unsettled.erase(found);
      }
    }
  }
  if (undo && updates != nullptr) UntilMemoryAllows([&] { updates->UndoAll(); });
}

size_t RemoteSteps::unsettled() const {
  size_t n = 0;
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& [incarnation, master] : masters_) n += master.unsettled.size();
  return n;
}

void RemoteSteps::Settle(const settle_step& message) {
  std::shared_ptr<UpdateLog> updates;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = masters_.find(message.master);
    if (it == masters_.end()) return;
    auto& unsettled = it->second.unsettled;
    const auto found = unsettled.find({message.step, message.task});
    if (found == unsettled.end()) return;
    updates = std::move(found->second.updates);
    if (updates == nullptr) {
      // The master has ended the step, which runs here still.
      found->second.settled = true;
      found->second.undo |= message.undo;
      return;
    }
    unsettled.erase(found);
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
  RememberOver(key, last != nullptr ? last->shared_graph() : nullptr);
  freight_->in.End(key);
}

// What a message may end calls the program's code, unless the step is one that runs in the loop.
// Not a compute thread: all may have kernels of the step, which are to be told to end.
template <class Message, class F>
void RemoteSteps::OffTheLoop(bool stays, F take, Message&& message) {
  if (LoopTurns::Here() == nullptr || stays) return take(std::move(message));
  std::shared_ptr<Message> kept;
  try {
    kept = std::make_shared<Message>();
  } catch (const std::bad_alloc&) {
    return take(std::move(message));
  }
  *kept = std::move(message);
  const auto work = [take, kept] { take(std::move(*kept)); };
  if (!RunUnderScheduler(*runtime_->system, work)) work();
}

void RemoteSteps::Done(parts_done&& message) {
  if (freight_->in.HoldBack({runtime_->incarnation, message.step, FreightIn::kOwn}, &message)) return;
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
  OffTheLoop(
      set->in_loop(), [set, task](parts_done&& m) { set->RemoteDone(task, std::move(m)); }, std::move(message));
}

void RemoteSteps::Tell(step_letter&& message) {
  CancelLater later;
  ExecutorSet* set = nullptr;
  {
    std::lock_guard<std::mutex> lock(mu_);
    const auto it = own_.find(message.step);
    if (message.master != runtime_->incarnation || it == own_.end()) return;
    set = it->second;
    const size_t task = set->remote()->Find(message.from.task);
    if (task == set->remote()->size()) return;
    // A task speaks for its own parts.
    const RemotePlan::Task& its = set->remote()->plan().tasks[task];
    if (message.from.part - its.first_part >= its.devices.size()) return;
    // While the task is owed, which changes under the lock, the step is not over.
    if (!set->remote()->Owes(task, message.step)) {
      // Its parts are done, and what they sent to others is lost.
      if (const auto* failed = std::get_if<part_failed>(&message.message)) set->Abort(message.step, failed->status);
      return;
    }
    if (const auto* r = std::get_if<result>(&message.message); r != nullptr && !r->value.valid()) {
      set->Abort(message.step, kNotRead);
      return;
    }
    set->CountUp();
  }
  // Whoever hears of a stall is the program's.
  const bool stays = set->in_loop() && !std::holds_alternative<stall_report>(message.message);
  OffTheLoop(
      stays, [set](step_letter&& m) { set->RemoteTells(std::move(m)); }, std::move(message));
}

void RemoteSteps::Begin(int64_t step, ExecutorSet* set) {
  std::lock_guard<std::mutex> lock(mu_);
  own_[step] = set;
}

void RemoteSteps::End(int64_t step) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    own_.erase(step);
  }
  freight_->in.End({runtime_->incarnation, step, FreightIn::kOwn});
  freight_->out.EndStep({runtime_->incarnation, step, FreightOut::kMasters});
}

ClockBounds RemoteSteps::Exchanged(uint64_t process, int64_t sent, int64_t asked, int64_t answered, int64_t heard) {
  std::lock_guard<std::mutex> lock(mu_);
  if (IsThere(process)) {
    ClockBounds& clock = clocks_[process];
    clock.Exchange(sent, asked, answered, heard);
    return clock;
  }
  ClockBounds once;
  once.Exchange(sent, asked, answered, heard);
  return once;
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
  freight_->out.Fail(kRuntimeEnds);
  (void)freight_->in.Fail(kRuntimeEnds);
}

}  // namespace troupe
