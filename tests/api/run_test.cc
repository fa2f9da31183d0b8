// What the builders make, run.
#include <atomic>
#include <boost/test/unit_test.hpp>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "troupe/troupe.h"

namespace troupe {
namespace run_test {

// An op of a user that only hands its input on, and how often its kernel was called.
std::atomic<int> handed_on{0};

TROUPE_OP("RunTestHandsOn")
    .Input("x: float")
    .Output("y: float")
    .Trait(OpTrait::kForwardsInput)
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("it is a test");

absl::Status HandOn(KernelContext& ctx) {
  ++handed_on;
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

TROUPE_KERNEL("RunTestHandsOn").Device("CPU").Function<HandOn>();

// The values of `fetches`, each as text; the status when building or running failed.
std::vector<std::string> Run(const Scope& root, const OutputList& fetches, const Feeds& feeds = {},
                             const std::vector<Operation>& before = {}) {
  if (!root.ok()) return {root.status().ToString()};
  auto session = Session::Create();
  if (!session.ok()) return {session.status().ToString()};
  if (absl::Status s = (*session)->Extend(*root.graph()); !s.ok()) return {s.ToString()};
  for (const Operation& op : before) {
    if (absl::Status s = (*session)->Run({}, {}, {op.name()}, nullptr); !s.ok()) return {s.ToString()};
  }
  Names names;
  for (const Output& o : fetches) names.push_back(o.name());
  std::vector<Tensor> out;
  if (absl::Status s = (*session)->Run(feeds, names, {}, &out); !s.ok()) return {s.ToString()};
  std::vector<std::string> text;
  for (const Tensor& t : out) text.push_back(t.DebugString());
  return text;
}

std::string Text(const Tensor& t) { return t.DebugString(); }
template <class T>
std::string Scalar(T v) {
  return Text(Tensor::Scalar(v));
}
#define CHECK_RUN(values, ...)                                 \
  do {                                                         \
    const std::vector<std::string> got = values;               \
    const std::vector<std::string> want = __VA_ARGS__;         \
    BOOST_TEST(got == want, boost::test_tools::per_element()); \
  } while (false)

struct Fixture {
  Scope root = Scope::NewRootScope();
};

BOOST_FIXTURE_TEST_SUITE(running, Fixture)

BOOST_AUTO_TEST_CASE(literals_beside_a_tensor_take_its_type) {
  const Output x = Const(root, {1.0f, 2.0f, 3.0f});
  CHECK_RUN(Run(root, {x * 2 + 1, 1 - x, -x / 2, x < 2.5, Const(root, 7) / 2}),
            {Text(Tensor::Vector<float>({3, 5, 7})), Text(Tensor::Vector<float>({0, -1, -2})),
             Text(Tensor::Vector<float>({-0.5f, -1, -1.5f})), Text(Tensor::Vector<bool>({true, true, false})),
             Scalar(int32_t{3})});
}

BOOST_AUTO_TEST_CASE(the_kernel_of_an_op_that_only_hands_its_input_on_is_not_called) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output y = EmitOp(root.WithOpName("y"), "RunTestHandsOn", {x * 2}).output(0);
  handed_on = 0;
  CHECK_RUN(Run(root, {y, y + 1}, {{"x", Tensor::Scalar(2.0f)}}), {Scalar(4.0f), Scalar(5.0f)});
  BOOST_TEST(handed_on == 0);
}

BOOST_AUTO_TEST_CASE(a_sum_in_a_loop) {
  const Output n = ops::Placeholder(root.WithOpName("n"), DType::kInt32);
  const OutputList r = While(
      root, {0, 0}, [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [](const Scope&, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] + v[0]};
      });
  for (const int k : {0, 1, 10, 1000}) {
    CHECK_RUN(Run(root, r, {{"n", Tensor::Scalar(int32_t{k})}}),
              {Scalar(int32_t{k}), Scalar(int32_t{k * (k - 1) / 2})});
  }
}

BOOST_AUTO_TEST_CASE(loops_in_loops) {
  // The number of pairs (i, j) with j < i < 6, counted; the inner loop takes i from the outer one.
  const OutputList r = While(
      root, {0, 0}, [](const Scope&, const OutputList& v) { return v[0] < 6; },
      [](const Scope& s, const OutputList& v) -> OutputList {
        const OutputList inner = While(
            s, {0, v[1]}, [&](const Scope&, const OutputList& w) { return w[0] < v[0]; },
            [](const Scope&, const OutputList& w) -> OutputList {
              return {w[0] + 1, w[1] + 1};
            });
        return {v[0] + 1, inner[1]};
      });
  CHECK_RUN(Run(root, {r[1]}), {Scalar(int32_t{15})});
}

BOOST_AUTO_TEST_CASE(a_loop_that_does_not_start) {
  const Output r = While(
      root, 5.0f, [](const Scope&, const Output& v) { return v < 0; },
      [](const Scope&, const Output& v) { return v * 2; });
  CHECK_RUN(Run(root, {r}), {Scalar(5.0f)});
}

BOOST_AUTO_TEST_CASE(a_bounded_loop) {
  const Output r = While(
      root, 1.0f, [](const Scope&, const Output& v) { return v > 0; },
      [](const Scope&, const Output& v) { return v * 2; }, {.maximum_iterations = 5});
  CHECK_RUN(Run(root, {r}), {Scalar(32.0f)});
}

BOOST_AUTO_TEST_CASE(a_cond_runs_the_branch_that_its_predicate_names) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
  const Output y = Cond(
      root, x > 0, [&](const Scope&) { return x * 10; }, [&](const Scope& s) { return Const(s, -1.0f); });
  CHECK_RUN(Run(root, {y}, {{"x", Tensor::Scalar(2.0f)}}), {Scalar(20.0f)});
  CHECK_RUN(Run(root, {y}, {{"x", Tensor::Scalar(-2.0f)}}), {Scalar(-1.0f)});
}

