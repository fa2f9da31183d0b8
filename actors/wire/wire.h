// How the messages of the cast become bytes and come back. Every message is a plain struct of
// values; its `inspect` functions stand beside it. Within a process nobody calls them, unless
// SessionOptions.wire_messages says so: then each message passes through CAF's own binary
// serialiser before it is delivered, as if its receiver were elsewhere.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_WIRE_WIRE_H_
#define TROUPE_ACTORS_WIRE_WIRE_H_

#include <caf/all.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors.h"

namespace troupe::wire {

// An absl::Status as CAF carries it. Not a status itself: CAF would look for its `inspect` in absl.
struct StatusFields {
  int32_t code = 0;
  std::string message;
  std::vector<std::pair<std::string, std::string>> payloads;  // url and bytes
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StatusFields& x) {
  return f(x.code, x.message, x.payloads);
}
StatusFields FieldsOf(const absl::Status& status);
// INVALID_ARGUMENT in place of a code that does not exist.
absl::Status StatusOf(const StatusFields& fields);

// A message that is a status and nothing else.
template <class Message>
caf::error WriteStatus(caf::serializer& f, const Message& x) {
  StatusFields status = FieldsOf(x.status);
  return f(status);
}
template <class Message>
caf::error ReadStatus(caf::deserializer& f, Message* x) {
  StatusFields status;
  if (caf::error e = f(status)) return e;
  x->status = StatusOf(status);
  return caf::none;
}

// `message` as it is after a journey through bytes. INVALID_ARGUMENT when it cannot make it.
template <class T>
absl::StatusOr<T> ThroughBytes(caf::actor_system& system, T& message) {
  std::vector<char> bytes;
  caf::binary_serializer out(system, bytes);
  if (caf::error e = out(message)) return InvalidArgument("the message cannot be sent: ", system.render(e));
  T copy;
  caf::binary_deserializer in(system, bytes);
  if (caf::error e = in(copy)) return InvalidArgument("the message cannot be read: ", system.render(e));
  if (in.remaining() != 0) return Internal(in.remaining(), " bytes of the message were not read");
  return copy;
}

}  // namespace troupe::wire

#endif  // TROUPE_ACTORS_WIRE_WIRE_H_
