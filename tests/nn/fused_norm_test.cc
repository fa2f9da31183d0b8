// A convolution with the batch normalisation of inference behind it is one node, and gives the bits
// and the errors of the separate ones.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/common/run_text.h"

namespace troupe {
namespace fused_norm_test {

struct Case {
  std::string conv = "Conv2D", norm = "FusedBatchNormV3", activation, format = "NHWC";
  bool bias = false, training = false;
  TensorShape image, filter;
  int64_t channels;
};

std::string Text(const Case& c) {
  const std::string format = StrCat("data_format=\"", c.format, "\"");
  return StrCat(R"(x = Placeholder[dtype=float32]
                   w = Placeholder[dtype=float32]
                   b = Placeholder[dtype=float32]
                   scale = Placeholder[dtype=float32]
                   offset = Placeholder[dtype=float32]
                   mean = Placeholder[dtype=float32]
                   variance = Placeholder[dtype=float32]
                   c = )",
                c.conv, "[strides={1, 1, 1, 1}, padding=\"SAME\", ", format, "](x, w)\n",
                c.bias ? StrCat("a = BiasAdd[", format, "](c, b)\n") : "", "n = ", c.norm,
                "[is_training=", c.training ? "true" : "false", ", epsilon=0.01, ", format, "](", c.bias ? "a" : "c",
                ", scale, offset, mean, variance)\n", "y = ", c.activation.empty() ? "Identity" : c.activation, "(n)");
}

Feeds FeedsOf(const Case& c) {
  Feeds feeds = {{"x", Uniform(c.image, -1, 1, 1)},
                 {"w", Uniform(c.filter, -1, 1, 2)},
                 {"scale", Uniform(TensorShape({c.channels}), 0.5, 2, 3)},
                 {"offset", Uniform(TensorShape({c.channels}), -1, 1, 4)},
                 {"mean", Uniform(TensorShape({c.channels}), -1, 1, 5)},
                 {"variance", Uniform(TensorShape({c.channels}), 0.1, 2, 6)}};
  if (c.bias) feeds.emplace_back("b", Uniform(TensorShape({c.channels}), -1, 1, 7));
  return feeds;
}

const Case kLibrary = {.image = TensorShape({2, 14, 12, 32}), .filter = TensorShape({3, 3, 32, 40}), .channels = 40},
           kDirect = {.image = TensorShape({5, 12, 9, 3}), .filter = TensorShape({3, 3, 3, 6}), .channels = 6},
           kPointwise = {.image = TensorShape({3, 30, 30, 20}), .filter = TensorShape({1, 1, 20, 41}), .channels = 41},
           kLarge = {.image = TensorShape({3, 40, 40, 16}), .filter = TensorShape({3, 3, 16, 96}), .channels = 96},
           kDepthwise = {.conv = "DepthwiseConv2dNative",
                         .image = TensorShape({2, 20, 20, 24}),
                         .filter = TensorShape({3, 3, 24, 2}),
                         .channels = 48};

BOOST_AUTO_TEST_SUITE(fused_norm)

BOOST_AUTO_TEST_CASE(values_are_those_of_the_separate_nodes) {
  for (const Case& base : {kLibrary, kDirect, kPointwise, kLarge, kDepthwise}) {
    for (const char* activation : {"", "Relu", "Relu6", "Elu"}) {
      for (const char* norm : {"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"}) {
        for (const bool bias : {false, true}) {
          Case c = base;
          c.activation = activation, c.norm = norm, c.bias = bias;
          const std::string text = Text(c);
          const Result off = RunText(text, FeedsOf(c), {"y"}, false), on = RunText(text, FeedsOf(c), {"y"}, true);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          const std::string fused = c.conv == "Conv2D" ? "_FusedConv2D" : "_FusedDepthwiseConv2dNative";
          BOOST_TEST_CONTEXT(c.image.DebugString() << " " << activation << " " << norm << (bias ? " bias" : "")) {
            BOOST_TEST(Has(on, fused), on.ops);
            BOOST_TEST(!Has(on, norm), on.ops);
            BOOST_TEST(!Has(off, fused), off.ops);
            BOOST_REQUIRE(on.values[0].SameShape(off.values[0]));
            const float *got = on.values[0].data<float>(), *want = off.values[0].data<float>();
            int wrong = 0;
            for (int64_t i = 0; i < on.values[0].num_elements(); ++i) {
              // The library may add its bias before other terms.
              wrong += bias ? !(std::abs(got[i] - want[i]) <= 1e-5f * std::abs(want[i]) + 1e-5f)
                            : std::memcmp(got + i, want + i, sizeof(float)) != 0;
            }
            BOOST_TEST(wrong == 0);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(channels_in_front) {
  Case c = kLibrary;
  c.image = TensorShape({2, 32, 14, 12}), c.format = "NCHW", c.activation = "Relu";
  const Result off = RunText(Text(c), FeedsOf(c), {"y"}, false), on = RunText(Text(c), FeedsOf(c), {"y"}, true);
  BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
  BOOST_TEST(Has(on, "_FusedConv2D"), on.ops);
  BOOST_TEST(std::memcmp(on.values[0].raw(), off.values[0].raw(), off.values[0].bytes()) == 0);
}

// By the batch's own statistics, or when another node needs a value in between.
BOOST_AUTO_TEST_CASE(what_is_not_fused) {
  Case c = kLibrary;
  c.training = true;
  BOOST_TEST(Has(RunText(Text(c), FeedsOf(c), {"y"}, true), "FusedBatchNormV3"));
  c.training = false;
  for (const char* also : {"c", "n", "n:1", "n:3"}) {
    const Result off = RunText(Text(c), FeedsOf(c), {"y", also}, false),
                 on = RunText(Text(c), FeedsOf(c), {"y", also}, true);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    for (int i = 0; i < 2; ++i)
      BOOST_TEST(std::memcmp(on.values[i].raw(), off.values[i].raw(), off.values[i].bytes()) == 0, also);
    // Two readers of n: only the Identity stays apart from the fused node.
    BOOST_TEST(Has(on, "FusedBatchNormV3") == (std::string(also) != "n"), also << ": " << on.ops);
  }
}

BOOST_AUTO_TEST_CASE(errors_name_the_separate_nodes) {
  for (const Case& base : {kLibrary, kDepthwise}) {
    Case c = base;
    c.activation = "Relu";
    for (const char* wrong : {"scale", "offset", "mean", "variance"}) {
      Feeds feeds = FeedsOf(c);
      for (auto& [name, value] : feeds) {
        if (name == wrong) value = Uniform(TensorShape({c.channels + 1}), 0, 1, 8);
      }
      const Result off = RunText(Text(c), feeds, {"y"}, false), on = RunText(Text(c), feeds, {"y"}, true);
      BOOST_TEST(on.status.code() == absl::StatusCode::kInvalidArgument);
      BOOST_TEST(on.status.message() == off.status.message());
      BOOST_TEST(on.status.message().find("'n'") != std::string::npos, on.status.message());
    }
    // The convolution's own.
    Feeds feeds = FeedsOf(c);
    feeds[1].second = Uniform(TensorShape({3, 3, 7, 4}), -1, 1, 9);
    const Result off = RunText(Text(c), feeds, {"y"}, false), on = RunText(Text(c), feeds, {"y"}, true);
    BOOST_TEST(!on.status.ok());
    BOOST_TEST(off.status.message().find("'c'") != std::string::npos, off.status.message());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fused_norm_test
}  // namespace troupe
