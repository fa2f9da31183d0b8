#include "kernels/nn/conv_pointwise.h"

#include "kernels/common/isa.h"
#include "kernels/product/gemm_f32.h"

TROUPE_ISA_TABLE(GemmF32Table, kGemmF32, PickGemmF32)

namespace troupe {
namespace {

// Outputs of the forward pass: one panel of the loops.
constexpr int64_t kFewOutputs = 48;
// Inputs that a gradient writes, and outputs that it reads: beyond them the library's blocks pay.
constexpr int64_t kFewInputs = 64, kSomeOutputs = 256;
// A gradient of the filter goes this way with at least so many input channels, and outputs twice as
// many: there the library is slow.
constexpr int64_t kFilterChannels = 8;

}  // namespace

bool TakesPointwiseConv(const ConvShape& s) {
  return s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && s.groups == 1 && s.oh == s.h && s.ow == s.w &&
         s.top == 0 && s.left == 0;
}

bool PreferPointwiseConv(ConvPass pass, const ConvShape& s, const ConvEpilogue<float>& e) {
  if (!TakesPointwiseConv(s) || IsaLevel() < 4) return false;
  switch (pass) {
    case ConvPass::kForward:
      return s.oc <= kFewOutputs;
    case ConvPass::kBackwardInput:
      return s.c <= kFewInputs && s.oc <= kSomeOutputs;
    case ConvPass::kBackwardFilter:
      // The library sums the gradient of the bias on its way.
      return s.c >= kFilterChannels && s.oc >= 2 * s.c && e.bias_gradient == nullptr;
  }
  return false;
}

void PointwiseConv(ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out,
                   const ConvEpilogue<float>& e) {
  const int64_t pixels = s.n * s.h * s.w;
  const auto run = PickGemmF32().product;
  GemmF32Operands o = {};
  o.c = out;
  o.b_col = 1;
  o.b_row = o.ldc = o.n = s.oc;
  switch (pass) {
    case ConvPass::kForward: {
      o.m = pixels, o.k = s.c;
      o.a = a, o.a_row = s.c, o.a_col = 1;
      o.b = b;
      // The loops have activations behind a bias only, and no Elu.
      const bool inside = e.bias != nullptr && e.activation != ConvActivation::kElu;
      o.bias = e.bias;
      if (inside && e.activation == ConvActivation::kRelu) o.activation = GemmActivation::kRelu;
      if (inside && e.activation == ConvActivation::kRelu6) o.activation = GemmActivation::kRelu6;
      run(o);
      if (!inside) FinishForward<float>({nullptr, e.activation}, pixels, s.oc, out);
      break;
    }
    case ConvPass::kBackwardInput:
      o.m = pixels, o.k = s.oc;
      o.a = b, o.a_row = s.oc, o.a_col = 1;
      o.b = a, o.b_row = 1, o.b_col = s.oc;
      o.n = o.ldc = s.c;
      run(o);
      FinishBackwardInput(e, s.input_size(), out);
      break;
    case ConvPass::kBackwardFilter:
      o.m = s.c, o.k = pixels;
      o.a = a, o.a_row = 1, o.a_col = s.c;
      o.b = b;
      run(o);
      FinishBackwardFilter(e, b, pixels, s.oc);
      break;
  }
}

}  // namespace troupe
