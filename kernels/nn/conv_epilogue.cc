#include "kernels/nn/conv_epilogue.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/elementwise/activation_loops.h"
#include "kernels/elementwise/hot_table.h"
#include "kernels/nn/batch_norm_loops.h"
#include "kernels/nn/bias_loops.h"

TROUPE_ISA_TABLE(ActivationTable, kActivations, PickActivations)
TROUPE_ISA_TABLE(BatchNormTable, kBatchNorm, PickBatchNorm)
TROUPE_ISA_TABLE(BiasTable, kBias, PickBias)

namespace troupe {
namespace {

// Pixels whose float32 gradients are summed before they go to the float64 sum.
constexpr int64_t kRun = 256;
// Outputs that pass through all of an epilogue at once: they stay in the first-level cache.
constexpr int64_t kNear = 4096;

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

template <class T>
void AddTo(const T* addend, T* out, int64_t n) {
  if constexpr (std::is_floating_point_v<T>) {
    const int type = static_cast<int>(std::is_same_v<T, float> ? math::HotType::kFloat : math::HotType::kDouble);
    math::Hot().binary[static_cast<int>(math::HotBinary::kAdd)][type].vv(out, addend, out, n);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] += addend[i];
  }
}

template <class T>
void Activate(ConvActivation activation, T* x, int64_t n) {
  if (activation == ConvActivation::kNone) return;
  if constexpr (std::is_same_v<T, float>) {
    if (activation == ConvActivation::kSwish) {
      return math::Hot().unary[static_cast<int>(math::HotUnary::kSwish)][static_cast<int>(math::HotType::kFloat)].v(
          x, x, n);
    }
  }
  const Activation f = activation == ConvActivation::kRelu    ? Activation::kRelu
                       : activation == ConvActivation::kRelu6 ? Activation::kRelu6
                                                              : Activation::kElu;
  if (const auto run = PickActivations().forward[static_cast<int>(f)][kTypeIndex<T>]) run(x, x, n, 0);
}

}  // namespace

template <class T>
void FinishForward(const ConvEpilogue<T>& e, int64_t pixels, int64_t channels, T* output) {
  if (e.bias == nullptr && !e.HasBehind()) return;
  const int64_t step = std::max<int64_t>(1, kNear / std::max<int64_t>(1, channels));
  std::vector<T> pattern;
  if (e.bias != nullptr) {
    // Repeated, so that few channels fill vectors.
    const int64_t copies = std::clamp<int64_t>(256 / std::max<int64_t>(1, channels), 1, std::max<int64_t>(1, pixels));
    pattern.resize(copies * channels);
    for (int64_t i = 0; i < copies; ++i) std::copy_n(e.bias, channels, pattern.data() + i * channels);
  }
  for (int64_t p = 0; p < pixels; p += step) {
    const int64_t some = std::min(step, pixels - p), n = some * channels;
    T* const out = output + p * channels;
    if (e.bias != nullptr) BiasLoopsOf<T>().add(out, pattern.data(), out, n, static_cast<int64_t>(pattern.size()));
    if constexpr (std::is_same_v<T, float>) {
      if (e.norm != nullptr) {
        PickBatchNorm().scale[static_cast<int>(NormActivation::kNone)](
            out, {e.norm->mean, e.norm->factor, e.norm->offset}, out, some, channels);
      }
    }
    if (e.addend != nullptr) AddTo(e.addend + p * channels, out, n);
    Activate(e.activation, out, n);
  }
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
