#include "actors/runtime/device_actor.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "actors/threads/aside.h"
#include "actors/executor/memory_tally.h"
#include "actors/messages/messages.h"
#include "actors/runtime/charge.h"
#include "actors/runtime/runtime_impl.h"
#include "actors/state/state_actors.h"
#include "actors/threads/surely.h"
#include "kernels/device/resource_calls.h"
#include "troupe/resource_state.h"

namespace troupe {

DeviceStatus Describe(const Device& d, uint64_t incarnation) {
  return {d.name(), d.type(), incarnation, d.allocator()->stats()};
}

namespace {

constexpr std::chrono::milliseconds kAnswerTime{100};

// What is to be told when a request's answer is complete; an error if the actor ends before.
template <class Reply>
using Promise = caf::typed_response_promise<Reply>;

struct DeviceState {
  struct Asking {
    Promise<device_stats> promise;
    std::vector<std::shared_ptr<StepQuestion>> questions;
    size_t left = 0;
  };
  std::shared_ptr<Device> device;
  uint64_t incarnation = 0;
  AskSteps ask;
  std::shared_ptr<UnderWay> aside;  // null: nothing is done aside
  std::chrono::milliseconds idle{0};
  std::map<int64_t, Asking> asking;
  std::map<int64_t, Promise<memory_trimmed>> trimming;
  int64_t last_request = 0;
  int64_t allocs_at_last_look = -1;
  const char* name = "troupe.device";

