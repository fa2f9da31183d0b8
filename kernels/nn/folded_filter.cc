#include "kernels/nn/folded_filter.h"

#include <cmath>
#include <new>

namespace troupe {

bool FoldedFilter::IsOrdinary() const {
  const float* const from = filter_.data<float>();
  const size_t channels = factors_.size(), n = static_cast<size_t>(filter_.num_elements());
  for (size_t i = 0; i < n; i += channels) {
    for (size_t c = 0; c < channels; ++c) {
      const float product = from[i + c] * factors_[c];
      if (!std::isnormal(product) && !(product == 0 && (from[i + c] == 0 || factors_[c] == 0))) return false;
    }
  }
  return true;
}

Tensor FoldedFilter::Make() const {
  Tensor made(allocator_, DType::kFloat, filter_.shape());
  if (!made.valid()) throw std::bad_alloc();
  const float* const from = filter_.data<float>();
  float* const to = made.data<float>();
  const size_t channels = factors_.size(), n = static_cast<size_t>(filter_.num_elements());
  for (size_t i = 0; i < n; i += channels) {
    for (size_t c = 0; c < channels; ++c) to[i + c] = from[i + c] * factors_[c];
  }
  return made;
}

const float* FoldedFilter::Kept() {
  std::lock_guard<std::mutex> lock(mu_);
  if (!kept_.valid()) kept_ = Make();
  return kept_.data<float>();
}

}  // namespace troupe
