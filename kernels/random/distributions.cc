#include "kernels/random/distributions.h"

#include <algorithm>

namespace troupe::random {
namespace {
constexpr double kPi = 3.14159265358979323846;
}  // namespace

void BoxMuller(uint32_t x0, uint32_t x1, float* f0, float* f1) {
  // log(0) must not come up.
  const float u1 = std::max(UniformFloat(x0), 1.0e-7f);
  const auto v1 = static_cast<float>(2.0f * kPi * UniformFloat(x1));
  const float u2 = std::sqrt(-2.0f * std::log(u1));
  *f0 = std::sin(v1) * u2;
  *f1 = std::cos(v1) * u2;
}

void BoxMuller(uint32_t x0, uint32_t x1, uint32_t x2, uint32_t x3, double* d0, double* d1) {
  const double u1 = std::max(UniformDouble(x0, x1), 1.0e-7);
  const double v1 = 2 * kPi * UniformDouble(x2, x3);
  const double u2 = std::sqrt(-2.0 * std::log(u1));
  *d0 = std::sin(v1) * u2;
  *d1 = std::cos(v1) * u2;
}

}  // namespace troupe::random
