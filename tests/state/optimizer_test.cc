// Steps of the optimizers against what TensorFlow computes, and what they refuse.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/cases/same_value.h"
#include "tests/state/state_test_util.h"

namespace troupe {
namespace optimizer_test {

BOOST_AUTO_TEST_SUITE(optimizers)

bool Same(const Tensor& a, const Tensor& b) { return a.SameShape(b) && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0; }

// By the kernels alone; in sessions they run in tests/ops.
BOOST_AUTO_TEST_CASE(two_steps_of_each) {
  std::vector<test::Case> cases = test::ReadCases("variables/optimizers.txt");
  BOOST_CHECK_EQUAL(cases.size(), 174u);
  const std::vector<test::Case> of_rows = test::ReadCases("variables/sparse_optimizers.txt");
  BOOST_CHECK_EQUAL(of_rows.size(), 280u);
  cases.insert(cases.end(), of_rows.begin(), of_rows.end());
  for (const test::Case& c : cases) {
    const OpDef* const def = *OpRegistry::Global().LookUp(c.op);
    std::vector<Tensor> inputs = c.inputs;
    for (size_t k = 0; k < c.outputs.size(); ++k) inputs[k] = NewVariable(def->inputs[k].is_ref, c.inputs[k]);
    AttrMap attrs = c.attrs;
    attrs.Set("T", c.inputs[0].dtype());
    for (size_t k = 0; k < def->inputs.size(); ++k) {
      if (def->inputs[k].name == "indices") attrs.Set("Tindices", c.inputs[k].dtype());
    }
    for (int step = 0; step < c.runs; ++step) Run(c.op, inputs, attrs);
    std::vector<Tensor> after;
    for (size_t k = 0; k < c.outputs.size(); ++k) after.push_back(ValueOf(inputs[k]));
    const std::string wrong = test::WrongOutputs(c, after);
    BOOST_CHECK_MESSAGE(wrong.empty(), c.where << ": " << c.text << "\n  " << wrong);
  }
}

BOOST_AUTO_TEST_CASE(many_threads_give_what_one_gives) {
  constexpr int64_t kSize = 300001;
  Tensor start(DType::kFloat, {kSize}), grad(DType::kFloat, {kSize});
  for (int64_t i = 0; i < kSize; ++i) {
    start.data<float>()[i] = static_cast<float>(i % 101) * 0.01f;
    grad.data<float>()[i] = static_cast<float>(i % 103) * 0.02f - 1;
  }
  std::vector<Tensor> results;
  for (int threads : {1, 3}) {
    EvaluateOptions options;
    options.threads = threads;
    const Tensor var = NewVariable(false, start), accum = NewVariable(false, start);
    Run("ResourceApplyMomentum", {var, accum, Tensor::Scalar<float>(0.1f), grad, Tensor::Scalar<float>(0.9f)}, {},
        options);
    results.push_back(ValueOf(var));
  }
  BOOST_TEST(std::memcmp(results[0].raw(), results[1].raw(), results[0].bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(updates_that_do_not_fit_are_refused) {
  const Tensor lr = Tensor::Scalar<float>(0.5f), two = Tensor::Vector<float>({1, 1});
  const Tensor var = NewVariable(false, Tensor::Vector<float>({1, 2}));
  CheckFails(Try("ResourceApplyGradientDescent", {var, two, two}), absl::StatusCode::kInvalidArgument,
             "input 1 must be a scalar");
  CheckFails(Try("ResourceApplyGradientDescent", {var, lr, Tensor::Vector<float>({1})}),
             absl::StatusCode::kInvalidArgument, "do not have the same shape: [2] and [1]");
  CheckFails(Try("ResourceApplyGradientDescent", {NewVariable(false, DType::kFloat, {2}, "no_value"), lr, two}),
             absl::StatusCode::kFailedPrecondition, "no_value");
  CheckFails(Try("ResourceApplyMomentum", {var, var, lr, two, lr}), absl::StatusCode::kInvalidArgument, "given twice");
  CheckFails(Try("ResourceApplyMomentum", {var, NewVariable(false, Tensor::Vector<float>({1})), lr, two, lr}),
             absl::StatusCode::kInvalidArgument, "do not have the same shape");
  CheckFails(Try("ResourceApplyMomentum", {var, NewVariable(false, Tensor::Vector<double>({1, 2})), lr, two, lr}),
             absl::StatusCode::kInvalidArgument, "holds float64");
  CheckFails(Try("ResourceApplyGradientDescent", {NewVariable(false, Tensor::Vector<int32_t>({1})),
                                                  Tensor::Scalar<int32_t>(1), Tensor::Vector<int32_t>({1})}),
             absl::StatusCode::kUnimplemented, "int32");
  BOOST_TEST(Text(ValueOf(var)) == Text(Tensor::Vector<float>({1, 2})));
}

// Adagrad on rows, against a plain loop: many rows, many duplicates, one thread and three.
BOOST_AUTO_TEST_CASE(rows_equal_a_plain_loop) {
  constexpr int64_t kRows = 4001, kWidth = 33, kSlices = 9000;
  Tensor start(DType::kDouble, {kRows, kWidth}), sums(DType::kDouble, {kRows, kWidth}),
      grad(DType::kDouble, {kSlices, kWidth}), indices(DType::kInt64, {kSlices});
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    start.data<double>()[i] = static_cast<double>(i % 101) * 0.01;
    sums.data<double>()[i] = 0.1;
  }
  for (int64_t i = 0; i < kSlices * kWidth; ++i) grad.data<double>()[i] = static_cast<double>(i % 103) * 0.02 - 1;
  for (int64_t i = 0; i < kSlices; ++i) indices.data<int64_t>()[i] = i * i % kRows;
  Tensor want = start.Clone(), accum = sums.Clone();
  for (int64_t i = 0; i < kSlices; ++i) {
    for (int64_t k = 0; k < kWidth; ++k) {
      const int64_t at = indices.data<int64_t>()[i] * kWidth + k;
      const double g = grad.data<double>()[i * kWidth + k];
      accum.data<double>()[at] += g * g;
      want.data<double>()[at] -= 0.1 * g / std::sqrt(accum.data<double>()[at]);
    }
  }
  for (int threads : {1, 3}) {
    EvaluateOptions options;
    options.threads = threads;
    const Tensor var = NewVariable(false, start), slot = NewVariable(false, sums);
    Run("ResourceSparseApplyAdagrad", {var, slot, Tensor::Scalar(0.1), grad, indices}, {}, options);
    const Tensor got = ValueOf(var), got_slot = ValueOf(slot);
    double off = 0;
    for (int64_t i = 0; i < kRows * kWidth; ++i) {
      off = std::max({off, std::abs(got.data<double>()[i] - want.data<double>()[i]),
                      std::abs(got_slot.data<double>()[i] - accum.data<double>()[i])});
    }
    BOOST_TEST(off < 1e-12, threads << " threads");
  }
}

BOOST_AUTO_TEST_CASE(updates_of_rows_that_do_not_fit_are_refused) {
  const Tensor lr = Tensor::Scalar<float>(0.5f), two = Tensor::Of<float>({1, 2, 3, 4}, {2, 2});
  for (const bool ref : {false, true}) {
    const std::string op = ref ? "SparseApplyAdagrad" : "ResourceSparseApplyAdagrad";
    const Tensor var = NewVariable(ref, Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}));
    const Tensor accum = NewVariable(ref, Tensor::Of<float>({1, 1, 1, 1, 1, 1}, {3, 2}));
    const auto refused = [&](const Tensor& grad, const Tensor& indices, std::string_view why) {
      CheckFails(Try(op, {var, accum, lr, grad, indices}), absl::StatusCode::kInvalidArgument, std::string(why));
    };
    refused(two, Tensor::Vector<int32_t>({0, 3}), "indices[1] = 3 is not in [0, 3)");
    refused(two, Tensor::Vector<int64_t>({-1, 0}), "indices[0] = -1 is not in [0, 3)");
    refused(two, Tensor::Vector<int32_t>({0}), "the gradient has shape [2,2], but must have shape [1,2]");
    refused(two, Tensor::Of<int32_t>({0, 1}, {2, 1}), "the indices must be a vector");
    refused(Tensor::Of<float>({1, 2}, {2, 1}), Tensor::Vector<int32_t>({0, 1}), "must have shape [2,2]");
    CheckFails(Try(op, {var, accum, Tensor::Vector<float>({1}), two, Tensor::Vector<int32_t>({0, 1})}),
               absl::StatusCode::kInvalidArgument, "input 2 must be a scalar");
    CheckFails(Try(op, {var, NewVariable(ref, two), lr, two, Tensor::Vector<int32_t>({0, 1})}),
               absl::StatusCode::kInvalidArgument, "do not have the same shape");
    // Nothing was written.
    BOOST_TEST(Text(ValueOf(var)) == Text(Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2})));
    BOOST_TEST(Text(ValueOf(accum)) == Text(Tensor::Of<float>({1, 1, 1, 1, 1, 1}, {3, 2})));
  }
  const Tensor scalar = NewVariable(false, Tensor::Scalar<float>(1)),
               slot = NewVariable(false, Tensor::Scalar<float>(1));
  CheckFails(Try("ResourceSparseApplyAdagrad", {scalar, slot, lr, two, Tensor::Vector<int32_t>({0, 1})}),
             absl::StatusCode::kInvalidArgument, "at least one dimension");
}

