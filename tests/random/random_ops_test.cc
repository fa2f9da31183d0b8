// What random ops promise apart from their numbers.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>
#include <thread>

#include "kernels/run_kernel.h"
#include "kernels/random/philox.h"

namespace troupe {
namespace random_ops_test {

absl::StatusOr<Tensor> Draw(std::string_view op, std::vector<Tensor> inputs, AttrMap attrs,
                            const std::string& session = "s") {
  EvaluateOptions options;
  options.session = session;
  TROUPE_ASSIGN_OR_RETURN(std::vector<Tensor> out, EvaluateOp(op, std::move(inputs), std::move(attrs), {}, options));
  return out[0];
}
const Tensor kEight = Tensor::Vector<int32_t>({8});
bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}
bool Says(const absl::Status& s, const std::string& part) { return s.ToString().find(part) != std::string::npos; }

BOOST_AUTO_TEST_SUITE(random_ops)

BOOST_AUTO_TEST_CASE(the_words_of_philox) {
  // Known answers of the algorithm's authors.
  const random::Philox::Words zero = random::Philox({0, 0, 0, 0}, {0, 0})();
  BOOST_TEST((zero == random::Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  BOOST_TEST((random::Philox({f, f, f, f}, {f, f})() ==
              random::Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

BOOST_AUTO_TEST_CASE(skipping_carries) {
  random::Philox p({0xfffffffe, 0xffffffff, 0xffffffff, 1}, {0, 0});
  p.Skip(3);
  BOOST_TEST((p.counter() == random::Philox::Words{1, 0, 0, 2}));
}

BOOST_AUTO_TEST_CASE(a_stream_belongs_to_its_session) {
  const AttrMap seeded = {{"dtype", DType::kFloat}, {"seed", 3}};
  const Tensor a1 = *Draw("RandomUniform", {kEight}, seeded, "a"), a2 = *Draw("RandomUniform", {kEight}, seeded, "a");
  const Tensor b1 = *Draw("RandomUniform", {kEight}, seeded, "b"), b2 = *Draw("RandomUniform", {kEight}, seeded, "b");
  BOOST_TEST(SameBytes(a1, b1));
  BOOST_TEST(SameBytes(a2, b2));
  BOOST_TEST(!SameBytes(a1, a2));
}

BOOST_AUTO_TEST_CASE(without_seeds_sessions_differ) {
  const AttrMap attrs = {{"dtype", DType::kFloat}};
  BOOST_TEST(!SameBytes(*Draw("RandomUniform", {kEight}, attrs, "unseeded a"),
                        *Draw("RandomUniform", {kEight}, attrs, "unseeded b")));
}

BOOST_AUTO_TEST_CASE(threads_never_draw_the_same_numbers) {
  Graph graph;
  Node* const node =
      *graph.AddNode("shared", "RandomUniformInt", {{"Tout", DType::kInt64}, {"T", DType::kInt32}, {"seed", 1}});
  Device* const device = EvaluationDevice(1);
  const KernelNode described = DescribeNode(*node, device);
  std::vector<std::vector<int64_t>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&] {
      // A kernel of its own, as every signature has.
      const PreparedKernel kernel = *PrepareKernel(*node, device, SessionScope("threads"));
      for (int i = 0; i < 200; ++i) {
        StepContext step;
        const Tensor t = (*EvaluateKernel(
            kernel, described, {kEight, Tensor::Scalar<int64_t>(0), Tensor::Scalar<int64_t>(int64_t{1} << 62)},
            &step))[0];
        mine.insert(mine.end(), t.data<int64_t>(), t.data<int64_t>() + 8);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  std::set<int64_t> all;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  BOOST_TEST(all.size() == 4u * 200 * 8);
}

BOOST_AUTO_TEST_CASE(samples_have_the_shape_that_the_input_says) {
  const AttrMap f = {{"dtype", DType::kFloat}};
  BOOST_TEST(Draw("RandomUniform", {Tensor::Vector<int64_t>({2, 0, 3})}, f)->shape().DebugString() == "[2,0,3]");
  BOOST_TEST(Draw("RandomUniform", {Tensor(DType::kInt32, {0})}, f)->shape().DebugString() == "[]");
  BOOST_TEST(Says(Draw("RandomUniform", {Tensor::Vector<int32_t>({2, -1})}, f).status(), "INVALID_ARGUMENT"));
  BOOST_TEST(Says(Draw("RandomUniform", {Tensor::Scalar<int32_t>(2)}, f).status(), "must be a vector"));
  const int64_t big = int64_t{1} << 40;
  BOOST_TEST(Says(Draw("RandomUniform", {Tensor::Vector<int64_t>({big, big})}, f).status(), "INVALID_ARGUMENT"));
}

BOOST_AUTO_TEST_CASE(random_integers_lie_between_their_bounds) {
  const Tensor five = Tensor::Scalar<int32_t>(5);
  BOOST_TEST(Says(Draw("RandomUniformInt", {kEight, five, five}, {}).status(), "minval must be less than maxval"));
  BOOST_TEST(Draw("RandomUniformInt", {Tensor::Vector<int32_t>({0}), five, five}, {}).ok());
  BOOST_TEST(Says(Draw("RandomUniformInt", {kEight, kEight, five}, {}).status(), "must be scalars"));
  const Tensor all =
      *Draw("RandomUniformInt",
            {Tensor::Vector<int32_t>({1000}), Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::min()),
             Tensor::Scalar<int32_t>(std::numeric_limits<int32_t>::max())},
            {{"seed", 1}});
  const auto values = all.flat<int32_t>();
  BOOST_TEST(std::count_if(values.begin(), values.end(), [](int32_t v) { return v < 0; }) > 400);
}

BOOST_AUTO_TEST_CASE(samples_have_the_mean_and_variance_of_their_distribution) {
  const Tensor size = Tensor::Vector<int32_t>({100000});
  const struct {
    const char* op;
    double mean, variance, bound;
  } cases[] = {
      {"RandomUniform", 0.5, 1.0 / 12, 1}, {"RandomStandardNormal", 0, 1, 7}, {"TruncatedNormal", 0, 0.7741, 2}};
  for (const auto& c : cases) {
    const Tensor t = *Draw(c.op, {size}, {{"dtype", DType::kDouble}, {"seed", 11}});
    double sum = 0, squares = 0, greatest = 0;
    for (double v : t.flat<double>()) {
      sum += v;
      squares += v * v;
      greatest = std::max(greatest, std::abs(v));
    }
    const double mean = sum / 1e5;
    BOOST_TEST(std::abs(mean - c.mean) < 0.01, c.op << " has mean " << mean);
    BOOST_TEST(std::abs(squares / 1e5 - mean * mean - c.variance) < 0.02, c.op);
    BOOST_TEST(greatest < c.bound, c.op);
  }
}

BOOST_AUTO_TEST_CASE(shuffling_keeps_rows) {
  const Tensor words = Tensor::Of<std::string>({"a", "A", "b", "B", "c", "C"}, {3, 2});
  const Tensor t = *Draw("RandomShuffle", {words}, {{"seed", 4}});
  std::set<std::string> first;
  for (int i = 0; i < 3; ++i) {
    first.insert(t.data<std::string>()[2 * i]);
    BOOST_TEST(std::tolower(t.data<std::string>()[2 * i + 1][0]) == t.data<std::string>()[2 * i][0]);
  }
  BOOST_TEST(first.size() == 3u);
  BOOST_TEST(*Draw("RandomShuffle", {Tensor::Scalar<float>(3)}, {})->data<float>() == 3);
}

BOOST_AUTO_TEST_CASE(classes_are_drawn_as_often_as_their_logits_say) {
  const float never = -std::numeric_limits<float>::infinity();
  const Tensor logits = Tensor::Of<float>({0, never, 0, never, never, 5}, {2, 3});
  const Tensor t = *Draw("Multinomial", {logits, Tensor::Scalar<int32_t>(1000)}, {{"seed", 1}});
  BOOST_TEST(t.shape().DebugString() == "[2,1000]");
  const int64_t* v = t.data<int64_t>();
  BOOST_TEST(std::count(v, v + 1000, 1) == 0);
  BOOST_TEST(std::abs(std::count(v, v + 1000, 0) - 500) < 80);
  BOOST_TEST(std::count(v + 1000, v + 2000, 2) == 1000);
  BOOST_TEST(Says(Draw("Multinomial", {Tensor(DType::kFloat, {2, 0}), Tensor::Scalar<int32_t>(1)}, {}).status(),
                  "at least one class"));
  BOOST_TEST(Says(Draw("Multinomial", {logits, Tensor::Scalar<int32_t>(-1)}, {}).status(), "must not be negative"));
}

BOOST_AUTO_TEST_CASE(stateless_seeds_have_two_numbers) {
  BOOST_TEST(Says(Draw("StatelessRandomUniform", {kEight, Tensor::Vector<int64_t>({1, 2, 3})}, {}).status(),
                  "seed must have shape [2], not [3]"));
  const Tensor seed = Tensor::Vector<int32_t>({1, 2}), wide = Tensor::Vector<int64_t>({1, 2});
  BOOST_TEST(SameBytes(*Draw("StatelessRandomUniform", {kEight, seed}, {}),
                       *Draw("StatelessRandomUniform", {kEight, wide}, {})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace random_ops_test
}  // namespace troupe
