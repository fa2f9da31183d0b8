#include "troupe/status.h"

#include "absl/strings/cord.h"

namespace troupe {
namespace {

constexpr const char* kAddressUrl = "troupe/address";

absl::Status WithMessage(const absl::Status& status, std::string message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
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
  if (status.ok() || HasAddress(status)) return status;
  std::string message = StrCat("node '", node, "' (", op, ")");
  if (!device.empty()) StrAppend(&message, " on ", device);
  StrAppend(&message, ": ", status.message());
  if (location.known()) StrAppend(&message, "; defined at ", location.ToString());
  absl::Status result = WithMessage(status, std::move(message));
  result.SetPayload(kAddressUrl, absl::Cord(AbslView(node)));
  return result;
}

bool HasAddress(const absl::Status& status) { return status.GetPayload(kAddressUrl).has_value(); }

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return WithMessage(status, StrCat(context, ": ", status.message()));
}

}  // namespace troupe
