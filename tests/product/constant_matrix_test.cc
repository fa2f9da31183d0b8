// Products whose right operand is a constant of the graph, which the kernel may keep in panels:
// values against plain sums, the same bits in every step, however many threads there are, alone and
// fused, in and out of loops.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/product/gemm.h"
#include "tests/common/run_text.h"

namespace troupe {
namespace constant_matrix_test {

struct Options {
  bool transposed = false, bias = false, fuse = true;
  int threads = 1, steps = 1;
};

// x * b (+ bias), with b a constant.
Tensor Product(const Tensor& x, const Tensor& b, const Tensor& bias, const Options& o) {
  SessionOptions options;
  options.fuse = o.fuse;
  options.runtime_options.threads = o.threads;
  auto session = *Session::Create(options);
  Scope root = Scope::NewRootScope();
  const Output in = ops::Placeholder(root.WithOpName("x"), DType::kFloat), w = ops::Const(root, b);
  Output y = ops::MatMul(root, in, w, {.transpose_b = o.transposed});
  if (o.bias) y = ops::Relu(root, ops::BiasAdd(root, y, ops::Const(root, bias)));
  BOOST_REQUIRE(root.status().ok());
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> first, out;
  for (int i = 0; i < o.steps; ++i) {
    const absl::Status s = session->Run({{in, x}}, {y}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    if (i == 0) first = out;
    BOOST_TEST(std::memcmp(first[0].raw(), out[0].raw(), out[0].bytes()) == 0);
  }
  return out[0];
}

void CheckProduct(int64_t m, int64_t n, int64_t k, bool transposed, bool bias) {
  const Tensor x = Random(TensorShape({m, k}), 1), v = Random(TensorShape({n}), 3),
               b = Random(transposed ? TensorShape({n, k}) : TensorShape({k, n}), 2);
  const Tensor got = Product(x, b, v, {.transposed = transposed, .bias = bias, .steps = 3});
  int wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, size = 0;
      for (int64_t p = 0; p < k; ++p) {
        const double term = double(x.data<float>()[i * k + p]) * b.data<float>()[transposed ? j * k + p : p * n + j];
        sum += term;
        size += std::abs(term);
      }
      if (bias) sum = std::max(0.0, sum + v.data<float>()[j]);
      wrong += !(std::abs(got.data<float>()[i * n + j] - sum) <= 1e-6 * (size + 1));
    }
  }
  BOOST_TEST(wrong == 0, m << " " << n << " " << k << (transposed ? " transposed" : "") << (bias ? " bias" : ""));
  for (const Options& o : {Options{.transposed = transposed, .bias = bias, .threads = 3},
                           Options{.transposed = transposed, .bias = bias, .fuse = false}}) {
    const Tensor same = Product(x, b, v, o);
    BOOST_TEST(std::memcmp(same.raw(), got.raw(), got.bytes()) == 0);
  }
}

BOOST_AUTO_TEST_SUITE(constant_matrix)

BOOST_AUTO_TEST_CASE(values_and_bits) {
  for (const bool transposed : {false, true}) {
    for (const bool bias : {false, true}) {
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{2, 100, 70},
                                    {8, 256, 128},
                                    {5, 47, 600},
                                    {16, 49, 33},
                                    {48, 65, 40},
                                    {49, 65, 40},
                                    {3, 1030, 700},
                                    {1, 64, 200},
                                    {20, 1, 300},
                                    {12, 24, 20}}) {
        CheckProduct(m, n, k, transposed, bias);
      }
    }
  }
}

// A hundred thousand multiplications with eight rows take panels at the levels that were measured.
BOOST_AUTO_TEST_CASE(which_products_take_panels) {
  const bool wide = IsaLevel() >= 3;
  BOOST_TEST(GemmTakesPanels({.m = 8, .n = 128, .k = 100}) == wide);
  BOOST_TEST(!GemmTakesPanels({.m = 1, .n = 128, .k = 800}));
  BOOST_TEST(!GemmTakesPanels({.m = 800, .n = 128, .k = 100}));
  BOOST_TEST(!GemmTakesPanels({.m = 4, .n = 8, .k = 8}));
}

