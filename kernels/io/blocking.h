// Kernels that wait for files: they run on threads of their own, so that a disk holds up none of
// the threads that compute. The process has at most kFileThreads of these; other work waits for one
// of them in a queue. So work may wait for files, but not for other work: a kernel that waits for
// another one must not wait here.
//
//   class ReadKernel {
//    public:
//     explicit ReadKernel(KernelInit&) {}
//     absl::Status Work(KernelContext& ctx);   // validate, read, set outputs; may block
//   };
//   TROUPE_KERNEL("Read").Device("CPU").Class<Blocking<ReadKernel>>();
//
// Thread rule: any thread; `work` and `done` run as RunBlocking says.
#ifndef TROUPE_KERNELS_IO_BLOCKING_H_
#define TROUPE_KERNELS_IO_BLOCKING_H_

#include <functional>

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe::io {

constexpr int kFileThreads = 64;

// Calls `work`, then `done` with its status, on a thread for files; on this one when there is none
// and the system has no thread left. An exception becomes a status. When the step of `ctx` is
// cancelled before the work has begun, it never does: the status is CANCELLED. REQUIRES: `ctx`
// lives until `done` has been destroyed.
void RunBlocking(const KernelContext& ctx, std::function<absl::Status()> work, DoneFn done);

// Calls `work` on a thread for files, as above: what no step waits for by itself. An exception is
// dropped.
void RunOnFileThread(std::function<void()> work);

template <class Kernel>
class Blocking {
 public:
  explicit Blocking(KernelInit& init) : kernel_(init) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    RunBlocking(
        ctx, [this, &ctx] { return kernel_.Work(ctx); }, std::move(done));
  }

 private:
  Kernel kernel_;
};

// The string in input `i`. INVALID_ARGUMENT unless it is a scalar; `what` is the input's name.
absl::StatusOr<std::string> StringInput(const KernelContext& ctx, int i, std::string_view what);
// The strings of input `i`, a vector of `n` elements (any number when negative).
absl::StatusOr<absl::Span<const std::string>> StringsInput(const KernelContext& ctx, int i, int64_t n,
                                                           std::string_view what);
// For shape functions of ops with inputs (file, names, slices, ...) on `n` tensors: a scalar, and
// two vectors of as many elements.
absl::Status CheckNamesAndSlices(InferenceContext& c, int64_t n);

}  // namespace troupe::io

#endif  // TROUPE_KERNELS_IO_BLOCKING_H_
