// Updates and reads of some rows of a variable.
#include "tests/state/state_test_util.h"

namespace troupe {
namespace scatter_test {

Tensor Matrix() { return Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {3, 2}); }

BOOST_AUTO_TEST_SUITE(scatter)

BOOST_AUTO_TEST_CASE(every_update_in_both_forms) {
  const struct {
    const char* op;
    std::vector<float> expected;
  } cases[] = {{"Update", {7, 8, 3, 4, 9, 1}},
               {"Add", {1 + 3 + 7, 2 + 2 + 8, 3, 4, 5 + 9, 6 + 1}},
               {"Sub", {1 - 3 - 7, 2 - 2 - 8, 3, 4, 5 - 9, 6 - 1}},
               {"Mul", {1 * 3 * 7, 2 * 2 * 8, 3, 4, 5 * 9, 6}},
               {"Div", {1.f / 3 / 7, 2.f / 2 / 8, 3, 4, 5.f / 9, 6}},
               {"Min", {1, 2, 3, 4, 5, 1}},
               {"Max", {7, 8, 3, 4, 9, 6}}};
  for (const auto& c : cases) {
    for (bool by_ref : {false, true}) {
      for (DType index : {DType::kInt32, DType::kInt64}) {
        const Tensor h = NewVariable(by_ref, Matrix());
        const Tensor indices =
            index == DType::kInt32 ? Tensor::Vector<int32_t>({0, 2, 0}) : Tensor::Vector<int64_t>({0, 2, 0});
        const auto out = Run(StrCat(by_ref ? "Scatter" : "ResourceScatter", c.op),
                             {h, indices, Tensor::Of<float>({3, 2, 9, 1, 7, 8}, {3, 2})});
        BOOST_TEST(out.size() == (by_ref ? 1u : 0u));
        BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Of<float>(c.expected, {3, 2})), c.op);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(scalar_updates_and_scalar_indices) {
  const Tensor h = NewVariable(false, Matrix());
  Run("ResourceScatterAdd", {h, Tensor::Vector<int32_t>({1, 1}), Tensor::Scalar<float>(10)});
  Run("ResourceScatterUpdate", {h, Tensor::Scalar<int32_t>(0), Tensor::Vector<float>({0, -1})});
  BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Of<float>({0, -1, 23, 24, 5, 6}, {3, 2})));
  Run("ResourceScatterAdd", {h, Tensor(DType::kInt32, {0}), Tensor(DType::kFloat, {0, 2})});
}

BOOST_AUTO_TEST_CASE(strings_and_bools_can_be_updated) {
  const Tensor s = NewVariable(false, Tensor::Vector<std::string>({"a", "b"}));
  Run("ResourceScatterUpdate", {s, Tensor::Vector<int32_t>({1}), Tensor::Vector<std::string>({"new"})});
  BOOST_TEST(Text(ValueOf(s)) == Text(Tensor::Vector<std::string>({"a", "new"})));
  const Tensor b = NewVariable(true, Tensor::Vector<bool>({true, true}));
  Run("ScatterUpdate", {b, Tensor::Vector<int32_t>({0}), Tensor::Vector<bool>({false})});
  BOOST_TEST(Text(ValueOf(b)) == Text(Tensor::Vector<bool>({false, true})));
}

BOOST_AUTO_TEST_CASE(a_refused_update_writes_nothing) {
  const Tensor h = NewVariable(false, Matrix());
  const Tensor rows = Tensor::Of<float>({9, 9, 9, 9}, {2, 2});
  CheckFails(Try("ResourceScatterAdd", {h, Tensor::Vector<int32_t>({0, 3}), rows}), absl::StatusCode::kInvalidArgument,
             "indices[1] = 3 is not in [0, 3)");
  CheckFails(Try("ResourceScatterAdd", {h, Tensor::Of<int32_t>({0, -1}, {2, 1}), Tensor(DType::kFloat, {2, 1, 2})}),
             absl::StatusCode::kInvalidArgument, "indices[1,0] = -1 is not in [0, 3)");
  CheckFails(Try("ResourceScatterAdd", {h, Tensor::Vector<int32_t>({0}), rows}), absl::StatusCode::kInvalidArgument,
             "must have shape [1,2]");
  BOOST_TEST(Text(ValueOf(h)) == Text(Matrix()));
  const Tensor i = NewVariable(false, Tensor::Vector<int32_t>({4, 5}));
  CheckFails(Try("ResourceScatterDiv", {i, Tensor::Vector<int32_t>({0, 1}), Tensor::Vector<int32_t>({2, 0})}),
             absl::StatusCode::kInvalidArgument, "division by zero");
  BOOST_TEST(Text(ValueOf(i)) == Text(Tensor::Vector<int32_t>({4, 5})));
}

BOOST_AUTO_TEST_CASE(results_do_not_depend_on_threads) {
  constexpr int kRows = 500, kWidth = 40, kUpdates = 3000;
  Tensor start(DType::kFloat, {kRows, kWidth}), updates(DType::kFloat, {kUpdates, kWidth}),
      indices(DType::kInt32, {kUpdates});
  for (int i = 0; i < kRows * kWidth; ++i) start.data<float>()[i] = 0.1f * static_cast<float>(i % 97);
  for (int i = 0; i < kUpdates * kWidth; ++i) updates.data<float>()[i] = 0.3f * static_cast<float>(i % 89);
  for (int i = 0; i < kUpdates; ++i) indices.data<int32_t>()[i] = i * 7919 % kRows;
  std::vector<Tensor> values;
  for (int threads : {1, 4}) {
    const Tensor h = NewVariable(false, start);
    EvaluateOptions options;
    options.threads = threads;
    Run("ResourceScatterAdd", {h, indices, updates}, {}, options);
    values.push_back(ValueOf(h));
  }
  BOOST_TEST(std::memcmp(values[0].raw(), values[1].raw(), values[0].bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(scatter_nd_updates_the_elements_named) {
  const Tensor elements = Tensor::Of<int32_t>({0, 1, 2, 0, 0, 1}, {3, 2}), values = Tensor::Vector<float>({10, 20, 30});
  for (bool by_ref : {false, true}) {
    const auto check = [&](const char* op, std::vector<float> expected) {
      const Tensor h = NewVariable(by_ref, Matrix());
      Run(StrCat(by_ref ? "ScatterNd" : "ResourceScatterNd", op), {h, elements, values});
      BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Of<float>(expected, {3, 2})), op);
    };
    check("Update", {1, 30, 3, 4, 20, 6});
    check("Add", {1, 42, 3, 4, 25, 6});
    check("Sub", {1, -38, 3, 4, -15, 6});
    check("Min", {1, 2, 3, 4, 5, 6});
    check("Max", {1, 30, 3, 4, 20, 6});
  }
  const Tensor h = NewVariable(false, Matrix());
  Run("ResourceScatterNdUpdate", {h, Tensor::Of<int64_t>({1}, {1, 1}), Tensor::Of<float>({7, 8}, {1, 2})});
  BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Of<float>({1, 2, 7, 8, 5, 6}, {3, 2})));
  const Tensor bad = Tensor::Of<int32_t>({0, 1, 2, 2, 0, 1}, {3, 2});
  CheckFails(Try("ResourceScatterNdAdd", {h, bad, values}), absl::StatusCode::kInvalidArgument,
             "indices[1] = [2, 2] does not index into shape [3,2]");
  Run("ResourceScatterNdAdd", {h, bad, values}, {{"bad_indices_policy", "IGNORE"}});
  BOOST_TEST(Text(ValueOf(h)) == Text(Tensor::Of<float>({1, 42, 7, 8, 5, 6}, {3, 2})));
  CheckFails(Try("ResourceScatterNdAdd", {h, bad, values}, {{"bad_indices_policy", "GUESS"}}),
             absl::StatusCode::kInvalidArgument, "GUESS");
  CheckFails(Try("ResourceScatterNdAdd", {h, Tensor(DType::kInt32, {1, 3}), Tensor(DType::kFloat, {1})}),
             absl::StatusCode::kInvalidArgument, "length 3");
}

