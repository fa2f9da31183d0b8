#include "net/messages.h"

#include <caf/io/middleman.hpp>

#include "actors/runtime/remote_tasks.h"
#include "net/caller.h"
#include "net/client_messages.h"
#include "net/network_loop.h"
#include "troupe/server.h"

namespace troupe {
namespace {

// As CAF reads a std::string, but no more than `most` bytes.
caf::error ReadText(caf::deserializer& f, std::string* text, size_t most = kMostText) {
  size_t size = 0;
  if (caf::error e = f.begin_sequence(size)) return e;
  if (size > most) return caf::sec::invalid_argument;
  text->resize(size);
  if (size > 0) {
    if (caf::error e = f.apply_raw(size, text->data())) return e;
  }
  return f.end_sequence();
}

caf::error Write(caf::serializer& f, ClusterTask& x) { return f(x.job, x.index); }
caf::error Read(caf::deserializer& f, ClusterTask* x) {
  if (caf::error e = ReadText(f, &x->job, 255)) return e;
  return f(x->index);
}

// Payloads stay behind: a status of the network has none.
caf::error Write(caf::serializer& f, const absl::Status& x) {
  auto code = static_cast<int32_t>(x.code());
  std::string message(x.message().data(), std::min(x.message().size(), kMostText));
  return f(code, message);
}
caf::error Read(caf::deserializer& f, absl::Status* x) {
  int32_t code = 0;
  std::string message;
  if (caf::error e = f(code)) return e;
  if (caf::error e = ReadText(f, &message)) return e;
  if (code < 0 || code > static_cast<int32_t>(absl::StatusCode::kUnauthenticated)) return caf::sec::invalid_argument;
  *x = absl::Status(static_cast<absl::StatusCode>(code), message);
  return caf::none;
}

caf::error Write(caf::serializer& f, TaskStatus& x) {
  if (caf::error e = Write(f, x.task)) return e;
  auto health = static_cast<uint8_t>(x.health);
  x.why.resize(std::min(x.why.size(), kMostText));
  return f(x.address, health, x.incarnation, x.since_ms, x.silent_ms, x.why);
}
caf::error Read(caf::deserializer& f, TaskStatus* x) {
  uint8_t health = 0;
  if (caf::error e = Read(f, &x->task)) return e;
  if (caf::error e = ReadText(f, &x->address)) return e;
  if (caf::error e = f(health, x->incarnation, x->since_ms, x->silent_ms)) return e;
  if (health > static_cast<uint8_t>(TaskHealth::kStopped)) return caf::sec::invalid_argument;
  x->health = static_cast<TaskHealth>(health);
  return ReadText(f, &x->why);
}

// Its texts are no longer than other texts of a message.
template <class Inspector>
caf::error Numbers(Inspector& f, DeviceStatus& d) {
  return f(d.incarnation, d.memory.bytes_in_use, d.memory.peak_bytes_in_use, d.memory.num_allocs,
           d.memory.largest_alloc, d.memory.bytes_limit, d.memory.bytes_cached);
}

}  // namespace

caf::error WriteDevices(caf::serializer& f, std::vector<DeviceStatus>& devices) {
  auto count = static_cast<uint32_t>(devices.size());
  if (caf::error e = f(count)) return e;
  for (DeviceStatus& d : devices) {
    if (caf::error e = f(d.name, d.type)) return e;
    if (caf::error e = Numbers(f, d)) return e;
  }
  return caf::none;
}
caf::error ReadDevices(caf::deserializer& f, std::vector<DeviceStatus>* devices) {
  uint32_t count = 0;
  devices->clear();
  if (caf::error e = f(count)) return e;
  // One after the other: the number alone takes no memory.
  for (uint32_t i = 0; i < count; ++i) {
    DeviceStatus& d = devices->emplace_back();
    if (caf::error e = ReadText(f, &d.name)) return e;
    if (caf::error e = ReadText(f, &d.type)) return e;
    if (caf::error e = Numbers(f, d)) return e;
  }
  return caf::none;
}

caf::error inspect(caf::serializer& f, hello& x) {
  if (caf::error e = f(x.protocol, x.cluster, x.incarnation)) return e;
  if (caf::error e = Write(f, x.from)) return e;
  if (caf::error e = Write(f, x.to)) return e;
  return f(x.worker, x.number);
}
caf::error inspect(caf::deserializer& f, hello& x) {
  if (caf::error e = f(x.protocol, x.cluster, x.incarnation)) return e;
  if (caf::error e = Read(f, &x.from)) return e;
  if (caf::error e = Read(f, &x.to)) return e;
  return f(x.worker, x.number);
}

caf::error inspect(caf::serializer& f, welcome& x) {
  if (caf::error e = f(x.protocol, x.cluster, x.incarnation, x.greeted)) return e;
  if (caf::error e = Write(f, x.from)) return e;
  if (caf::error e = Write(f, x.status)) return e;
  return f(x.worker, x.number);
}
caf::error inspect(caf::deserializer& f, welcome& x) {
  if (caf::error e = f(x.protocol, x.cluster, x.incarnation, x.greeted)) return e;
  if (caf::error e = Read(f, &x.from)) return e;
  if (caf::error e = Read(f, &x.status)) return e;
  return f(x.worker, x.number);
}

caf::error inspect(caf::serializer& f, cluster_state& x) {
  ServerStatus& s = x.value;
  if (caf::error e = Write(f, s.task)) return e;
  auto count = static_cast<uint32_t>(s.others.size());
  if (caf::error e = f(s.address, s.incarnation, s.cluster, count)) return e;
  for (TaskStatus& other : s.others) {
    if (caf::error e = Write(f, other)) return e;
  }
  if (caf::error e = WriteDevices(f, s.devices)) return e;
  count = static_cast<uint32_t>(s.sessions.size());
  if (caf::error e = f(count)) return e;
  for (SessionStatus& session : s.sessions) {
    if (caf::error e = f(session.client, session.calls, session.since_ms)) return e;
  }
  return f(s.tensor_bytes_in_messages, s.tensor_bytes_in_shared_memory);
}
caf::error inspect(caf::deserializer& f, cluster_state& x) {
  ServerStatus& s = x.value;
  uint32_t count = 0;
  if (caf::error e = Read(f, &s.task)) return e;
  if (caf::error e = ReadText(f, &s.address)) return e;
  if (caf::error e = f(s.incarnation, s.cluster, count)) return e;
  if (count > ClusterSpec::kMostTasks) return caf::sec::invalid_argument;
  s.others.clear();
  // One after the other: the number alone takes no memory.
  for (uint32_t i = 0; i < count; ++i) {
    if (caf::error e = Read(f, &s.others.emplace_back())) return e;
  }
  if (caf::error e = ReadDevices(f, &s.devices)) return e;
  if (caf::error e = f(count)) return e;
  s.sessions.clear();
  for (uint32_t i = 0; i < count; ++i) {
    SessionStatus& session = s.sessions.emplace_back();
    if (caf::error e = ReadText(f, &session.client)) return e;
    if (caf::error e = f(session.calls, session.since_ms)) return e;
  }
  return f(s.tensor_bytes_in_messages, s.tensor_bytes_in_shared_memory);
}

caf::error inspect(caf::serializer& f, task_up& x) {
  if (caf::error e = Write(f, x.task)) return e;
  return f(x.incarnation);
}
caf::error inspect(caf::deserializer& f, task_up& x) {
  if (caf::error e = Read(f, &x.task)) return e;
  return f(x.incarnation);
}
caf::error inspect(caf::serializer& f, task_down& x) {
  if (caf::error e = Write(f, x.task)) return e;
  if (caf::error e = f(x.incarnation)) return e;
  return Write(f, x.status);
}
caf::error inspect(caf::deserializer& f, task_down& x) {
  if (caf::error e = Read(f, &x.task)) return e;
  if (caf::error e = f(x.incarnation)) return e;
  return Read(f, &x.status);
}

void KeepConnectionsFor(std::chrono::milliseconds lease, caf::actor_system_config* config) {
  // The look that ends a lease comes a quarter of it late at most.
  const std::chrono::milliseconds silence = lease + lease / 4 + std::chrono::seconds(5);
  config->set("middleman.connection-timeout", caf::timespan(silence));
}

void ConfigureServer(caf::actor_system_config* config) {
  config->load<caf::io::middleman, NetworkLoop>();
  config->add_message_types<caf::id_block::troupe_cluster>();
  config->add_message_types<caf::id_block::troupe_net>();
  config->add_message_types<caf::id_block::troupe_clients>();
  AddCastMessageTypes(config);
  config->set("scheduler.max-throughput", static_cast<size_t>(50));
  // Messages are made from bytes where the bytes arrive: no busy scheduler thread delays them.
  config->set("middleman.workers", static_cast<size_t>(0));
  // Beats of our own find who is dead, and CAF's need not be as frequent. Neither ends a connection
  // that was accepted and on which nobody speaks (docs/cluster.md).
  config->set("middleman.heartbeat-interval", caf::timespan(std::chrono::seconds(2)));
  KeepConnectionsFor(ClientPolicy().lease, config);
}

}  // namespace troupe
