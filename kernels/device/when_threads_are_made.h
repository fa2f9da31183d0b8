// What is to be done once more whenever a runtime, or anybody else, makes compute threads. For
// rooms above this one, which set it when the library is loaded.
//
// Thread rule: set before main; called on any thread.
#ifndef TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_
#define TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_

#include <atomic>

namespace troupe {

inline std::atomic<void (*)()> when_threads_are_made{nullptr};

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_
