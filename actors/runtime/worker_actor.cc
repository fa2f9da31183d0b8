#include "actors/runtime/worker_actor.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/step/remote_steps.h"
#include "actors/threads/quick_actor.h"
#include "actors/threads/surely.h"
#include "graph/passes/fuse.h"
#include "graph/passes/memory_copies.h"
#include "kernels/device/session_containers.h"
#include "kernels/pass_support.h"

namespace troupe {

std::string WorkerName(std::string_view task) { return StrCat("worker:", task); }

std::shared_ptr<const RegisteredGraph> RegisteredGraphs::Add(std::vector<std::shared_ptr<const CompiledPart>> parts) {
  std::lock_guard<std::mutex> lock(mu_);
  if (graphs_.size() >= look_through_) {
    std::erase_if(graphs_, [](const auto& each) { return each.second.expired(); });
    look_through_ = 2 * graphs_.size() + 64;
  }
  auto graph = std::make_shared<const RegisteredGraph>(++last_, std::move(parts));
  graphs_.emplace(graph->handle, graph);
  return graph;
}

std::shared_ptr<const RegisteredGraph> RegisteredGraphs::Find(uint64_t handle) const {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = graphs_.find(handle);
  return it == graphs_.end() ? nullptr : it->second.lock();
}

size_t RegisteredGraphs::size() const {
  std::lock_guard<std::mutex> lock(mu_);
  return graphs_.size();
}

std::shared_ptr<GraphsInWork::Job> GraphsInWork::Begin(const register_graph& request) {
  auto job = std::make_shared<Job>();
  job->session = request.session;
  job->compile = request.compile;
  job->under_way = UnderWay::Share(under_way_);
  std::lock_guard<std::mutex> lock(mu_);
  jobs_.push_back(job);
  return job;
}

bool GraphsInWork::End(const Job& job) {
  std::lock_guard<std::mutex> lock(mu_);
  std::erase_if(jobs_, [&](const auto& each) { return each.get() == &job; });
  return job.session_ended;
}

void GraphsInWork::Withdraw(const withdraw_graph& message) {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& job : jobs_) {
    if (job->session != message.session || (message.compile != 0 && job->compile != message.compile)) continue;
    job->withdrawn.store(true);
    job->session_ended |= message.compile == 0;
  }
}

void GraphsInWork::WithdrawAll() {
  std::lock_guard<std::mutex> lock(mu_);
  for (const auto& job : jobs_) {
    job->died.store(true);
    job->withdrawn.store(true);
  }
}

absl::Status GraphsInWork::Job::Wanted() const {
  if (!withdrawn.load()) return absl::OkStatus();
  if (died.load()) return absl::AbortedError("the worker that was asked for the graph has died; it is restarted");
  return Cancelled("nobody waits for the graph any more");
}

device_list Worker::Devices(const list_devices& question) const {
  device_list answer;
  answer.number = question.number;
  answer.task = task_;
  for (const OneDevice& d : devices_)
    answer.devices.push_back({d.device->name(), d.device->type(), d.incarnation->load()});
  return answer;
}

std::shared_ptr<Device> Worker::Find(const std::string& name) const {
  for (const OneDevice& d : devices_) {
    if (d.device->name() == name) return d.device;
  }
  return nullptr;
}

void Worker::Withdraw(const withdraw_graph& message) const {
  in_work_->Withdraw(message);
  // Work that is over may have made state after the session removed its own. What goes on removes
  // what it makes when it is over.
  if (message.compile == 0) ClearStateOf(message.session);
}

void Worker::ClearStateOf(const std::string& session) const {
  for (const OneDevice& d : devices_) {
    d.device->containers()->Clear(OwnVariables(session));
    d.device->containers()->Clear(OwnState(session));
  }
}

graph_registered Worker::Register(const register_graph& request, const GraphsInWork::Job& work) const {
  graph_registered answer;
  answer.compile = request.compile;
  answer.task = task_;
  absl::Status s = Guarded("compiling", [&] { return Register(request, work, &answer); });
  if (in_work_->End(work)) {
    answer.graph = nullptr;  // with what its kernels hold
    ClearStateOf(request.session);
    if (s.ok()) s = Cancelled("the session has ended");
  }
  if (s.ok()) return answer;
  graph_registered failed;
  failed.compile = request.compile;
  failed.task = task_;
  failed.status = std::move(s);
  return failed;
}

