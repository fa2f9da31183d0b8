// Gradients of tables of which rows are gathered: they are slices, through sums, conditionals and
// loops, and slices and dense form are the same tensor, which finite differences confirm.
#include "tests/autodiff/numeric.h"
#include "troupe/indexed_slices.h"

namespace troupe::testing {
namespace slices_test {

struct Lookup {
  Scope s = Scope::NewRootScope();
  Output table = Source(s, "table", TensorShape({5, 2})), n = Source(s, "n", TensorShape(), DType::kInt32),
         p = Source(s, "p", TensorShape(), DType::kBool);
  Feeds Feed(int trips = 3, bool side = true) const {
    return {{"table", Tensor::Of<double>({0.5, -1, 0.25, 2, 1.5, -0.75, 0.125, 0.3, -0.6, 0.9}, {5, 2})},
            {"n", Tensor::Scalar<int32_t>(trips)},
            {"p", Tensor::Scalar(side)}};
  }
};

Output Rows(const Scope& s, const Output& table, const Input& indices) {
  return Op(s, "GatherV2", {table, indices, 0});
}
Input Picks(const Scope& s, std::vector<int32_t> rows) { return Const(s, Literal(rows)); }
Output Cube(const Scope& s, const Output& x) {
  const Output cube = x * x * x;
  return Op(s, "Sum", {cube, AllAxes(s, cube)});
}

// The slices of `grad`, added up by a plain loop.
Tensor AddedUp(const Tensor& values, const Tensor& indices, const TensorShape& shape) {
  Tensor sum(DType::kDouble, shape);
  std::fill_n(sum.data<double>(), sum.num_elements(), 0.0);
  const int64_t row = sum.num_elements() / shape.dim(0);
  for (int64_t i = 0; i < indices.num_elements(); ++i) {
    const int64_t at = indices.dtype() == DType::kInt64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
    for (int64_t k = 0; k < row; ++k) sum.data<double>()[at * row + k] += values.data<double>()[i * row + k];
  }
  return sum;
}

// The gradient of y with respect to the table consists of slices that are right for these feeds;
// returns how many there were in the last run.
int64_t CheckSlices(const Lookup& t, const Output& y, const std::vector<Feeds>& feeds) {
  const std::vector<Output> grads = Gradients(t.s, {y}, {t.table});
  BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
  BOOST_TEST(IsSlices(grads[0].out()));
  const std::optional<IndexedSlices> slices = SlicesOf(t.s, grads[0]);
  BOOST_REQUIRE(slices.has_value());
  int64_t count = 0;
  for (const Feeds& feed : feeds) {
    CheckGradients(t.s, y, {t.table}, feed, grads);
    const std::vector<Tensor> out =
        RunGraph(*t.s.graph(), feed,
                 {grads[0].name(), slices->values.name(), slices->indices.name(), slices->dense_shape.name()});
    BOOST_TEST(out[3].DebugString() == "int64 [2] [5 2]");
    const Tensor sum = AddedUp(out[1], out[2], out[0].shape());
    for (int64_t i = 0; i < sum.num_elements(); ++i)
      BOOST_TEST(std::abs(sum.data<double>()[i] - out[0].data<double>()[i]) < 1e-12);
    count = out[2].num_elements();
  }
  return count;
}

BOOST_AUTO_TEST_CASE(rows_of_a_gather_are_slices) {
  Lookup t;
  BOOST_TEST(CheckSlices(t, Cube(t.s, Rows(t.s, t.table, Picks(t.s, {3, 1, 3}))), {t.Feed()}) == 3);
}

BOOST_AUTO_TEST_CASE(indices_of_any_shape) {
  Lookup t;
  const Output ids = Const(t.s, {{3, 1}, {0, 3}});
  BOOST_TEST(CheckSlices(t, Cube(t.s, Op(t.s, "Gather", {t.table, ids})), {t.Feed()}) == 4);
  Lookup one;
  BOOST_TEST(CheckSlices(one, Cube(one.s, Rows(one.s, one.table, Const(one.s, 2))), {one.Feed()}) == 1);
  Lookup none;
  const Output empty = Const(none.s, Literal(Tensor(DType::kInt32, TensorShape({0}))));
  BOOST_TEST(CheckSlices(none, Cube(none.s, Rows(none.s, none.table, empty)), {none.Feed()}) == 0);
}

BOOST_AUTO_TEST_CASE(several_contributions_are_one_list_of_slices) {
  for (const Aggregation how : {Aggregation::kAddN, Aggregation::kTree}) {
    Lookup t;
    // Of both index types, and through an Identity.
    const Output same = Op(t.s, "Identity", {t.table});
    const Output a = Rows(t.s, t.table, Picks(t.s, {3, 1})), b = Rows(t.s, same, Const(t.s, int64_t{3}));
    const Output y = Cube(t.s, a) + Cube(t.s, b) + Cube(t.s, Rows(t.s, same, Picks(t.s, {0, 4})));
    GradientOptions options;
    options.aggregation = how;
    const std::vector<Output> grads = Gradients(t.s, {y}, {t.table}, {}, options);
    BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
    BOOST_TEST(IsSlices(grads[0].out()));
    CheckGradients(t.s, y, {t.table}, t.Feed(), grads);
    BOOST_TEST(CheckSlices(t, y, {t.Feed()}) == 5);
  }
}

BOOST_AUTO_TEST_CASE(a_dense_part_makes_the_sum_dense) {
  Lookup t;
  const Output y = Cube(t.s, Rows(t.s, t.table, Picks(t.s, {3, 3}))) + Cube(t.s, t.table);
  const std::vector<Output> grads = Gradients(t.s, {y}, {t.table});
  BOOST_TEST(!IsSlices(grads[0].out()));
  BOOST_TEST(!SlicesOf(t.s, grads[0]).has_value());
  CheckGradients(t.s, y, {t.table}, t.Feed(), grads);
}

BOOST_AUTO_TEST_CASE(an_op_on_the_way_takes_the_dense_form) {
  Lookup t;
  const Output scaled = t.table * t.table;
  const Output y = Cube(t.s, Rows(t.s, scaled, Picks(t.s, {3, 1, 3})));
  const std::vector<Output> grads = Gradients(t.s, {y}, {t.table, scaled});
  BOOST_TEST(!IsSlices(grads[0].out()));
  BOOST_TEST(IsSlices(grads[1].out()));
  CheckGradients(t.s, y, {t.table}, t.Feed(), {grads[0]});
}

BOOST_AUTO_TEST_CASE(another_axis_is_dense) {
  Lookup t;
  const Output y = Cube(t.s, Op(t.s, "GatherV2", {t.table, Picks(t.s, {1, 1}), 1}));
  const std::vector<Output> grads = Gradients(t.s, {y}, {t.table});
  BOOST_TEST(!IsSlices(grads[0].out()));
  CheckGradients(t.s, y, {t.table}, t.Feed(), grads);
}

BOOST_AUTO_TEST_CASE(slices_leave_a_branch) {
  for (const bool both : {false, true}) {
    Lookup t;
    const Output y = Cond(
        t.s, t.p,
        [&](const Scope& s) {
          return Cube(s, Rows(s, t.table, Picks(s, {3, 1, 3})));
        },
        [&](const Scope& s) {
          return both ? Cube(s, Rows(s, t.table, Const(s, {int64_t{4}}))) : Op(s, "Identity", {Const(s, 1.0)});
        });
    BOOST_TEST(CheckSlices(t, y, {t.Feed(3, true), t.Feed(3, false)}) == (both ? 1 : 0));
  }
}

BOOST_AUTO_TEST_CASE(slices_of_a_branch_and_of_outside) {
  Lookup t;
  const Output y = Cond(
                       t.s, t.p,
                       [&](const Scope& s) {
                         return Cube(s, Rows(s, t.table, Picks(s, {3, 1})));
                       },
                       [&](const Scope& s) { return Op(s, "Identity", {Const(s, 1.0)}); }) +
                   Cube(t.s, Rows(t.s, t.table, Picks(t.s, {2})));
  BOOST_TEST(CheckSlices(t, y, {t.Feed(3, true), t.Feed(3, false)}) == 1);
}

Output SumInLoop(const Lookup& t, const std::function<Output(const Scope&, const Output&)>& part) {
  return While(
      t.s, {0, 0.0}, [&](const Scope&, const OutputList& v) { return v[0] < t.n; },
      [&](const Scope& b, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] + part(b, v[0])};
      })[1];
}

