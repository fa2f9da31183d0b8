#include "actors/wire/remote_messages.h"

#include <string>
#include <type_traits>

#include "troupe/resource.h"

namespace troupe {
namespace {

// Which of its messages a variant holds, then that one.
template <class Variant>
caf::error WriteVariant(caf::serializer& f, Variant& x) {
  auto kind = static_cast<uint8_t>(x.index());
  if (caf::error e = f(kind)) return e;
  return std::visit([&](auto& m) -> caf::error { return f(m); }, x);
}

template <class Variant, size_t kKind = 0>
caf::error ReadKind(caf::deserializer& f, uint8_t kind, Variant* x) {
  if constexpr (kKind == std::variant_size_v<Variant>) {
    return caf::sec::invalid_argument;
  } else {
    if (kind != kKind) return ReadKind<Variant, kKind + 1>(f, kind, x);
    std::variant_alternative_t<kKind, Variant> m;
    if (caf::error e = f(m)) return e;
    *x = std::move(m);
    return caf::none;
  }
}
template <class Variant>
caf::error ReadVariant(caf::deserializer& f, Variant* x) {
  uint8_t kind = 0;
  if (caf::error e = f(kind)) return e;
  return ReadKind(f, kind, x);
}

// A message of CAF counts its bytes in 32 bits (tensor_inspect.cc); what is no tensor is small.
constexpr uint64_t kMostBytes = uint64_t{1} << 31;

absl::Status AddCross(const Tensor& value, uint64_t* bytes) {
  if (!value.valid()) return absl::OkStatus();
  if (IsRef(value.dtype()) || value.dtype() == DType::kVariant || value.memory() != MemoryKind::kHost)
    return InvalidArgument("a value cannot be sent to another process: ", value.TypeAndShape());
  if (value.dtype() == DType::kString) {
    const auto* s = static_cast<const std::string*>(value.raw());
    for (int64_t i = 0; i < value.num_elements(); ++i) *bytes += 4 + s[i].size();
  } else {
    *bytes += value.bytes();
  }
  if (*bytes >= kMostBytes)
    return InvalidArgument("values of 2 GiB or more cannot be sent in one message: ", value.TypeAndShape());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCross(const run_parts& message) {
  uint64_t bytes = 0;
  for (const auto& [index, value] : message.arguments) TROUPE_RETURN_IF_ERROR(AddCross(value, &bytes));
  return absl::OkStatus();
}
absl::Status CheckCross(const parts_done& message) {
  uint64_t bytes = message.statistics.size();
  for (const auto& [index, value] : message.results) TROUPE_RETURN_IF_ERROR(AddCross(value, &bytes));
  return absl::OkStatus();
}
absl::Status CheckCross(const part_letter& message) {
  uint64_t bytes = 0;
  if (const auto* m = std::get_if<tensor_to_part>(&message.message)) return AddCross(m->value, &bytes);
  if (const auto* m = std::get_if<argument>(&message.message)) return AddCross(m->value, &bytes);
  return absl::OkStatus();
}
absl::Status CheckCross(const step_letter& message) {
  uint64_t bytes = 0;
  const auto* m = std::get_if<result>(&message.message);
  return m != nullptr ? AddCross(m->value, &bytes) : absl::OkStatus();
}

caf::error inspect(caf::serializer& f, parts_done& x) {
  wire::StatusFields status = wire::FieldsOf(x.status);
  return f(x.master, x.step, x.task, status, x.failed_check, x.forgotten, x.results, x.statistics);
}
caf::error inspect(caf::deserializer& f, parts_done& x) {
  wire::StatusFields status;
  if (caf::error e = f(x.master, x.step, x.task, status, x.failed_check, x.forgotten, x.results, x.statistics))
    return e;
  x.status = wire::StatusOf(status);
  return caf::none;
}
caf::error inspect(caf::serializer& f, part_letter& x) {
  if (caf::error e = f(x.master, x.step, x.to)) return e;
  return WriteVariant(f, x.message);
}
caf::error inspect(caf::deserializer& f, part_letter& x) {
  if (caf::error e = f(x.master, x.step, x.to)) return e;
  return ReadVariant(f, &x.message);
}
caf::error inspect(caf::serializer& f, step_letter& x) {
  if (caf::error e = f(x.master, x.step, x.from)) return e;
  return WriteVariant(f, x.message);
}
caf::error inspect(caf::deserializer& f, step_letter& x) {
  if (caf::error e = f(x.master, x.step, x.from)) return e;
  return ReadVariant(f, &x.message);
}

}  // namespace troupe