BOOST_AUTO_TEST_CASE(gather_reads_the_rows_named_of_a_variable) {
  const Tensor h = NewVariable(false, Matrix());
  const AttrMap f = {{"dtype", DType::kFloat}};
  BOOST_TEST(Text(Run("ResourceGather", {h, Tensor::Of<int32_t>({2, 0}, {2, 1})}, f)[0]) ==
             Text(Tensor::Of<float>({5, 6, 1, 2}, {2, 1, 2})));
  BOOST_TEST(Text(Run("ResourceGather", {h, Tensor::Scalar<int64_t>(1)}, f)[0]) == Text(Tensor::Vector<float>({3, 4})));
  BOOST_TEST(Text(Run("ResourceGather", {h, Tensor::Of<int32_t>({1, 1, 0}, {3, 1})},
                      {{"dtype", DType::kFloat}, {"batch_dims", 1}})[0]) == Text(Tensor::Of<float>({2, 4, 5}, {3, 1})));
  CheckFails(Try("ResourceGather", {h, Tensor::Scalar<int32_t>(3)}, f), absl::StatusCode::kInvalidArgument,
             "indices = 3 is not in [0, 3)");
  BOOST_TEST(Text(Run("ResourceGatherNd", {h, Tensor::Of<int32_t>({2, 0, 1, 1}, {2, 2})}, f)[0]) ==
             Text(Tensor::Vector<float>({5, 4})));
  BOOST_TEST(Text(Run("ResourceGatherNd", {h, Tensor::Of<int32_t>({2}, {1, 1})}, f)[0]) ==
             Text(Tensor::Of<float>({5, 6}, {1, 2})));
  CheckFails(Try("ResourceGatherNd", {h, Tensor::Of<int32_t>({2, 2}, {1, 2})}, f), absl::StatusCode::kInvalidArgument,
             "does not index");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace scatter_test
}  // namespace troupe