BOOST_AUTO_TEST_CASE(slices_leave_a_loop_one_behind_the_other) {
  Lookup t;
  const Output y = SumInLoop(t, [&](const Scope& b, const Output& i) {
    return Cube(b, Rows(b, t.table, Op(b, "ExpandDims", {i, 0})));
  });
  std::vector<Feeds> feeds;
  for (int n : {0, 1, 4}) feeds.push_back(t.Feed(n));
  BOOST_TEST(CheckSlices(t, y, feeds) == 4);
}

BOOST_AUTO_TEST_CASE(slices_of_a_branch_in_a_loop) {
  Lookup t;
  const Output y = SumInLoop(t, [&](const Scope& b, const Output& i) {
    return Cond(
        b, i < 2,
        [&](const Scope& s) {
          return Cube(s, Rows(s, t.table, Picks(s, {3, 1, 3})));
        },
        [&](const Scope& s) { return Op(s, "Identity", {Const(s, 1.0)}); });
  });
  std::vector<Feeds> feeds;
  for (int n : {0, 1, 4}) feeds.push_back(t.Feed(n));
  BOOST_TEST(CheckSlices(t, y, feeds) == 6);
}

// The table is carried around and changed: its gradient is dense in the loop.
BOOST_AUTO_TEST_CASE(a_table_that_a_loop_carries_is_dense) {
  Lookup t;
  const OutputList r = While(
      t.s, {0, 0.0, t.table}, [&](const Scope&, const OutputList& v) { return v[0] < t.n; },
      [&](const Scope& b, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] + Cube(b, Rows(b, v[2], Picks(b, {3, 1, 3}))), v[2] * 0.5};
      });
  const std::vector<Output> grads = Gradients(t.s, {r[1]}, {t.table});
  BOOST_TEST(!IsSlices(grads[0].out()));
  for (int n : {0, 1, 3}) CheckGradients(t.s, r[1], {t.table}, t.Feed(n), grads);
}

