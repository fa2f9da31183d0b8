// Convolutions against naive loops: shapes, strides, dilations, paddings, groups, formats, types;
// refusals; threads.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <thread>

#include "kernels/run_kernel.h"
#include "kernels/nn/dnnl_conv.h"
#include "tests/nn/nn_test_util.h"
#include "troupe/node_builder.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace conv_test {

struct ConvCase {
  int64_t n, h, w, c, kh, kw, oc;  // oc: the multiplier of a depthwise one
  int64_t stride = 1, dilation = 1;
  std::string padding = "SAME";
  std::vector<int64_t> pads = {};  // top, bottom, left, right
  int64_t groups = 1;
  bool depthwise = false;
  std::string Text() const {
    return StrCat(n, "x", h, "x", w, "x", c, " k", kh, "x", kw, " oc", oc, " s", stride, " d", dilation, " ", padding,
                  " g", groups, depthwise ? " depthwise" : "");
  }
};

const ConvCase kConvCases[] = {
    {3, 28, 28, 1, 6, 6, 6},
    {3, 28, 28, 6, 5, 5, 12, 2},
    {3, 14, 14, 12, 4, 4, 24, 2},
    {2, 7, 5, 3, 3, 2, 4},
    {2, 7, 5, 3, 3, 2, 4, 2, 1, "VALID"},
    {1, 9, 9, 2, 3, 3, 5, 1, 2},
    {1, 9, 9, 2, 3, 3, 5, 2, 2},
    {1, 9, 9, 2, 3, 3, 5, 1, 2, "VALID"},
    {2, 6, 6, 2, 3, 3, 3, 2, 1, "EXPLICIT", {2, 1, 0, 3}},
    {2, 5, 5, 4, 1, 1, 8},
    {2, 5, 5, 4, 1, 1, 8, 3},
    {2, 8, 8, 6, 3, 3, 9, 1, 1, "SAME", {}, 3},
    {2, 8, 8, 32, 3, 3, 48},
    {1, 3, 3, 2, 5, 5, 3},
    {2, 8, 8, 4, 3, 3, 2, 1, 1, "SAME", {}, 1, true},
    {2, 8, 8, 16, 3, 3, 1, 2, 1, "VALID", {}, 1, true},
    {1, 10, 10, 5, 3, 3, 3, 1, 2, "SAME", {}, 1, true},
};

// The naive truth: all three passes.
struct Truth {
  int64_t oh, ow, outputs, depth;
  TensorShape input, filter, output;
  int64_t top, left;
};

Truth Sizes(const ConvCase& c) {
  Truth t;
  const int64_t eh = (c.kh - 1) * c.dilation + 1, ew = (c.kw - 1) * c.dilation + 1;
  if (c.padding == "SAME") {
    t.oh = (c.h + c.stride - 1) / c.stride, t.ow = (c.w + c.stride - 1) / c.stride;
    t.top = std::max<int64_t>(0, (t.oh - 1) * c.stride + eh - c.h) / 2,
    t.left = std::max<int64_t>(0, (t.ow - 1) * c.stride + ew - c.w) / 2;
  } else {
    const std::vector<int64_t> p = c.pads.empty() ? std::vector<int64_t>(4) : c.pads;
    t.oh = (c.h + p[0] + p[1] - eh) / c.stride + 1, t.ow = (c.w + p[2] + p[3] - ew) / c.stride + 1;
    t.top = p[0], t.left = p[2];
  }
  t.outputs = c.depthwise ? c.c * c.oc : c.oc;
  t.depth = c.depthwise ? 1 : c.c / c.groups;
  t.input = {c.n, c.h, c.w, c.c};
  t.filter = c.depthwise ? TensorShape({c.kh, c.kw, c.c, c.oc}) : TensorShape({c.kh, c.kw, t.depth, c.oc});
  t.output = {c.n, t.oh, t.ow, t.outputs};
  return t;
}

