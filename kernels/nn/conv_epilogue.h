// What a convolution may compute along the way, while its numbers are still in registers or in the
// cache: another pass over the output reads and writes it once more.
//
// The results are those of the separate ops (BiasAdd, Add, Relu, Relu6, Elu, Sigmoid and Mul,
// ReluGrad, BiasAddGrad), to rounding. A NaN stays one, whichever way computes: not so in
// TensorFlow's fused convolutions.
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

enum class ConvActivation : uint8_t { kNone, kRelu, kRelu6, kElu, kSwish };  // kSwish: float32 alone

// Which fields count depends on the pass; all may be left empty. Images are NHWC.
template <class T>
struct ConvEpilogue {
  // Forward: output = activation(norm(convolution + bias) + addend), with bias [oc].
  const T* bias = nullptr;
  ConvActivation activation = ConvActivation::kNone;
  // Backward input: d input is multiplied by (relu_output > 0), an image of the input's shape: the
  // gradient of the Relu that made the input.
  const T* relu_output = nullptr;
  // Backward filter: bias_gradient [oc] becomes the sum of d output over all pixels.
  T* bias_gradient = nullptr;
  const ChannelNorm* norm = nullptr;  // of oc channels; float32 alone
  const T* addend = nullptr;          // an image of the output's shape

  // What comes behind the bias: the bits of the separate ops, but for the library's bias.
  ConvEpilogue Behind() const { return {.activation = activation, .norm = norm, .addend = addend}; }
  bool HasBehind() const { return HasOutside() || activation != ConvActivation::kNone; }
  // What no way of computing but the library's has inside, and all behind it.
  bool HasOutside() const { return norm != nullptr || addend != nullptr || activation == ConvActivation::kSwish; }
  // Without that.
  ConvEpilogue Inside() const {
    ConvEpilogue e = *this;
    if (HasOutside()) e.norm = nullptr, e.addend = nullptr, e.activation = ConvActivation::kNone;
    return e;
  }
  // For the output from element `n` on.
  ConvEpilogue From(int64_t n) const {
    ConvEpilogue e = *this;
    if (addend != nullptr) e.addend += n;
    return e;
  }
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