absl::Status Worker::Register(const register_graph& request, const GraphsInWork::Job& work,
                              graph_registered* answer) const {
  const std::function<absl::Status()> wanted = [&] { return work.Wanted(); };
  const SessionScope session(request.session, request.share_variables);
  std::vector<std::shared_ptr<const CompiledPart>> compiled;
  for (const register_graph::Part& part : request.parts) {
    TROUPE_RETURN_IF_ERROR(wanted());
    std::shared_ptr<Device> device = Find(part.device);
    if (device == nullptr) return NotFound("the worker of ", task_, " has no device '", part.device, "'");
    if (part.graph.graph == nullptr) return InvalidArgument("the part on '", part.device, "' has no graph");
    Graph* const graph = part.graph.graph.get();
    // Bytes do not say it.
    for (Node* n : graph->op_nodes()) n->set_assigned_device(part.device);
    // In the part, where everything that somebody else needs is an edge.
    if (request.fuse) TROUPE_RETURN_IF_ERROR(FuseNodes(graph, RegistryKernelLookup(), &wanted).status());
    if (device->memory() != MemoryKind::kHost)
      TROUPE_RETURN_IF_ERROR(AddMemoryCopies(graph, RegistryKernelLookup(), device->type()).status());
    if (request.only_graphs) {
      answer->graphs.push_back(part.graph);
      continue;
    }
    TROUPE_ASSIGN_OR_RETURN(compiled.emplace_back(), CompiledPart::Compile(*graph, std::move(device), session));
    answer->parts.push_back(EdgesOf(*compiled.back()));
  }
  if (request.only_graphs) return absl::OkStatus();
  answer->graph = graphs_->Add(std::move(compiled));
  answer->handle = answer->graph->handle;
  return absl::OkStatus();
}

