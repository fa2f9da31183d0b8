#include "kernels/io/blocking.h"

#include <system_error>
#include <thread>

#include <pthread.h>

#include "graph/core/guarded.h"

namespace troupe::io {

void RunBlocking(std::function<absl::Status()> work, DoneFn done) {
  struct Job {
    std::function<absl::Status()> work;
    DoneFn done;
    void Run() {
      const absl::Status status = Guarded("a kernel that waits for files", [&] { return work(); });
      work = nullptr;
      done(status);
    }
  };
  const auto job = std::make_shared<Job>(Job{std::move(work), std::move(done)});
  try {
    std::thread([job] {
      pthread_setname_np(pthread_self(), "troupe.files");
      job->Run();
    }).detach();
  } catch (const std::system_error&) {
    job->Run();
  }
}

absl::StatusOr<std::string> StringInput(const KernelContext& ctx, int i, std::string_view what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0) return InvalidArgument(what, " must be a scalar, but has shape ", t.shape().DebugString());
  return t.scalar<std::string>();
}

absl::StatusOr<absl::Span<const std::string>> StringsInput(const KernelContext& ctx, int i, int64_t n,
                                                           std::string_view what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 1 || (n >= 0 && t.dim(0) != n)) {
    return InvalidArgument(what, " must be a vector", n >= 0 ? StrCat(" of ", n, " elements") : "", ", but has shape ",
                           t.shape().DebugString());
  }
  return t.flat<std::string>();
}

}  // namespace troupe::io
