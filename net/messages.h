// What the control actors of a cluster's servers tell each other, and who asks them: plain values.
//
//   from      to        message            means
//   control   control   hello              I am this task in this incarnation; are you that one?
//   control   control   welcome            yes, and this is my incarnation; or why not
//   control   control   beat               I am alive
//   control   control   who_are_you        I take you for dead: greet me again
//   control   control   worker_here        my task's worker is this one now
//   control   control   goodbye            I stop now
//   control   control   goodbye_noted      I know
//   anybody   control   get_cluster_state  how do you see the cluster?
//   control   anybody   cluster_state      so
//   listener  control   watch_tasks        tell me who comes and goes; who is up is told at once
//   control   listener  task_up            this incarnation of a task is up
//   control   listener  task_down          it is not any more
//
// What listeners and askers see is public (troupe/cluster_actors.h). No text of more than kMostText
// bytes, and no list of more entries than a cluster has tasks, is read: the size is checked before
// memory is taken for it. Thread rule: plain values.
#ifndef TROUPE_NET_MESSAGES_H_
#define TROUPE_NET_MESSAGES_H_

#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/messages.h"
#include "troupe/cluster_actors.h"

namespace troupe {

// Grows by one whenever a message changes. Both sides must have the same.
inline constexpr uint32_t kNetProtocol = 5;
inline constexpr size_t kMostText = 4096;

struct hello {
  uint32_t protocol = kNetProtocol;
  uint64_t cluster = 0;  // ClusterSpec::Id
  ClusterTask from, to;
  uint64_t incarnation = 0;
  caf::actor worker;    // of its task; null while that is being restarted
  uint64_t number = 0;  // of the call; the answer has the same
};
struct welcome {
  absl::Status status;  // OK: welcome
  uint32_t protocol = kNetProtocol;
  uint64_t cluster = 0;
  ClusterTask from;
  uint64_t incarnation = 0;  // of who welcomes
  uint64_t greeted = 0;      // the incarnation of the hello
  caf::actor worker;         // as in hello
  uint64_t number = 0;       // of the hello
};
struct beat {
  uint64_t incarnation = 0;
};
struct who_are_you {
  uint64_t incarnation = 0;  // of the beat
};
struct goodbye {
  uint64_t incarnation = 0;
};
struct goodbye_noted {};
struct worker_here {
  uint64_t incarnation = 0;
  caf::actor worker;
};
// To a control actor, by its own process: the worker was restarted.
struct own_worker {
  caf::actor worker;
};
// To a control actor, by its own timer.
struct look_around {};
// To a control actor, by who called a peer's address for it.
struct dialled {
  int peer = 0;
  uint64_t attempt = 0;
  absl::Status status;
  caf::actor handle;
};
// To a control actor: say goodbye. Answered by farewells_noted when all peers have answered, or
// are down, or the time is over.
struct stop_control {
  int64_t at_most_ms = 0;
};
struct farewells_noted {
  farewells_noted() = default;
  explicit farewells_noted(absl::Status s) : status(std::move(s)) {}
  absl::Status status;               // not OK: the actor ended before
  std::vector<std::string> missing;  // tasks that are up and have not answered
};

// Of a list in a message.
caf::error WriteDevices(caf::serializer& f, std::vector<DeviceStatus>& devices);
caf::error ReadDevices(caf::deserializer& f, std::vector<DeviceStatus>* devices);

caf::error inspect(caf::serializer& f, hello& x);
caf::error inspect(caf::deserializer& f, hello& x);
caf::error inspect(caf::serializer& f, welcome& x);
caf::error inspect(caf::deserializer& f, welcome& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, beat& x) {
  return f(caf::meta::type_name("beat"), x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, who_are_you& x) {
  return f(caf::meta::type_name("who_are_you"), x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, goodbye& x) {
  return f(caf::meta::type_name("goodbye"), x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, goodbye_noted&) {
  return f(caf::meta::type_name("goodbye_noted"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, worker_here& x) {
  return f(caf::meta::type_name("worker_here"), x.incarnation, x.worker);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, look_around&) {
  return f(caf::meta::type_name("look_around"));
}

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_net, caf::id_block::troupe_cluster::end)
CAF_ADD_TYPE_ID(troupe_net, (troupe::hello))
CAF_ADD_TYPE_ID(troupe_net, (troupe::welcome))
CAF_ADD_TYPE_ID(troupe_net, (troupe::beat))
CAF_ADD_TYPE_ID(troupe_net, (troupe::who_are_you))
CAF_ADD_TYPE_ID(troupe_net, (troupe::goodbye))
CAF_ADD_TYPE_ID(troupe_net, (troupe::goodbye_noted))
CAF_ADD_TYPE_ID(troupe_net, (troupe::worker_here))
CAF_END_TYPE_ID_BLOCK(troupe_net)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::own_worker)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::dialled)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stop_control)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::farewells_noted)

#endif  // TROUPE_NET_MESSAGES_H_