BOOST_AUTO_TEST_CASE(no_rows_change_nothing) {
  const Tensor var = NewVariable(false, Tensor::Of<float>({1, 2, 3, 4}, {2, 2})),
               accum = NewVariable(false, Tensor::Of<float>({1, 1, 1, 1}, {2, 2}));
  Run("ResourceSparseApplyAdagrad",
      {var, accum, Tensor::Scalar<float>(0.5f), Tensor(DType::kFloat, {0, 2}), Tensor(DType::kInt32, {0})});
  BOOST_TEST(Text(ValueOf(var)) == Text(Tensor::Of<float>({1, 2, 3, 4}, {2, 2})));
  const Tensor none = NewVariable(false, Tensor(DType::kFloat, {0, 2})),
               slot = NewVariable(false, Tensor(DType::kFloat, {0, 2}));
  Run("ResourceSparseApplyAdagrad",
      {none, slot, Tensor::Scalar<float>(0.5f), Tensor(DType::kFloat, {0, 2}), Tensor(DType::kInt32, {0})});
  BOOST_TEST(ValueOf(none).num_elements() == 0);
}

BOOST_AUTO_TEST_CASE(in_place_unless_a_snapshot_is_out) {
  const Tensor var = NewVariable(true, Tensor::Vector<float>({1, 2}));
  const void* const at = ValueOf(var).raw();
  const Tensor alpha = Tensor::Scalar<float>(1), delta = Tensor::Vector<float>({1, 1});
  Run("ApplyGradientDescent", {var, alpha, delta});
  BOOST_TEST(ValueOf(var).raw() == at);
  const Tensor snapshot = ValueOf(var);
  Run("ApplyGradientDescent", {var, alpha, delta});
  BOOST_TEST(ValueOf(var).raw() != at);
  BOOST_TEST(Text(snapshot) == Text(Tensor::Vector<float>({0, 1})));
}

