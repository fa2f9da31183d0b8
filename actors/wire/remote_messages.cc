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

// What was read before an error stays in `x`.
template <class Variant, size_t kKind = 0>
caf::error ReadKind(caf::deserializer& f, uint8_t kind, Variant* x) {
  if constexpr (kKind == std::variant_size_v<Variant>) {
    return caf::sec::invalid_argument;
  } else {
    if (kind != kKind) return ReadKind<Variant, kKind + 1>(f, kind, x);
    return f(x->template emplace<kKind>());
  }
}
template <class Variant>
caf::error ReadVariant(caf::deserializer& f, Variant* x) {
  uint8_t kind = 0;
  if (caf::error e = f(kind)) return e;
  return ReadKind(f, kind, x);
}

// CAF drops a message that cannot be read, without a word, and its step would wait for it. A tensor
// that cannot be read, since there is no memory for it or it is none, comes without its value: the
// step fails for that (step/remote_steps.cc). Bytes that end too early are no message at all.
bool IsLeftOut(const caf::error& e, caf::deserializer& f) {
  if (e == caf::sec::end_of_stream) return false;
  auto* const bytes = dynamic_cast<caf::binary_deserializer*>(&f);
  if (bytes == nullptr) return false;
  bytes->skip(bytes->remaining());
  return true;
}

// A message of CAF counts its bytes in 32 bits (tensor_inspect.cc); what is no tensor is small.
constexpr uint64_t kMostMessageBytes = uint64_t{1} << 31;

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
  if (*bytes >= kMostMessageBytes)
    return InvalidArgument("values of 2 GiB or more cannot be sent in one message: ", value.TypeAndShape());
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCross(const std::vector<Tensor>& values) {
  uint64_t bytes = 0;
  for (const Tensor& value : values) TROUPE_RETURN_IF_ERROR(AddCross(value, &bytes));
  return absl::OkStatus();
}
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
  if (caf::error e = f(x.master, x.step, x.task, status, x.failed_check, x.forgotten)) return e;
  x.status = wire::StatusOf(status);
  caf::error e = f(x.results);
  if (!e) return f(x.statistics);
  if (!IsLeftOut(e, f)) return e;
  x.results.clear();
  if (x.status.ok()) x.status = ResourceExhausted("the results of task ", x.task, " of the step could not be read");
  return caf::none;
}
caf::error inspect(caf::serializer& f, part_letter& x) {
  if (caf::error e = f(x.master, x.step, x.to)) return e;
  return WriteVariant(f, x.message);
}
caf::error inspect(caf::deserializer& f, part_letter& x) {
  if (caf::error e = f(x.master, x.step, x.to)) return e;
  caf::error e = ReadVariant(f, &x.message);
  if (!e) return e;
  auto* const t = std::get_if<tensor_to_part>(&x.message);
  if ((t == nullptr && !std::holds_alternative<argument>(x.message)) || !IsLeftOut(e, f)) return e;
  if (t != nullptr) t->dead = false;
  return caf::none;
}
caf::error inspect(caf::serializer& f, step_letter& x) {
  if (caf::error e = f(x.master, x.step, x.from)) return e;
  return WriteVariant(f, x.message);
}
caf::error inspect(caf::deserializer& f, step_letter& x) {
  if (caf::error e = f(x.master, x.step, x.from)) return e;
  caf::error e = ReadVariant(f, &x.message);
  if (!e || !std::holds_alternative<result>(x.message) || !IsLeftOut(e, f)) return e;
  return caf::none;
}

}  // namespace troupe
