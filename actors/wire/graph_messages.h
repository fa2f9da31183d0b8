// What a session and the workers tell each other: plain values, which leave the process when the
// worker is in another one.
//
//   from     to       message            means
//   session  worker   list_devices       which devices does your task have?
//   worker   session  device_list        these, in the incarnations that live now
//   session  worker   register_graph     here are the parts of a graph that stand on your task
//   worker   session  graph_registered   they are compiled, or an error; the ends of their edges
//   session  worker   withdraw_graph     nobody waits for that compile any more, or the session has ended
//   runtime  session  actor_failed       an actor has died: what it was doing is over
//   session  runtime  failure_noted      the steps that it concerns have been told to end
//
// Within a process a graph travels by reference, and graph_registered carries a short cut to the
// compiled parts beside its values. Who reads a message that has come through bytes (wire.h) finds
// the parts by their handle, where the worker lives.
//
// Thread rule: a message belongs to whoever has it.
#ifndef TROUPE_ACTORS_WIRE_GRAPH_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_GRAPH_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/wire/part_messages.h"
#include "actors/wire/wire.h"

namespace troupe {

class Graph;
class RegisteredGraph;

// A graph in a message. Its bytes are those of a GraphDef, and where in the program each node was
// defined.
struct GraphValue {
  std::shared_ptr<Graph> graph;  // the message's own; may be null
};

struct list_devices {
  int64_t number = 0;  // of the question
};
struct device_list {
  struct Device {
    std::string name;  // full
    std::string type;
    uint64_t incarnation = 0;
  };
  int64_t number = 0;  // as in the question
  std::string task;
  uint64_t incarnation = 0;  // of the worker
  std::vector<Device> devices;
};

struct register_graph {
  struct Part {
    std::string device;
    GraphValue graph;  // partitioned; the worker fuses its nodes
  };
  int64_t compile = 0;  // the session's number of this graph
  std::string session;
  bool share_variables = true;  // as in SessionScope
  bool fuse = true;
  bool only_graphs = false;  // nothing is compiled: the answer is the graphs as they would be
  uint64_t master = 0;       // the incarnation of the session's process, if it is another one
  std::vector<Part> parts;
};
// Has no answer of its own: a graph that is worked on still is answered by its graph_registered.
struct withdraw_graph {
  std::string session;
  int64_t compile = 0;  // as in register_graph; 0: all of the session, which has ended
};

// What an actor was doing ends with it: the steps that have a part at its place, and no others.
// Nobody is spawned in its place before all sessions have noted it; so no step that begins
// afterwards is taken for one that ran before.
struct actor_failed {
  std::string place;         // the name of a device, or of a task, which is the beginning of its devices' names
  uint64_t incarnation = 0;  // of the device from now on; 0: as before
  absl::Status status;       // of those steps
  bool Concerns(std::string_view device) const {
    return device.starts_with(place) && (device.size() == place.size() || device[place.size()] == '/');
  }
};
struct failure_noted {
  absl::Status status;  // an error: there is no session any more
};

// The ends of the edges of one part.
struct PartEdges {
  struct End {
    std::string name;      // the rendezvous key
    bool granted = false;  // the value waits for the receiver's grant
  };
  std::string device;
  std::vector<End> in, out;
};
struct graph_registered {
  int64_t compile = 0;
  std::string task;
  absl::Status status;
  uint64_t handle = 0;             // of the graph at this worker
  std::vector<PartEdges> parts;    // in the order of the request
  std::vector<GraphValue> graphs;  // if only they were asked for, in the same order
  // Not sent as bytes: what the handle names.
  std::shared_ptr<const RegisteredGraph> graph;
};

// Numbers the edges between these parts of one graph. `tasks`: by part; empty: all are on one.
EdgeTable EdgesBetween(const std::vector<PartEdges>& parts, const std::vector<uint32_t>& tasks = {});

caf::error inspect(caf::serializer& f, GraphValue& x);
caf::error inspect(caf::deserializer& f, GraphValue& x);
caf::error inspect(caf::serializer& f, graph_registered& x);
caf::error inspect(caf::deserializer& f, graph_registered& x);
caf::error inspect(caf::serializer& f, actor_failed& x);
caf::error inspect(caf::deserializer& f, actor_failed& x);
caf::error inspect(caf::serializer& f, failure_noted& x);
caf::error inspect(caf::deserializer& f, failure_noted& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, list_devices& x) {
  return f(x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, device_list::Device& x) {
  return f(x.name, x.type, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, device_list& x) {
  return f(x.number, x.task, x.incarnation, x.devices);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, register_graph::Part& x) {
  return f(x.device, x.graph);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, register_graph& x) {
  return f(x.compile, x.session, x.share_variables, x.fuse, x.only_graphs, x.master, x.parts);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, withdraw_graph& x) {
  return f(x.session, x.compile);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, PartEdges::End& x) {
  return f(x.name, x.granted);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, PartEdges& x) {
  return f(x.device, x.in, x.out);
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_GRAPH_MESSAGES_H_