// Where a snapshot is out the value is brought over piece by piece; sizes below, at and above a
// piece, and snapshots of some of the variables.
BOOST_AUTO_TEST_CASE(what_is_copied_on_the_way_has_the_bits_of_what_is_changed_in_place) {
  for (const int64_t n : {1, 2047, 2048, 2049, 10'000, 300'000}) {
    const auto numbers = [n](float from) {
      Tensor t(DType::kFloat, {n});
      for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = from + 0.01f * static_cast<float>(i % 977);
      return t;
    };
    const Tensor grad = numbers(-2), half = Tensor::Scalar<float>(0.5f), small = Tensor::Scalar<float>(0.001f);
    for (int out = 0; out < 8; ++out) {
      for (const int threads : {1, 3}) {
        std::vector<Tensor> apart, in_place, snapshots, before;
        for (int i = 0; i < 3; ++i) {
          apart.push_back(NewVariable(false, numbers(static_cast<float>(i))));
          in_place.push_back(NewVariable(false, numbers(static_cast<float>(i))));
          if (out >> i & 1) {
            snapshots.push_back(ValueOf(apart[static_cast<size_t>(i)]));
            before.push_back(snapshots.back().Clone());
          }
        }
        EvaluateOptions options;
        options.threads = threads;
        for (const auto& v : {apart, in_place})
          Run("ResourceApplyAdam", {v[0], v[1], v[2], half, half, small, half, half, small, grad}, {}, options);
        Run("AssignAddVariableOp", {apart[0], ValueOf(apart[0])}, {}, options);  // by the snapshot itself
        Run("AssignAddVariableOp", {in_place[0], ValueOf(in_place[0]).Clone()}, {}, options);
        for (size_t i = 0; i < 3; ++i) BOOST_TEST(Same(ValueOf(apart[i]), ValueOf(in_place[i])), n << " " << out);
        for (size_t i = 0; i < snapshots.size(); ++i) BOOST_TEST(Same(snapshots[i], before[i]));
      }
    }
  }
}

