// Fused nodes give what the separate ones give, and their errors name those.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include <boost/test/unit_test.hpp>
#include <pthread.h>

#include "tests/common/run_text.h"
#include "tests/sanitizers/sanitized.h"

namespace troupe {
namespace fused_test {

struct Case {
  const char *what, *text, *fused_op;
  Feeds feeds;
  bool to_rounding;  // or bit for bit
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* activation : {"Relu", "Relu6", "Elu", "Tanh", "Sigmoid", "LeakyRelu"}) {
    static std::vector<std::string> texts;
    texts.reserve(16);
    texts.push_back(StrCat(R"(x = Placeholder[dtype=float32]
                              w = Placeholder[dtype=float32]
                              b = Placeholder[dtype=float32]
                              m = MatMul(x, w)
                              a = BiasAdd(m, b)
                              y = )",
                           activation, "(a)"));
    cases.push_back({activation,
                     texts.back().c_str(),
                     "_FusedMatMul",
                     {{"x", Random(TensorShape({37, 50}), 1)},
                      {"w", Random(TensorShape({50, 23}), 2)},
                      {"b", Random(TensorShape({23}), 3)}},
                     false});
  }
  static constexpr char kConvolution[] = R"(
      x = Placeholder[dtype=float32]
      w = Placeholder[dtype=float32]
      b = Placeholder[dtype=float32]
      m = Conv2D[strides={1, 2, 2, 1}, padding="SAME"](x, w)
      a = BiasAdd(m, b)
      y = Relu(a))";
  static constexpr char kInput[] = R"(
      x = Placeholder[dtype=float32]
      w = Placeholder[dtype=float32]
      d = Placeholder[dtype=float32]
      s = Const[value=int32[4]{5, 9, 9, 3}]
      g = Conv2DBackpropInput[strides={1, 2, 2, 1}, padding="SAME"](s, w, d)
      y = ReluGrad(g, x))";
  static constexpr char kFilter[] = R"(
      x = Placeholder[dtype=float32]
      e = Placeholder[dtype=float32]
      m = Max(x, k)
      k = Const[value=int32[4]{0, 1, 2, 3}]
      d = Mul(e, m)
      s = Const[value=int32[4]{3, 3, 3, 7}]
      g = Conv2DBackpropFilter[strides={1, 2, 2, 1}, padding="SAME"](x, s, d)
      h = BiasAddGrad(d)
      p = Sum[keep_dims=false](g, z)
      z = Const[value=int32[3]{0, 1, 2}]
      y = Sub(p, h))";
  const Tensor x = Random(TensorShape({5, 9, 9, 3}), 4), w = Random(TensorShape({3, 3, 3, 7}), 5),
               d = Random(TensorShape({5, 5, 5, 7}), 6);
  cases.push_back(
      {"convolution", kConvolution, "_FusedConv2D", {{"x", x}, {"w", w}, {"b", Random(TensorShape({7}), 7)}}, true});
  cases.push_back(
      {"gradient of the input", kInput, "_Conv2DBackpropInputReluGrad", {{"x", x}, {"w", w}, {"d", d}}, true});
  cases.push_back({"gradients of filter and bias", kFilter, "_Conv2DBackpropFilterBias", {{"x", x}, {"e", d}}, true});
  static constexpr char kProducts[] = R"(
      a = Placeholder[dtype=float32]
      b = Placeholder[dtype=float32]
      c = Placeholder[dtype=float32]
      d = Placeholder[dtype=float32]
      e = Placeholder[dtype=float32]
      p = MatMul[transpose_a=true](a, b)
      q = MatMul[transpose_a=true](c, d)
      r = MatMul[transpose_a=true](e, b)
      y = AddN[N=3](p, q, r))";
  // Few rows, which are put below each other, and many, which are not.
  for (const int64_t rows : {5, 70}) {
    cases.push_back({rows == 5 ? "sum of products of few rows" : "sum of products of many rows",
                     kProducts,
                     "_SumOfProducts",
                     {{"a", Random(TensorShape({rows, 31}), 21)},
                      {"b", Random(TensorShape({rows, 23}), 22)},
                      {"c", Random(TensorShape({2, 31}), 23)},
                      {"d", Random(TensorShape({2, 23}), 24)},
                      {"e", Random(TensorShape({rows, 31}), 25)}},
                     true});
  }
  return cases;
}

