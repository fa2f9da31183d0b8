// Groups of nodes that broadcast and reduce rows, as networks have them, run as one node: layer
// normalisation in its spellings, GELU, swish. Their bits are those of the separate nodes.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/common/run_text.h"

namespace troupe {
namespace fused_rows_test {

constexpr char kArgs[] = R"(
    x = Placeholder[dtype=float32]
    g = Placeholder[dtype=float32]
    b = Placeholder[dtype=float32]
    last = Const[value=int32[1]{-1}]
    half = Const[value=float32{0.5}]
    one = Const[value=float32{1}]
    epsilon = Const[value=float32{0.001}]
)";
constexpr char kMoments[] = R"(
    mean = Mean[keep_dims=true](x, last)
    still = StopGradient(mean)
    squares = SquaredDifference(x, still)
    variance = Mean[keep_dims=true](squares, last)
    more = AddV2(variance, epsilon)
    root = Rsqrt(more)
)";

struct Form {
  const char *what, *text;
  int fused = 1;
};
const Form kNorms[] = {{"x - mean first", R"(
    centred = Sub(x, mean)
    normal = Mul(centred, root)
    scaled = Mul(normal, g)
    y = AddV2(scaled, b))"},
                       {"factor and offset first", R"(
    factor = Mul(root, g)
    x_part = Mul(x, factor)
    mean_part = Mul(mean, factor)
    offset = Sub(b, mean_part)
    y = AddV2(x_part, offset))"},
                       {"without scale, a number a row", R"(
    y = Mul(root, half))"}};
const Form kOthers[] = {{"root mean square", R"(
    s = Square(x)
    m = Mean[keep_dims=true](s, last)
    r = Rsqrt(m)
    n = Mul(x, r)
    y = Mul(n, g))"},
                        {"sum of squares", R"(
    s = Mul(x, x)
    m = Sum[keep_dims=true](s, last)
    r = Sqrt(m)
    y = RealDiv(x, r))"},
                        {"GELU by tanh, behind a bias", R"(
    z = AddV2(x, b)
    three = Const[value=float32{3}]
    c = Const[value=float32{0.044715}]
    k = Const[value=float32{0.7978845608}]
    p = Pow(z, three)
    q = Mul(c, p)
    r = AddV2(z, q)
    s = Mul(k, r)
    t = Tanh(s)
    u = AddV2(one, t)
    v = Mul(half, z)
    y = Mul(v, u))"},
                        {"GELU by erf, behind a bias", R"(
    z = AddV2(x, b)
    k = Const[value=float32{0.70710678}]
    s = Mul(z, k)
    t = Erf(s)
    u = AddV2(one, t)
    v = Mul(half, z)
    y = Mul(v, u))"},
                        {"swish behind scale and bias", R"(
    s = Mul(x, g)
    z = AddV2(s, b)
    t = Sigmoid(z)
    y = Mul(z, t))"},
                        {"swish of swish", R"(
    s = Sigmoid(x)
    t = Mul(s, x)
    u = Sigmoid(t)
    v = Mul(t, u)
    y = AddV2(v, b))"},
                        {"swish whose gate is used once more", R"(
    s = Sigmoid(x)
    t = Mul(s, x)
    u = AddV2(t, s)
    y = Mul(u, g))"},
                        {"swish of what is smaller than the result", R"(
    s = Sigmoid(g)
    t = Mul(g, s)
    u = Mul(x, t)
    v = Sigmoid(b)
    w = Mul(v, b)
    y = AddV2(u, w))"},
                        {"what is smaller than the result is computed once", R"(
    e = Exp(g)
    f = Mul(e, b)
    s = Tanh(x)
    y = Mul(s, f))"}};

// Of the nodes that ran, those that a fused one could hold.
int Others(const Result& r) {
  int n = 0;
  for (const char* op : {"Mean", "Sum", "Mul", "AddV2", "Sub", "Erf", "Tanh", "Sigmoid", "StopGradient"})
    n += Count(r, op);
  return n;
}

std::string TextOf(const char* moments, const Form& f) { return StrCat(kArgs, moments, f.text); }

struct Shapes {
  TensorShape x, g, b;
};
// A full matrix, and rows and columns of the last dimensions: around the loops' lengths, more than
// a register, few rows, one column, nothing.
std::vector<Shapes> AllShapes() {
  const auto shape = [](std::initializer_list<int64_t> d) { return TensorShape(d); };
  std::vector<Shapes> all;
  for (const auto& d :
       {shape({7, 41}), shape({64, 256}), shape({3, 4099}), shape({1, 300}), shape({5, 1}), shape({0, 5}),
        shape({0, 4096}), shape({5, 0}), shape({2, 3, 70}), shape({2, 2, 2, 33}), shape({150, 5})}) {
    const int64_t n = d.dim(d.rank() - 1);
    all.push_back({d, TensorShape({n}), TensorShape({n})});
  }
  all.push_back({shape({2, 30, 70}), shape({30, 70}), shape({70})});
  all.push_back({shape({2, 30, 70}), shape({2, 1, 70}), shape({2, 30, 1})});
  all.push_back({shape({4, 6, 5, 40}), shape({4, 1, 1, 40}), shape({})});
  all.push_back({shape({2, 3, 2, 3, 2, 3, 4}), shape({4}), shape({4})});  // more dimensions than are planned
  all.push_back({shape({9, 64}), shape({9, 64}), shape({9, 64})});
  // Short vectors that are repeated: for all, for each image, beside one for each row, and of the
  // longest that are.
  all.push_back({shape({2, 1000, 3}), shape({3}), shape({3})});
  all.push_back({shape({3, 700, 5}), shape({3, 1, 5}), shape({5})});
  all.push_back({shape({3, 20, 30, 16}), shape({1, 1, 1, 16}), shape({3, 1, 1, 16})});
  all.push_back({shape({40, 30, 6}), shape({40, 30, 1}), shape({6})});
  all.push_back({shape({9, 512}), shape({512}), shape({})});
  all.push_back({shape({9, 513}), shape({513}), shape({513})});
  all.push_back({shape({40}), shape({40}), shape({40})});
  return all;
}

BOOST_AUTO_TEST_SUITE(fused_rows)

BOOST_AUTO_TEST_CASE(bits_are_those_of_the_separate_nodes) {
  const auto check = [](const char* moments, const Form& f) {
    for (const Shapes& s : AllShapes()) {
      for (const int threads : {1, 3}) {
        BOOST_TEST_CONTEXT(f.what << " of " << s.x.DebugString() << " with " << s.g.DebugString() << ", " << threads) {
          const std::string text = TextOf(moments, f);
          const Feeds feeds = {
              {"x", Uniform(s.x, -2, 3, 1)}, {"g", Uniform(s.g, 0.5, 2, 2)}, {"b", Uniform(s.b, -1, 1, 3)}};
          const Result off = RunText(text, feeds, {"y"}, false, threads),
                       on = RunText(text, feeds, {"y"}, true, threads);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          BOOST_TEST(Count(on, "_FusedElementwise") == f.fused);
          BOOST_TEST(Others(on) == 0);
          BOOST_TEST(!Has(off, "_FusedElementwise"));
          BOOST_TEST(SameBits(on.values[0], off.values[0]));
        }
      }
    }
  };
  for (const Form& f : kNorms) check(kMoments, f);
  for (const Form& f : kOthers) check("", f);
}

// Against sums and functions in float64.
BOOST_AUTO_TEST_CASE(values_are_those_of_plain_loops) {
  constexpr int kRows = 33, kColumns = 77;
  const Tensor x = Uniform(TensorShape({kRows, kColumns}), -3, 3, 1), g = Uniform(TensorShape({kColumns}), 0.5, 2, 2),
               b = Uniform(TensorShape({kColumns}), -1, 1, 3);
  const Feeds feeds = {{"x", x}, {"g", g}, {"b", b}};
  const Result norm = RunText(TextOf(kMoments, kNorms[0]), feeds, {"y"}, true, 1),
               by_tanh = RunText(TextOf("", kOthers[2]), feeds, {"y"}, true, 1),
               by_erf = RunText(TextOf("", kOthers[3]), feeds, {"y"}, true, 1);
  BOOST_REQUIRE(norm.status.ok() && by_tanh.status.ok() && by_erf.status.ok());
  const auto near = [](float got, double want) { return std::abs(got - want) <= 1e-5 * std::abs(want) + 1e-6; };
  for (int i = 0; i < kRows; ++i) {
    const float* row = x.data<float>() + i * kColumns;
    double mean = 0, variance = 0;
    for (int j = 0; j < kColumns; ++j) mean += row[j] / double(kColumns);
    for (int j = 0; j < kColumns; ++j) variance += (row[j] - mean) * (row[j] - mean) / kColumns;
    for (int j = 0; j < kColumns; ++j) {
      const int at = i * kColumns + j;
      const double z = double(row[j]) + b.data<float>()[j];
      BOOST_TEST(near(norm.values[0].data<float>()[at],
                      (row[j] - mean) / std::sqrt(variance + 0.001) * g.data<float>()[j] + b.data<float>()[j]));
      BOOST_TEST(near(by_tanh.values[0].data<float>()[at],
                      0.5 * z * (1 + std::tanh(0.7978845608 * (z + 0.044715 * z * z * z)))));
      BOOST_TEST(near(by_erf.values[0].data<float>()[at], 0.5 * z * (1 + std::erf(z * std::sqrt(0.5)))));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_goes_the_same_ways) {
  const auto check = [](const char* moments, const Form& f) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY, 1e30f, -1e30f, 1e-40f}) {
      for (int where = 0; where < 3; ++where) {
        Feeds feeds = {{"x", Uniform(TensorShape({6, 70}), -2, 3, 1)},
                       {"g", Uniform(TensorShape({70}), 0.5, 2, 2)},
                       {"b", Uniform(TensorShape({70}), -1, 1, 3)}};
        feeds[where].second.data<float>()[65] = bad;
        const Result off = RunText(TextOf(moments, f), feeds, {"y"}, false, 1),
                     on = RunText(TextOf(moments, f), feeds, {"y"}, true, 1);
        BOOST_REQUIRE(off.status.ok() && on.status.ok());
        int wrong = 0;
        for (int64_t i = 0; i < off.values[0].num_elements(); ++i) {
          const float got = on.values[0].data<float>()[i], want = off.values[0].data<float>()[i];
          wrong += !(got == want || (std::isnan(got) && std::isnan(want)));
        }
        BOOST_TEST(wrong == 0, f.what << ", " << bad << " in " << feeds[where].first);
      }
    }
  };
  for (const Form& f : kNorms) check(kMoments, f);
  for (const Form& f : kOthers) check("", f);
}

// What is fetched, read by others or waited for is computed for itself, and the rest as before.
BOOST_AUTO_TEST_CASE(values_in_the_middle) {
  const std::string text = StrCat(TextOf(kMoments, kNorms[0]), "\nother = Neg(centred)\nwaits = Identity(x, ^squares)");
  const Feeds feeds = {{"x", Uniform(TensorShape({9, 64}), -2, 3, 1)},
                       {"g", Uniform(TensorShape({64}), 0.5, 2, 2)},
                       {"b", Uniform(TensorShape({64}), -1, 1, 3)}};
  for (const Names& fetches : {Names{"y", "mean"}, Names{"y", "variance"}, Names{"y", "squares", "root"},
                               Names{"y", "other"}, Names{"y", "waits"}, Names{"y", "still", "normal", "scaled"}}) {
    const Result off = RunText(text, feeds, fetches, false, 1), on = RunText(text, feeds, fetches, true, 1);
    BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
    for (size_t i = 0; i < fetches.size(); ++i) BOOST_TEST(SameBits(on.values[i], off.values[i]), fetches[i]);
  }
  // A value that is fed.
  Feeds fed = feeds;
  fed.push_back({"variance", Uniform(TensorShape({9, 1}), 1, 2, 4)});
  const Result off = RunText(text, fed, {"y"}, false, 1), on = RunText(text, fed, {"y"}, true, 1);
  BOOST_REQUIRE(off.status.ok() && on.status.ok());
  BOOST_TEST(SameBits(on.values[0], off.values[0]));
}

BOOST_AUTO_TEST_CASE(errors_name_the_nodes_that_were_written) {
  const std::string text = TextOf(kMoments, kNorms[0]);
  Feeds feeds = {{"x", Uniform(TensorShape({9, 64}), -2, 3, 1)},
                 {"g", Uniform(TensorShape({63}), 0.5, 2, 2)},
                 {"b", Uniform(TensorShape({64}), -1, 1, 3)}};
  for (const bool scalar : {false, true}) {
    if (scalar) feeds[0].second = Tensor::Scalar(1.0f);
    const Result off = RunText(text, feeds, {"y"}, false, 1), on = RunText(text, feeds, {"y"}, true, 1);
    BOOST_TEST(on.status.code() == absl::StatusCode::kInvalidArgument);
    BOOST_TEST(on.status.message() == off.status.message());
    BOOST_TEST(on.status.message().find(scalar ? "'mean'" : "'scaled'") != std::string::npos, on.status.message());
  }
}

// The gradient graph reads values in the middle, which stay; its own nodes fuse among themselves.
BOOST_AUTO_TEST_CASE(gradients_are_those_of_the_separate_nodes) {
  const auto check = [](const char* moments, const Form& f) {
    std::vector<Tensor> values[2];
    for (const bool fuse : {false, true}) {
      SessionOptions options;
      options.fuse = fuse;
      auto session = *Session::Create(options);
      auto graph = *ParseGraphText(TextOf(moments, f));
      const auto value = [&](const char* name) { return NodeOut{graph->Find(name), 0}; };
      GradientOptions zeros;
      zeros.unconnected = Unconnected::kZeros;
      std::vector<NodeOut> grads;
      const absl::Status s =
          AddGradients(graph.get(), {value("y")}, {value("x"), value("g"), value("b")}, {}, zeros, &grads);
      BOOST_REQUIRE_MESSAGE(s.ok(), s);
      BOOST_REQUIRE(session->Extend(*graph).ok());
      Names fetches = {"y"};
      for (const NodeOut& g : grads) fetches.push_back(StrCat(g.node->name(), ":", g.index));
      const Feeds feeds = {{"x", Uniform(TensorShape({6, 70}), -2, 3, 1)},
                           {"g", Uniform(TensorShape({70}), 0.5, 2, 2)},
                           {"b", Uniform(TensorShape({70}), -1, 1, 3)}};
      const absl::Status ran = session->Run(feeds, fetches, {}, &values[fuse]);
      BOOST_REQUIRE_MESSAGE(ran.ok(), ran);
    }
    for (size_t i = 0; i < 4; ++i) BOOST_TEST(SameBits(values[0][i], values[1][i]), f.what << " " << i);
  };
  for (const Form& f : kNorms) check(kMoments, f);
  for (const Form& f : kOthers) check("", f);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fused_rows_test
}  // namespace troupe