  // CAF answers no request whose promise is merely forgotten.
  ~DeviceState() {
    for (auto& [id, a] : asking) a.promise.deliver(caf::make_error(caf::sec::request_receiver_down));
    for (auto& [id, promise] : trimming) promise.deliver(caf::make_error(caf::sec::request_receiver_down));
  }
};
using DeviceActor = caf::stateful_actor<DeviceState>;

device_stats StatsOf(const Device& device, uint64_t incarnation,
                     const std::vector<std::shared_ptr<StepQuestion>>& questions) {
  MemoryTally tally(device);
  tally.AddResources(*device.containers());
  for (const auto& q : questions) tally.Add(q->HoldersOn(device.name()));
  return {Describe(device, incarnation), tally.Largest()};
}

// Answers with what f makes. What a handler throws ends its actor, and CAF tells nobody who waits
// for its answer; so what f throws, above all for want of memory, is the answer.
template <class Reply, class F>
void Answer(Promise<Reply>* promise, F&& f) {
  try {
    promise->deliver(f());
  } catch (...) {
    promise->deliver(caf::make_error(caf::sec::runtime_error));
  }
}

Promise<device_stats> TellStats(DeviceActor* self) {
  DeviceState& s = self->state;
  const int64_t id = ++s.last_request;
  auto promise = self->make_response_promise<device_stats>();
  try {
    caf::actor_system* const system = &self->system();
    // Called in the turns of those who are asked, perhaps under their locks. So nobody waits for
    // memory there: what is not told now is answered when the time is over.
    auto questions = s.ask([system, me = caf::actor_cast<caf::actor>(self), id](const std::shared_ptr<StepQuestion>&) {
      try {
        EnqueueSurely(
            *system, caf::actor_cast<caf::abstract_actor*>(me),
            caf::make_mailbox_element(nullptr, caf::make_message_id(), caf::no_stages, holders_known{id, false}));
      } catch (const std::bad_alloc&) {
      }
    });
    if (questions.empty()) {
      Answer(&promise, [&] { return StatsOf(*s.device, s.incarnation, questions); });
    } else {
      const size_t left = questions.size();
      self->delayed_send(self, kAnswerTime, holders_known{id, true});
      s.asking.emplace(id, DeviceState::Asking{promise, std::move(questions), left});
    }
  } catch (...) {
    // Steps that were asked may still answer; nobody waits for these answers.
    promise.deliver(caf::make_error(caf::sec::runtime_error));
  }
  return promise;
}

void HoldersKnown(DeviceActor* self, const holders_known& m) {
  const auto it = self->state.asking.find(m.request);
  if (it == self->state.asking.end()) return;
  if (!m.time_is_over && --it->second.left > 0) return;
  auto asking = self->state.asking.extract(it);
  Answer(&asking.mapped().promise,
         [&] { return StatsOf(*self->state.device, self->state.incarnation, asking.mapped().questions); });
}

// Giving much memory back takes some milliseconds.
void Trim(DeviceActor* self, int64_t request) {
  const std::shared_ptr<UnderWay>& aside = self->state.aside;
  // The share is captured first, so that it goes last: then the actor system may go.
  RunAside(aside != nullptr, [share = aside != nullptr ? UnderWay::Share(aside) : nullptr, system = &self->system(),
                              me = caf::actor_cast<caf::actor>(self), device = self->state.device, request] {
    const int64_t before = device->allocator()->stats().bytes_cached;
    device->allocator()->Trim();
    const int64_t returned = std::max<int64_t>(0, before - device->allocator()->stats().bytes_cached);
    SendSurely(*system, me, [&] { return blocks_returned{request, returned}; });
  });
}

void LookWhetherIdle(DeviceActor* self) {
  DeviceState& s = self->state;
  self->delayed_send(self, s.idle, look_whether_idle{});
  // Those of the device and, where it has an allocator of its own, those of the process.
  const AllocatorStats process = Allocator::Cpu()->stats();
  const int64_t allocs = s.device->allocator()->stats().num_allocs + process.num_allocs;
  if (std::exchange(s.allocs_at_last_look, allocs) == allocs && process.bytes_cached > 0) Trim(self, 0);
}

absl::Status SetLimit(const Device& device, int64_t bytes) {
  if (bytes < 0) return InvalidArgument("a limit of ", bytes, " bytes is negative");
  if (device.allocator()->SetLimit(bytes)) return absl::OkStatus();
  return FailedPrecondition("device ", device.name(), " has the process's allocator, which does not count all that it ",
                            "hands out: start the runtime with a memory_limit");
}

caf::behavior DeviceBehavior(DeviceActor* self, std::shared_ptr<Device> device, uint64_t incarnation, AskSteps ask,
                             std::shared_ptr<UnderWay> aside, std::chrono::milliseconds idle) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  DeviceState& s = self->state;
  s.device = std::move(device);
  s.incarnation = incarnation;
  s.ask = std::move(ask);
  s.aside = std::move(aside);
  s.idle = idle;
  if (s.aside != nullptr && idle.count() > 0) self->delayed_send(self, idle, look_whether_idle{});
  return {
      [self](get_device_stats) { return TellStats(self); },
      [self](holders_known m) { HoldersKnown(self, m); },
      [self](set_memory_limit m) { return memory_limit_set{SetLimit(*self->state.device, m.bytes)}; },
      [self](trim_memory) {
        const int64_t id = ++self->state.last_request;
        auto promise = self->state.trimming[id] = self->make_response_promise<memory_trimmed>();
        Trim(self, id);
        return promise;
      },
      [self](blocks_returned m) {
        auto promise = self->state.trimming.extract(m.request);
        if (promise) promise.mapped().deliver(memory_trimmed{m.bytes});
      },
      [self](look_whether_idle) { LookWhetherIdle(self); },
  };
}

// The entries of a snapshot, as they come: at once, or on the threads of the updates that had them.
struct Gathered {
  std::mutex mu;
  resource_snapshot snapshot;
  size_t left = 0;
};

struct ContainerState {
  struct Waiting {
    Promise<resource_snapshot> promise;
    std::shared_ptr<Gathered> gathered;
  };
  std::shared_ptr<ResourceContainers> containers;
  std::shared_ptr<StateActors> states;
  std::map<int64_t, Waiting> waiting;
  int64_t last_request = 0;
  const char* name = "troupe.container";

