// What a convolution may compute along the way, while its numbers are still in registers: another
// pass over the output reads and writes it once more.
//
// The results are those of the separate ops (BiasAdd, Relu, Relu6, Elu, ReluGrad, BiasAddGrad), to
// rounding. A NaN stays one, whichever way computes: not so in TensorFlow's fused convolutions.
//
// Thread rule: pure functions, on the calling thread.
#ifndef TROUPE_KERNELS_NN_CONV_EPILOGUE_H_
#define TROUPE_KERNELS_NN_CONV_EPILOGUE_H_

#include <cstdint>

namespace troupe {

// Batch normalisation with given statistics: y = (x - mean) * factor + offset, as FusedBatchNorm
// computes it. Vectors of a number a channel.
struct ChannelNorm {
  const float *mean, *factor, *offset;
};

enum class ConvActivation : uint8_t { kNone, kRelu, kRelu6, kElu };

// Which fields count depends on the pass; all may be left empty. Images are NHWC.
template <class T>
struct ConvEpilogue {
  // Forward: output = activation(norm(convolution + bias)), with bias [oc].
  const T* bias = nullptr;
  ConvActivation activation = ConvActivation::kNone;
  // Backward input: d input is multiplied by (relu_output > 0), an image of the input's shape: the
  // gradient of the Relu that made the input.
  const T* relu_output = nullptr;
  // Backward filter: bias_gradient [oc] becomes the sum of d output over all pixels.
  T* bias_gradient = nullptr;
  const ChannelNorm* norm = nullptr;  // of oc channels; float32 alone

  // What comes behind the bias: the bits of the separate ops, but for the library's bias.
  ConvEpilogue Behind() const { return {.activation = activation, .norm = norm}; }
  // Without what no way of computing has inside, and what comes behind that.
  ConvEpilogue Inside() const {
    ConvEpilogue e = *this;
    if (norm != nullptr) e.norm = nullptr, e.activation = ConvActivation::kNone;
    return e;
  }
  bool HasBehind() const { return norm != nullptr || activation != ConvActivation::kNone; }
};

// The same after the fact, for ways of computing that have no room for it.
template <class T>
void FinishForward(const ConvEpilogue<T>& e, int64_t pixels, int64_t channels, T* output);
// n elements of d input.
template <class T>
void FinishBackwardInput(const ConvEpilogue<T>& e, int64_t n, T* d_input);
template <class T>
void FinishBackwardFilter(const ConvEpilogue<T>& e, const T* d_output, int64_t pixels, int64_t channels);

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_EPILOGUE_H_
