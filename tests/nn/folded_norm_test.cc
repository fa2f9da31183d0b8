// Convolutions with a constant filter and a constant batch normalisation behind: the factors are in
// the filter, and the values are those of the separate nodes, to rounding.
#include <cmath>
#include <limits>

#include "tests/common/run_text.h"
#include "troupe/emit.h"

namespace troupe {
namespace folded_norm_test {

struct Case {
  std::string what, conv = "Conv2D", activation;
  TensorShape image, filter;
  int64_t channels, stride = 1;
  bool bias = false, add = false;
};

// Values by which the norm is not a finite affine function.
struct Norm {
  float scale = 1.5f, variance = 0.5f;
};

absl::StatusOr<std::vector<Tensor>> RunCase(const Case& c, const Tensor& image, bool fuse, int threads, int steps,
                                            Norm norm = {}) {
  Scope root = Scope::NewRootScope();
  const TensorShape vector({c.channels});
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const auto constant = [&](const TensorShape& shape, float low, float high, uint64_t seed) {
    return Const(root, Uniform(shape, low, high, seed));
  };
  Tensor scale = Uniform(vector, 0.5, 2, 3), variance = Uniform(vector, 0.1, 2, 6);
  scale.data<float>()[0] = norm.scale;
  variance.data<float>()[0] = norm.variance;
  const std::vector<int64_t> strides = {1, c.stride, c.stride, 1};
  Output y =
      EmitOp(root, c.conv, {x, constant(c.filter, -1, 1, 2)}, {{"strides", strides}, {"padding", "SAME"}}).output(0);
  if (c.bias) y = EmitOp(root, "BiasAdd", {y, constant(vector, -1, 1, 7)}).output(0);
  y = EmitOp(root, "FusedBatchNormV3",
             {y, Const(root, scale), constant(vector, -1, 1, 4), constant(vector, -1, 1, 5), Const(root, variance)},
             {{"is_training", false}, {"epsilon", 0.01f}})
          .output(0);
  if (c.add) {
    const int64_t h = (c.image.dim(1) + c.stride - 1) / c.stride, w = (c.image.dim(2) + c.stride - 1) / c.stride;
    y = ops::Add(root, y, constant(TensorShape({c.image.dim(0), h, w, c.channels}), -1, 1, 8));
  }
  if (!c.activation.empty()) y = EmitOp(root, c.activation, {y}).output(0);
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions options;
  options.fuse = fuse;
  options.runtime_options.threads = threads;
  TROUPE_ASSIGN_OR_RETURN(const auto session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  std::vector<Tensor> values;
  for (int i = 0; i < steps; ++i) {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({{"x", image}}, {y}, {}, &out));
    values.push_back(out[0]);
  }
  return values;
}

const Case kCases[] = {
    {.what = "library", .image = TensorShape({2, 14, 12, 32}), .filter = TensorShape({3, 3, 32, 40}), .channels = 40},
    {.what = "direct", .image = TensorShape({5, 12, 9, 3}), .filter = TensorShape({3, 3, 3, 6}), .channels = 6},
    {.what = "pointwise", .image = TensorShape({3, 30, 30, 20}), .filter = TensorShape({1, 1, 20, 41}), .channels = 41},
    // More outputs of an image than are near: some rows at a time.
    {.what = "rows", .image = TensorShape({2, 63, 64, 16}), .filter = TensorShape({3, 3, 16, 96}), .channels = 96},
    {.what = "strided rows",
     .image = TensorShape({1, 151, 150, 4}),
     .filter = TensorShape({7, 7, 4, 64}),
     .channels = 64,
     .stride = 2},
    {.what = "depthwise rows",
     .conv = "DepthwiseConv2dNative",
     .image = TensorShape({2, 70, 70, 48}),
     .filter = TensorShape({3, 3, 48, 1}),
     .channels = 48},
    {.what = "depthwise",
     .conv = "DepthwiseConv2dNative",
     .image = TensorShape({2, 20, 20, 24}),
     .filter = TensorShape({3, 3, 24, 2}),
     .channels = 48},
};

BOOST_AUTO_TEST_SUITE(folded_norm)

BOOST_AUTO_TEST_CASE(values_are_those_of_the_separate_nodes) {
  for (const Case& base : kCases) {
    const Tensor image = Uniform(base.image, -1, 1, 1);
    for (const char* activation : {"", "Relu", "Relu6", "Elu"}) {
      for (const int more : {0, 1, 2}) {
        Case c = base;
        c.activation = activation, c.bias = more == 1, c.add = more == 2;
        const auto off = RunCase(c, image, false, 1, 1);
        BOOST_REQUIRE_MESSAGE(off.ok(), off.status().ToString());
        for (const int threads : {1, 2}) {
          const auto on = RunCase(c, image, true, threads, 2);
          BOOST_REQUIRE_MESSAGE(on.ok(), on.status().ToString());
          BOOST_TEST_CONTEXT(c.what << " " << activation << " " << more << " threads " << threads) {
            BOOST_TEST(SameBits((*on)[0], (*on)[1]));
            const Tensor &got = (*on)[0], &want = (*off)[0];
            BOOST_REQUIRE(got.SameShape(want));
            // Not folded, they would have the bits of the separate nodes (fused_norm_test.cc).
            if (more == 0) BOOST_TEST(!SameBits(got, want));
            int64_t wrong = 0;
            float largest = 0;
            for (int64_t i = 0; i < want.num_elements(); ++i)
              largest = std::max(largest, std::abs(want.data<float>()[i]));
            for (int64_t i = 0; i < want.num_elements(); ++i)
              wrong += !(std::abs(got.data<float>()[i] - want.data<float>()[i]) <= 1e-5f * largest);
            BOOST_TEST(wrong == 0);
          }
        }
      }
    }
  }
}

// A factor that is not finite stays in the normalisation; a NaN of the image stays one.
BOOST_AUTO_TEST_CASE(what_is_not_finite) {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const Case& base : kCases) {
    Case c = base;
    c.activation = "Relu6";
    Tensor image = Uniform(c.image, -1, 1, 1);
    image.data<float>()[image.num_elements() / 2] = std::nanf("");
    for (const Norm& norm :
         {Norm{}, Norm{.scale = infinite}, Norm{.scale = 3e38f, .variance = 0}, Norm{.variance = -1}}) {
      const auto off = RunCase(c, image, false, 1, 1, norm), on = RunCase(c, image, true, 2, 1, norm);
      BOOST_REQUIRE_MESSAGE(off.ok() && on.ok(), off.status().ToString() << on.status().ToString());
      int64_t nans = 0, differ = 0;
      for (int64_t i = 0; i < (*off)[0].num_elements(); ++i) {
        const bool want = std::isnan((*off)[0].data<float>()[i]);
        nans += want;
        differ += want != std::isnan((*on)[0].data<float>()[i]);
      }
      BOOST_TEST(nans > 0, c.what);
      BOOST_TEST(differ == 0, c.what);
    }
  }
}

// Products of filter and factor that underflow would lose what the separate nodes keep.
BOOST_AUTO_TEST_CASE(tiny_factors) {
  for (const Case& base : kCases) {
    Case c = base;
    c.activation = "Relu";
    Tensor image = Uniform(c.image, -1, 1, 1);
    for (int64_t i = 0; i < image.num_elements(); ++i) image.data<float>()[i] *= 1e35f;
    const Norm norm{.scale = 1e-38f};
    const auto off = RunCase(c, image, false, 1, 1, norm), on = RunCase(c, image, true, 2, 1, norm);
    BOOST_REQUIRE_MESSAGE(off.ok() && on.ok(), off.status().ToString() << on.status().ToString());
    int64_t wrong = 0;
    for (int64_t i = 0; i < (*off)[0].num_elements(); i += c.channels) {
      const float want = (*off)[0].data<float>()[i], got = (*on)[0].data<float>()[i];
      wrong += !(std::abs(got - want) <= 1e-5f * std::abs(want));
    }
    BOOST_TEST(wrong == 0, c.what);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace folded_norm_test
}  // namespace troupe