// A table of unknown shape: slices by themselves, dense where they had to be completed.
BOOST_AUTO_TEST_CASE(a_table_of_unknown_shape) {
  for (const bool branch : {false, true}) {
    Scope s = Scope::NewRootScope();
    const Output table = Source(s, "table", PartialTensorShape()), p = Source(s, "p", TensorShape(), DType::kBool);
    const auto look = [&](const Scope& b) { return Cube(b, Rows(b, table, Picks(b, {3, 1, 3}))); };
    const Output y =
        branch ? Cond(s, p, look, [&](const Scope& b) { return Op(b, "Identity", {Const(b, 1.0)}); }) : look(s);
    const std::vector<Output> grads = Gradients(s, {y}, {table});
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    BOOST_TEST(IsSlices(grads[0].out()) == !branch);
    const Lookup like;
    for (const bool side : {true, false})
      CheckGradients(s, y, {table}, {like.Feed()[0], {"p", Tensor::Scalar(side)}}, grads);
    if (branch) continue;
    const std::optional<IndexedSlices> slices = SlicesOf(s, grads[0]);
    const std::vector<Tensor> shape = RunGraph(*s.graph(), {like.Feed()[0]}, {slices->dense_shape.name()});
    BOOST_TEST(shape[0].DebugString() == "int64 [2] [5 2]");
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_slices) {
  Lookup t;
  const Output y = Cube(t.s, Rows(t.s, t.table, Picks(t.s, {3, 1, 3})));
  const Output grad = Gradients(t.s, {y}, {t.table})[0];
  // By the dense form, and by the values.
  const Output dense = SumAll(t.s, grad * grad), values = Cube(t.s, SlicesOf(t.s, grad)->values);
  CheckGradients(t.s, dense, {t.table}, t.Feed());
  BOOST_TEST(CheckSlices(t, values, {t.Feed()}) == 3);
}

BOOST_AUTO_TEST_CASE(variables_of_both_kinds) {
  for (const bool resource : {true, false}) {
    Scope s = Scope::NewRootScope();
    VariableOptions options;
    options.use_resource = resource;
    const Lookup like;
    const Variable table(s.WithOpName("table"), Const(s, Literal(like.Feed()[0].second)), options);
    const Output ids = Picks(s, {3, 1, 3}).out();
    const Output read = Rows(s, table, ids);
    const Output direct = resource ? Op(s, "ResourceGather", {table.handle(), ids}, {{"dtype", DType::kDouble}})
                                   : Op(s, "Gather", {table.handle(), ids});
    const Output y = Cube(s, read) + Cube(s, direct);
    const Output grad = Gradients(s, {y}, {table})[0];
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    BOOST_TEST(IsSlices(grad.out()));
    const IndexedSlices slices = *SlicesOf(s, grad), unique = SumDuplicates(s, slices);
    const std::vector<Tensor> out =
        RunGraph(*s.graph(), {},
                 {grad.name(), slices.values.name(), slices.indices.name(), unique.values.name(), unique.indices.name(),
                  FromSlices(s, unique).name(), slices.dense_shape.name()},
                 {GlobalVariablesInitializer(s).name()});
    BOOST_TEST(out[2].num_elements() == 6);
    BOOST_TEST(out[4].DebugString() == "int32 [2] [3 1]");
    BOOST_TEST(out[6].DebugString() == "int64 [2] [5 2]");
    const Tensor start = like.Feed()[0].second;
    const double* rows = start.data<double>();
    for (const Tensor& sum :
         {out[0], AddedUp(out[1], out[2], out[0].shape()), AddedUp(out[3], out[4], out[0].shape()), out[5]}) {
      for (int64_t r = 0; r < 5; ++r) {
        for (int64_t k = 0; k < 2; ++k) {
          const double x = rows[r * 2 + k], times = r == 3 ? 4 : r == 1 ? 2 : 0;
          BOOST_TEST(std::abs(sum.data<double>()[r * 2 + k] - times * 3 * x * x) < 1e-12);
        }
      }
    }
  }
}

}  // namespace slices_test
}  // namespace troupe::testing
