#include "graph/core/guarded.h"

#include <exception>
#include <new>

namespace troupe {

absl::Status ThrownStatus(std::string_view what) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc& e) {
      return ResourceExhausted(what, " threw an exception: ", e.what());
    } catch (const std::exception& e) {
      return Internal(what, " threw an exception: ", e.what());
    } catch (...) {
      return Internal(what, " threw an object that is not a std::exception");
    }
  } catch (...) {
    // Not even the message could be made; this one was made before.
    static const absl::Status no_memory = ResourceExhausted("no memory is left");
    return no_memory;
  }
}

}  // namespace troupe
