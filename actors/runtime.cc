#include "troupe/actors/runtime.h"

#include <algorithm>
#include <random>
#include <thread>

#include <spdlog/spdlog.h>

#include "troupe/actors/actor_thread.h"
#include "troupe/actors/device_actor.h"
#include "troupe/actors/runtime_impl.h"
#include "troupe/actors/signature.h"
#include "troupe/actors/worker_actor.h"
#include "troupe/kernels/device/compute_threads.h"

namespace troupe {
namespace {

// The threads of the actor system also run the kernels of asynchronous steps, so they flush denormals for as long as they live.
class FlushDenormals : public caf::thread_hook {
 public:
  void init(caf::actor_system&) override {}
  void thread_started() override { static thread_local ScopedFlushDenormals flush; }
  void thread_terminates() override {}
};

class Config : public caf::actor_system_config {
 public:
  explicit Config(int threads) {
    set("scheduler.max-threads", static_cast<size_t>(threads));
    set("scheduler.max-throughput", static_cast<size_t>(50));
    add_thread_hook<FlushDenormals>();
  }
};

std::vector<ChildSpec> Children(Runtime::Impl* impl) {
  std::vector<ChildSpec> children;
  const auto add = [&](const std::string& name, std::function<caf::actor(caf::actor_system&, uint64_t)> spawn) {
    ChildSpec c;
    c.name = name;
    c.spawn = std::move(spawn);
    c.failed = [impl, name](const std::string& why) {
      spdlog::warn("actor '{}' failed ({}); it is restarted", name, why);
      impl->TellFailure(
          absl::AbortedError(StrCat("actor '", name, "' died while the step ran (", why, "); it is restarted")));
    };
    c.gave_up = [name](const std::string& why) {
      spdlog::error("actor '{}' failed too often ({}); it is not restarted", name, why);
    };
    children.push_back(std::move(c));
  };
  add("worker", [impl](caf::actor_system& s, uint64_t) { return SpawnWorker(s, impl->devices, impl->aside); });
  for (const auto& d : impl->devices) {
    add("device:" + d->name(), [d](caf::actor_system& s, uint64_t) { return SpawnDevice(s, d); });
    add("container:" + d->name(),
        [d](caf::actor_system& s, uint64_t) { return SpawnContainer(s, d->shared_containers()); });
  }
  return children;
}

absl::StatusOr<std::shared_ptr<Runtime>> Make(const RuntimeOptions& options, caf::actor_system* system) {
  if (options.threads < 0 || options.threads > 4096)
    return InvalidArgument("threads = ", options.threads, " is out of range");
  if (options.cpu_devices < 1 || options.cpu_devices > 256) {
    return InvalidArgument("cpu_devices = ", options.cpu_devices, " is not between 1 and 256");
  }
  if (options.memory_limit < 0) return InvalidArgument("memory_limit is negative");
  NoLoggerAfter restore;
  auto impl = std::make_unique<Runtime::Impl>();
  impl->options = options;
  const int threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  impl->options.threads = threads;
  if (system == nullptr) {
    impl->config = std::make_unique<Config>(std::min(threads, 2));
    impl->own_system = std::make_unique<caf::actor_system>(*impl->config);
    system = impl->own_system.get();
  }
  impl->system = system;
  impl->aside = caf::get_or(system->config(), "scheduler.policy", caf::atom("stealing")) != caf::atom("testing");
  Allocator* allocator = Allocator::Cpu();
  if (options.memory_limit > 0) {
    impl->allocator = std::make_unique<Allocator>("cpu", options.memory_limit);
    allocator = impl->allocator.get();
  }
  auto compute = std::make_shared<ComputeThreads>(threads);
  std::random_device entropy;
  for (int i = 0; i < options.cpu_devices; ++i) {
    const uint64_t incarnation = (static_cast<uint64_t>(entropy()) << 32 | entropy()) >> 1;
    impl->devices.push_back(std::make_shared<Device>(StrCat("/job:localhost/replica:0/task:0/device:CPU:", i), "CPU",
                                                     incarnation, allocator, compute,
                                                     std::make_shared<ResourceContainers>()));
  }
  impl->directory = std::make_shared<Directory>();
  impl->supervisor = SpawnSupervisor(*system, Children(impl.get()), impl->directory);
  // The last share may be dropped by an actor's handler; an actor system cannot be destroyed by a thread of its own.
  KnowThreadsEnd();
  return std::shared_ptr<Runtime>(new Runtime(std::move(impl)), [](Runtime* r) {
    if (InsideActor()) {
      std::thread([r] { delete r; }).detach();
    } else {
      OnSoundThread([r] { delete r; });
    }
  });
}

}  // namespace

Runtime::Impl::~Impl() {
  // What the children hold must be gone before the devices are; the supervisor's end is the last that refers to this object.
  caf::scoped_actor self(*system);
  self->monitor(supervisor);
  self->send_exit(supervisor, caf::exit_reason::user_shutdown);
  self->receive([](const caf::down_msg&) {});
  supervisor = nullptr;
}

void Runtime::Impl::TellFailure(const absl::Status& status) {
  std::lock_guard<std::mutex> lock(mu);
  for (const auto& [session, tell] : on_failure) tell(status);
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() = default;

absl::StatusOr<std::shared_ptr<Runtime>> Runtime::Start(const RuntimeOptions& options) {
  return Make(options, nullptr);
}

absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options) {
  return Make(options, &system);
}

const RuntimeOptions& Runtime::options() const { return impl_->options; }

std::vector<DeviceStatus> Runtime::devices() const {
  std::vector<DeviceStatus> list;
  for (const auto& d : impl_->devices) list.push_back(Describe(*d));
  return list;
}

}  // namespace troupe