BOOST_AUTO_TEST_CASE(only_the_branch_that_is_taken_runs) {
  const Output p = ops::Placeholder(root.WithOpName("p"), DType::kBool);
  const Variable a(root.WithOpName("a"), 0.0f), b(root.WithOpName("b"), 0.0f);
  const Operation op = Cond(
      root, p, [&](const Scope& s) { return Operation(a.AssignAdd(s, 1)); },
      [&](const Scope& s) { return Operation(b.AssignAdd(s, 1)); });
  const Scope after = root.WithControlDependencies(op);
  CHECK_RUN(
      Run(root, {a.Read(after), b.Read(after)}, {{"p", Tensor::Scalar(true)}}, {GlobalVariablesInitializer(root)}),
      {Scalar(1.0f), Scalar(0.0f)});
  CHECK_RUN(
      Run(root, {a.Read(after), b.Read(after)}, {{"p", Tensor::Scalar(false)}}, {GlobalVariablesInitializer(root)}),
      {Scalar(0.0f), Scalar(1.0f)});
}

BOOST_AUTO_TEST_CASE(a_branch_guards_an_integer_division) {
  const Output y = ops::Placeholder(root.WithOpName("y"), DType::kInt32);
  const Output x = Const(root, 12);
  const Output q = Cond(
      root, y > 0, [&](const Scope&) { return x / y; }, [&](const Scope& s) { return Const(s, -1); });
  CHECK_RUN(Run(root, {q}, {{"y", Tensor::Scalar(int32_t{4})}}), {Scalar(int32_t{3})});
  CHECK_RUN(Run(root, {q}, {{"y", Tensor::Scalar(int32_t{0})}}), {Scalar(int32_t{-1})});
}

BOOST_AUTO_TEST_CASE(a_variable_updated_in_a_loop) {
  const Variable v(root.WithOpName("v"), 1.0f);
  const Output i = While(
      root, 0, [](const Scope&, const Output& i) { return i < 4; },
      [&](const Scope& s, const Output& i) { return After(s, {Operation(v.AssignAdd(s, 2))}, i + 1); });
  CHECK_RUN(Run(root, {i, v.Read(root.WithControlDependencies(i))}, {}, {GlobalVariablesInitializer(root)}),
            {Scalar(int32_t{4}), Scalar(9.0f)});
}

BOOST_AUTO_TEST_CASE(a_case_runs_the_first_branch_whose_predicate_is_true) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kInt32);
  const auto give = [](int v) { return [v](const Scope& s) { return OutputList{Const(s, v)}; }; };
  const OutputList r = Case(root, {{x > 10, give(2)}, {x > 5, give(1)}}, give(0));
  CHECK_RUN(Run(root, r, {{"x", Tensor::Scalar(int32_t{11})}}), {Scalar(int32_t{2})});
  CHECK_RUN(Run(root, r, {{"x", Tensor::Scalar(int32_t{6})}}), {Scalar(int32_t{1})});
  CHECK_RUN(Run(root, r, {{"x", Tensor::Scalar(int32_t{1})}}), {Scalar(int32_t{0})});
}