  ~ContainerState() {
    for (auto& [id, w] : waiting) {
      resource_snapshot none;
      none.status = absl::AbortedError("the container's actor ended before the updates that were under way");
      w.promise.deliver(std::move(none));
    }
  }
};
using ContainerActor = caf::stateful_actor<ContainerState>;

void ResourcesGathered(ContainerActor* self, int64_t request) {
  auto w = self->state.waiting.extract(request);
  if (!w) return;
  resource_snapshot& snapshot = w.mapped().gathered->snapshot;
  if (!snapshot.status.ok()) snapshot.entries.clear();
  w.mapped().promise.deliver(std::move(snapshot));
}

void Gather(ContainerActor* self, int64_t id, const snapshot_resources& m) {
  std::vector<ResourceContainers::Entry> entries = self->state.containers->Entries();
  std::erase_if(entries, [&](const ResourceContainers::Entry& e) {
    return e.object == nullptr ||
           std::find(m.containers.begin(), m.containers.end(), e.container) == m.containers.end();
  });
  auto gathered = std::make_shared<Gathered>();
  gathered->snapshot.entries.resize(entries.size());
  gathered->left = entries.size() + 1;  // and one for this loop
  self->state.waiting.at(id).gathered = gathered;
  const auto one_less = [gathered, id, system = &self->system(), me = caf::actor_cast<caf::actor>(self)](bool in_turn) {
    {
      std::lock_guard<std::mutex> lock(gathered->mu);
      if (--gathered->left > 0) return false;
    }
    if (!in_turn) SendSurely(*system, me, [&] { return resources_gathered{id}; });
    return true;
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    const ResourceContainers::Entry& e = entries[i];
    SaveResource(*e.object, [gathered, one_less, i, container = e.container, name = e.name,
                             keep = e.object](absl::StatusOr<ResourceState> state) mutable {
      {
        std::lock_guard<std::mutex> lock(gathered->mu);
        absl::Status taken = Guarded("taking the state of a resource", [&]() -> absl::Status {
          if (!state.ok()) {
            return Annotate(state.status(),
                            StrCat("resource '", name, "' of container '", container, "' cannot be saved"));
          }
          gathered->snapshot.entries[i] = {container, name, std::move(state->kind), std::move(state->tensors)};
          return absl::OkStatus();
        });
        if (gathered->snapshot.status.ok()) gathered->snapshot.status = std::move(taken);
      }
      // Whoever has the answer may clear the container, and the resources end with it: not here.
      keep = nullptr;
      one_less(false);
    });
  }
  entries.clear();
  if (one_less(true)) ResourcesGathered(self, id);
}

Promise<resource_snapshot> Snapshot(ContainerActor* self, const snapshot_resources& m) {
  ContainerState& s = self->state;
  const int64_t id = ++s.last_request;
  auto promise = self->make_response_promise<resource_snapshot>();
  const absl::Status begun = Guarded("beginning a snapshot", [&] {
    s.waiting.emplace(id, ContainerState::Waiting{promise, nullptr});
    Gather(self, id, m);
  });
  if (!begun.ok()) {
    s.waiting.erase(id);
    resource_snapshot none;
    none.status = begun;
    promise.deliver(std::move(none));
  }
  return promise;
}

absl::Status Charge(const Device& device, const resource_snapshot::Entry& entry, Tensor* tensor) {
  if (ChargeTo(device, tensor)) return absl::OkStatus();
  return ResourceExhausted("no memory for resource '", entry.name, "' of container '", entry.container, "', ",
                           tensor->TypeAndShape(), ", on device ", device.name());
}

// Whether these objects could take the places of those that stand there now.
absl::Status CheckPlaces(const std::vector<ResourceContainers::Entry>& made, const ResourceContainers& containers) {
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Resource>> there;
  for (ResourceContainers::Entry& e : containers.Entries())
    there[{std::move(e.container), std::move(e.name)}] = std::move(e.object);
  for (const ResourceContainers::Entry& e : made) {
    const auto it = there.find({e.container, e.name});
    if (it == there.end()) continue;
    TROUPE_RETURN_IF_ERROR(Annotate(e.object->TakePlaceOf(*it->second),
                                    StrCat("resource '", e.name, "' of container '", e.container, "'")));
  }
  return absl::OkStatus();
}

absl::Status Restore(ResourceContainers* containers, const Device& device, restore_resources& m) {
  std::vector<ResourceContainers::Entry> made;
  for (resource_snapshot::Entry& e : m.entries) {
    for (auto& [key, tensor] : e.tensors) TROUPE_RETURN_IF_ERROR(Charge(device, e, &tensor));
    absl::StatusOr<std::shared_ptr<Resource>> object = MakeResource(e.name, {std::move(e.kind), std::move(e.tensors)});
    if (!object.ok())
      return Annotate(object.status(), StrCat("resource '", e.name, "' of container '", e.container, "'"));
    if (*object == nullptr)
      return Internal("resource '", e.name, "' of container '", e.container, "' was made as a null pointer");
    if (auto* const asked = dynamic_cast<StateResource*>(object->get()); asked != nullptr && !m.only_check)
      asked->LiveIn(containers);
    made.push_back({std::move(e.container), std::move(e.name), *std::move(object)});
  }
  return m.only_check ? CheckPlaces(made, *containers) : containers->Put(made, m.whole);
}

caf::behavior ContainerBehavior(ContainerActor* self, std::shared_ptr<ResourceContainers> containers,
                                std::shared_ptr<const Device> device, std::shared_ptr<StateActors> states) {
  self->set_error_handler([](caf::error&) {});
  self->set_default_handler(caf::drop);
  self->state.containers = containers;
  if (states != nullptr) {
    self->state.states = states;
    states->TakeOver(self);
    self->set_down_handler([states, self](caf::down_msg& down) { states->OnDown(self, down); });
    self->set_exit_handler([states, self](caf::exit_msg& e) {
      // As for a worker: a normal end is the runtime's.
      if (e.reason == caf::exit_reason::user_shutdown) states->StopAll();
      self->quit(e.reason);
    });
  }
  return {
      [self](list_resources) {
        auto promise = self->make_response_promise<resource_list>();
        Answer(&promise, [&] {
          resource_list list;
          for (ResourceContainers::Listing& l : self->state.containers->List())
            list.entries.push_back({std::move(l.container), std::move(l.name), std::move(l.what)});
          return list;
        });
        return promise;
      },
      [containers](const reset_resources& m) {
        for (const std::string& c : m.containers) containers->Clear(c);
        return resources_reset{};
      },
      [self](const snapshot_resources& m) { return Snapshot(self, m); },
      [self](resources_gathered m) { ResourcesGathered(self, m.request); },
      [self](states_came) {
        if (self->state.states != nullptr) self->state.states->TakeNew(self);
      },
      [self](restart_child r) {
        if (self->state.states != nullptr) self->state.states->OnRestart(self, r.number);
      },
      [containers, device](restore_resources& m) {
        return resources_restored{Guarded("making a resource", [&] { return Restore(containers.get(), *device, m); })};
      },
  };
}

}  // namespace

caf::actor DeviceActorOf(const Runtime& runtime, const std::string& device) {
  return runtime.impl()->directory->Find("device:" + device);
}
caf::actor ContainerActorOf(const Runtime& runtime, const std::string& device) {
  return runtime.impl()->directory->Find("container:" + device);
}

caf::actor SpawnDevice(caf::actor_system& system, std::shared_ptr<Device> device, uint64_t incarnation, AskSteps ask,
                       std::shared_ptr<UnderWay> aside, std::chrono::milliseconds idle) {
  return system.spawn<caf::hidden>(DeviceBehavior, std::move(device), incarnation, std::move(ask), std::move(aside),
                                   idle);
}
caf::actor SpawnContainer(caf::actor_system& system, std::shared_ptr<ResourceContainers> containers,
                          std::shared_ptr<const Device> device, std::shared_ptr<StateActors> states) {
  return system.spawn<caf::hidden>(ContainerBehavior, std::move(containers), std::move(device), std::move(states));
}

}  // namespace troupe
