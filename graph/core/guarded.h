// Calls functions that users write, and turns their exceptions into statuses. So an exception never
// passes through half-built data of the library, and never reaches another user.
//
// Thread rule: any thread.
#ifndef TROUPE_GRAPH_CORE_GUARDED_H_
#define TROUPE_GRAPH_CORE_GUARDED_H_

#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "troupe/status.h"

namespace troupe {

// f(), whose status (when it gives one) is the result. An exception is INTERNAL "`what` threw an
// exception: ..." with its text, one for want of memory RESOURCE_EXHAUSTED. `what` is a subject:
// "the body of loop 'while'".
template <class F>
absl::Status Guarded(std::string_view what, F&& f) {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<F>, absl::Status>) {
      return f();
    } else {
      f();
      return absl::OkStatus();
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(what, " found no memory");
  } catch (const std::exception& e) {
    return Internal(what, " threw an exception: ", e.what());
  } catch (...) {
    return Internal(what, " threw something that is no std::exception");
  }
}

}  // namespace troupe

#endif  // TROUPE_GRAPH_CORE_GUARDED_H_
