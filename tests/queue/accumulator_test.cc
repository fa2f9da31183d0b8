// Accumulators: what TensorFlow's do (recorded from TensorFlow 2.21), sums by a naive loop, and
// that many replicas make whole means.
#include "kernels/accumulator/accumulator.h"

#include <atomic>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include <boost/test/unit_test.hpp>

#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/resource_state.h"

namespace troupe::accumulator {
namespace accumulator_test {

BOOST_AUTO_TEST_SUITE(accumulators)

using Kind = AccumulatorRequest::Kind;

std::shared_ptr<Accumulator> New(const std::string& kind, PartialTensorShape shape, bool mean = true,
                                 DType dtype = DType::kFloat) {
  AccumulatorSpec spec;
  spec.kind = kind;
  spec.name = "a";
  spec.shape = std::move(shape);
  spec.mean = mean;
  spec.dtype = dtype;
  auto made = Accumulator::Make(spec);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  return *made;
}
std::shared_ptr<Accumulator> NewDense(PartialTensorShape shape, bool mean = true, DType dtype = DType::kFloat) {
  return New("ConditionalAccumulator", std::move(shape), mean, dtype);
}
std::shared_ptr<Accumulator> NewSparse(PartialTensorShape shape, bool mean = true) {
  return New("SparseConditionalAccumulator", std::move(shape), mean);
}

AccumulatorRequestPtr Ask(const Accumulator& a, Kind kind) {
  auto r = std::make_shared<AccumulatorRequest>();
  r->kind = kind;
  a.Ask(r);
  return r;
}
std::string Code(const AccumulatorRequestPtr& r) {
  if (!r->answered()) return "waits";
  return r->status().ok() ? "OK" : absl::StatusCodeToString(r->status().code());
}
std::string Apply(const Accumulator& a, int64_t step, const Tensor& gradient) {
  auto r = std::make_shared<AccumulatorRequest>();
  r->kind = Kind::kApply;
  r->step = step;
  r->values = gradient;
  a.Ask(r);
  return Code(r);
}
std::string Apply(const Accumulator& a, int64_t step, const std::vector<float>& gradient) {
  return Apply(a, step, Tensor::Vector<float>(gradient));
}
std::string ApplyRows(const Accumulator& a, int64_t step, const std::vector<int64_t>& indices, const Tensor& values,
                      PartialTensorShape shape = {}) {
  auto r = std::make_shared<AccumulatorRequest>();
  r->kind = Kind::kApply;
  r->step = step;
  r->indices = Tensor::Vector<int64_t>(indices);
  r->values = values;
  r->shape = std::move(shape);
  a.Ask(r);
  return Code(r);
}
Tensor Pairs(const std::vector<float>& x) {
  return Tensor::Of<float>(x, TensorShape({static_cast<int64_t>(x.size()) / 2, 2}));
}
AccumulatorRequestPtr AskToTake(const Accumulator& a, int64_t required) {
  auto r = std::make_shared<AccumulatorRequest>();
  r->kind = Kind::kTake;
  r->required = required;
  a.Ask(r);
  return r;
}
std::string Text(const AccumulatorRequestPtr& r) {
  if (Code(r) != "OK") return Code(r);
  if (!r->indices.valid()) return r->values.DebugString(20);
  return StrCat(r->indices.DebugString(20), " ", r->values.DebugString(20), " ", r->shape.DebugString());
}
std::string Take(const Accumulator& a, int64_t required) { return Text(AskToTake(a, required)); }
int64_t Count(const Accumulator& a) { return Ask(a, Kind::kCount)->count; }
void SetStep(const Accumulator& a, int64_t step) {
  auto r = std::make_shared<AccumulatorRequest>();
  r->kind = Kind::kSetStep;
  r->step = step;
  a.Ask(r);
}

BOOST_AUTO_TEST_CASE(rows_1_to_3_enough_gradients_have_a_mean) {
  const auto a = NewDense(PartialTensorShape{2});
  for (const auto& [step, g] : {std::pair(0, std::vector<float>{1, 2}), {0, {3, 4}}, {5, {5, 0}}})
    BOOST_TEST(Apply(*a, step, g) == "OK");
  BOOST_TEST(Count(*a) == 3);
  BOOST_TEST(Take(*a, 2) == "float32 [2] [3 2]");
  BOOST_TEST(Count(*a) == 0);
  // Its step is 1 now.
  BOOST_TEST(Apply(*a, 0, {9, 9}) == "OK");
  BOOST_TEST(Count(*a) == 0);
  BOOST_TEST(Apply(*a, 1, {9, 9}) == "OK");
  BOOST_TEST(Count(*a) == 1);
  BOOST_TEST(Apply(*a, 1, {1, 2, 3}) == "INVALID_ARGUMENT");
  BOOST_TEST(Count(*a) == 1);
}

BOOST_AUTO_TEST_CASE(row_4_a_take_waits_in_line) {
  const auto a = NewDense({});
  const auto two = AskToTake(*a, 2), one = AskToTake(*a, 1);
  Apply(*a, 0, {1});
  BOOST_TEST(Text(two) == "waits");
  BOOST_TEST(Text(one) == "waits");
  Apply(*a, 0, {3});
  BOOST_TEST(Text(two) == "float32 [1] [2]");
  BOOST_TEST(Text(one) == "waits");
  Apply(*a, 1, {5});
  BOOST_TEST(Text(one) == "float32 [1] [5]");
  // One whose step ended leaves the line; the actor's death aborts the others.
  const auto gone = AskToTake(*a, 1), next = AskToTake(*a, 2);
  a->Withdraw(gone);
  Apply(*a, 2, {6});
  BOOST_TEST(Text(next) == "waits");
  a->machine()->AbortWaiting(absl::AbortedError("dead"));
  BOOST_TEST(Text(next) == "ABORTED");
  BOOST_TEST(Take(*a, 1) == "float32 [1] [6]");
}

BOOST_AUTO_TEST_CASE(row_5_the_step_can_be_set) {
  const auto a = NewDense(PartialTensorShape{2});
  Apply(*a, 1, {9, 9});
  SetStep(*a, 3);
  SetStep(*a, 1);
  Apply(*a, 2, {1, 1});
  BOOST_TEST(Count(*a) == 2);
  BOOST_TEST(Take(*a, 1) == "float32 [2] [5 5]");
  Apply(*a, 1, {1, 1});
  BOOST_TEST(Count(*a) == 0);
  Apply(*a, 2, {1, 1});
  BOOST_TEST(Count(*a) == 1);
}

BOOST_AUTO_TEST_CASE(sums_and_shapes_are_tensorflows) {
  const auto a = NewDense({}, /*mean=*/false);
  BOOST_TEST(Apply(*a, 0, {1, 2}) == "OK");
  BOOST_TEST(Apply(*a, 0, {1, 2, 3}) == "INVALID_ARGUMENT");
  BOOST_TEST(Apply(*a, 0, {1, 2}) == "OK");
  BOOST_TEST(Take(*a, 2) == "float32 [2] [2 4]");
  // The next ones may have another shape.
  BOOST_TEST(Apply(*a, 7, {1, 2, 3}) == "OK");
  BOOST_TEST(Apply(*a, 7, Tensor::Of<float>({1}, TensorShape({1, 1}))) == "INVALID_ARGUMENT");
  BOOST_TEST(Take(*a, 1) == "float32 [3] [1 2 3]");
  AccumulatorSpec spec;
  spec.kind = "ConditionalAccumulator";
  spec.dtype = DType::kInt32;
  BOOST_TEST(!spec.Check().ok());
}

BOOST_AUTO_TEST_CASE(rows_are_tensorflows) {
  const auto a = NewSparse(PartialTensorShape{4, 2});
  BOOST_TEST(ApplyRows(*a, 0, {0, 2}, Pairs({1, 2, 3, 4})) == "OK");
  BOOST_TEST(ApplyRows(*a, 0, {2, 3}, Pairs({5, 6, 7, 8})) == "OK");
  BOOST_TEST(Count(*a) == 2);
  BOOST_TEST(Take(*a, 2) == "int64 [3] [0 2 3] float32 [3,2] [1 2 4 5 7 8] [4,2]");
  // Other than TensorFlow's, rows are sorted, and those of one gradient with the same index added.
  BOOST_TEST(ApplyRows(*a, 1, {2, 0}, Pairs({1, 1, 2, 2})) == "OK");
  BOOST_TEST(Take(*a, 1) == "int64 [2] [0 2] float32 [2,2] [2 2 1 1] [4,2]");
  BOOST_TEST(ApplyRows(*a, 2, {1, 1}, Pairs({1, 1, 2, 2})) == "OK");
  BOOST_TEST(Take(*a, 1) == "int64 [1] [1] float32 [1,2] [3 3] [4,2]");
  // Shapes that do not fit leave it as it is.
  BOOST_TEST(ApplyRows(*a, 3, {1}, Pairs({1, 1}), PartialTensorShape{4, 2}) == "OK");
  BOOST_TEST(ApplyRows(*a, 3, {1}, Pairs({1, 1}), PartialTensorShape{5, 2}) == "INVALID_ARGUMENT");
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{9}, {-1}, {0, 1}})
    BOOST_TEST(ApplyRows(*a, 3, bad, Pairs({1, 1})) == "INVALID_ARGUMENT");
  BOOST_TEST(ApplyRows(*a, 3, {0}, Tensor::Vector<float>({1})) == "INVALID_ARGUMENT");
  BOOST_TEST(Count(*a) == 1);
  BOOST_TEST(Take(*a, 1) == "int64 [1] [1] float32 [1,2] [1 1] [4,2]");
  // Sums, and shapes that are not known.
  const auto sum = NewSparse({}, /*mean=*/false);
  ApplyRows(*sum, 0, {0, 2}, Pairs({1, 2, 3, 4}));
  ApplyRows(*sum, 0, {2, 3}, Pairs({5, 6, 7, 8}));
  BOOST_TEST(Take(*sum, 2) == "int64 [3] [0 2 3] float32 [3,2] [1 2 8 10 7 8] [?,2]");
  ApplyRows(*sum, 1, {0}, Tensor::Vector<float>({1}));
  ApplyRows(*sum, 1, {0}, Tensor::Vector<float>({1}), PartialTensorShape{7});
  BOOST_TEST(Take(*sum, 2) == "int64 [1] [0] float32 [1] [2] [?]");
  const auto none = NewSparse(PartialTensorShape{-1, 2});
  BOOST_TEST(ApplyRows(*none, 0, {}, Tensor(DType::kFloat, {0, 2})) == "OK");
  BOOST_TEST(Count(*none) == 1);
  BOOST_TEST(Take(*none, 1) == "int64 [0] [] float32 [0,2] [] [?,2]");
}