// What is fed in place of the constant, and another session's constant, are used as they are.
BOOST_AUTO_TEST_CASE(a_constant_that_is_fed) {
  Scope root = Scope::NewRootScope();
  const Output in = ops::Placeholder(root, DType::kFloat), w = ops::Const(root, Random(TensorShape({64, 40}), 4)),
               y = ops::MatMul(root, in, w);
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  const Tensor x = Random(TensorShape({8, 64}), 1);
  std::vector<Tensor> kept, fed, again;
  BOOST_REQUIRE(session->Run({{in, x}}, {y}, {}, &kept).ok());
  BOOST_REQUIRE(session->Run({{in, x}, {w, Random(TensorShape({64, 40}), 5)}}, {y}, {}, &fed).ok());
  BOOST_REQUIRE(session->Run({{in, x}}, {y}, {}, &again).ok());
  BOOST_TEST(std::memcmp(kept[0].raw(), again[0].raw(), kept[0].bytes()) == 0);
  BOOST_TEST(std::memcmp(kept[0].raw(), fed[0].raw(), kept[0].bytes()) != 0);
}

// As much of the device's memory as the panels of one constant take, however many nodes and sets of
// fetches have it, and none when the last session with it is gone.
BOOST_AUTO_TEST_CASE(one_copy_for_all_who_have_the_constant) {
  constexpr int64_t kRows = 8, kSize = 512;
  const int64_t one = GemmTakesPanels({.m = kRows, .n = kSize, .k = kSize}) ? 1 : 0;
  const Tensor weights = Random(TensorShape({kSize, kSize}), 1), x = Random(TensorShape({kRows, kSize}), 2);
  Scope root = Scope::NewRootScope();
  const Output in = ops::Placeholder(root, DType::kFloat), w = ops::Const(root, weights), y = ops::MatMul(root, in, w),
               z = ops::MatMul(root, ops::Tanh(root, y), w), t = ops::MatMul(root, in, w, {.transpose_b = true});
  SessionOptions options;
  options.runtime = *Runtime::Start({.threads = 1});
  const auto used = [&] { return options.runtime->devices()[0].memory.bytes_in_use; };
  const int64_t before = used();
  // What is charged for a copy is somewhat more than its bytes, and what a step leaves behind for
  // the next one is much less.
  const auto copies = [&] { return (used() - before) / (kSize * kSize * 4); };
  auto first = *Session::Create(options), second = *Session::Create(options);
  for (auto* session : {&first, &second}) BOOST_REQUIRE((*session)->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  const auto run = [&](Session& session, const std::vector<Output>& fetches) {
    BOOST_REQUIRE(session.Run({{in, x}}, fetches, {}, &out).ok());
    out.clear();
  };
  run(*first, {y});
  BOOST_TEST(copies() == one, used() - before);
  run(*first, {z});
  run(*first, {y, z});
  run(*second, {y});
  run(*second, {z, y});
  BOOST_TEST(copies() == one, used() - before);
  // In another order it is another copy.
  run(*second, {t});
  BOOST_TEST(copies() == 2 * one, used() - before);
  second.reset();
  BOOST_TEST(copies() == one, used() - before);
  run(*first, {z});
  first.reset();
  BOOST_TEST(copies() == 0, used() - before);
}

// Ten times h = tanh(h w), in a loop and without one.
BOOST_AUTO_TEST_CASE(a_constant_that_a_loop_takes_in) {
  const Tensor w = Random(TensorShape({64, 64}), 1), h = Random(TensorShape({8, 64}), 2);
  Scope root = Scope::NewRootScope();
  const Output weights = ops::Const(root, w), start = ops::Placeholder(root.WithOpName("h"), DType::kFloat);
  const OutputList loop = While(
      root, {0, start}, [](const Scope&, const OutputList& v) { return v[0] < 10; },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        return {v[0] + 1, ops::Tanh(s, ops::MatMul(s, v[1], weights))};
      });
  Output straight = start;
  for (int i = 0; i < 10; ++i) straight = ops::Tanh(root, ops::MatMul(root, straight, weights));
  BOOST_REQUIRE_MESSAGE(root.status().ok(), root.status());
  auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  for (int i = 0; i < 2; ++i) {
    const absl::Status s = session->Run({{start, h}}, {loop[1], straight}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s);
    BOOST_TEST(std::memcmp(out[0].raw(), out[1].raw(), out[0].bytes()) == 0);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace constant_matrix_test
}  // namespace troupe
