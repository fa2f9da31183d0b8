// What convolutions compute along the way, by each of the ways that a convolution can be computed,
// and through the kernel that ops share.
#include <boost/test/unit_test.hpp>

#include "kernels/common/isa.h"
#include "kernels/nn/conv.h"
#include "kernels/nn/conv_direct.h"
#include "kernels/nn/conv_generic.h"
#include "kernels/nn/conv_pointwise.h"
#include "tests/nn/conv_oracle.h"
#include "troupe/node_builder.h"
#include "troupe/op_def.h"

namespace troupe {
namespace conv_epilogue_test {

const ConvShape kShapes[] = {MakeConvShape(3, 9, 8, 1, 6, 6, 6, 1),   MakeConvShape(5, 8, 11, 6, 5, 5, 12, 2),
                             MakeConvShape(2, 7, 7, 12, 4, 4, 24, 2), MakeConvShape(2, 5, 5, 3, 3, 3, 33, 1),
                             MakeConvShape(1, 6, 6, 32, 1, 1, 48, 1), MakeConvShape(3, 5, 7, 9, 1, 1, 50, 1)};

BOOST_AUTO_TEST_CASE(epilogues_of_every_way) {
  for (const ConvShape& s : kShapes) {
    const ConvProblem p(s);
    DnnlConv library[] = {DnnlConv(ConvPass::kForward), DnnlConv(ConvPass::kBackwardInput),
                          DnnlConv(ConvPass::kBackwardFilter)};
    for (int i = 0; i < 2; ++i) {  // the second time with kept plans
      BOOST_CHECK_EQUAL(
          12, CheckConvolution(
                  p, false,
                  [&](ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out,
                      const ConvEpilogue<float>& e) { return library[static_cast<int>(pass)].Run(s, a, b, out, e); },
                  "library"));
    }
    CheckConvolution(
        p, false, [](auto... args) { return DirectConv(args...); }, "direct");
    if (s.kh == 1) {
      const auto pointwise = [](auto... args) {
        PointwiseConv(args...);
        return true;
      };
      BOOST_CHECK_EQUAL(12, CheckConvolution(p, false, pointwise, "pointwise"));
    }
    BOOST_CHECK_EQUAL(12, CheckConvolution(
                              p, false,
                              [](ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out,
                                 const ConvEpilogue<float>& e) {
                                GenericConv<float>(pass, s, a, b, out);
                                const int64_t pixels = s.n * s.oh * s.ow;
                                if (pass == ConvPass::kForward) FinishForward(e, pixels, s.oc, out);
                                if (pass == ConvPass::kBackwardInput) FinishBackwardInput(e, s.input_size(), out);
                                if (pass == ConvPass::kBackwardFilter) FinishBackwardFilter(e, b, pixels, s.oc);
                                return true;
                              },
                              "generic"));
  }
}

// Ops of this test's own, which hand everything to the shared kernel.
template <ConvPass kPass>
struct FusedKernel : ConvKernel {
  explicit FusedKernel(KernelInit& init) : ConvKernel(init, kPass, false) {}
  absl::Status Compute(KernelContext& ctx) {
    ConvFusion f;
    if (kPass == ConvPass::kForward) f.bias = ctx.input(2), f.activation = ConvActivation::kRelu;
    if (kPass == ConvPass::kBackwardInput) f.relu_output = ctx.input(3);
    if (kPass == ConvPass::kBackwardFilter) f.bias_gradient = true;
    return ConvKernel::Compute(ctx, f);
  }
};

#define TROUPE_TEST_CONV_ATTRS                        \
  .Attr("T: type")                                    \
      .Attr("strides: list(int)")                     \
      .Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}") \
      .Attr("data_format: string = 'NHWC'")           \
      .Attr("dilations: list(int) = [1, 1, 1, 1]")
TROUPE_OP("TestFusedConv")
    .Input("input: T")
    .Input("filter: T")
    .Input("bias: T")
    .Output("output: T") TROUPE_TEST_CONV_ATTRS.NotDifferentiable("it exists for a test")
    .Doc("For a test.");
TROUPE_OP("TestFusedConvInput")
    .Input("sizes: int32")
    .Input("filter: T")
    .Input("d: T")
    .Input("relu: T")
    .Output("output: T") TROUPE_TEST_CONV_ATTRS.NotDifferentiable("it exists for a test")
    .Doc("For a test.");
TROUPE_OP("TestFusedConvFilter")
    .Input("input: T")
    .Input("sizes: int32")
    .Input("d: T")
    .Output("output: T")
    .Output("bias: T") TROUPE_TEST_CONV_ATTRS.NotDifferentiable("it exists for a test")
    .Doc("For a test.");
TROUPE_KERNEL("TestFusedConv").Device("CPU").Class<FusedKernel<ConvPass::kForward>>();
TROUPE_KERNEL("TestFusedConvInput").Device("CPU").Class<FusedKernel<ConvPass::kBackwardInput>>();
TROUPE_KERNEL("TestFusedConvFilter").Device("CPU").Class<FusedKernel<ConvPass::kBackwardFilter>>();

Tensor SizesOf(std::initializer_list<int64_t> dims) {
  Tensor t(DType::kInt32, TensorShape({4}));
  std::copy(dims.begin(), dims.end(), t.data<int32_t>());
  return t;
}
// [n, h, w, c] to [n, c, h, w].
Tensor Turned(const Tensor& t) {
  std::vector<double> v = ToDoubles(t), out(v.size());
  const int64_t h = t.dim(1), w = t.dim(2), c = t.dim(3);
  for (int64_t i = 0; i < t.num_elements(); ++i) out[(i / (h * w * c) * c + i % c) * h * w + i / c % (h * w)] = v[i];
  return MakeTensor(t.dtype(), TensorShape({t.dim(0), c, h, w}), out);
}

BOOST_AUTO_TEST_CASE(fused_through_the_shared_kernel) {
  for (const ConvShape& s : {MakeConvShape(5, 8, 8, 6, 5, 5, 12, 2), MakeConvShape(40, 12, 12, 3, 3, 3, 40, 1),
                             MakeConvShape(40, 12, 12, 10, 1, 1, 33, 1)}) {
    const ConvProblem p(s);
    std::vector<double> y = p.truth.y, dx = p.truth.dx;
    for (size_t i = 0; i < y.size(); ++i) y[i] = std::max(0.0, y[i] + p.bias[i % s.oc]);
    for (size_t i = 0; i < dx.size(); ++i) dx[i] *= p.y_before[i] > 0;
    for (DType type : {DType::kFloat, DType::kDouble, DType::kBfloat16}) {
      for (bool nchw : {false, true}) {
        for (int threads : {1, 2}) {
          const AttrMap a = {{"padding", "SAME"},
                             {"data_format", nchw ? "NCHW" : "NHWC"},
                             {"strides", nchw ? std::vector<int64_t>{1, 1, s.stride_h, s.stride_w}
                                              : std::vector<int64_t>{1, s.stride_h, s.stride_w, 1}}};
          auto image = [&](const Tensor& t) { return nchw ? Turned(t) : t; };
          auto make = [&](const TensorShape& shape, const std::vector<double>& v) {
            return MakeTensor(type, shape, v);
          };
          auto want = [&](const TensorShape& shape, const std::vector<double>& v) {
            return ToDoubles(image(MakeTensor(DType::kDouble, shape, v)));
          };
          const TensorShape in({s.n, s.h, s.w, s.c}), filter({s.kh, s.kw, s.c, s.oc}), out({s.n, s.oh, s.ow, s.oc});
          const Tensor x = image(make(in, p.x)), f = make(filter, p.f), d = image(make(out, p.d)),
                       bias = make(TensorShape({s.oc}), p.bias);
          const std::string what = StrCat(" ", Text(s), " ", Name(type), nchw ? " NCHW" : "", " threads ", threads);
          CheckClose(Run("TestFusedConv", {x, f, bias}, a, threads)[0], want(out, y), "bias and relu" + what, 2);
          const Tensor sizes = nchw ? SizesOf({s.n, s.c, s.h, s.w}) : SizesOf({s.n, s.h, s.w, s.c});
          CheckClose(Run("TestFusedConvInput", {sizes, f, d, image(make(in, p.y_before))}, a, threads)[0], want(in, dx),
                     "masked" + what, 2);
          const std::vector<Tensor> w =
              Run("TestFusedConvFilter", {x, SizesOf({s.kh, s.kw, s.c, s.oc}), d}, a, threads);
          CheckClose(w[0], p.truth.df, "filter" + what, 2);
          CheckClose(w[1], p.truth.db, "bias gradient" + what, 2);
        }
      }
    }
  }
  const Tensor x(DType::kFloat, TensorShape({1, 4, 4, 3})), f(DType::kFloat, TensorShape({2, 2, 3, 5}));
  CheckRefused("TestFusedConv", {x, f, Tensor(DType::kFloat, TensorShape({4}))},
               {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}},
               "bias has shape [4], but the convolution has 5 output channels");
}