namespace {

struct WorkerState {
  std::shared_ptr<const Worker> worker;
  std::shared_ptr<Children> children;
  std::shared_ptr<RemoteSteps> remote;  // null: the worker is no port
  bool aside = false;                   // graphs are worked on by threads of their own
  // The messages of steps. Others end sessions and graphs, with what the program keeps in them, or
  // take back updates.
  static bool IsQuick(const caf::type_erased_tuple& m) {
    return m.match_elements<run_parts>() || m.match_elements<part_letter>() || m.match_elements<parts_done>() ||
           m.match_elements<step_letter>() || m.match_elements<freight_note>() || m.match_elements<freight_piece>() ||
           m.match_elements<freight_go>() || m.match_elements<freight_taken>() || m.match_elements<freight_returned>();
  }
  // Not while it copies big tensors for others: the network's thread copies those that come.
  bool MayRunInLoop() const { return aside && (remote == nullptr || !remote->freight().out.busy()); }
  const char* name = "troupe.worker";
};

// A session of another process has no share of the graph: this one keeps it.
void KeepFor(const register_graph& message, const std::string& task, RemoteSteps* remote, const GraphsInWork::Job* work,
             graph_registered* answer) {
  if (!answer->status.ok() || message.only_graphs) return;
  const auto keep = [&] {
    if (remote == nullptr) return Internal("the worker is no port");
    return Guarded("keeping a graph", [&] { return remote->Keep(message, task, answer->graph); });
  };
  absl::Status kept = keep();
  // Of two processes that have just met, one may not have heard of the other yet.
  constexpr int kTries = 200;
  for (int i = 0; i < kTries && work != nullptr && absl::IsUnavailable(kept) && !work->withdrawn.load(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kept = keep();
  }
  answer->graph = nullptr;
  if (kept.ok()) return;
  graph_registered failed;
  failed.compile = answer->compile;
  failed.task = answer->task;
  failed.status = std::move(kept);
  *answer = std::move(failed);
}

// Hands a message of another process to the container of one of this one's devices.
template <class Message>
caf::result<caf::message> Hand(QuickActor<WorkerState>* self, const Runtime::Impl* runtime, const to_container& to,
                               const Message& message) {
  const caf::actor container = runtime->directory->Find("container:" + to.device);
  if (!container) return caf::make_error(caf::sec::request_receiver_down);
  return self->delegate(container, message);
}

// What other processes send.
caf::message_handler PortHandlers(QuickActor<WorkerState>* self, Runtime::Impl* runtime) {
  RemoteSteps* const remote = self->state.remote.get();
  return caf::message_handler{
      [self, remote](link_graph& m) { remote->Link(self->state.worker->task(), std::move(m)); },
      [self, remote](const drop_graph& m) { remote->Drop(self->state.worker->task(), m); },
      [self, remote](run_parts& m) {
        remote->Run(self->state.worker->task(), std::move(m), caf::actor_cast<caf::actor>(self->current_sender()));
      },
      [remote](part_letter& m) { remote->Deliver(std::move(m)); },
      [remote](const settle_step& m) { remote->Settle(m); },
      [remote](parts_done& m) { remote->Done(std::move(m)); },
      [remote](step_letter& m) { remote->Tell(std::move(m)); },
      [self, remote](freight_note& m) {
        remote->Announced(self->state.worker->task(), std::move(m), self->current_sender());
      },
      [self, remote](const freight_piece& m) { remote->Arrived(m, self->current_sender()); },
      [remote](const freight_go& m) { remote->freight().out.Go(m); },
      [remote](const freight_taken& m) { remote->freight().out.Taken(m); },
      [remote](const freight_returned& m) { remote->freight().out.Returned(m); },
      [remote](const freight_drop& m) { remote->freight().out.Drop(m); },
      [remote](const freight_gone& m) { remote->Gone(m); },
      [self, runtime](const to_container& to, const reset_resources& m) { return Hand(self, runtime, to, m); },
      [self, runtime](const to_container& to, const snapshot_resources& m) { return Hand(self, runtime, to, m); },
      [self, runtime](const to_container& to, const restore_resources& m) { return Hand(self, runtime, to, m); },
      [runtime](const actor_failed& m) {
        // Of an actor elsewhere; of its own this process knows itself.
        const auto& names = runtime->remote->names();
        const bool others = std::any_of(names.begin(), names.end(), [&](const std::string& n) {
          return actor_failed{n, 0, {}}.Concerns(m.place);
        });
        if (others) runtime->TellFailure(m);
      },
  };
}

caf::behavior WorkerBehavior(QuickActor<WorkerState>* self, std::shared_ptr<const Worker> worker, uint64_t incarnation,
                             std::shared_ptr<Children> children, bool aside, Runtime::Impl* runtime) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.worker = std::move(worker);
  self->state.children = std::move(children);
  self->state.aside = aside;
  if (runtime != nullptr) self->state.remote = runtime->remote_steps;
  self->state.children->TakeOver(self);
  // The first has none. Whoever waited for work of another incarnation has been answered, or hears
  // of its death from this answer.
  self->state.worker->in_work()->WithdrawAll();
  self->set_down_handler([self](caf::down_msg& down) { self->state.children->OnDown(self, down); });
  self->set_exit_handler([self](caf::exit_msg& e) {
    // A normal end is the runtime's: with a failure the children wait for the next incarnation.
    if (e.reason == caf::exit_reason::user_shutdown) self->state.children->StopAll();
    self->quit(e.reason);
  });
  const caf::message_handler own{
      [self](restart_child r) { self->state.children->OnRestart(self, r.number); },
      [self, incarnation](const list_devices& question) {
        device_list answer = self->state.worker->Devices(question);
        answer.incarnation = incarnation;
        SendSurely(
            self->system(), caf::actor_cast<caf::actor>(self->current_sender()), [&] { return answer; }, self->ctrl());
      },
      [self, aside](register_graph& message) {
        const std::shared_ptr<GraphsInWork::Job> begun = self->state.worker->in_work()->Begin(message);
        // Without memory for the work it ends here.
        struct Unless {
          ~Unless() {
            if (!done) in_work->End(*job);
          }
          GraphsInWork* const in_work;
          const std::shared_ptr<GraphsInWork::Job>& job;
          bool done = false;
        } ends{self->state.worker->in_work(), begun};
        RunAside(aside, [aside, worker = self->state.worker, remote = self->state.remote, system = &self->system(),
                         to = caf::actor_cast<caf::actor>(self->current_sender()), work = begun,
                         message = std::make_shared<register_graph>(std::move(message))]() mutable {
          // Until the graph is kept, where the session's end finds it.
          std::shared_ptr<GraphsInWork::Job> keeping;
          if (message->master != 0) keeping = worker->in_work()->Begin(*message);
          graph_registered answer = worker->Register(*message, *work);
          if (keeping != nullptr) {
            KeepFor(*message, worker->task(), remote.get(), aside ? keeping.get() : nullptr, &answer);
            if (worker->in_work()->End(*keeping) && remote != nullptr) remote->Forget(message->session);
            keeping = nullptr;
          }
          remote = nullptr;
          if (to) SendSurely(*system, to, [&] { return answer; });
          to = nullptr;
          // The session need not wait until its graph is freed, node by node.
          message = nullptr;
          answer = {};
          worker = nullptr;
          // Last: whoever waits for it may end the actor system next.
          work = nullptr;
        });
        ends.done = true;
      },
      [self](const withdraw_graph& message) {
        self->state.worker->Withdraw(message);
        if (message.compile == 0 && self->state.remote != nullptr) self->state.remote->Forget(message.session);
      },
  };
  return runtime == nullptr ? own : PortHandlers(self, runtime).or_else(own);
}

}  // namespace

caf::actor SpawnWorker(caf::actor_system& system, std::shared_ptr<const Worker> worker, uint64_t incarnation,
                       std::shared_ptr<Children> children, bool aside, Runtime::Impl* runtime) {
  return system.spawn<caf::hidden>(WorkerBehavior, std::move(worker), incarnation, std::move(children), aside, runtime);
}

}  // namespace troupe