// Against a loop, in every type; and saved and made again at any time.
BOOST_AUTO_TEST_CASE(means_are_those_of_a_loop) {
  std::mt19937 random(3);
  for (const bool sparse : {false, true}) {
    std::shared_ptr<Accumulator> a = sparse ? NewSparse(PartialTensorShape{9, 2}) : NewDense(PartialTensorShape{9, 2});
    for (int round = 0; round < 20; ++round) {
      std::map<int64_t, std::pair<int, std::vector<double>>> rows;
      const int gradients = 1 + static_cast<int>(random() % 5);
      for (int g = 0; g < gradients; ++g) {
        std::vector<int64_t> indices;
        std::vector<float> values;
        for (int64_t i = 0; i < 9; ++i) {
          if (sparse && random() % 2 == 0) continue;
          indices.push_back(i);
          auto& row = rows[i];
          ++row.first;
          row.second.resize(2);
          for (int k = 0; k < 2; ++k) {
            values.push_back(static_cast<float>(random() % 1000) / 8);
            row.second[static_cast<size_t>(k)] += values.back();
          }
        }
        BOOST_REQUIRE((sparse ? ApplyRows(*a, round, indices, Pairs(values)) : Apply(*a, round, Pairs(values))) ==
                      "OK");
        ResourceState state;
        a->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
        const auto again = MakeResource("a", state);
        BOOST_REQUIRE_MESSAGE(again.ok(), again.status());
        TROUPE_REQUIRE_OK((*again)->TakePlaceOf(*a));
        a = std::dynamic_pointer_cast<Accumulator>(*again);
      }
      BOOST_TEST(Count(*a) == gradients);
      const auto taken = AskToTake(*a, gradients);
      TROUPE_REQUIRE_OK(taken->status());
      BOOST_REQUIRE(taken->values.dim(0) == static_cast<int64_t>(rows.size()));
      int64_t at = 0;
      for (const auto& [index, row] : rows) {
        if (sparse) BOOST_TEST(taken->indices.data<int64_t>()[at] == index);
        for (int64_t k = 0; k < 2; ++k) {
          const double mean = row.second[static_cast<size_t>(k)] / row.first;
          BOOST_TEST(std::abs(taken->values.data<float>()[at * 2 + k] - mean) <= 1e-5 * std::abs(mean));
        }
        ++at;
      }
    }
  }
  for (const DType type : {DType::kHalf, DType::kBfloat16, DType::kDouble}) {
    const auto a = NewDense({}, true, type);
    const auto of = [&](double x) {
      Tensor t(type, {1});
      if (type == DType::kHalf) t.data<Half>()[0] = Half(static_cast<float>(x));
      if (type == DType::kBfloat16) t.data<BFloat16>()[0] = BFloat16(static_cast<float>(x));
      if (type == DType::kDouble) t.data<double>()[0] = x;
      return t;
    };
    Apply(*a, 0, of(1));
    Apply(*a, 0, of(2));
    BOOST_TEST(Take(*a, 2) == StrCat(Name(type), " [1] [1.5]"));
  }
}

