// A hook that is called after compute threads have been made. For rooms above this one, which set
// it when the library is loaded (kernels/common/dnnl_single_thread.cc).
//
// Thread rule: set before main; called on any thread.
#ifndef TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_
#define TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_

#include <atomic>

namespace troupe {

inline std::atomic<void (*)()> when_threads_are_made{nullptr};

}  // namespace troupe

#endif  // TROUPE_KERNELS_DEVICE_WHEN_THREADS_ARE_MADE_H_
