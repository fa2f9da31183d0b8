// For programs that use actors themselves: a runtime in the program's own actor system, and the
// messages of a session's actor. Includes CAF 0.17.6; link troupe::actors.
//
// Thread rule: all functions may be called from any thread; `inspect` by one thread for each value.
#ifndef TROUPE_ACTORS_H_
#define TROUPE_ACTORS_H_

#include <caf/all.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/runtime.h"
#include "troupe/session.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

// A runtime that lives in the caller's actor system, which must outlive it: the system's destructor
// waits for the runtime's end. Errors: as Runtime::Start.
absl::StatusOr<std::shared_ptr<Runtime>> StartRuntimeIn(caf::actor_system& system, const RuntimeOptions& options);

// The message with which a user's actor runs a step through a session's actor, and the answer. Both
// are values: they may come from and go to any node that CAF reaches, when both sides have called
// AddMessageTypes.
struct run_request {
  Feeds feeds;
  Names fetches, targets;
  // A token must live until the actor has taken the message. It stays in its process: a request
  // that comes from another one has none, only its deadline.
  RunOptions options;
};
struct run_reply {
  absl::Status status;
  std::vector<Tensor> outputs;
  std::shared_ptr<proto::RunMetadata> metadata;  // when the options ask for it
};

// The actor of a session. A user's actor sends it run_request and gets run_reply; it may be
// monitored. It lives as long as the session, unless it is killed: then it is restarted, requests
// that it has not answered end with an error, and the session goes on. A handle means one
// incarnation, so ask again after its death: null until the next one is there, and for good when
// the session has ended.
//   self->request(ActorOf(session), 10s, run_request{{{"x", t}}, {"y"}, {}})
//       .then([](const run_reply& r) { ... });
caf::actor ActorOf(const Session& session);

// The actors of a device: one answers questions about it, one about the named state on it. Null
// while the actor is being restarted, and for a device that does not exist; the handle of one that
// died is dead. `device`: as Runtime::devices() names it.
caf::actor DeviceActorOf(const Runtime& runtime, const std::string& device);
caf::actor ContainerActorOf(const Runtime& runtime, const std::string& device);

// To a device's actor: get_device_stats, answered by device_stats.
struct get_device_stats {};
struct device_stats {
  DeviceStatus device;
  // The ten that hold most of the device's tensors now: nodes of steps that run, as far as these
  // answered within 100 ms, and resources.
  std::vector<MemoryHolder> holders;
};
// To a device's actor: the limit of its allocator from now on; 0 = none. The CPU devices of a
// runtime share one allocator. Answered by memory_limit_set: FAILED_PRECONDITION when the device
// has the process's allocator, which does not count all (RuntimeOptions.memory_limit is 0).
struct set_memory_limit {
  int64_t bytes = 0;
};
struct memory_limit_set {
  absl::Status status;
};
// To a device's actor: gives the process's free blocks of tensors back to the system; an idle
// device does so by itself. Answered by memory_trimmed.
struct trim_memory {};
struct memory_trimmed {
  int64_t bytes = 0;  // what was kept free before, and is not after
};
// To a container's actor: list_resources, answered by resource_list.
struct list_resources {};
struct resource_list {
  struct Entry {
    std::string container, name, what;  // `what`: one line, its kind and size
  };
  std::vector<Entry> entries;  // sorted by container, then by name
};
// To a container's actor: the state of all entries of these containers, each between two of its
// updates. Answered by resource_snapshot, when updates that are under way have ended.
struct snapshot_resources {
  std::vector<std::string> containers;
};
struct resource_snapshot {
  struct Entry {
    std::string container, name, kind;
    std::vector<std::pair<std::string, Tensor>> tensors;  // by key
  };
  absl::Status status;  // the first error, with the name of its resource; there are no entries then
  std::vector<Entry> entries;
};
// To a container's actor: makes these entries, in place of those of their names, and drops what
// else stands in `whole` containers, all or none. Answered by resources_restored.
struct restore_resources {
  std::vector<resource_snapshot::Entry> entries;
  std::vector<std::string> whole;
  bool only_check = false;  // nothing is changed: the answer says whether it could be now
};
struct resources_restored {
  absl::Status status;
};
// To a container's actor: drops all entries of these containers ("" is the default one). Answered
// by resources_reset.
struct reset_resources {
  std::vector<std::string> containers;
};
struct resources_reset {
  absl::Status status;
};