BOOST_AUTO_TEST_CASE(bad_states_are_refused) {
  const auto a = NewSparse(PartialTensorShape{4, 2});
  ApplyRows(*a, 0, {0, 2}, Pairs({1, 2, 3, 4}));
  ResourceState state;
  a->Save([&](absl::StatusOr<ResourceState> s) { state = *std::move(s); });
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    ResourceState bad = state;
    bad.tensors.erase(bad.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    BOOST_TEST(!MakeResource("a", bad).ok(), state.tensors[i].first);
    bad = state;
    bad.tensors[i].second = Tensor::Scalar(-1.5);
    BOOST_TEST(!MakeResource("a", bad).ok(), state.tensors[i].first);
  }
  BOOST_TEST(!NewDense({})->TakePlaceOf(*a).ok());
}

// Both forms of the ops; and eight replicas apply gradients of equal numbers, while somebody takes
// means: each is of whole gradients.
BOOST_AUTO_TEST_CASE(eight_replicas_and_no_mean_has_half_a_gradient) {
  constexpr int kReplicas = 8, kSize = 500, kTakes = 30;
  for (const bool old : {false, true}) {
    const Scope root = Scope::NewRootScope();
    const std::string of = old ? "" : "Resource";
    const Output a = EmitOp(root.WithOpName("a"), of + "ConditionalAccumulator", {},
                            {{"dtype", DType::kFloat}, {"shape", PartialTensorShape{kSize}}})
                         .output(0);
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    const Output step = ops::Placeholder(root.WithOpName("step"), DType::kInt64);
    const Output wide = ops::Fill(root, Const(root, {kSize}), x);
    const Operation apply =
        EmitOp(root.WithOpName("apply"), of + "AccumulatorApplyGradient", {a, step, wide}, {{"dtype", DType::kFloat}});
    const Output mean =
        EmitOp(root.WithOpName("take"), of + "AccumulatorTakeGradient", {a, Const(root, 3)}, {{"dtype", DType::kFloat}})
            .output(0);
    const Output count = EmitOp(root, of + "AccumulatorNumAccumulated", {a}).output(0);
    const Operation set = EmitOp(root, of + "AccumulatorSetGlobalStep", {a, step});
    BOOST_TEST(mean.shape().DebugString() == StrCat("[", kSize, "]"));
    const auto session = NewSession(root);
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> replicas;
    for (int r = 0; r < kReplicas; ++r) {
      replicas.emplace_back([&, r] {
        for (int i = 0; !over; ++i) {
          const float v = static_cast<float>(r * 1000 + i % 100);
          if (!session
                   ->Run({{"x", Tensor::Scalar(v)}, {"step", Tensor::Scalar<int64_t>(1 << 20)}}, {}, {apply.name()},
                         nullptr)
                   .ok())
            ++wrong;
        }
      });
    }
    for (int i = 0; i < kTakes; ++i) {
      std::vector<Tensor> out;
      TROUPE_REQUIRE_OK(session->Run({}, {mean.name()}, {}, &out));
      for (const float v : out[0].flat<float>()) wrong += v != out[0].data<float>()[0];
    }
    over = true;
    for (std::thread& t : replicas) t.join();
    BOOST_TEST(wrong == 0);
    TROUPE_REQUIRE_OK(session->Run({{"step", Tensor::Scalar<int64_t>(1 << 21)}}, {}, {set.name()}, nullptr));
    std::vector<Tensor> before, after;
    TROUPE_REQUIRE_OK(session->Run({}, {count.name()}, {}, &before));
    TROUPE_REQUIRE_OK(
        session->Run({{"x", Tensor::Scalar(1.f)}, {"step", Tensor::Scalar<int64_t>(1)}}, {}, {apply.name()}, nullptr));
    TROUPE_REQUIRE_OK(session->Run({}, {count.name()}, {}, &after));
    BOOST_TEST(before[0].scalar<int32_t>() == after[0].scalar<int32_t>());
  }
}

