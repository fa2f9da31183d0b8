#include "kernels/io/blocking.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>

#include "graph/core/guarded.h"

namespace troupe::io {

namespace {

struct Job {
  const KernelContext* ctx;  // null: of no step
  std::function<absl::Status()> work;
  DoneFn done;
  bool cancelled() const { return ctx != nullptr && ctx->cancelled(); }
  void Run() {
    Answer(cancelled() ? Cancelled("the step ended before the kernel began")
                       : Guarded("a kernel that waits for files", work));
  }
  void Answer(const absl::Status& status) {
    work = nullptr;
    (void)Guarded("an answer", [&] { done(status); });
  }
};

class FileThreads {
 public:
  static FileThreads& All() { return *all_.load(); }

  void Add(Job job) {
    std::vector<Job> dropped;
    std::unique_lock<std::mutex> lock(mu_);
    queue_.push_back(std::move(job));
    if (queue_.size() >= sweep_at_) dropped = TakeCancelled();
    // A thread that is about to be woken counts as idle until it has taken its job.
    const bool start = queue_.size() > static_cast<size_t>(idle_) && threads_ < kFileThreads;
    if (start) ++threads_;
    const bool wake = !start && idle_ > 0;
    lock.unlock();
    if (wake) more_.notify_one();
    if (start) Start();
    for (Job& j : dropped) j.Answer(Cancelled("the step ended before the kernel began"));
  }

 private:
  static void Renew() { all_.store(new FileThreads()); }
  static FileThreads* First() {
    // A child of fork has none of the threads, and perhaps the lock.
    ::pthread_atfork(nullptr, nullptr, Renew);
    return new FileThreads();
  }
  void Start() {
    try {
      std::thread([this] {
        pthread_setname_np(pthread_self(), "troupe.files");
        Work();
      }).detach();
      return;
    } catch (const std::system_error&) {
    }
    std::unique_lock<std::mutex> lock(mu_);
    // The others will come to it.
    if (--threads_ > 0) return;
    while (!queue_.empty()) RunNext(&lock);
  }
  void Work() {
    std::unique_lock<std::mutex> lock(mu_);
    for (;;) {
      if (queue_.empty()) {
        ++idle_;
        const bool more = more_.wait_for(lock, std::chrono::seconds(1), [this] { return !queue_.empty(); });
        --idle_;
        if (!more) break;
      }
      RunNext(&lock);
    }
    --threads_;
  }
  void RunNext(std::unique_lock<std::mutex>* lock) {
    {
      Job job = std::move(queue_.front());
      queue_.pop_front();
      lock->unlock();
      job.Run();
    }
    lock->lock();
  }
  // When all threads are stuck, nobody else would let go of what steps have left here.
  std::vector<Job> TakeCancelled() {
    std::vector<Job> cancelled;
    cancelled.reserve(queue_.size());  // nothing throws while jobs are moved
    size_t kept = 0;
    for (Job& j : queue_) {
      if (j.cancelled()) {
        cancelled.push_back(std::move(j));
      } else {
        std::swap(j, queue_[kept++]);
      }
    }
    while (queue_.size() > kept) queue_.pop_back();
    sweep_at_ = std::max<size_t>(2 * kept, kFileThreads);
    return cancelled;
  }

  static std::atomic<FileThreads*> all_;  // never destroyed: kernels may go on until the process is over
  std::mutex mu_;
  std::condition_variable more_;
  std::deque<Job> queue_;
  size_t sweep_at_ = kFileThreads;
  int threads_ = 0, idle_ = 0;
};
std::atomic<FileThreads*> FileThreads::all_{First()};

}  // namespace

void RunBlocking(const KernelContext& ctx, std::function<absl::Status()> work, DoneFn done) {
  FileThreads::All().Add(Job{&ctx, std::move(work), std::move(done)});
}

void RunOnFileThread(std::function<void()> work) {
  FileThreads::All().Add(Job{nullptr,
                             [work = std::move(work)] {
                               work();
                               return absl::OkStatus();
                             },
                             [](const absl::Status&) {}});
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

absl::Status CheckNamesAndSlices(InferenceContext& c, int64_t n) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  for (int i = 1; i < 3; ++i) {
    TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape texts, c.WithRank(i, 1));
    TROUPE_RETURN_IF_ERROR(MergeDims(texts.dim(0), n).status());
  }
  return absl::OkStatus();
}

}  // namespace troupe::io