// Calls f(input index, filter index, output index) for every product.
template <class F>
void EachProduct(const ConvCase& c, const Truth& t, F f) {
  const int64_t groups = c.depthwise ? c.c : c.groups, per_group = t.outputs / groups;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t i = 0; i < t.oh; ++i)
      for (int64_t j = 0; j < t.ow; ++j)
        for (int64_t o = 0; o < t.outputs; ++o)
          for (int64_t a = 0; a < c.kh; ++a)
            for (int64_t b = 0; b < c.kw; ++b) {
              const int64_t y = i * c.stride + a * c.dilation - t.top, x = j * c.stride + b * c.dilation - t.left;
              if (y < 0 || x < 0 || y >= c.h || x >= c.w) continue;
              for (int64_t d = 0; d < t.depth; ++d) {
                f(((n * c.h + y) * c.w + x) * c.c + o / per_group * t.depth + d,
                  ((a * c.kw + b) * t.depth + d) * t.outputs + o, ((n * t.oh + i) * t.ow + j) * t.outputs + o);
              }
            }
}

Tensor ToNchw(const Tensor& t) {
  std::vector<double> v = ToDoubles(t), out(v.size());
  const int64_t n = t.dim(0), h = t.dim(1), w = t.dim(2), c = t.dim(3);
  for (int64_t i = 0; i < n * h * w * c; ++i) out[(i / (h * w * c) * c + i % c) * h * w + i / c % (h * w)] = v[i];
  return MakeTensor(t.dtype(), TensorShape({n, c, h, w}), out);
}

AttrMap Attrs(const ConvCase& c, bool nchw) {
  auto list = [&](int64_t v) { return nchw ? std::vector<int64_t>{1, 1, v, v} : std::vector<int64_t>{1, v, v, 1}; };
  AttrMap a = {{"strides", list(c.stride)},
               {"dilations", list(c.dilation)},
               {"padding", c.padding},
               {"data_format", nchw ? "NCHW" : "NHWC"}};
  if (!c.pads.empty()) {
    std::vector<int64_t> p(8);
    for (int i = 0; i < 4; ++i) p[(nchw ? 4 : 2) + i] = c.pads[i];
    a.Set("explicit_paddings", p);
  }
  return a;
}

Tensor SizesTensor(const TensorShape& s) {
  Tensor t(DType::kInt32, TensorShape({4}));
  for (int i = 0; i < 4; ++i) t.data<int32_t>()[i] = static_cast<int32_t>(s.dim(i));
  return t;
}

BOOST_AUTO_TEST_CASE(all_passes_of_every_shape_type_and_format) {
  for (const ConvCase& c : kConvCases) {
    const Truth t = Sizes(c);
    for (DType type : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt32}) {
      if (type == DType::kInt32 && c.depthwise) continue;
      const Tensor x = RandomTensor(type, t.input, 61), f = RandomTensor(type, t.filter, 62),
                   d = RandomTensor(type, t.output, 63);
      const std::vector<double> xv = ToDoubles(x), fv = ToDoubles(f), dv = ToDoubles(d);
      std::vector<double> y(dv.size()), dx(xv.size()), df(fv.size());
      EachProduct(c, t, [&](int64_t i, int64_t w, int64_t o) {
        y[o] += xv[i] * fv[w];
        dx[i] += dv[o] * fv[w];
        df[w] += dv[o] * xv[i];
      });
      const std::string op = c.depthwise ? "DepthwiseConv2dNative" : "Conv2D";
      for (bool nchw : {false, true}) {
        for (int threads : {1, 2}) {
          if (threads == 2 && (nchw || type != DType::kFloat)) continue;
          const AttrMap a = Attrs(c, nchw);
          auto image = [&](const Tensor& v) { return nchw ? ToNchw(v) : v; };
          auto want = [&](const std::vector<double>& v, const TensorShape& s) {
            return nchw ? ToDoubles(ToNchw(MakeTensor(DType::kDouble, s, v))) : v;
          };
          const std::string what = StrCat(" ", c.Text(), " ", Name(type), nchw ? " NCHW" : "", " threads ", threads);
          const Tensor xi = image(x), di = image(d);
          CheckClose(Run(op, {xi, f}, a, threads)[0], want(y, t.output), op + what, 2);
          CheckClose(Run(op + "BackpropInput", {SizesTensor(xi.shape()), f, di}, a, threads)[0], want(dx, t.input),
                     op + "BackpropInput" + what, 2);
          if (type == DType::kInt32) continue;
          const Tensor w = Run(op + "BackpropFilter", {xi, SizesTensor(f.shape()), di}, a, threads)[0];
          CheckClose(w, df, op + "BackpropFilter" + what, 2);
          BOOST_CHECK(SameBytes(w, Run(op + "BackpropFilter", {xi, SizesTensor(f.shape()), di}, a, threads)[0]));
        }
      }
    }
  }
}