BOOST_AUTO_TEST_CASE(rows_go_through_a_session) {
  const Scope root = Scope::NewRootScope();
  const Output a = EmitOp(root.WithOpName("a"), "SparseConditionalAccumulator", {},
                          {{"dtype", DType::kFloat}, {"shape", PartialTensorShape{-1, 2}}})
                       .output(0);
  const Output indices = Const(root, Literal(Tensor::Vector<int64_t>({3, 1})));
  const Output values = Const(root, {{1.f, 2.f}, {3.f, 4.f}});
  const Output shape = Const(root, Literal(Tensor::Vector<int64_t>({4, 2})));
  const Operation apply = EmitOp(root, "SparseAccumulatorApplyGradient",
                                 {a, Const(root, int64_t{0}), indices, values, shape}, {{"has_known_shape", true}});
  const Operation take = EmitOp(root, "SparseAccumulatorTakeGradient", {a, Const(root, 1)}, {{"dtype", DType::kFloat}});
  const Operation none = EmitOp(root, "SparseAccumulatorTakeGradient", {a, Const(root, 0)}, {{"dtype", DType::kFloat}});
  const auto session = NewSession(root);
  TROUPE_REQUIRE_OK(session->Run({}, {}, {apply.name()}, nullptr));
  std::vector<Tensor> out;
  TROUPE_REQUIRE_OK(session->Run({}, {take.output(0).name(), take.output(1).name(), take.output(2).name()}, {}, &out));
  BOOST_TEST(out[0].DebugString() == "int64 [2] [1 3]");
  BOOST_TEST(out[1].DebugString() == "float32 [2,2] [3 4 1 2]");
  BOOST_TEST(out[2].DebugString() == "int64 [2] [-1 2]");
  BOOST_TEST(absl::IsInvalidArgument(session->Run({}, {none.output(0).name()}, {}, &out)));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace accumulator_test
}  // namespace troupe::accumulator
