// Statuses with an address: the error, the node at which it happened, and the line of the program
// that made the node.
//
// Thread rule: all functions may be called from any thread; a status is a plain value.
#ifndef TROUPE_STATUS_H_
#define TROUPE_STATUS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "troupe/export.h"
#include "troupe/strings.h"

namespace TROUPE_EXPORT troupe {

// Where a node was created in the user's program. Empty file = unknown (for example an imported
// graph).
struct SourceLocation {
  const char* file = "";
  uint32_t line = 0;
  bool known() const { return file[0] != '\0'; }
  std::string ToString() const;  // "mnist.cpp:41", without directories
};

// `status` with its message put behind "node 'name' (Op) on device: ...; defined at file:line". A
// status that is OK, or has an address, is returned as it is; the same node's address without a
// line is given the line.
absl::Status WithAddress(const absl::Status& status, std::string_view node, std::string_view op,
                         std::string_view device, const SourceLocation& location);
// True when the message has an address, as WithAddress writes it, in it.
bool HasAddress(const absl::Status& status);
// `status` with "`context`: " before its message; keeps code and payloads.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// s.message() as the standard library's view.
inline std::string_view MessageOf(const absl::Status& s) { return {s.message().data(), s.message().size()}; }

namespace internal {
absl::Status MakeStatus(absl::StatusCode code, std::initializer_list<std::string_view> pieces);
}
// The canonical codes with a message made of pieces: InvalidArgument("rank ", r, " is too big").
// Cold: compiled for size, and the way there is the unlikely one.
template <class... Args>
[[gnu::cold]] absl::Status InvalidArgument(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kInvalidArgument, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status NotFound(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kNotFound, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status AlreadyExists(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kAlreadyExists, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status FailedPrecondition(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kFailedPrecondition, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status OutOfRange(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kOutOfRange, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status Unimplemented(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kUnimplemented, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status Internal(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kInternal, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status ResourceExhausted(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kResourceExhausted, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status Aborted(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kAborted, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status Cancelled(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kCancelled, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status DeadlineExceeded(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kDeadlineExceeded, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status Unavailable(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kUnavailable, {StrPiece(args).view()...});
}
template <class... Args>
[[gnu::cold]] absl::Status DataLoss(const Args&... args) {
  return internal::MakeStatus(absl::StatusCode::kDataLoss, {StrPiece(args).view()...});
}

#define TROUPE_CONCAT_(a, b) a##b
#define TROUPE_CONCAT(a, b) TROUPE_CONCAT_(a, b)

#define TROUPE_RETURN_IF_ERROR(expr)                   \
  do {                                                 \
    if (absl::Status _s = (expr); !_s.ok()) return _s; \
  } while (false)
// TROUPE_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns its status.
#define TROUPE_ASSIGN_OR_RETURN(lhs, expr) TROUPE_ASSIGN_OR_RETURN_(TROUPE_CONCAT(_status_or_, __LINE__), lhs, expr)
#define TROUPE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = std::move(tmp).value()

}  // namespace troupe

#endif  // TROUPE_STATUS_H_
