// Local response normalisation, with the elements of a row as lanes.
#include <algorithm>
#include <cmath>

#include "kernels/nn/lrn_loops.h"

namespace troupe::TROUPE_ISA {
namespace {

void Windows(const float* x, int64_t radius, float* sums, int64_t n) {
  // As many sums as registers hold.
  constexpr int64_t kTogether = 64;
  int64_t at = 0;
  for (; at + kTogether <= n; at += kTogether) {
    float some[kTogether] = {};
    for (int64_t k = 0; k <= 2 * radius; ++k) {
      for (int64_t i = 0; i < kTogether; ++i) some[i] += x[at + k + i];
    }
    std::copy_n(some, kTogether, sums + at);
  }
  for (; at < n; ++at) {
    float sum = 0;
    for (int64_t k = 0; k <= 2 * radius; ++k) sum += x[at + k];
    sums[at] = sum;
  }
}

void Sums(const float* x, int64_t radius, float bias, float alpha, float* squares, float* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) squares[radius + i] = x[i] * x[i];
  Windows(squares, radius, sums, n);
  for (int64_t i = 0; i < n; ++i) sums[i] = bias + alpha * sums[i];
}

// The powers that networks use are made of roots, which vectors have.
void Scale(const float* x, const float* sums, float beta, float* y, int64_t n) {
  if (beta == 0.5f) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (1 / std::sqrt(sums[i]));
  } else if (beta == 0.75f) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float root = 1 / std::sqrt(sums[i]);
      y[i] = x[i] * (root * std::sqrt(root));
    }
  } else if (beta == 1.0f) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (1 / sums[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * std::pow(sums[i], -beta);
  }
}

}  // namespace

extern const LrnTable kLrn;
const LrnTable kLrn = {&Windows, &Sums, &Scale};

}  // namespace troupe::TROUPE_ISA
