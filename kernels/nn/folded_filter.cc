#include "kernels/nn/folded_filter.h"

#include <cmath>

namespace troupe {

bool FoldedFilter::IsFinite() const {
  const float* const from = filter_.data<float>();
  const size_t channels = factors_.size(), n = static_cast<size_t>(filter_.num_elements());
  for (size_t i = 0; i < n; i += channels) {
    for (size_t c = 0; c < channels; ++c) {
      if (!std::isfinite(from[i + c] * factors_[c])) return false;
    }
  }
  return true;
}

Tensor FoldedFilter::Make() const {
  Tensor made(DType::kFloat, filter_.shape());
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
