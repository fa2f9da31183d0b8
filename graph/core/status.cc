#include "troupe/status.h"

#include <algorithm>

#include "absl/strings/cord.h"

namespace troupe {
namespace {

absl::Status WithMessage(const absl::Status& status, std::string message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// Where the address begins in a message: "node 'name' (Op): " or "node 'name' (Op) on device: ".
// npos without one. (A payload would tell it more simply, but Abseil prints payloads with every
// status.)
size_t FindAddress(std::string_view message) {
  constexpr std::string_view kNode = "node '";
  for (size_t at = message.find(kNode); at != message.npos; at = message.find(kNode, at + 1)) {
    const size_t name_end = message.find('\'', at + kNode.size());
    if (name_end == message.npos) break;
    std::string_view rest = message.substr(name_end);
    if (!rest.starts_with("' (")) continue;
    const size_t op_end = rest.find(')');
    if (op_end == rest.npos) continue;
    rest.remove_prefix(op_end + 1);
    if (rest.starts_with(" on ")) {
      rest.remove_prefix(4);
      rest.remove_prefix(std::min(rest.find(' '), rest.size()));
      if (message[message.size() - rest.size() - 1] == ':') return at;
    } else if (rest.starts_with(": ")) {
      return at;
    }
  }
  return message.npos;
}

}  // namespace

namespace internal {

absl::Status MakeStatus(absl::StatusCode code, std::initializer_list<std::string_view> pieces) {
  std::string message;
  AppendPieces(&message, pieces);
  return absl::Status(code, message);
}

}  // namespace internal

std::string SourceLocation::ToString() const {
  std::string_view f(file);
  if (const size_t slash = f.rfind('/'); slash != std::string_view::npos) f.remove_prefix(slash + 1);
  return StrCat(f, ":", line);
}

absl::Status WithAddress(const absl::Status& status, std::string_view node, std::string_view op,
                         std::string_view device, const SourceLocation& location) {
  if (status.ok()) return status;
  std::string message = StrCat("node '", node, "' (", op, ")");
  if (const size_t at = FindAddress(MessageOf(status)); at != std::string_view::npos) {
    constexpr std::string_view kDefined = "; defined at ";
    const std::string_view had = MessageOf(status);
    if (!location.known() || !had.substr(at).starts_with(message) || had.find(kDefined) != had.npos) return status;
    return WithMessage(status, StrCat(had, kDefined, location.ToString()));
  }
  if (!device.empty()) StrAppend(&message, " on ", device);
  StrAppend(&message, ": ", status.message());
  if (location.known()) StrAppend(&message, "; defined at ", location.ToString());
  return WithMessage(status, std::move(message));
}

bool HasAddress(const absl::Status& status) { return FindAddress(MessageOf(status)) != std::string_view::npos; }

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return WithMessage(status, StrCat(context, ": ", status.message()));
}

}  // namespace troupe