BOOST_AUTO_TEST_CASE(map_fold_scan) {
  const Output x = Const(root, {{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  const Output zero = Const(root, {0.f, 0.f});
  const auto add = [](const Scope&, const Output& a, const Output& r) { return a + r; };
  const Output squares = Map(root, x, [](const Scope&, const Output& row) { return row * row; });
  BOOST_TEST(squares.shape().DebugString() == "[3,2]");
  CHECK_RUN(
      Run(root,
          {squares, Fold(root, x, zero, add), Scan(root, x, zero, add), Scan(root, x, zero, add, {.reverse = true}),
           Fold(root, {x}, {},
                [](const Scope&, const OutputList& a, const OutputList& r) { return OutputList{a[0] - r[0]}; },
                {.reverse = true})[0],
           Scan(root, {x}, {},
                [](const Scope&, const OutputList& a, const OutputList& r) { return OutputList{a[0] - r[0]}; })[0]}),
      {Text(Tensor::Of<float>({1, 4, 9, 16, 25, 36}, {3, 2})), Text(Tensor::Vector<float>({9, 12})),
       Text(Tensor::Of<float>({1, 2, 4, 6, 9, 12}, {3, 2})), Text(Tensor::Of<float>({9, 12, 8, 10, 5, 6}, {3, 2})),
       Text(Tensor::Vector<float>({1, 0})), Text(Tensor::Of<float>({1, 2, -2, -2, -7, -8}, {3, 2}))});
}

BOOST_AUTO_TEST_CASE(map_of_several_tensors_of_several_types) {
  const OutputList r = Map(root, {Const(root, {1, 2, 3}), Const(root, {10.f, 20.f, 30.f})},
                           [](const Scope& s, const OutputList& row) -> OutputList {
                             return {row[0] > 1, ops::Cast(s, row[0], DType::kFloat) + row[1]};
                           });
  CHECK_RUN(Run(root, r), {Text(Tensor::Vector<bool>({false, true, true})), Text(Tensor::Vector<float>({11, 22, 33}))});
}

BOOST_AUTO_TEST_CASE(map_of_an_unknown_number_of_rows) {
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, 2})});
  const Output r = Map(root, x, [](const Scope&, const Output& row) { return row + 1; });
  CHECK_RUN(Run(root, {r}, {{"x", Tensor::Of<float>({1, 2}, {1, 2})}}), {Text(Tensor::Of<float>({2, 3}, {1, 2}))});
  CHECK_RUN(Run(root, {r}, {{"x", Tensor(DType::kFloat, {0, 2})}}), {Text(Tensor(DType::kFloat, {0, 2}))});
}

BOOST_AUTO_TEST_CASE(gradients_through_map_and_scan) {
  const Output x = Const(root, {1.f, 2.f, 3.f});
  const Output y = Map(root, x, [](const Scope&, const Output& row) { return row * row * row; });
  const Output z = Scan(root, x, 1.0f, [](const Scope&, const Output& a, const Output& row) { return a * row; });
  const OutputList gy = Gradients(root, {y}, {x}), gz = Gradients(root, {z}, {x});
  // z = {x0, x0 x1, x0 x1 x2}
  CHECK_RUN(Run(root, {gy[0], gz[0]}),
            {Text(Tensor::Vector<float>({3, 12, 27})), Text(Tensor::Vector<float>({1 + 2 + 6, 1 + 3, 2}))});
}

BOOST_AUTO_TEST_CASE(a_map_refuses_scalars_and_lists_of_different_length) {
  Map(root, Const(root, 1.0f), [](const Scope&, const Output& row) { return row; });
  BOOST_TEST(std::string(root.status().message()).find("is a scalar") != std::string::npos, root.status().ToString());
  const Scope other = Scope::NewRootScope();
  Map(other, {Const(other, {1, 2}), Const(other, {1, 2, 3})}, [](const Scope&, const OutputList& row) { return row; });
  BOOST_TEST(std::string(other.status().message()).find("has 3 rows, but another tensor of the list has 2") !=
                 std::string::npos,
             other.status().ToString());
}

BOOST_AUTO_TEST_CASE(uninitialized_variables_are_reported) {
  const Variable a(root.WithOpName("a"), 1.0f), b(root.WithOpName("b"), 1.0f);
  const Output report = ReportUninitializedVariables(root);
  if (OpRegistry::Global().Find("Where") == nullptr) return;
  CHECK_RUN(Run(root, {report}, {}, {a.initializer()}), {Text(Tensor::Vector<std::string>({"b"}))});
}