BOOST_AUTO_TEST_SUITE(fused)

BOOST_AUTO_TEST_CASE(values_are_those_of_the_separate_nodes) {
  for (const Case& c : Cases()) {
    for (const int threads : {1, 3}) {
      BOOST_TEST_CONTEXT(c.what << ", " << threads << " threads") {
        const Result off = RunText(c.text, c.feeds, {"y"}, false, threads),
                     on = RunText(c.text, c.feeds, {"y"}, true, threads);
        BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
        BOOST_TEST(on.ops.find(c.fused_op) != std::string::npos, on.ops);
        BOOST_TEST(off.ops.find("_Fused") == std::string::npos, off.ops);
        BOOST_REQUIRE(on.values[0].SameShape(off.values[0]));
        if (!c.to_rounding) {
          BOOST_TEST(std::memcmp(on.values[0].raw(), off.values[0].raw(), on.values[0].bytes()) == 0);
          continue;
        }
        for (int64_t i = 0; i < on.values[0].num_elements(); ++i) {
          // A sum of terms of order one that nearly cancel is as exact as its terms, not as its
          // value.
          const float got = on.values[0].data<float>()[i], want = off.values[0].data<float>()[i];
          BOOST_TEST(std::abs(got - want) <= 1e-4f * std::abs(want) + 1e-6f, got << " for " << want);
        }
      }
    }
  }
}

// Where the fused kernel would round or add otherwise, and nothing depends on its speed, the nodes
// stay apart.
BOOST_AUTO_TEST_CASE(convolutions_of_other_types_have_the_bits_of_the_separate_nodes) {
  for (const char* type : {"float16", "float64"}) {
    for (const char* activation : {"Relu", "Relu6", "Elu"}) {
      const std::string text = StrCat(R"(
          fx = Placeholder[dtype=float32]
          fw = Placeholder[dtype=float32]
          fb = Placeholder[dtype=float32]
          x = Cast[DstT=)",
                                      type, R"(](fx)
          w = Cast[DstT=)",
                                      type, R"(](fw)
          b = Cast[DstT=)",
                                      type, R"(](fb)
          m = Conv2D[strides={1, 1, 1, 1}, padding="SAME"](x, w)
          a = BiasAdd(m, b)
          y = )",
                                      activation, R"((a)
          s = Shape(w)
          d = ReluGrad(y, y)
          g = Conv2DBackpropFilter[strides={1, 1, 1, 1}, padding="SAME"](x, s, d)
          h = BiasAddGrad(d))");
      const Feeds feeds = {{"fx", Random(TensorShape({3, 17, 9, 4}), 4)},
                           {"fw", Random(TensorShape({3, 3, 4, 16}), 5)},
                           {"fb", Random(TensorShape({16}), 6)}};
      for (const Names& fetches : {Names{"y"}, Names{"g", "h"}}) {
        const Result off = RunText(text, feeds, fetches, false, 1), on = RunText(text, feeds, fetches, true, 1);
        BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
        for (size_t i = 0; i < fetches.size(); ++i) {
          BOOST_TEST(std::memcmp(on.values[i].raw(), off.values[i].raw(), on.values[i].bytes()) == 0,
                     type << " " << activation << " " << fetches[i]);
        }
      }
    }
  }
}

