#include "kernels/product/bias_activation.h"

#include <algorithm>

#include "kernels/common/isa.h"
#include "kernels/elementwise/hot_table.h"

TROUPE_ISA_TABLE(BiasActivationTable, kBiasActivations, PickBiasActivations)

namespace troupe {

bool ParseFusedActivation(std::string_view op, FusedActivation* activation) {
  static constexpr std::pair<std::string_view, FusedActivation> kNames[] = {
      {"Relu", FusedActivation::kRelu}, {"Relu6", FusedActivation::kRelu6},
      {"Elu", FusedActivation::kElu},   {"LeakyRelu", FusedActivation::kLeakyRelu},
      {"Tanh", FusedActivation::kTanh}, {"Sigmoid", FusedActivation::kSigmoid}};
  for (const auto& [name, f] : kNames) {
    if (name != op) continue;
    *activation = f;
    return true;
  }
  return false;
}

void AddBiasActivation(ComputeThreads* threads, FusedActivation f, float alpha, int64_t rows, int64_t columns,
                       const float* bias, float* y) {
  if (rows == 0 || columns == 0) return;
  const bool hot = f == FusedActivation::kTanh || f == FusedActivation::kSigmoid;
  const auto run = PickBiasActivations().run[hot ? 0 : static_cast<int>(f)];
  math::UnaryLoop after = nullptr;
  if (hot) {
    const auto which = f == FusedActivation::kTanh ? math::HotUnary::kTanh : math::HotUnary::kSigmoid;
    after = math::Hot().unary[static_cast<int>(which)][static_cast<int>(math::HotType::kFloat)].v;
  }
  const double cost = hot ? 1.5 : f == FusedActivation::kElu ? 0.8 : 0.25;
  threads->ParallelFor(rows, cost * static_cast<double>(columns), [&](int64_t begin, int64_t end) {
    // Few rows at a time, so that the second function finds them in the first-level cache.
    const int64_t step = after == nullptr ? end - begin : std::max<int64_t>(1, 4096 / columns);
    for (int64_t r = begin; r < end; r += step) {
      const int64_t n = std::min(step, end - r);
      run(bias, y + r * columns, n, columns, alpha);
      if (after != nullptr) after(y + r * columns, y + r * columns, n * columns);
    }
  });
}

}  // namespace troupe
