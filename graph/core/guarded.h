// Calls functions that users write, and turns their exceptions into statuses. So an exception never
// passes through half-built data of the library, and never reaches another user.
//
// Thread rule: any thread.
#ifndef TROUPE_GRAPH_CORE_GUARDED_H_
#define TROUPE_GRAPH_CORE_GUARDED_H_

#include <string_view>
#include <type_traits>

#include "troupe/status.h"

namespace troupe {

// The exception that is being handled, as a status: INTERNAL "`what` threw an exception: ..." with
// its text, RESOURCE_EXHAUSTED when it is std::bad_alloc. `what` is a subject: "the body of loop
// 'while'". Throws nothing. REQUIRES: within a catch block.
absl::Status ThrownStatus(std::string_view what) noexcept;

// f(): its Status or StatusOr is the result, OK when it returns nothing; an exception becomes its
// ThrownStatus.
template <class F>
auto Guarded(std::string_view what, F&& f) {
  using Result = std::conditional_t<std::is_void_v<std::invoke_result_t<F>>, absl::Status, std::invoke_result_t<F>>;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      f();
      return Result(absl::OkStatus());
    } else {
      return Result(f());
    }
  } catch (...) {
    return Result(ThrownStatus(what));
  }
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_GUARDED_H_