// The shortcut of a residual block, and an image's first layer: the library's kernel for few
// channels wrote beyond its memory, which showed as a wrong gradient, or when that was freed.
BOOST_AUTO_TEST_CASE(the_gradient_of_filters_of_one_pixel_with_a_stride) {
  for (int64_t channels = 1; channels <= 17; ++channels) {
    for (const auto& [size, stride] : {std::pair<int64_t, int64_t>(28, 2), {20, 6}, {9, 3}}) {
      const ConvCase c = {4, size, size, channels, 1, 1, 8, stride};
      const Truth t = Sizes(c);
      const Tensor x = RandomTensor(DType::kFloat, t.input, 64), d = RandomTensor(DType::kFloat, t.output, 66);
      const std::vector<double> xs = ToDoubles(x), ds = ToDoubles(d);
      std::vector<double> df(static_cast<size_t>(t.filter.num_elements()));
      EachProduct(c, t, [&](int64_t i, int64_t f, int64_t o) { df[f] += xs[i] * ds[o]; });
      for (int i = 0; i < 3; ++i) {
        const Tensor w = Run("Conv2DBackpropFilter", {x, SizesTensor(t.filter), d}, Attrs(c, false), 1)[0];
        CheckClose(w, df, StrCat("Conv2DBackpropFilter ", c.Text()), 2);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(many_images_on_two_threads) {
  const ConvCase c = {23, 14, 14, 12, 4, 4, 24, 2};
  const Truth t = Sizes(c);
  const Tensor x = RandomTensor(DType::kFloat, t.input, 64), f = RandomTensor(DType::kFloat, t.filter, 65),
               d = RandomTensor(DType::kFloat, t.output, 66);
  const AttrMap a = Attrs(c, false);
  struct {
    const char* op;
    std::vector<Tensor> in;
  } runs[] = {{"Conv2D", {x, f}},
              {"Conv2DBackpropInput", {SizesTensor(t.input), f, d}},
              {"Conv2DBackpropFilter", {x, SizesTensor(t.filter), d}}};
  for (auto& r : runs) {
    const Tensor one = Run(r.op, r.in, a, 1)[0], two = Run(r.op, r.in, a, 2)[0];
    CheckClose(two, ToDoubles(one), r.op, 2);
    for (int i = 0; i < 5; ++i) BOOST_CHECK(SameBytes(two, Run(r.op, r.in, a, 2)[0]));
  }
}

BOOST_AUTO_TEST_CASE(several_threads_run_one_convolution) {
  const ConvCase c = {6, 14, 14, 12, 4, 4, 24, 2};
  const Truth t = Sizes(c);
  const Tensor x = RandomTensor(DType::kFloat, t.input, 67), f = RandomTensor(DType::kFloat, t.filter, 68),
               d = RandomTensor(DType::kFloat, t.output, 69);
  for (const char* op : {"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}) {
    const std::string name = op;
    const std::vector<Tensor> in = name == "Conv2D"                ? std::vector<Tensor>{x, f}
                                   : name == "Conv2DBackpropInput" ? std::vector<Tensor>{SizesTensor(t.input), f, d}
                                                                   : std::vector<Tensor>{x, SizesTensor(t.filter), d};
    Graph graph;
    auto node = graph.AddNode("conv", op, [&] {
      AttrMap a = Attrs(c, false);
      a.Set("T", DType::kFloat);
      return a;
    }());
    BOOST_REQUIRE_MESSAGE(node.ok(), node.status().ToString());
    Device* device = EvaluationDevice(2);
    auto kernel = PrepareKernel(**node, device, SessionScope("test"));
    BOOST_REQUIRE_MESSAGE(kernel.ok(), kernel.status().ToString());
    const KernelNode described = DescribeNode(**node, device);
    const Tensor want = Run(op, in, Attrs(c, false), 2)[0];
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 30; ++j) {
          StepContext step;
          auto got = EvaluateKernel(*kernel, described, in, &step);
          if (!got.ok() || !SameBytes((*got)[0], want)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    BOOST_CHECK_EQUAL(wrong, 0);
  }
}

// Groups of images, and of one of them halves of the rows, are shared by as many threads.
BOOST_AUTO_TEST_CASE(images_and_their_gradients_have_the_same_bits_on_any_number_of_threads) {
  for (const int64_t images : {1, 5, 12, 30, 33}) {
    const ConvCase c = {images, 27, 28, 6, 5, 5, 12, 2};
    const Truth t = Sizes(c);
    const Tensor x = RandomTensor(DType::kFloat, t.input, 71), f = RandomTensor(DType::kFloat, t.filter, 72),
                 d = RandomTensor(DType::kFloat, t.output, 73);
    const Tensor y = Run("Conv2D", {x, f}, Attrs(c, false), 1)[0],
                 dx = Run("Conv2DBackpropInput", {SizesTensor(t.input), f, d}, Attrs(c, false), 1)[0];
    for (const int threads : {2, 3, 5}) {
      BOOST_TEST(SameBytes(Run("Conv2D", {x, f}, Attrs(c, false), threads)[0], y));
      BOOST_TEST(SameBytes(Run("Conv2DBackpropInput", {SizesTensor(t.input), f, d}, Attrs(c, false), threads)[0], dx));
    }
  }
}

BOOST_AUTO_TEST_CASE(empty_convolutions) {
  const DType f = DType::kFloat;
  const AttrMap a = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  BOOST_CHECK(
      Run("Conv2D", {Tensor(f, TensorShape({0, 4, 4, 2})), Tensor(f, TensorShape({3, 3, 2, 5}))}, a)[0].HasShape(
          TensorShape({0, 4, 4, 5})));
  BOOST_CHECK(
      Run("Conv2D", {Tensor(f, TensorShape({2, 4, 4, 2})), Tensor(f, TensorShape({3, 3, 2, 0}))}, a)[0].HasShape(
          TensorShape({2, 4, 4, 0})));
  const Tensor zeros = Run(
      "Conv2DBackpropFilter",
      {Tensor(f, TensorShape({0, 4, 4, 2})), SizesTensor({3, 3, 2, 5}), Tensor(f, TensorShape({0, 4, 4, 5}))}, a)[0];
  CheckClose(zeros, std::vector<double>(90), "no images, no gradient");
}

BOOST_AUTO_TEST_CASE(convolution_refusals) {
  const DType t = DType::kFloat;
  const Tensor x(t, TensorShape({1, 4, 4, 3})), f(t, TensorShape({2, 2, 3, 5})), d(t, TensorShape({1, 4, 4, 5}));
  auto attrs = [](std::vector<int64_t> strides, std::string padding) {
    return AttrMap{{"strides", strides}, {"padding", padding}};
  };
  const AttrMap same = attrs({1, 1, 1, 1}, "SAME");
  CheckRefused("Conv2D", {x, Tensor(t, TensorShape({2, 2, 2, 5}))}, same,
               "input depth must be evenly divisible by filter depth: 3 vs 2");
  CheckRefused("Conv2D", {Tensor(t, TensorShape({4, 4, 3})), f}, same, "input must be 4-dimensional");
  CheckRefused("Conv2D", {x, Tensor(t, TensorShape({2, 3, 5}))}, same, "filter must be 4-dimensional");
  CheckRefused("Conv2D", {x, f}, attrs({1, 1, 1}, "SAME"), "must specify 4 dimensions");
  CheckRefused("Conv2D", {x, f}, attrs({2, 1, 1, 1}, "SAME"), "batch and depth dimensions must be 1");
  CheckRefused("Conv2D", {x, f}, attrs({1, 0, 1, 1}, "SAME"), "strides must be positive");
  CheckRefused("Conv2D", {x, Tensor(t, TensorShape({7, 7, 3, 5}))}, attrs({1, 1, 1, 1}, "VALID"),
               "Computed output size would be negative");
  CheckRefused("Conv2D", {x, f}, attrs({1, 1, 1, 1}, "EXPLICIT"), "explicit_paddings must have 8 entries");
  CheckRefused("Conv2DBackpropInput", {SizesTensor({1, 4, 5, 3}), f, d}, same, "out_backprop has shape [1,4,4,5]");
  CheckRefused("Conv2DBackpropInput", {SizesTensor({1, -4, 5, 3}), f, d}, same, "-4");
  CheckRefused("Conv2DBackpropFilter", {x, SizesTensor({2, 2, 3, 6}), d}, same, "out_backprop has shape [1,4,4,5]");
  CheckRefused("DepthwiseConv2dNative", {x, Tensor(t, TensorShape({2, 2, 2, 5}))}, same, "same depth: 3 vs 2");
}

// A window that exceeds the image by less than two strides gives no output, and gradients of zeros;
// where it is known while the graph is built, that is an error.
BOOST_AUTO_TEST_CASE(windows_that_do_not_fit) {
  const auto zeros = [](const Tensor& t, const TensorShape& shape) {
    BOOST_TEST(t.HasShape(shape), t.shape().DebugString());
    for (const double v : ToDoubles(t)) BOOST_CHECK_EQUAL(v, 0);
  };
  const std::vector<int64_t> strides = {1, 2, 2, 1};
  const AttrMap a = {{"strides", strides}, {"padding", "VALID"}};
  for (const DType t : {DType::kFloat, DType::kHalf}) {
    for (const int64_t k : {5, 6, 7}) {
      const TensorShape image({2, 4, 4, 3}), window({k, k, 3, 5});
      const Tensor x = RandomTensor(t, image, 1), f = RandomTensor(t, window, 2), d(t, TensorShape({2, 0, 0, 5}));
      zeros(Run("Conv2D", {x, f}, a)[0], d.shape());
      zeros(Run("Conv2DBackpropInput", {SizesTensor({2, 4, 4, 3}), f, d}, a)[0], image);
      zeros(Run("Conv2DBackpropFilter", {x, SizesTensor({k, k, 3, 5}), d}, a)[0], window);
      const std::vector<int64_t> ksize = {1, k, k, 1};
      const AttrMap pool = {{"ksize", ksize}, {"strides", strides}, {"padding", "VALID"}};
      const Tensor y(t, TensorShape({2, 0, 0, 3}));
      zeros(Run("MaxPool", {x}, pool)[0], y.shape());
      zeros(Run("AvgPool", {x}, pool)[0], y.shape());
      zeros(Run("MaxPoolGrad", {x, y, y}, pool)[0], image);
      zeros(Run("MaxPoolGradGrad", {x, y, x}, pool)[0], y.shape());
      zeros(Run("AvgPoolGrad", {SizesTensor({2, 4, 4, 3}), y}, pool)[0], image);
      Graph graph;
      const auto source = [&graph](const char* name, const Tensor& value) -> Node* {
        return *NodeBuilder(&graph, name, "Const", false).Attr("value", value).Attr("dtype", value.dtype()).Build();
      };
      Node *in = source("x", x), *filter = source("f", f);
      const auto conv = NodeBuilder(&graph, "conv", "Conv2D", false)
                            .Input({in, 0})
                            .Input({filter, 0})
                            .Attr("strides", strides)
                            .Attr("padding", "VALID")
                            .Build();
      BOOST_REQUIRE_MESSAGE(conv.ok(), conv.status());
      ShapeRefiner shapes(&graph);
      BOOST_REQUIRE(shapes.AddNode(in).ok() && shapes.AddNode(filter).ok());
      const absl::Status known = shapes.AddNode(*conv);
      BOOST_REQUIRE(known.code() == absl::StatusCode::kInvalidArgument);
      const std::string message(known.message());
      BOOST_CHECK_MESSAGE(message.find(StrCat("a window of ", k, " does not fit into 4 rows")) != std::string::npos,
                          message);
    }
    // By two strides.
    CheckRefused("Conv2D", {Tensor(t, TensorShape({2, 4, 4, 3})), Tensor(t, TensorShape({8, 8, 3, 5}))}, a,
                 "Computed output size would be negative: -1 [input_size: 4, effective_filter_size: 8, stride: 2]");
  }
}

BOOST_AUTO_TEST_CASE(the_library_uses_its_own_kernels) {
  ConvShape s;
  s.n = 4, s.h = s.w = 14, s.c = 12, s.kh = s.kw = 4, s.oc = 24, s.oh = s.ow = 7, s.stride_h = s.stride_w = 2;
  s.top = s.left = s.bottom = s.right = 1;
  for (ConvPass pass : {ConvPass::kForward, ConvPass::kBackwardInput, ConvPass::kBackwardFilter}) {
    DnnlConv conv(pass);
    const std::string name = conv.Implementation(s);
    BOOST_CHECK_MESSAGE(!name.empty() && name.rfind("ref", 0) != 0,
                        "pass " << static_cast<int>(pass) << " is '" << name << "'");
  }
}

}  // namespace conv_test
}  // namespace troupe
