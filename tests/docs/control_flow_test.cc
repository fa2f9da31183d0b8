// The code of docs/guide/control_flow.md.
#include "tests/docs/pages.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

std::string Values(const Scope& root, const Feeds& feeds, const std::vector<Output>& fetches) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run(feeds, fetches, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  std::string text;
  for (const Tensor& t : out) text += t.DebugString() + "; ";
  return text;
}

BOOST_AUTO_TEST_CASE(conditionals_give_what_the_page_says) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  // [cond]
  Output y = Cond(
      root, x > 0,                                         // a bool scalar
      [&](const Scope& s) { return ops::Sqrt(s, x); },     // only this is computed,
      [&](const Scope& s) { return ops::Square(s, x); });  // or only this
  Output slope = Gradients(root, {y}, {x})[0];
  // [/cond]
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(4.0f)}}, {y, slope}) == "float32 [] [2]; float32 [] [0.25]; ");
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(-3.0f)}}, {y, slope}) == "float32 [] [9]; float32 [] [-6]; ");

  // [select]
  Output z = ops::Select(root, x > 0, x, 0.0f);  // both sides are computed; picks element by element
  // [/select]
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(-3.0f)}}, {z}) == "float32 [] [0]; ");
}

BOOST_AUTO_TEST_CASE(while_loops) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Output n = ops::Placeholder(root.WithOpName("n"), DType::kInt32, {.shape = TensorShape()});
  // [while]
  OutputList loop = While(
      root, {0, 1.0f},                                                // loop variables: i = 0, p = 1
      [&](const Scope& s, const OutputList& v) { return v[0] < n; },  // go on while i < n
      [&](const Scope& s, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] * x};  // i + 1, p * x
      });
  Output power = loop[1];  // x to the power of n
  Output slope = Gradients(root, {power}, {x})[0];
  // [/while]
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(2.0f)}, {"n", Tensor::Scalar(5)}}, {power, slope}) ==
             "float32 [] [32]; float32 [] [80]; ");

  // [one]
  Output halved = While(
      root, x, [](const Scope& s, const Output& v) { return v > 1; },
      [](const Scope& s, const Output& v) { return v / 2; }, {.maximum_iterations = 100});
  // [/one]
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(12.0f)}}, {halved}) == "float32 [] [0.75]; ");

  // [invariants]
  OutputList grown = While(
      root, {0, Const<float>(root, {1})}, [](const Scope& s, const OutputList& v) { return v[0] < 3; },
      [](const Scope& s, const OutputList& v) -> OutputList {
        return {v[0] + 1, ops::ConcatV2(s, {v[1], v[1]}, 0)};
      },
      {.shape_invariants = {TensorShape(), {-1}}});  // the second may have any length
  // [/invariants]
  BOOST_TEST(Values(root, {}, {grown[1]}) == "float32 [8] [1 1 1 1 1 1 1 1]; ");
}

BOOST_AUTO_TEST_CASE(row_by_row) {
  const Scope root = Scope::NewRootScope();
  const Output x = Const(root, {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}});
  // [rows]
  // x is [[1, 2], [3, 4], [5, 6]]
  Output lengths = Map(root, x, [](const Scope& s, const Output& row) { return ops::EuclideanNorm(s, row); });
  Output total =
      Fold(root, x, {0.0f, 0.0f}, [](const Scope& s, const Output& sum, const Output& row) { return sum + row; });
  Output totals =
      Scan(root, x, {0.0f, 0.0f}, [](const Scope& s, const Output& sum, const Output& row) { return sum + row; });
  // total is [9, 12]; totals is [[1, 2], [4, 6], [9, 12]]
  // [/rows]
  BOOST_TEST(Values(root, {}, {total, totals}) == "float32 [2] [9 12]; float32 [3,2] [1 2 4 6 9 12]; ");
  BOOST_TEST((lengths.shape().DebugString() == "[3]"));

  // [several]
  OutputList both = Map(root, OutputList{x, lengths}, [](const Scope& s, const OutputList& row) -> OutputList {
    return {row[0] / row[1], ops::ArgMax(s, row[0], 0)};  // a row of each; results of any number and type
  });
  // [/several]
  BOOST_TEST((both.size() == 2 && both[1].dtype() == DType::kInt64));
  BOOST_TEST(Values(root, {}, {both[1]}) == "int64 [3] [1 1 1]; ");
}

BOOST_AUTO_TEST_CASE(the_recurrent_net_of_the_page_has_gradients) {
  // [rnn]
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1, 2, 3}});  // time, batch, features
  Variable w(root.WithOpName("w"), init::GlorotUniform(1)(root, {3, 4}, DType::kFloat));
  Variable u(root.WithOpName("u"), init::GlorotUniform(2)(root, {4, 4}, DType::kFloat));
  Output states = Scan(root, x, ops::Fill(root, {2, 4}, 0.0f), [&](const Scope& s, const Output& h, const Output& now) {
    return ops::Tanh(s, ops::MatMul(s, now, w) + ops::MatMul(s, h, u));
  });
  std::vector<Output> slopes = Gradients(root, {ops::Mean(root, states)}, {w, u});
  // [/rnn]
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const Operation init = GlobalVariablesInitializer(root);
  std::unique_ptr<Session> session = *Session::Create();
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  Tensor in(DType::kFloat, {5, 2, 3});
  for (float& v : in.flat<float>()) v = 0.5f;
  std::vector<Tensor> out;
  if (s.ok()) s = session->Run({{x, in}}, {states, slopes[0], slopes[1]}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].TypeAndShape() == "float32 [5,2,4]");
  BOOST_TEST(out[2].TypeAndShape() == "float32 [4,4]");
}

BOOST_AUTO_TEST_CASE(tensor_arrays) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  // [array]
  // The powers x^0 ... x^3. An array is a handle, and a flow: a scalar that says what was written.
  auto array = ops::TensorArrayV3(root, 4, DType::kFloat);
  OutputList loop = While(
      root, {0, 1.0f, array.flow}, [](const Scope& s, const OutputList& v) { return v[0] < 4; },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        Output flow = ops::TensorArrayWriteV3(s, array.handle, v[0], v[1], v[2]);
        return {v[0] + 1, v[1] * x, flow};
      });
  Output powers = ops::TensorArrayGatherV3(root, array.handle, {0, 1, 2, 3}, loop[2], DType::kFloat);
  Output slope = Gradients(root, {powers}, {x})[0];  // 1 + 2 x + 3 x^2
  // [/array]
  BOOST_TEST(Values(root, {{"x", Tensor::Scalar(2.0f)}}, {powers, slope}) ==
             "float32 [4] [1 2 4 8]; float32 [] [17]; ");
}

}  // namespace
}  // namespace troupe