// Two of three copies have memory: nothing is changed.
BOOST_AUTO_TEST_CASE(without_memory_for_all_copies_all_values_stay) {
  constexpr int64_t kElements = 100'000;
  Allocator limited("limited");
  std::vector<Tensor> variables, snapshots, before;
  for (int i = 0; i < 3; ++i) {
    Tensor value(&limited, DType::kFloat, {kElements});
    std::fill_n(value.data<float>(), kElements, 1.0f + static_cast<float>(i));
    before.push_back(value.Clone(Allocator::Cpu()));
    variables.push_back(NewVariable(false, DType::kFloat, {kElements}));
    BOOST_REQUIRE(SlotOf(variables.back())->Assign(std::move(value)).ok());
    snapshots.push_back(ValueOf(variables.back()));
  }
  const int64_t each = limited.stats().bytes_in_use / 3;
  BOOST_REQUIRE(limited.SetLimit(5 * each + each / 2));
  const Tensor half = Tensor::Scalar<float>(0.5f);
  const std::vector<Tensor> inputs = {variables[0], variables[1], variables[2], half, half,
                                      half,         half,         half,         half, before[0]};
  CheckFails(Try("ResourceApplyAdam", inputs), absl::StatusCode::kResourceExhausted,
             "no memory for a copy of variable");
  for (size_t i = 0; i < 3; ++i) {
    BOOST_TEST(Same(ValueOf(variables[i]), before[i]));
    BOOST_TEST(ValueOf(variables[i]).raw() == snapshots[i].raw());
  }
  BOOST_TEST(limited.stats().bytes_in_use == 3 * each);
  BOOST_REQUIRE(limited.SetLimit(6 * each));
  Run("ResourceApplyAdam", inputs);
  for (size_t i = 0; i < 3; ++i) BOOST_TEST(Same(snapshots[i], before[i]));
  BOOST_TEST(!Same(ValueOf(variables[0]), before[0]));
  snapshots.clear();
  BOOST_TEST(limited.stats().bytes_in_use == 3 * each);
}

BOOST_AUTO_TEST_CASE(updates_that_lock_in_opposite_order_do_not_deadlock) {
  const Tensor a = NewVariable(false, Tensor::Vector<float>({0, 0})),
               b = NewVariable(false, Tensor::Vector<float>({0, 0}));
  const Tensor lr = Tensor::Scalar<float>(0), grad = Tensor::Vector<float>({1, 1}), one = Tensor::Scalar<float>(1);
  std::atomic<int> failed{0};
  const auto work = [&](const Tensor& var, const Tensor& accum) {
    for (int i = 0; i < 500; ++i) failed += !Try("ResourceApplyMomentum", {var, accum, lr, grad, one}).ok();
  };
  std::thread other([&] { work(a, b); });
  work(b, a);
  other.join();
  BOOST_TEST(failed == 0);
  BOOST_TEST(Text(ValueOf(a)) == Text(Tensor::Vector<float>({500, 500})));
  BOOST_TEST(Text(ValueOf(b)) == Text(Tensor::Vector<float>({500, 500})));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace optimizer_test
}  // namespace troupe
