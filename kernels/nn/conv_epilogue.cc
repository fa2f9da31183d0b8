#include "kernels/nn/conv_epilogue.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/elementwise/activation_loops.h"
#include "kernels/nn/batch_norm_loops.h"
#include "kernels/nn/bias_loops.h"

TROUPE_ISA_TABLE(ActivationTable, kActivations, PickActivations)
TROUPE_ISA_TABLE(BatchNormTable, kBatchNorm, PickBatchNorm)
TROUPE_ISA_TABLE(BiasTable, kBias, PickBias)

namespace troupe {
namespace {

// Pixels whose float32 gradients are summed before they go to the float64 sum.
constexpr int64_t kRun = 256;

template <class T>
constexpr int kTypeIndex = std::is_same_v<T, float>    ? 0
                           : std::is_same_v<T, double> ? 1
                                                       : 2;  // uint32_t stands for int32

template <class T>
const BiasLoops<T>& BiasLoopsOf() {
  if constexpr (std::is_same_v<T, float>)
    return PickBias().f32;
  else if constexpr (std::is_same_v<T, double>)
    return PickBias().f64;
  else
    return PickBias().u32;
}

}  // namespace

template <class T>
void FinishForward(const ConvEpilogue<T>& e, int64_t pixels, int64_t channels, T* output) {
  if (e.bias != nullptr) {
    // Repeated, so that few channels fill vectors.
    const int64_t copies = std::clamp<int64_t>(256 / std::max<int64_t>(1, channels), 1, std::max<int64_t>(1, pixels));
    std::vector<T> pattern(copies * channels);
    for (int64_t i = 0; i < copies; ++i) std::copy_n(e.bias, channels, pattern.data() + i * channels);
    BiasLoopsOf<T>().add(output, pattern.data(), output, pixels * channels, copies * channels);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (e.norm != nullptr)
      PickBatchNorm().scale(output, e.norm->mean, e.norm->factor, e.norm->offset, output, pixels, channels);
  }
  if (e.activation == ConvActivation::kNone) return;
  const Activation f = e.activation == ConvActivation::kRelu    ? Activation::kRelu
                       : e.activation == ConvActivation::kRelu6 ? Activation::kRelu6
                                                                : Activation::kElu;
  if (const auto run = PickActivations().forward[static_cast<int>(f)][kTypeIndex<T>])
    run(output, output, pixels * channels, 0);
}

template <class T>
void FinishBackwardInput(const ConvEpilogue<T>& e, int64_t n, T* d_input) {
  if (e.relu_output != nullptr)
    PickActivations().backward[static_cast<int>(Activation::kRelu)][kTypeIndex<T>](d_input, e.relu_output, d_input, n,
                                                                                   0);
}

template <class T>
void FinishBackwardFilter(const ConvEpilogue<T>& e, const T* d, int64_t pixels, int64_t channels) {
  if (e.bias_gradient == nullptr) return;
  using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;
  std::vector<Sum> total(channels);
  std::vector<T> run(channels);
  for (int64_t p = 0; p < pixels; p += kRun) {
    std::fill(run.begin(), run.end(), T(0));
    BiasLoopsOf<T>().sum(d + p * channels, run.data(), std::min(kRun, pixels - p) * channels, channels);
    for (int64_t c = 0; c < channels; ++c) total[c] += run[c];
  }
  for (int64_t c = 0; c < channels; ++c) e.bias_gradient[c] = static_cast<T>(total[c]);
}

#define TROUPE_CONV_EPILOGUE(T)                                                 \
  template void FinishForward<T>(const ConvEpilogue<T>&, int64_t, int64_t, T*); \
  template void FinishBackwardInput<T>(const ConvEpilogue<T>&, int64_t, T*);    \
  template void FinishBackwardFilter<T>(const ConvEpilogue<T>&, const T*, int64_t, int64_t)
TROUPE_CONV_EPILOGUE(float);
TROUPE_CONV_EPILOGUE(double);
TROUPE_CONV_EPILOGUE(uint32_t);

}  // namespace troupe
