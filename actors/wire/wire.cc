#include "actors/wire/wire.h"

#include <algorithm>

#include "absl/strings/cord.h"

namespace troupe::wire {

StatusFields FieldsOf(const absl::Status& status) {
  StatusFields fields;
  fields.code = static_cast<int32_t>(status.code());
  fields.message = std::string(status.message().data(), status.message().size());
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& bytes) {
    fields.payloads.emplace_back(std::string(url.data(), url.size()), std::string(bytes));
  });
  // Abseil gives them in any order, on purpose; equal statuses are equal bytes here.
  std::sort(fields.payloads.begin(), fields.payloads.end());
  return fields;
}

absl::Status StatusOf(const StatusFields& fields) {
  constexpr int32_t kLast = static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  if (fields.code < 0 || fields.code > kLast) {
    return InvalidArgument("a status with the unknown code ", fields.code, ": ", fields.message);
  }
  // Each is looked for among those before it; ours have one.
  constexpr size_t kMostPayloads = 16;
  if (fields.payloads.size() > kMostPayloads) {
    return InvalidArgument("a status with ", fields.payloads.size(), " payloads: ", fields.message);
  }
  absl::Status status(static_cast<absl::StatusCode>(fields.code), fields.message);
  for (const auto& [url, bytes] : fields.payloads) status.SetPayload(url, absl::Cord(bytes));
  return status;
}

}  // namespace troupe::wire
