#include "kernels/common/dnnl_single_thread.h"

// OpenMP comes with the library, or not at all when it was built on another threading runtime:
// hence weak.
extern "C" {
int omp_get_max_threads() __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));
}

namespace troupe {

DnnlSingleThread::DnnlSingleThread() : saved_(omp_get_max_threads ? omp_get_max_threads() : 1) {
  if (saved_ != 1) omp_set_num_threads(1);
}
DnnlSingleThread::~DnnlSingleThread() {
  if (saved_ != 1) omp_set_num_threads(saved_);
}

}  // namespace troupe