// Products of matrices are for windows of one pixel and few channels; one way for any number of
// images, so that a batch has the same bits on any number of threads.
BOOST_AUTO_TEST_CASE(windows_of_one_pixel) {
  const auto prefers = [](ConvPass pass, const ConvShape& s, bool bias_gradient = false) {
    float sums = 0;
    ConvEpilogue<float> e;
    if (bias_gradient) e.bias_gradient = &sums;
    return PreferPointwiseConv(pass, s, e);
  };
  const ConvShape s = MakeConvShape(4, 30, 30, 20, 1, 1, 41, 1);
  const bool wide = IsaLevel() >= 4;
  for (ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardInput, ConvPass::kBackwardFilter}) {
    BOOST_CHECK_EQUAL(prefers(pass, s), wide);
    BOOST_CHECK(!prefers(pass, MakeConvShape(4, 30, 30, 20, 1, 1, 41, 2)));
    BOOST_CHECK(!prefers(pass, MakeConvShape(4, 30, 30, 20, 1, 2, 41, 1)));
    BOOST_CHECK(!prefers(pass, MakeConvShape(4, 30, 30, 512, 1, 1, 512, 1)));
    ConvShape grouped = s, padded = s;
    grouped.groups = 2;
    padded.top = padded.bottom = 1, padded.oh = s.h + 2;
    BOOST_CHECK(!prefers(pass, grouped));
    BOOST_CHECK(!prefers(pass, padded));
  }
  BOOST_CHECK(!prefers(ConvPass::kBackwardFilter, s, true));

  const AttrMap a = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const Tensor x = RandomTensor(DType::kFloat, TensorShape({4, 30, 30, 20}), 1),
               f = RandomTensor(DType::kFloat, TensorShape({1, 1, 20, 41}), 2),
               d = RandomTensor(DType::kFloat, TensorShape({4, 30, 30, 41}), 3);
  const auto forward = [&](int threads) { return Run("Conv2D", {x, f}, a, threads)[0]; };
  const auto input = [&](int threads) {
    return Run("Conv2DBackpropInput", {SizesOf({4, 30, 30, 20}), f, d}, a, threads)[0];
  };
  for (int threads : {2, 3}) {
    BOOST_CHECK(!wide || SameBytes(forward(1), forward(threads)));
    BOOST_CHECK(!wide || SameBytes(input(1), input(threads)));
  }
}

BOOST_AUTO_TEST_CASE(fused_convolutions_of_nothing) {
  const AttrMap a = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  const DType t = DType::kFloat;
  BOOST_CHECK(
      Run("TestFusedConv",
          {Tensor(t, TensorShape({0, 4, 4, 2})), Tensor(t, TensorShape({3, 3, 2, 5})), Tensor(t, TensorShape({5}))},
          a)[0]
          .HasShape(TensorShape({0, 4, 4, 5})));
  const std::vector<Tensor> w =
      Run("TestFusedConvFilter",
          {Tensor(t, TensorShape({0, 4, 4, 2})), SizesOf({3, 3, 2, 5}), Tensor(t, TensorShape({0, 4, 4, 5}))}, a);
  CheckClose(w[0], std::vector<double>(90), "no images, no gradient");
  CheckClose(w[1], std::vector<double>(5), "no images, no bias gradient");
}

}  // namespace conv_epilogue_test
}  // namespace troupe
