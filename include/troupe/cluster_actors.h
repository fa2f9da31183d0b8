// For programs that use actors themselves: which tasks of a cluster come and go, as messages.
// Includes CAF 0.17.6; link troupe::actors. An actor sends watch_tasks to ControlActorOf(*server),
// and is told task_up and task_down.
//
// All are values: a listener may be on any node that CAF reaches and ConfigureServer has prepared.
//
// Thread rule: any thread; the value belongs to the caller.
#ifndef TROUPE_CLUSTER_ACTORS_H_
#define TROUPE_CLUSTER_ACTORS_H_

#include <caf/all.hpp>
#include <cstdint>

#include "troupe/cluster.h"
#include "troupe/export.h"
#include "troupe/server.h"

namespace TROUPE_EXPORT troupe {

// The actor that answers for a server. Null when the server has stopped; it ends with the server.
caf::actor ControlActorOf(const Server& server);

// To a control actor: tell me who comes and goes, until I end. Answered by task_up for each task
// that is up now. A control actor has at most 1024 listeners; the next one is answered with an
// error (caf::sec::runtime_error), which ends an event-based actor that has no handler for errors.
struct watch_tasks {};
struct task_up {
  ClusterTask task;
  uint64_t incarnation = 0;
};
// The incarnation of the last task_up is not up any more. CANCELLED: it has stopped by itself;
// UNAVAILABLE: it died, is silent or cannot be reached. What was in its memory may still be there:
// when the same incarnation comes up again, it had only been out of reach.
struct task_down {
  ClusterTask task;
  uint64_t incarnation = 0;
  absl::Status status;
};
// To a control actor, answered by cluster_state.
struct get_cluster_state {};
struct cluster_state {
  ServerStatus value;
};

// Texts of more than 4096 bytes, and lists of more entries than a cluster has tasks, are refused
// before memory is taken for them.
caf::error inspect(caf::serializer& f, cluster_state& x);
caf::error inspect(caf::deserializer& f, cluster_state& x);
caf::error inspect(caf::serializer& f, task_up& x);
caf::error inspect(caf::deserializer& f, task_up& x);
caf::error inspect(caf::serializer& f, task_down& x);
caf::error inspect(caf::deserializer& f, task_down& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, get_cluster_state&) {
  return f(caf::meta::type_name("get_cluster_state"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, watch_tasks&) {
  return f(caf::meta::type_name("watch_tasks"));
}

}  // namespace troupe

// A block of our own, as that of troupe/actors.h.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_cluster, first_custom_type_id + 700)
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::watch_tasks))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::task_up))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::task_down))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::get_cluster_state))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::cluster_state))
CAF_END_TYPE_ID_BLOCK(troupe_cluster)

#endif  // TROUPE_CLUSTER_ACTORS_H_
