// Where memory may have run out and nobody can be told.
//
// What ends a step needs no memory: the messages for it are made when the step begins. A few other
// messages must not be lost either, because an actor or a caller would wait for them for ever.
//
// Thread rule: any thread.
#ifndef TROUPE_ACTORS_THREADS_NO_MEMORY_H_
#define TROUPE_ACTORS_THREADS_NO_MEMORY_H_

#include <chrono>
#include <new>
#include <thread>

#include "troupe/status.h"

namespace troupe {

// How a step ends without memory, and one that was told to end. Made when the library is loaded,
// since memory may be lacking when they are needed; never destroyed, since threads may still run at
// exit.
extern const absl::Status& kNoMemory;
extern const absl::Status& kToldToEnd;

// Calls f, again each millisecond while it throws std::bad_alloc. So the calling thread waits until
// some other work gives memory back. REQUIRES: an f that throws has done nothing.
template <class F>
void UntilMemoryAllows(F&& f) noexcept {
  for (;;) {
    try {
      return static_cast<void>(f());
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

}  // namespace troupe

#endif  // TROUPE_ACTORS_THREADS_NO_MEMORY_H_
