// A snapshot of state as bytes: "troupe state 1\n", then the containers and the entries, as CAF
// writes the messages of the cast.
#include "troupe/state_snapshot.h"

#include "actors/wire/wire.h"

namespace troupe {
namespace {

constexpr std::string_view kMagic = "troupe state 1\n";

}  // namespace

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StateSnapshot::Entry& x) {
  return f(x.device, x.container, x.name, x.kind, x.tensors);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, StateSnapshot& x) {
  return f(x.containers, x.entries);
}

absl::StatusOr<std::string> StateSnapshot::ToBytes() const {
  std::vector<char> bytes(kMagic.begin(), kMagic.end());
  caf::binary_serializer out(nullptr, bytes);
  out.seek(bytes.size());
  StateSnapshot copy = *this;  // shares the tensors
  if (out(copy)) {
    return InvalidArgument(
        "the snapshot cannot be written: it holds a resource's handle, a reference, or a tensor of 2 GiB or more");
  }
  return std::string(bytes.begin(), bytes.end());
}

absl::StatusOr<StateSnapshot> StateSnapshot::FromBytes(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return InvalidArgument("the bytes are no snapshot of state: they do not begin as one");
  bytes.remove_prefix(kMagic.size());
  caf::binary_deserializer in(nullptr, bytes.data(), bytes.size());
  StateSnapshot snapshot;
  if (in(snapshot) || in.remaining() != 0)
    return InvalidArgument("the bytes are no snapshot of state: they are damaged, or there are too many or too few");
  return snapshot;
}

}  // namespace troupe
