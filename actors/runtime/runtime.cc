#include "troupe/runtime.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <thread>

#include "actors/threads/aside.h"
#include "actors/threads/inside_actor.h"
#include "actors/threads/actor_thread.h"
#include "actors/runtime/device_actor.h"
#include "actors/messages/messages.h"
#include "actors/threads/no_memory.h"
#include "actors/threads/process.h"
#include "actors/messages/reply.h"
#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/signature/signature.h"
#include "actors/state/state_actors.h"
#include "actors/step/remote_steps.h"
#include "actors/threads/surely.h"
#include "actors/runtime/worker_actor.h"
#include "graph/core/device_name.h"
#include "graph/core/log.h"
#include "troupe/compute_threads.h"

namespace troupe {
namespace {

class Config : public caf::actor_system_config {
 public:
  explicit Config(int threads) {
    set("scheduler.max-threads", static_cast<size_t>(threads));
    set("scheduler.max-throughput", static_cast<size_t>(50));
    // A scheduler's thread without work looks for some every 100 us, by default for 50 ms, and
    // takes a processor from kernels and compiles meanwhile. After 1 ms it sleeps until a message
    // comes.
    set("work-stealing.moderate-poll-attempts", static_cast<size_t>(10));
  }
};

// A share of a device keeps what it allocates from.
struct DeviceAndMemory {
  DeviceAndMemory(std::shared_ptr<Allocator> memory, Device of) : memory(std::move(memory)), device(std::move(of)) {}
  const std::shared_ptr<Allocator> memory;
  Device device;
};

// Of the task of a device.
std::string TaskOf(const std::string& device) { return DeviceName::ParseFull(device)->TaskName(); }

// Tells the other processes of a cluster, whose sessions may have parts here. Of a worker they hear
// by its handle.
void TellMasters(Runtime::Impl* impl, const actor_failed& failure) {
  if (failure.place.find("/device:") == std::string::npos) return;
  for (const std::string& name : impl->remote->names()) {
    const RemoteTask task = impl->remote->Find(name);
    if (task.worker) SendRemote(*impl->system, task.worker, failure).IgnoreError();
  }
}

// `renew` is called before the steps at `place` hear of it, and gives the device's next
// incarnation.
ChildSpec SpecOf(Runtime::Impl* impl, std::string name, const RestartPolicy& policy, std::string place,
                 std::function<uint64_t()> renew) {
  ChildSpec c;
  c.policy = policy;
  c.failed = [impl, name, place = std::move(place), renew = std::move(renew)](const std::string& why) {
    LogWarning("actor '", name, "' failed (", why, "); it is restarted");
    const uint64_t incarnation = renew ? renew() : 0;
    actor_failed failure{place, incarnation, {}};
    UntilMemoryAllows([&] {
      failure.status =
          absl::AbortedError(StrCat("actor '", name, "' died while the step ran (", why, "); it is restarted"));
    });
    impl->remote_steps->ActorFailed(failure);
    impl->TellFailure(failure);
    TellMasters(impl, failure);
  };
  c.may_restart = [news = impl->news] { return news->load() == 0; };
  c.gave_up = [name](const std::string& why) {
    LogError("actor '", name, "' failed too often (", why, "); it is not restarted");
  };
  c.name = std::move(name);
  return c;
}

// The actors of the devices and containers of one task, and what spawns its worker. A worker
// outlives none of what its children and its own factory refer to (Runtime::Impl::End).
ChildSpec MakeTask(Runtime::Impl* impl, Runtime::Impl::Task* task) {
  caf::actor_system& system = *impl->system;
  task->children = std::make_shared<Children>(impl->directory);
  task->graphs = std::make_shared<RegisteredGraphs>();
  task->in_work = std::make_shared<GraphsInWork>();
  std::vector<Worker::OneDevice> own;
  for (size_t i = 0; i < impl->devices.size(); ++i) {
    const std::shared_ptr<Device>& d = impl->devices[i];
    if (TaskOf(d->name()) != task->name) continue;
    std::atomic<uint64_t>* const incarnation = &impl->incarnations[i];
    own.push_back({d, incarnation});
    ChildSpec device = SpecOf(impl, "device:" + d->name(), impl->policies.device, d->name(),
                              [incarnation] { return incarnation->fetch_add(1) + 1; });
    device.spawn = [d, incarnation, impl, under_way = impl->aside ? task->in_work->under_way() : nullptr](
                       caf::actor_system& s, uint64_t) {
      return SpawnDevice(
          s, d, incarnation->load(),
          [steps = impl->steps](const Runtime::Impl::Answered& answered) { return steps->Ask(answered); }, under_way);
    };
    task->children->Spawn(system, std::move(device));
    ChildSpec container = SpecOf(impl, "container:" + d->name(), impl->policies.container, d->name(), nullptr);
    const auto states = std::make_shared<StateActors>(&system, impl->directory, d->name(), impl->policies.container,
                                                      /*on_askers_thread=*/impl->turns != nullptr);
    impl->states.push_back(states);
    SetStateHost(d->containers(), states);
    container.spawn = [d, states](caf::actor_system& s, uint64_t) {
      return SpawnContainer(s, d->shared_containers(), d, states);
    };
    // What was made between its first turn and its entry in the directory found nobody to tell.
    container.restarted = [&system, directory = impl->directory, name = container.name](uint64_t) {
      SendSurely(system, directory->Find(name), [] { return states_came{}; });
    };
    task->children->Spawn(system, std::move(container));
  }
  ChildSpec worker = SpecOf(impl, WorkerName(task->name), impl->policies.worker, task->name, nullptr);
  worker.spawn = [impl, task,
                  logic = std::make_shared<const Worker>(task->name, std::move(own), task->graphs, task->in_work)](
                     caf::actor_system& s, uint64_t incarnation) {
    return task->worker = SpawnWorker(s, logic, incarnation, task->children, impl->aside, impl);
  };
  worker.restarted = [impl, task](uint64_t) {
    std::lock_guard<std::mutex> lock(impl->worker_mu);
    const caf::actor now = impl->directory->Find(WorkerName(task->name));
    if (impl->worker_changed && now) CallUser("the watcher of workers", [&] { impl->worker_changed(task->name, now); });
  };
  return worker;
}

// What it costs here that a remote task went.
void TaskIsGone(Runtime::Impl* impl, const RemoteTask& task, const absl::Status& why, bool worker_only) {
  actor_failed failure;
  UntilMemoryAllows([&] { failure = {task.name, 0, Annotate(why, StrCat("task ", task.name))}; });
  impl->remote_steps->TaskWent(task, failure.status, worker_only);
  impl->TellFailure(failure);
}

void SpawnCast(Runtime::Impl* impl, const ClusterOptions& cluster) {
  impl->directory = std::make_shared<Directory>();
  impl->remote = std::make_shared<RemoteTasks>(
      cluster.remote_tasks, impl->directory, [impl](const RemoteTask& task, const absl::Status& why, bool worker_only) {
        TaskIsGone(impl, task, why, worker_only);
      });
  impl->remote_steps = std::make_shared<RemoteSteps>(impl);
  if (!cluster.share_memory) {
    impl->remote_steps->freight().out.set_limits({.share = false});
    impl->remote_steps->freight().in.set_limits({.share = false});
  }
  const auto children = std::make_shared<Children>(impl->directory);
  for (const std::string& name : impl->options.tasks) {
    impl->tasks.emplace_back().name = name;
    children->Spawn(*impl->system, MakeTask(impl, &impl->tasks.back()));
  }
  impl->root = std::make_shared<RootSupervisor>(children, impl->policies.supervisor);
  impl->root->Start(*impl->system);
}

// Whether the system has so many more threads to give. CAF ends the program when it cannot start
// one of its own, so that is found out before.
absl::Status TryThreads(int count) {
  std::mutex mu;
  std::condition_variable released;
  bool over = false;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  absl::Status status;
  try {
    while (static_cast<int>(threads.size()) < count) {
      threads.emplace_back([&] {
        std::unique_lock<std::mutex> lock(mu);
        released.wait(lock, [&] { return over; });
      });
    }
  } catch (const std::system_error& e) {
    status = ResourceExhausted("a runtime needs ", count, " threads, but the system gives only ", threads.size(), ": ",
                               e.what());
  }
  {
    std::lock_guard<std::mutex> lock(mu);
    over = true;
    released.notify_all();
  }
  for (std::thread& t : threads) t.join();
  return status;
}

void Delete(Runtime* r) {
  if (r->impl()->process != ThisProcess()) return;  // its threads are the other process's
  if (!InsideActor()) return OnSoundThread([r] { delete r; });
  // Another thread ends the system of which this one is.
  caf::actor_system* const callers = r->impl()->running_in.system;
  for (int tries = 0; tries < 100; ++tries) {
    try {
      if (callers != nullptr) {
        // An actor of the caller's system, which waits for its thread to be gone, not only for its
        // last word.
        NoLoggerAfter restore;
        callers->spawn<caf::detached>([](caf::event_based_actor*, Runtime* last) { delete last; }, r);
      } else {
        std::thread([r, at_exit = UntilExit()] { delete r; }).detach();
      }
      return;
    } catch (const std::exception&) {  // std::system_error, std::bad_alloc
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  LogError("a runtime stays, since the system has no thread left to end it");
}

absl::Status CheckTasks(const std::vector<std::string>& tasks, const ClusterOptions& cluster) {
  if (tasks.empty() || tasks.size() > 256) return InvalidArgument("there are ", tasks.size(), " tasks, not 1 to 256");
  std::set<std::string> names;
  for (const std::string& task : tasks) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(task);
    if (!name.ok()) return Annotate(name.status(), "RuntimeOptions.tasks");
    if (!name->job || !name->replica || !name->task || name->TaskName() != task)
      return InvalidArgument("'", task, "' is no full name of a task, such as '/job:localhost/replica:0/task:0'");
    if (!names.insert(task).second) return InvalidArgument("task '", task, "' is given twice");
  }
  for (const std::string& task : cluster.remote_tasks) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(task);
    if (!name.ok()) return Annotate(name.status(), "ClusterOptions.remote_tasks");
    if (!name->job || !name->replica || !name->task || name->TaskName() != task)
      return InvalidArgument("'", task, "' is no full name of a task, such as '/job:ps/replica:0/task:0'");
    if (!names.insert(task).second) return InvalidArgument("task '", task, "' is given twice");
  }
  return absl::OkStatus();
}

// The devices that a program brings.
absl::Status CheckDevices(const RuntimeOptions& options) {
  std::set<std::string> names;
  for (const auto& d : options.devices) {
    if (d == nullptr) return InvalidArgument("RuntimeOptions.devices has a null pointer");
    const absl::StatusOr<DeviceName> name = DeviceName::ParseFull(d->name());
    if (!name.ok()) return Annotate(name.status(), "RuntimeOptions.devices");
    const bool ours = std::find(options.tasks.begin(), options.tasks.end(), name->TaskName()) != options.tasks.end();
    if (!ours || *name->type != d->type() || *name->type == "CPU") {
      return InvalidArgument("device '", d->name(), "' of type ", d->type(), " is no device of ",
                             StrJoin(options.tasks, ", "), " beside its CPUs, or its name tells another type");
    }
    if (!names.insert(d->name()).second) return InvalidArgument("device '", d->name(), "' is given twice");
    if (d->allocator() == nullptr || d->threads() == nullptr || d->containers() == nullptr)
      return InvalidArgument("device '", d->name(), "' lacks an allocator, threads or containers");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Runtime>> Make(const RuntimeOptions& options, caf::actor_system* system,
                                              std::shared_ptr<StepClock> clock, const CastPolicies& policies,
                                              const ClusterOptions& cluster,
                                              std::unique_ptr<caf::actor_system_config> config) {
  if (options.threads < 0 || options.threads > 4096)
    return InvalidArgument("threads = ", options.threads, " is out of range");
  if (options.cpu_devices < 1 || options.cpu_devices > 256) {
    return InvalidArgument("cpu_devices = ", options.cpu_devices, " is not between 1 and 256");
  }
  if (options.memory_limit < 0) return InvalidArgument("memory_limit is negative");
  TROUPE_RETURN_IF_ERROR(CheckTasks(options.tasks, cluster));
  TROUPE_RETURN_IF_ERROR(CheckDevices(options));
  NoLoggerAfter restore;
  auto impl = std::make_unique<Runtime::Impl>();
  impl->options = options;
  impl->policies = policies;
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  impl->options.threads = threads;
  impl->process = ThisProcess();
  // The compute threads, one that compiles, the clock of deadlines; and of an actor system of its
  // own the scheduler's, its clock and its printer.
  // One that the caller has configured has the network's, too.
  const int system_threads = config != nullptr ? 3 : std::min(threads, 2);
  TROUPE_RETURN_IF_ERROR(TryThreads(threads + 2 + (system == nullptr ? system_threads + 2 : 0)));
  if (system == nullptr) {
    // They run those who are in control, never a kernel.
    impl->config = config != nullptr ? std::move(config) : std::make_unique<Config>(system_threads);
    impl->own_system = std::make_unique<caf::actor_system>(*impl->config);
    system = impl->own_system.get();
  }
  impl->system = system;
  impl->aside = clock == nullptr;
  if (impl->own_system == nullptr && impl->aside) {
    system->registry().inc_running();
    impl->running_in.system = system;
  }
  Allocator* allocator = Allocator::Cpu();
  if (options.memory_limit > 0) {
    impl->allocator = std::make_shared<Allocator>("cpu", options.memory_limit);
    allocator = impl->allocator.get();
  }
  const auto compute = impl->compute = std::make_shared<ComputeThreads>(threads);
  if (clock != nullptr) {
    impl->clock = std::move(clock);
  } else {
    impl->clock = std::make_shared<ThreadClock>();
    impl->turns = std::make_unique<TurnThreads>(system, compute);
  }
  Env* const env = options.env != nullptr ? options.env : Env::Default();
  impl->in_cluster = !cluster.remote_tasks.empty() || cluster.incarnation != 0;
  impl->incarnation = cluster.incarnation;
  if (impl->in_cluster && impl->incarnation == 0) impl->incarnation = (env->Unforeseeable() >> 1) | 1;
  for (const std::string& task : options.tasks) {
    for (int i = 0; i < options.cpu_devices; ++i) {
      const uint64_t incarnation = env->Unforeseeable() >> 1;
      auto device = std::make_shared<DeviceAndMemory>(
          impl->allocator, Device(StrCat(task, "/device:CPU:", i), "CPU", incarnation, allocator, compute,
                                  std::make_shared<ResourceContainers>(), env));
      impl->devices.emplace_back(device, &device->device);
      impl->incarnations.emplace_back(incarnation);
    }
    for (const auto& d : options.devices) {
      if (TaskOf(d->name()) != task) continue;
      impl->devices.push_back(d);
      impl->incarnations.emplace_back(d->incarnation());
    }
  }
  SpawnCast(impl.get(), cluster);
  // The last share may be dropped by an actor's handler; an actor system cannot be destroyed by a
  // thread of its own.
  KnowThreadsEnd();
  CountForks();
  std::shared_ptr<Runtime> runtime(new Runtime(std::move(impl)), Delete);
  runtime->impl()->self = runtime;
  return runtime;
}

absl::StatusOr<std::shared_ptr<Runtime>> MakeOrSay(const RuntimeOptions& options, caf::actor_system* system,
                                                   std::shared_ptr<StepClock> clock, const CastPolicies& policies,
                                                   const ClusterOptions& cluster = {},
                                                   std::unique_ptr<caf::actor_system_config> config = nullptr) {
  try {
    return Make(options, system, std::move(clock), policies, cluster, std::move(config));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("no memory is left for a runtime");
  } catch (const std::exception& e) {
    return ResourceExhausted("a runtime could not be started: ", e.what());
  }
}

}  // namespace

RunningIn::~RunningIn() {
  if (system == nullptr) return;
  // The owner may see the count at zero before dec_running has done with the registry's lock, and
  // nobody waits for this thread. But the system's destructor waits until no thread has the logger.
  const bool had_logger = caf::logger::current_logger() == &system->logger();
  caf::logger::set_current_actor_system(system);
  system->registry().dec_running();
  if (!had_logger) caf::logger::set_current_actor_system(nullptr);
}

void Runtime::Impl::End(std::unique_ptr<Impl> impl) {
  if (impl->remote != nullptr) impl->remote->End();
  if (impl->remote_steps != nullptr) impl->remote_steps->Close();
  if (impl->root != nullptr) {
    NoLoggerAfter restore;
    caf::scoped_actor self(*impl->system);
    const auto end = [&](const caf::actor& a) {
      if (!a) return;
      self->monitor(a);
      StopSurely(*impl->system, a);
      self->receive([](const caf::down_msg&) {});
    };
    // First the one who would spawn the others anew.
    end(impl->root->End());
    for (Task& task : impl->tasks) {
      end(std::exchange(task.worker, nullptr));
      task.children->StopAll();  // of a worker that was dead
    }
    for (const auto& d : impl->devices) SetStateHost(d->containers(), nullptr);
    for (const auto& s : impl->states) s->Close();
  }
  const auto stopped = [](Impl& of, std::chrono::milliseconds at_most) {
    for (const Task& task : of.tasks) {
      if (!task.in_work->WaitUntilNone(at_most)) return false;
    }
    for (const auto& s : of.states) {
      if (!s->WaitUntilQuiet(at_most)) return false;
    }
    return of.compute->Stop(at_most);
  };
  // In slices: a process that was stopped meanwhile has not waited.
  constexpr std::chrono::milliseconds kSlice{100};
  constexpr int kSlices = 10;
  for (int i = 0; i < kSlices; ++i) {
    if (stopped(*impl, kSlice)) return;
  }
  LogWarning("a kernel or a callback has not returned, although its step is over; its runtime ends when it has");
  std::shared_ptr<std::unique_ptr<Impl>> rest;
  UntilMemoryAllows([&] { rest = std::make_shared<std::unique_ptr<Impl>>(); });
  *rest = std::move(impl);
  try {
    std::thread([rest, stopped, at_exit = UntilExit()] {
      while (!stopped(**rest, std::chrono::hours(1))) {
      }
      *rest = nullptr;
    }).detach();
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
    (void)rest->release();
    LogError("what the runtime uses stays, since the system has no thread left to end it");
  }
}

namespace {

// The news of a death on its way to one session. The session's actor may die with the message: then
// the next one is told, so that nobody counts as told who is not. A session that has ended refuses.
struct News : std::enable_shared_from_this<News> {
  News(caf::actor_system* system, std::function<void(caf::mailbox_element_ptr)> send, const actor_failed& failure,
       std::shared_ptr<std::atomic<int64_t>> untold)
      : system(system), send(std::move(send)), failure(failure), untold(std::move(untold)) {}
  void Tell() {
    caf::mailbox_element_ptr request;
    UntilMemoryAllows([&] {
      const auto heard = [me = shared_from_this()](const failure_noted& answer) { me->Heard(answer.status); };
      request = AsRequest(NewListener<failure_noted>(*system, heard), failure);
    });
    sent = true;
    send(std::move(request));
  }
  void Heard(const absl::Status& status) {
    if (!std::exchange(sent, false)) return;  // a request for which there was no memory
    absl::IsAborted(status) ? Tell() : static_cast<void>(untold->fetch_sub(1));
  }

  caf::actor_system* const system;
  const std::function<void(caf::mailbox_element_ptr)> send;
  const actor_failed failure;
  const std::shared_ptr<std::atomic<int64_t>> untold;
  bool sent = false;
};

}  // namespace

void Runtime::Impl::TellFailure(const actor_failed& failure) {
  std::vector<std::shared_ptr<News>> all;
  UntilMemoryAllows([&] {
    all.clear();
    std::lock_guard<std::mutex> lock(mu);
    for (const auto& [session, send] : to_session) all.push_back(std::make_shared<News>(system, send, failure, news));
  });
  news->fetch_add(static_cast<int64_t>(all.size()));
  // Also a session that ends meanwhile answers.
  for (const auto& each : all) each->Tell();
}

Runtime::Impl::Questions Runtime::Impl::RunningSteps::Ask(const Answered& answered) {
  Questions all;
  std::lock_guard<std::mutex> lock(mu);
  for (const auto& [session, ask_session] : ask) {
    for (std::shared_ptr<StepQuestion>& q : ask_session(answered)) all.push_back(std::move(q));
  }
  return all;
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() { Impl::End(std::move(impl_)); }

absl::StatusOr<std::shared_ptr<Runtime>> Runtime::Start(const RuntimeOptions& options) {
  return MakeOrSay(options, nullptr, nullptr, {});
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options) {
  return MakeOrSay(options, &system, nullptr, {});
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        std::shared_ptr<StepClock> clock,
                                                        const CastPolicies& policies) {
  return MakeOrSay(options, &system, std::move(clock), policies);
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        const ClusterOptions& cluster) {
  return MakeOrSay(options, &system, nullptr, {}, cluster);
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options,
                                                        const ClusterOptions& cluster, std::shared_ptr<StepClock> clock,
                                                        const CastPolicies& policies) {
  return MakeOrSay(options, &system, std::move(clock), policies, cluster);
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntime(const RuntimeOptions& options, const CastPolicies& policies) {
  return MakeOrSay(options, nullptr, nullptr, policies);
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntime(const RuntimeOptions& options, const ClusterOptions& cluster,
                                                      std::unique_ptr<caf::actor_system_config> config) {
  return MakeOrSay(options, nullptr, nullptr, {}, cluster, std::move(config));
}

const RuntimeOptions& Runtime::options() const { return impl_->options; }

std::vector<DeviceStatus> Runtime::devices() const {
  std::vector<DeviceStatus> list;
  for (size_t i = 0; i < impl_->devices.size(); ++i)
    list.push_back(Describe(*impl_->devices[i], impl_->incarnations[i].load()));
  return list;
}

void Runtime::ResetPeakMemory() {
  for (const auto& device : impl_->devices) device->allocator()->ResetPeak();
}

}  // namespace troupe
