// What runtimes of different processes tell each other about the steps that they run together:
// plain values, which leave the process. The worker of a task is the port for all of it.
//
//   from    to      message       means
//   master  worker  link_graph    this is how the parts of a registered graph stand among the others
//   master  worker  drop_graph    nobody runs that graph any more
//   master  worker  run_parts     run your parts of this step
//   worker  master  parts_done    they are done; their results
//   master  worker  settle_step   all parts are done; whether its updates stay
//   any     worker  part_letter   a message for one part of a step (part_messages.h)
//   worker  master  step_letter   what a part tells its step before its end
//   master  worker  to_container, and a message  for the container of a device of the task
//
// The master is the process whose session runs the step. A step is told by the incarnation of its
// master's process and by the number that it has there; a graph, by the worker's handle. Whoever
// gets a message for what it does not have drops it, or answers with an error.
//
// Thread rule: a message belongs to whoever has it.
#ifndef TROUPE_ACTORS_WIRE_REMOTE_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_REMOTE_MESSAGES_H_

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "actors/threads/surely.h"
#include "actors/wire/part_messages.h"
#include "actors/wire/wire.h"

namespace troupe {

struct link_graph {
  struct Edge {
    std::string name;
    PartAddress sender, receiver;
    bool granted = false;
    uint64_t incarnation = 0;
  };
  uint64_t master = 0;
  uint64_t handle = 0;              // as in graph_registered
  std::vector<std::string> tasks;   // of the whole graph, by their number in PartAddress
  uint32_t task = 0;                // the number of this one
  uint32_t first_part = 0;          // of its parts, which follow each other
  uint32_t feeds = 0, fetches = 0;  // of the whole step
  std::vector<Edge> edges;          // by number
  bool token_messages = false, check_kernels = false, wire_messages = false;  // as in SessionOptions
};
struct drop_graph {
  uint64_t master = 0;
  uint64_t handle = 0;
};
struct run_parts {
  uint64_t master = 0;
  int64_t step = 0;
  uint64_t handle = 0;
  uint32_t task = 0;       // the number of the receiver's task in the graph
  bool partial = false;    // arguments come one by one, results are told one by one
  bool cancelled = false;  // the step was told to end before it began
  bool timed = false;      // statistics are asked for
  bool checks_numerics = false;
  std::string numerics_folder;
  std::vector<std::pair<uint32_t, Tensor>> arguments;  // by index
};
struct parts_done {
  uint64_t master = 0;
  int64_t step = 0;
  uint32_t task = 0;  // its number in the graph
  absl::Status status;
  bool failed_check = false;  // a part has found a NaN or an infinity
  bool forgotten = false;     // the worker does not have the graph any more, or devices that it names
  std::vector<std::pair<uint32_t, Tensor>> results;  // by index
  std::string statistics;                            // the bytes of a RunMetadata
};
// Of a step that checks itself for NaN and infinities (kernels/numerics_check.h): all parts are
// done.
struct settle_step {
  uint64_t master = 0;
  int64_t step = 0;
  uint32_t task = 0;  // as in run_parts
  bool undo = false;  // the step has failed by its check: its updates are taken back
};
struct part_letter {
  uint64_t master = 0;
  int64_t step = 0;
  PartAddress to;
  part_message message;
};
struct step_letter {
  uint64_t master = 0;
  int64_t step = 0;
  PartAddress from;
  step_message message;
};

// Before a message to the container of a device (troupe/actors.h) that is sent to the worker of its
// task; the container answers.
struct to_container {
  std::string device;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, to_container& x) {
  return f(x.device);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, PartAddress& x) {
  return f(x.task, x.part);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, link_graph::Edge& x) {
  return f(x.name, x.sender, x.receiver, x.granted, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, link_graph& x) {
  return f(x.master, x.handle, x.tasks, x.task, x.first_part, x.feeds, x.fetches, x.edges, x.token_messages,
           x.check_kernels, x.wire_messages);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, drop_graph& x) {
  return f(x.master, x.handle);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, settle_step& x) {
  return f(x.master, x.step, x.task, x.undo);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_parts& x) {
  return f(x.master, x.step, x.handle, x.task, x.partial, x.cancelled, x.timed, x.checks_numerics, x.numerics_folder,
           x.arguments);
}
caf::error inspect(caf::serializer& f, parts_done& x);
caf::error inspect(caf::deserializer& f, parts_done& x);
caf::error inspect(caf::serializer& f, part_letter& x);
caf::error inspect(caf::deserializer& f, part_letter& x);
caf::error inspect(caf::serializer& f, step_letter& x);
caf::error inspect(caf::deserializer& f, step_letter& x);

// Sends a message to an actor that may be in another process. One in this process gets it as it is
// after a journey through bytes, so it shares nothing with the sender. INVALID_ARGUMENT and
// RESOURCE_EXHAUSTED: the message cannot be sent.
//
// What CAF cannot make bytes of when it sends it is lost without a word; so values are looked at
// here.
template <class Message>
absl::Status SendRemote(caf::actor_system& system, const caf::actor& to, Message message,
                        const caf::strong_actor_ptr& from = nullptr);

// Whether the values of a message can cross, and are not too big for one. The first: also those of
// other messages.
absl::Status CheckCross(const std::vector<Tensor>& values);
absl::Status CheckCross(const run_parts& message);
absl::Status CheckCross(const parts_done& message);
absl::Status CheckCross(const part_letter& message);
absl::Status CheckCross(const step_letter& message);

template <class Message>
absl::Status SendRemote(caf::actor_system& system, const caf::actor& to, Message message,
                        const caf::strong_actor_ptr& from) try {
  if (!to) return Unavailable("the other process is not there");
  if (to.node() == system.node()) {
    TROUPE_ASSIGN_OR_RETURN(message, wire::ThroughBytes(system, message));
  } else if constexpr (requires { CheckCross(message); }) {
    TROUPE_RETURN_IF_ERROR(CheckCross(message));
  }
  EnqueueSurely(system, caf::actor_cast<caf::abstract_actor*>(to),
                caf::make_mailbox_element(from, caf::make_message_id(), caf::no_stages, std::move(message)));
  return absl::OkStatus();
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("no memory for a message");
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_REMOTE_MESSAGES_H_
