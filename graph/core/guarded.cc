#include "graph/core/guarded.h"

#include <exception>
#include <new>

namespace troupe {

// Made when the library is loaded, and never destroyed: threads may still run at exit.
static const absl::Status& kNoMemoryLeft = *new absl::Status(ResourceExhausted("no memory is left"));

namespace {

// May throw itself, for want of memory.
[[gnu::noinline]] absl::Status StatusOfThrown(std::string_view what) {
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    return ResourceExhausted(what, " threw an exception: ", e.what());
  } catch (const std::exception& e) {
    return Internal(what, " threw an exception: ", e.what());
  } catch (...) {
    return Internal(what, " threw an object that is not a std::exception");
  }
}

}  // namespace

absl::Status ThrownStatus(std::string_view what) noexcept {
  try {
    return StatusOfThrown(what);
  } catch (...) {
    // Not even the message could be made.
    return kNoMemoryLeft;
  }
}

}  // namespace troupe