// Arrays, op by op.
BOOST_AUTO_TEST_CASE(tensor_arrays_give_back_what_was_written) {
  const auto run = [](auto build) {
    const Scope s = Scope::NewRootScope();
    return Run(s, OutputList{build(s)})[0];
  };
  const auto array = [](const Scope& s, bool dynamic = false, bool clear = true) {
    return ops::TensorArrayV3(s, 2, DType::kFloat, {.dynamic_size = dynamic, .clear_after_read = clear});
  };
  const auto has = [](const std::string& text, const char* what) {
    BOOST_TEST(text.find(what) != std::string::npos, text);
  };
  BOOST_TEST(run([&](const Scope& s) {
               const auto a = array(s, true);
               const Output f = ops::TensorArrayWriteV3(s, a.handle, 4, 1.5f, a.flow);
               return ops::TensorArraySizeV3(s, a.handle, f);
             }) == Scalar(int32_t{5}));
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayWriteV3(s, a.handle, 2, 1.5f, a.flow);
      }),
      "not resizeable and of size 2");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayWriteV3(s, a.handle, 0, 1, ops::TensorArrayWriteV3(s, a.handle, 0, 1.5f, a.flow));
      }),
      "holds float32, but the value written to index 0 is int32");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayWriteV3(s, a.handle, 0, 1.f, ops::TensorArrayWriteV3(s, a.handle, 0, 1.5f, a.flow));
      }),
      "already been written");
  const auto twice = [&](bool clear) {
    return run([&](const Scope& s) {
      const auto a = array(s, false, clear);
      const Output f = ops::TensorArrayWriteV3(s, a.handle, 0, 1.5f, a.flow);
      const Output first = ops::TensorArrayReadV3(s, a.handle, 0, f, DType::kFloat);
      return ops::TensorArrayReadV3(s.WithControlDependencies(first), a.handle, 0, f, DType::kFloat);
    });
  };
  has(twice(true), "twice because it was cleared");
  BOOST_TEST(twice(false) == Scalar(1.5f));
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayReadV3(s, a.handle, 1, a.flow, DType::kFloat);
      }),
      "never written");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayReadV3(s, a.handle, 2, a.flow, DType::kFloat);
      }),
      "array size is 2");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        return ops::TensorArrayReadV3(s, a.handle, 0, a.flow, DType::kInt32);
      }),
      "holds float32, not int32");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        const Operation closed = ops::TensorArrayCloseV3(s, a.handle);
        return ops::TensorArrayReadV3(s.WithControlDependencies(closed), a.handle, 0, a.flow, DType::kFloat);
      }),
      "already been closed");
  has(run([&](const Scope& s) {
        const auto a = array(s);
        const Output f =
            ops::TensorArrayWriteV3(s, a.handle, 1, {1.f, 2.f}, ops::TensorArrayWriteV3(s, a.handle, 0, 1.5f, a.flow));
        return ops::TensorArrayGatherV3(s, a.handle, {0, 1}, f, DType::kFloat);
      }),
      "inconsistent shapes");
  BOOST_TEST(run([&](const Scope& s) {
               const auto a = ops::TensorArrayV3(s, 3, DType::kFloat, {.element_shape = PartialTensorShape({2})});
               const Output f = ops::TensorArrayScatterV3(s, a.handle, {2, 0}, {{1.f, 2.f}, {3.f, 4.f}}, a.flow);
               return ops::TensorArrayGatherV3(s, a.handle, {0, 1, 2}, f, DType::kFloat);
             }) == Text(Tensor::Of<float>({3, 4, 0, 0, 1, 2}, {3, 2})));
  BOOST_TEST(run([&](const Scope& s) {
               const auto a = array(s);
               const auto g = ops::TensorArrayGradV3(s, a.handle, a.flow, "gradients");
               const Output f = ops::TensorArrayWriteV3(s, g.grad_handle, 0, 2.f,
                                                        ops::TensorArrayWriteV3(s, g.grad_handle, 0, 1.5f, g.flow_out));
               const auto again = ops::TensorArrayGradV3(s, a.handle, f, "gradients");
               return ops::TensorArrayReadV3(s, again.grad_handle, 0, again.flow_out, DType::kFloat);
             }) == Scalar(3.5f));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace run_test
}  // namespace troupe
