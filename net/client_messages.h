// What clients and a server's sessions tell each other: plain values. The actor of a client's
// session is its agent (net/session_agent.h), that of the server its desk (net/session_desk.h);
// desks are opened by the host (net/session_host.h), which the control actor speaks for.
//
//   from   to    message          means
//   agent  host  open_session     give me a session with these options
//   host   agent session_opened   here is its desk; or why there is none
//   agent  desk  extend_session   put these nodes into the graph
//   agent  desk  prepare_session  compile these feeds, fetches and targets
//   agent  desk  run_session      run a step
//   agent  desk  begin_partial    begin a partial run
//   agent  desk  go_on_partial    feed and fetch a part of it
//   agent  desk  give_up_partial  it is not needed any more
//   agent  desk  reset_session    drop the contents of these containers
//   agent  desk  ask_session      which devices are there? which steps run?
//   agent  desk  cancel_call      nobody waits for this call any more
//   agent  desk  close_session    end
//   agent  desk  client_beat      I am alive
//   desk   agent beat_noted       so am I
//   agent  desk  parcel_piece     a piece of one of these that is too big for a message; and the other way
//   desk   agent piece_taken      give me the next one; and the other way
//   desk   agent call_answer      of the call with this number
//   desk   agent session_over     the session has ended by itself
//
// Calls have numbers, which the agent gives. A graph travels as bytes, which are read on a thread
// beside the network's. What a message says of its sizes is checked against the bytes that are
// there before memory is taken. Thread rule: plain values.
#ifndef TROUPE_NET_CLIENT_MESSAGES_H_
#define TROUPE_NET_CLIENT_MESSAGES_H_

#include <caf/all.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "net/messages.h"
#include "troupe/actors.h"

namespace troupe {

struct open_session {
  uint32_t protocol = kNetProtocol;
  std::string name;  // of the client, for who looks at the server
  SessionOptions options;
  caf::actor client;  // the agent
};
struct session_opened {
  absl::Status status;
  std::string task;  // the server's
  int64_t lease_ms = 0;
  caf::actor desk;
};
// The bytes of an extend_request.
struct extend_session {
  uint64_t call = 0;
  std::vector<char> graph;
};
struct prepare_session {
  uint64_t call = 0;
  Names feeds, fetches, targets;
};
struct run_session {
  uint64_t call = 0;
  run_request step;
};
// Feeds without values.
struct begin_partial {
  uint64_t call = 0;
  run_request step;
};
struct go_on_partial {
  uint64_t call = 0;
  std::string handle;
  run_request step;
};
struct give_up_partial {
  std::string handle;
};
struct reset_session {
  uint64_t call = 0;
  std::vector<std::string> containers;
};
struct ask_session {
  enum class What : uint8_t { kDevices, kSteps };
  uint64_t call = 0;
  What what = What::kDevices;
};
struct cancel_call {
  uint64_t call = 0;
};
struct close_session {};
struct client_beat {};
struct beat_noted {};
struct call_answer {
  uint64_t call = 0;
  run_reply reply;
  std::vector<std::string> texts;  // of steps: what they wait for
  std::string partial_run;         // the handle of one that has begun
  std::vector<DeviceStatus> devices;
};
// Of the bytes of a message that travels in pieces (parcels.h), for this call.
struct parcel_piece {
  enum class Kind : uint8_t { kExtend, kRun, kPartial, kAnswer };
  uint64_t call = 0;
  Kind kind = Kind::kExtend;
  uint64_t total = 0;  // bytes of all pieces
  std::vector<char> bytes;
};
struct piece_taken {
  uint64_t call = 0;
};
struct session_over {
  absl::Status status;
};

inline constexpr uint64_t kMostBytesOfMessage = (uint64_t{1} << 31) - (1 << 20);

// Whether these can be in one message: INVALID_ARGUMENT for references, variants and tensors in a
// device's memory, and for 2 GiB or more. CAF drops such a message without a word.
absl::Status CanCross(const std::vector<const Tensor*>& tensors);

caf::error inspect(caf::serializer& f, open_session& x);
caf::error inspect(caf::deserializer& f, open_session& x);
caf::error inspect(caf::serializer& f, session_opened& x);
caf::error inspect(caf::deserializer& f, session_opened& x);
caf::error inspect(caf::serializer& f, extend_session& x);
caf::error inspect(caf::deserializer& f, extend_session& x);
caf::error inspect(caf::serializer& f, parcel_piece& x);
caf::error inspect(caf::deserializer& f, parcel_piece& x);
caf::error inspect(caf::serializer& f, session_over& x);
caf::error inspect(caf::deserializer& f, session_over& x);
caf::error inspect(caf::serializer& f, ask_session& x);
caf::error inspect(caf::deserializer& f, ask_session& x);
caf::error inspect(caf::serializer& f, call_answer& x);
caf::error inspect(caf::deserializer& f, call_answer& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, prepare_session& x) {
  return f(x.call, x.feeds, x.fetches, x.targets);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, run_session& x) {
  return f(x.call, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, begin_partial& x) {
  return f(x.call, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, go_on_partial& x) {
  return f(x.call, x.handle, x.step);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, give_up_partial& x) {
  return f(x.handle);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, reset_session& x) {
  return f(x.call, x.containers);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, cancel_call& x) {
  return f(x.call);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, piece_taken& x) {
  return f(caf::meta::type_name("piece_taken"), x.call);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, close_session&) {
  return f(caf::meta::type_name("close_session"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, client_beat&) {
  return f(caf::meta::type_name("client_beat"));
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, beat_noted&) {
  return f(caf::meta::type_name("beat_noted"));
}

}  // namespace troupe

CAF_BEGIN_TYPE_ID_BLOCK(troupe_clients, caf::id_block::troupe_net::end)
CAF_ADD_TYPE_ID(troupe_clients, (troupe::open_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::session_opened))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::extend_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::prepare_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::run_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::begin_partial))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::go_on_partial))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::give_up_partial))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::reset_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::ask_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::cancel_call))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::close_session))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::client_beat))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::beat_noted))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::call_answer))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::session_over))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::parcel_piece))
CAF_ADD_TYPE_ID(troupe_clients, (troupe::piece_taken))
CAF_END_TYPE_ID_BLOCK(troupe_clients)

#endif  // TROUPE_NET_CLIENT_MESSAGES_H_