// Every op that may be in a group, in one chain or another, at sizes around the blocks' and with
// scalars and broadcasting among the arguments.
BOOST_AUTO_TEST_CASE(element_wise_groups_have_the_bits_of_the_separate_nodes) {
  static constexpr char kText[] = R"(
      x = Placeholder[dtype=float32]
      y = Placeholder[dtype=float32]
      k = Placeholder[dtype=float32]
      a1 = AddV2(x, y)
      a2 = Sub(a1, k)
      a3 = Mul(a2, x)
      a4 = Abs(a3)
      a5 = Maximum(a4, k)
      a6 = Sqrt(a5)
      a7 = RealDiv(y, a6)
      a8 = Tanh(a7)
      a9 = Minimum(a8, k)
      b1 = Square(a9)
      b2 = Neg(b1)
      b3 = Exp(b2)
      b4 = SquaredDifference(b3, y)
      b5 = Sigmoid(b4)
      b6 = Relu(b5)
      b7 = Elu(b6)
      b8 = SigmoidGrad(b7, x)
      b9 = TanhGrad(b8, y)
      c1 = ReluGrad(b9, x)
      c2 = Less(c1, k)
      c3 = Cast[DstT=float32](c2)
      c4 = Mul(c3, x)
      s1 = Mul(k, k)
      s2 = Add(s1, k)
      out = Add(c4, s2))";
  const TensorShape scalar;
  struct Shapes {
    TensorShape x, y, k;
  };
  const Shapes kShapes[] = {{TensorShape({7}), TensorShape({7}), scalar},
                            {TensorShape({1024}), TensorShape({1024}), scalar},
                            {TensorShape({50, 41}), TensorShape({50, 41}), scalar},
                            {TensorShape({300, 401}), TensorShape({300, 401}), scalar},
                            {TensorShape({0, 3}), TensorShape({0, 3}), scalar},
                            {scalar, scalar, scalar},
                            {TensorShape({30, 41}), TensorShape({30, 41}), TensorShape({41})},
                            {TensorShape({30, 41}), TensorShape({30, 41}), TensorShape({30, 1})}};
  for (const Shapes& s : kShapes) {
    for (const int threads : {1, 3}) {
      BOOST_TEST_CONTEXT(s.x.DebugString() << " " << s.k.DebugString() << " " << threads) {
        const Feeds feeds = {{"x", Random(s.x, 1)}, {"y", Random(s.y, 2)}, {"k", Random(s.k, 3)}};
        const Result off = RunText(kText, feeds, {"out"}, false, threads),
                     on = RunText(kText, feeds, {"out"}, true, threads);
        BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
        BOOST_TEST(on.ops.find("_FusedElementwise") != std::string::npos, on.ops);
        BOOST_REQUIRE(on.values[0].SameShape(off.values[0]));
        BOOST_TEST(std::memcmp(on.values[0].raw(), off.values[0].raw(), on.values[0].bytes()) == 0);
      }
    }
  }
}

// A step may compute on the caller's thread, whose stack is as small as a service makes it.
BOOST_AUTO_TEST_CASE(fused_nodes_need_little_stack) {
#if TROUPE_TEST_ASAN || TROUPE_TEST_TSAN
  constexpr size_t kStack = 2 << 20;
#else
  constexpr size_t kStack = 96 << 10;
#endif
  // Twelve values that are needed until the end, of eight bytes an element.
  std::string text = "x = Placeholder[dtype=float64]\nv0 = Square(x)\n";
  for (int i = 1; i < 12; ++i) StrAppend(&text, "v", i, " = Tanh(v", i - 1, ")\n");
  StrAppend(&text, "s0 = Add(v0, v1)\n");
  for (int i = 2; i < 12; ++i) StrAppend(&text, "s", i - 1, " = Mul(s", i - 2, ", v", i, ")\n");
  StrAppend(&text, "y = Add(s10, x)\n");
  std::vector<Tensor> values[2];
  const Feeds feeds = {{"x", Tensor(DType::kDouble, TensorShape({3001}))}};
  for (int i = 0; i < 3001; ++i) const_cast<Tensor&>(feeds[0].second).data<double>()[i] = 0.001 * i;
  for (const bool fuse : {false, true}) {
    SessionOptions options;
    options.fuse = fuse;
    auto session = Session::Create(options).value();
    BOOST_REQUIRE(session->Extend(**ParseGraphText(text)).ok());
    const auto callable = session->Prepare({"x"}, {"y"}, {});
    BOOST_REQUIRE_MESSAGE(callable.ok(), callable.status());
    const auto run = [&] {
      const absl::Status s = callable->Run({feeds[0].second}, &values[fuse]);
      if (!s.ok()) values[fuse].clear();
    };
    std::function<void()> call = run;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    BOOST_REQUIRE(pthread_attr_setstacksize(&attr, kStack) == 0);
    pthread_t thread;
    const auto start = [](void* f) -> void* { return (*static_cast<std::function<void()>*>(f))(), nullptr; };
    BOOST_REQUIRE(pthread_create(&thread, &attr, start, &call) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attr);
    BOOST_REQUIRE(values[fuse].size() == 1);
  }
  BOOST_TEST(std::memcmp(values[0][0].raw(), values[1][0].raw(), values[0][0].bytes()) == 0);
}

