// A guard for every call into oneDNN: while it lives, OpenMP uses one thread for the calling
// thread. Debian's oneDNN would otherwise run its loops on OpenMP's threads, which ignore our
// thread budget and spin while they wait. Kernels split the work themselves.
//
// A product of a step that was answered early (a deadline) may still run when main returns, and
// oneDNN then frees its generated code. So the end of the process waits for guarded calls that are
// under way, at most 30 s, and holds back those that other threads would begin. If the main thread
// ends the process and has made a runtime, it does so before anything else is destroyed.
//
// Thread rule: an object belongs to the thread that makes it.
#ifndef TROUPE_KERNELS_COMMON_DNNL_SINGLE_THREAD_H_
#define TROUPE_KERNELS_COMMON_DNNL_SINGLE_THREAD_H_

namespace troupe {

class DnnlSingleThread {
 public:
  DnnlSingleThread();
  ~DnnlSingleThread();
  DnnlSingleThread(const DnnlSingleThread&) = delete;
  DnnlSingleThread& operator=(const DnnlSingleThread&) = delete;

 private:
  int saved_;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_COMMON_DNNL_SINGLE_THREAD_H_