// Lets the messages above pass between nodes. To be called before the actor system is made.
void AddMessageTypes(caf::actor_system_config* config);

// How values cross to another process: numbers and texts by CAF, the bytes of a tensor as they lie
// in memory (both sides must have the same byte order), a resource as (device, container, name),
// unbound. Wrong bytes give an error and no value; no size is believed before the bytes are there.
// A reference (kFloatRef and its kin) and a tensor of 2 GiB or more are refused.
//
// Thread rule: any thread; the value belongs to the caller.
caf::error inspect(caf::serializer& f, Tensor& x);
caf::error inspect(caf::deserializer& f, Tensor& x);
caf::error inspect(caf::serializer& f, run_request& x);
caf::error inspect(caf::deserializer& f, run_request& x);
caf::error inspect(caf::serializer& f, run_reply& x);
caf::error inspect(caf::deserializer& f, run_reply& x);
caf::error inspect(caf::serializer& f, resources_reset& x);
caf::error inspect(caf::deserializer& f, resources_reset& x);
caf::error inspect(caf::serializer& f, memory_limit_set& x);
caf::error inspect(caf::deserializer& f, memory_limit_set& x);
caf::error inspect(caf::serializer& f, resources_restored& x);
caf::error inspect(caf::deserializer& f, resources_restored& x);
caf::error inspect(caf::serializer& f, resource_snapshot& x);
caf::error inspect(caf::deserializer& f, resource_snapshot& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, get_device_stats&) {
  return f(caf::meta::type_name("get_device_stats"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, MemoryHolder& x) {
  return f(x.what, x.bytes, x.tensors);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, device_stats& x) {
  DeviceStatus& d = x.device;
  return f(d.name, d.type, d.incarnation, d.memory.bytes_in_use, d.memory.peak_bytes_in_use, d.memory.num_allocs,
           d.memory.largest_alloc, d.memory.bytes_limit, d.memory.bytes_cached, x.holders);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, set_memory_limit& x) {
  return f(x.bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, trim_memory&) {
  return f(caf::meta::type_name("trim_memory"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, memory_trimmed& x) {
  return f(x.bytes);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, snapshot_resources& x) {
  return f(x.containers);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, resource_snapshot::Entry& x) {
  return f(x.container, x.name, x.kind, x.tensors);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, restore_resources& x) {
  return f(x.entries, x.whole, x.only_check);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, list_resources&) {
  return f(caf::meta::type_name("list_resources"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, resource_list::Entry& x) {
  return f(x.container, x.name, x.what);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, resource_list& x) {
  return f(x.entries);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, reset_resources& x) {
  return f(x.containers);
}

}  // namespace troupe

// A block of our own, far from where users' blocks begin, so that a service may have both.
CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id + 400)
CAF_ADD_TYPE_ID(troupe, (troupe::run_request))
CAF_ADD_TYPE_ID(troupe, (troupe::run_reply))
CAF_ADD_TYPE_ID(troupe, (troupe::get_device_stats))
CAF_ADD_TYPE_ID(troupe, (troupe::device_stats))
CAF_ADD_TYPE_ID(troupe, (troupe::list_resources))
CAF_ADD_TYPE_ID(troupe, (troupe::resource_list))
CAF_ADD_TYPE_ID(troupe, (troupe::reset_resources))
CAF_ADD_TYPE_ID(troupe, (troupe::resources_reset))
CAF_ADD_TYPE_ID(troupe, (troupe::set_memory_limit))
CAF_ADD_TYPE_ID(troupe, (troupe::memory_limit_set))
CAF_ADD_TYPE_ID(troupe, (troupe::trim_memory))
CAF_ADD_TYPE_ID(troupe, (troupe::memory_trimmed))
CAF_ADD_TYPE_ID(troupe, (troupe::snapshot_resources))
CAF_ADD_TYPE_ID(troupe, (troupe::resource_snapshot))
CAF_ADD_TYPE_ID(troupe, (troupe::restore_resources))
CAF_ADD_TYPE_ID(troupe, (troupe::resources_restored))
CAF_END_TYPE_ID_BLOCK(troupe)

#endif  // TROUPE_ACTORS_H_
