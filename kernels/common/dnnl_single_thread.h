// Debian's oneDNN runs its loops on OpenMP's threads, which know nothing of our thread budget and
// spin while they wait. So every call into the library is made under this guard: OpenMP's number of
// threads is 1 on the calling thread for as long as it lives. We split work ourselves.
//
// A product of a step that was answered early (a deadline) may still run when main returns, and
// oneDNN takes its generated code away then. So the end of the process waits for calls that are
// under way, for 30 s at most.
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
