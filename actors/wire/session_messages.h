// What a program and a session's actor tell each other, beside run_request (troupe/actors.h): plain
// values, which could leave the process.
//
//   from     to       message           means
//   program  session  extend_request    put these nodes into your graph
//   session  program  extend_reply      they are in it; or an error, and none is
//   program  session  compile_request   I want to run these feeds, fetches and targets
//   session  program  compile_reply     here is their signature, or an error
//   program  session  withdraw_compile  I do not wait for the answer to that one any more
//   program  session  close_request     end
//   session  program  close_reply       the session has ended
//
// Within a process a graph travels by reference, and compile_reply carries a short cut beside its
// values: the signature itself. Who reads a reply that has come through bytes (wire.h) finds it by
// its number, where the session lives.
//
// Thread rule: a message belongs to whoever has it.
#ifndef TROUPE_ACTORS_WIRE_SESSION_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_SESSION_MESSAGES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "actors/wire/graph_messages.h"
#include "troupe/session.h"

namespace troupe {

class Signature;

// By reference both are the program's own, which leaves them alone until it has the answer.
struct extend_request {
  // Either new nodes, whose inputs may be nodes of the session,
  std::shared_ptr<const proto::GraphDef> def;
  // or a whole graph, of which the session takes the nodes that it does not have
  // (session/add_graph.h).
  std::shared_ptr<const Graph> graph;
};
struct extend_reply {
  absl::Status status;
};
struct compile_request {
  int64_t number = 0;  // the sender's, by which it withdraws the request
  Names feeds, fetches, targets;
  bool graphs = false;  // the parts' graphs are asked for, too
};
struct compile_reply {
  absl::Status status;
  uint64_t signature = 0;          // its number in the session
  std::vector<GraphValue> graphs;  // of the parts, if they were asked for
  // Not sent as bytes: what the number names.
  std::shared_ptr<Signature> found;
};
// Not answered. The number is that of a compile_request of the same sender.
struct withdraw_compile {
  int64_t number = 0;
};
struct close_request {};
struct close_reply {
  absl::Status status;
};

caf::error inspect(caf::serializer& f, extend_request& x);
caf::error inspect(caf::deserializer& f, extend_request& x);
caf::error inspect(caf::serializer& f, extend_reply& x);
caf::error inspect(caf::deserializer& f, extend_reply& x);
caf::error inspect(caf::serializer& f, compile_reply& x);
caf::error inspect(caf::deserializer& f, compile_reply& x);
caf::error inspect(caf::serializer& f, close_reply& x);
caf::error inspect(caf::deserializer& f, close_reply& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, compile_request& x) {
  return f(x.number, x.feeds, x.fetches, x.targets, x.graphs);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, withdraw_compile& x) {
  return f(x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, close_request&) {
  return f(caf::meta::type_name("close_request"));
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_SESSION_MESSAGES_H_