// One NaN or infinity in one operand: what comes out is not finite in the same places, and in the
// same way.
BOOST_AUTO_TEST_CASE(what_is_not_finite_goes_the_same_ways) {
  std::vector<Case> cases = Cases();
  for (const char* activation : {"Relu", "Relu6", "Elu"}) {
    static std::vector<std::string> texts;
    texts.reserve(4);
    texts.push_back(StrCat(R"(x = Placeholder[dtype=float32]
                              w = Placeholder[dtype=float32]
                              b = Placeholder[dtype=float32]
                              m = Conv2D[strides={1, 1, 1, 1}, padding="SAME"](x, w)
                              a = BiasAdd(m, b)
                              y = )",
                           activation, "(a)"));
    for (const auto& [c, k, oc] : {std::array<int64_t, 3>{4, 2, 16}, {4, 3, 8}, {16, 3, 32}, {8, 1, 16}}) {
      cases.push_back({activation,
                       texts.back().c_str(),
                       "_FusedConv2D",
                       {{"x", Random(TensorShape({3, 6, 7, c}), 1)},
                        {"w", Random(TensorShape({k, k, c, oc}), 2)},
                        {"b", Random(TensorShape({oc}), 3)}},
                       true});
    }
  }
  for (const Case& c : cases) {
    for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
      for (size_t where = 0; where < c.feeds.size(); ++where) {
        BOOST_TEST_CONTEXT(c.what << ", " << bad << " in " << c.feeds[where].first) {
          Feeds feeds = c.feeds;
          Tensor& t = feeds[where].second;
          t = t.Clone();
          t.data<float>()[t.num_elements() / 2] = bad;
          const Result off = RunText(c.text, feeds, {"y"}, false, 1), on = RunText(c.text, feeds, {"y"}, true, 1);
          BOOST_REQUIRE_MESSAGE(off.status.ok() && on.status.ok(), off.status.ToString() << on.status.ToString());
          BOOST_TEST(on.ops.find(c.fused_op) != std::string::npos, on.ops);
          int wrong = 0;
          for (int64_t i = 0; i < on.values[0].num_elements(); ++i) {
            const float got = on.values[0].data<float>()[i], want = off.values[0].data<float>()[i];
            // 144 products of order one, added in another order.
            wrong += std::isfinite(want) ? !(std::abs(got - want) <= 1e-4f * std::abs(want) + 2e-5f)
                                         : !(got == want || (std::isnan(got) && std::isnan(want)));
          }
          BOOST_TEST(wrong == 0);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(errors_of_element_wise_groups) {
  static constexpr char kText[] = R"(
      x = Placeholder[dtype=float64]
      y = Placeholder[dtype=float64]
      first = Neg(x)
      second = Add(first, y)
      third = SigmoidGrad(second, y))";
  const auto zeros = [](const TensorShape& shape) {
    Tensor t(DType::kDouble, shape);
    std::memset(t.raw(), 0, t.bytes());
    return t;
  };
  const Result add =
      RunText(kText, {{"x", zeros(TensorShape({2}))}, {"y", zeros(TensorShape({3}))}}, {"third"}, true, 1);
  BOOST_TEST(add.status.ToString().find("node 'second' (Add)") != std::string::npos, add.status.ToString());
  BOOST_TEST(add.status.ToString().find("Incompatible shapes: [2] vs. [3]") != std::string::npos,
             add.status.ToString());
  const Result grad =
      RunText(kText, {{"x", zeros(TensorShape({2, 3}))}, {"y", zeros(TensorShape({3}))}}, {"third"}, true, 1);
  BOOST_TEST(grad.status.ToString().find("node 'third' (SigmoidGrad)") != std::string::npos, grad.status.ToString());
}

BOOST_AUTO_TEST_CASE(a_sum_of_products_without_elements) {
  static constexpr char kText[] = R"(
      a = Placeholder[dtype=float32]
      b = Placeholder[dtype=float32]
      c = Placeholder[dtype=float32]
      p = MatMul[transpose_a=true](a, b)
      q = MatMul[transpose_a=true](c, b)
      y = AddN[N=2](p, q))";
  // Twice as many rows, or columns of three results, are more than an int64 can say.
  constexpr int64_t kMany = int64_t{1} << 62;
  const std::pair<TensorShape, TensorShape> kShapes[] = {{TensorShape({kMany, 0}), TensorShape({kMany, 0})},
                                                         {TensorShape({0, kMany}), TensorShape({0, 0})},
                                                         {TensorShape({0, 0}), TensorShape({0, kMany})},
                                                         {TensorShape({5, 0}), TensorShape({5, 7})}};
  for (const auto& [a, b] : kShapes) {
    for (const bool fuse : {false, true}) {
      BOOST_TEST_CONTEXT(a.DebugString() << " " << b.DebugString() << " " << fuse) {
        const Feeds feeds = {
            {"a", Tensor(DType::kFloat, a)}, {"b", Tensor(DType::kFloat, b)}, {"c", Tensor(DType::kFloat, a)}};
        const Result r = RunText(kText, feeds, {"y"}, fuse, 1);
        BOOST_REQUIRE_MESSAGE(r.status.ok(), r.status.ToString());
        BOOST_TEST(Has(r, "_SumOfProducts") == fuse, r.ops);
        BOOST_TEST((r.values[0].shape() == TensorShape({a.dim(1), b.dim(1)})));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_value_in_the_middle_can_be_fetched_and_fed) {
  const Case c = Cases()[0];
  const Result middle = RunText(c.text, c.feeds, {"y", "a", "m"}, true, 1);
  const Result all = RunText(c.text, c.feeds, {"y"}, true, 1);
  BOOST_REQUIRE(middle.status.ok() && all.status.ok());
  BOOST_TEST(middle.ops.find("_Fused") == std::string::npos, middle.ops);
  BOOST_TEST(std::memcmp(middle.values[0].raw(), all.values[0].raw(), all.values[0].bytes()) == 0);
  Feeds feeds = c.feeds;
  feeds.push_back({"m", Random(TensorShape({2, 23}), 9)});
  const Result fed = RunText(c.text, feeds, {"y"}, true, 1);
  BOOST_REQUIRE(fed.status.ok());
  BOOST_TEST(fed.values[0].dim(0) == 2);
}

BOOST_AUTO_TEST_CASE(errors_name_the_nodes_that_were_written) {
  const std::vector<Case> cases = Cases();
  struct Bad {
    size_t of;
    const char* feed;
    TensorShape shape;
    std::vector<const char*> words;
  };
  const Bad kBad[] = {
      {0, "w", TensorShape({49, 23}), {"node 'm' (MatMul)", "[37,50]", "[49,23]"}},
      {0, "x", TensorShape({3}), {"node 'm' (MatMul)", "[3]"}},
      {0, "b", TensorShape({22}), {"node 'a' (BiasAdd)", "[22]", "23"}},
      {6, "w", TensorShape({3, 3, 2, 7}), {"node 'm' (Conv2D)"}},
      {6, "b", TensorShape({8}), {"node 'a' (BiasAdd)", "[8]", "7"}},
      {7, "x", TensorShape({5, 9, 8, 3}), {"node 'y' (ReluGrad)", "[5,9,9,3]", "[5,9,8,3]"}},
      {7, "d", TensorShape({5, 5, 4, 7}), {"node 'g' (Conv2DBackpropInput)"}},
      {8, "e", TensorShape({5, 5, 5, 6}), {"node 'g' (Conv2DBackpropFilter)"}},
      {9, "d", TensorShape({3, 23}), {"node 'q' (MatMul)", "[2,31]", "[3,23]"}},
      {9, "e", TensorShape({5}), {"node 'r' (MatMul)", "[5]"}},
      {9, "c", TensorShape({2, 30}), {"node 'y' (AddN)", "[31,23]", "[30,23]"}},
  };
  for (const Bad& bad : kBad) {
    Feeds feeds = cases[bad.of].feeds;
    for (auto& [name, value] : feeds) {
      if (name == bad.feed) value = Random(bad.shape, 1);
    }
    const Result r = RunText(cases[bad.of].text, feeds, {"y"}, true, 1);
    BOOST_TEST((r.status.code() == absl::StatusCode::kInvalidArgument));
    for (const char* word : bad.words)
      BOOST_TEST(r.status.ToString().find(word) != std::string::npos, r.status.ToString() << " has no " << word);
  }
}

// The line is that of the node at fault, also where a node was fused twice.
BOOST_AUTO_TEST_CASE(errors_name_the_lines_that_were_written) {
  const Scope s = Scope::NewRootScope();
  const auto at = [&](uint32_t line) { return s.WithLocation({"of/model.cc", line}); };
  const auto fed = [&](const char* name) {
    return EmitOp(at(1).WithOpName(name), "Placeholder", {}, {{"dtype", DType::kFloat}}).output(0);
  };
  const Output a = fed("a"), b = fed("b"), c = fed("c"), bias = fed("bias");
  const AttrMap transposed = {{"transpose_a", true}};
  const Output p = EmitOp(at(11), "MatMul", {a, b}, transposed).output(0),
               q = EmitOp(at(12), "MatMul", {c, b}, transposed).output(0),
               sum = EmitLists(at(13), "AddN", {InputList(std::vector<Output>{p, q})}).output(0);
  const Output product = EmitOp(at(21), "MatMul", {a, b}).output(0),
               biased = EmitOp(at(22), "BiasAdd", {product, bias}).output(0),
               relu = EmitOp(at(23), "Relu", {biased}).output(0);
  const Output negative = EmitOp(at(31), "Neg", {a}).output(0), more = EmitOp(at(32), "Add", {negative, b}).output(0),
               all = EmitOp(at(33), "Tanh", {more}).output(0);
  // As of an imported graph: nobody knows its line.
  const Output lineless = EmitOp(s, "Mul", {a, b}).output(0), after = EmitOp(at(43), "Tanh", {lineless}).output(0);
  lineless.node()->set_location({});
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*s.graph()).ok());
  constexpr int kUnknown = -1;
  struct Bad {
    Output fetch;
    TensorShape a, b, c, bias;
    int line;  // 0: none is at fault
    const char* op;
  };
  const TensorShape square({4, 4}), other({3, 3}), four({4});
  const Bad kBad[] = {{sum, square, square, square, four, 0, "_SumOfProducts"},
                      {sum, other, square, square, four, 11, "_SumOfProducts"},
                      {sum, square, square, other, four, 12, "_SumOfProducts"},
                      {sum, square, square, TensorShape({4, 3}), four, 13, "_SumOfProducts"},
                      {relu, square, square, square, four, 0, "_FusedMatMul"},
                      {relu, square, other, square, four, 21, "_FusedMatMul"},
                      {relu, square, square, square, TensorShape({3}), 22, "_FusedMatMul"},
                      {all, square, square, square, four, 0, "_FusedElementwise"},
                      {all, square, other, square, four, 32, "_FusedElementwise"},
                      {after, square, square, square, four, 0, "_FusedElementwise"},
                      {after, square, other, square, four, kUnknown, "_FusedElementwise"}};
  for (const Bad& bad : kBad) {
    RunOptions run;
    run.partition_graphs = true;
    proto::RunMetadata metadata;
    std::vector<Tensor> out;
    const Feeds feeds = {{a.name(), Random(bad.a, 1)},
                         {b.name(), Random(bad.b, 2)},
                         {c.name(), Random(bad.c, 3)},
                         {bias.name(), Random(bad.bias, 4)}};
    const absl::Status status = session->Run(run, feeds, {bad.fetch}, {}, &out, &metadata);
    if (bad.line == 0) {
      BOOST_TEST(status.ok(), status);
      std::string ops;
      for (const auto& part : metadata.partition_graphs()) {
        for (const auto& node : part.node()) StrAppend(&ops, node.op(), " ");
      }
      BOOST_TEST(ops.find(bad.op) != std::string::npos, ops);
    } else if (bad.line == kUnknown) {
      BOOST_TEST(!status.ok());
      BOOST_TEST(status.message().find("defined at") == absl::string_view::npos, status);
    } else {
      const std::string made = StrCat("; defined at model.cc:", bad.line);
      BOOST_TEST(std::string(status.message()).ends_with(made), status);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fused_test
}  // namespace troupe
