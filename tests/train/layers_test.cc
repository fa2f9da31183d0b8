// Layers and initial values.
#include "tests/train/run.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/layers.h"

namespace troupe::testing {
namespace layers_test {

Output Source(const Scope& s, const std::string& name, const PartialTensorShape& shape) {
  return Build(s.WithOpName(name), "Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", shape}});
}

BOOST_AUTO_TEST_CASE(a_dense_layer_multiplies_adds_and_activates) {
  const Scope s = Scope::NewRootScope();
  layers::LayerOptions options;
  options.kernel_initializer = init::Constant(0.5);
  options.bias_initializer = init::Constant(-4);
  options.activation = "Relu";
  const Output x = Source(s, "x", {-1, 3}), y = layers::Dense(s.WithOpName("fc"), x, 2, options);
  const Output cube = Source(s, "cube", {2, -1, 3}), z = layers::Dense(s, cube, 2, options);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(s.ShapeOf(y).DebugString() == "[?,2]");
  BOOST_TEST(s.ShapeOf(z).DebugString() == "[2,?,2]");
  std::vector<std::string> names;
  for (const Variable& v : VariablesIn(s, kTrainableVariables)) names.push_back(v.variable_name());
  BOOST_TEST(names == (std::vector<std::string>{"fc/kernel", "fc/bias", "dense/kernel", "dense/bias"}),
             boost::test_tools::per_element());
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, {y, z},
                                        {{"x", Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {2, 3})},
                                         {"cube", Tensor::Of<float>({1, 2, 3, 4, 5, 6}, {2, 1, 3})}});
  BOOST_TEST(got[0].DebugString() == "float32 [2,2] [0 0 3.5 3.5]");
  BOOST_TEST(got[1].DebugString() == "float32 [2,1,2] [0 0 3.5 3.5]");
}

BOOST_AUTO_TEST_CASE(a_layer_says_which_shape_it_needs) {
  const Scope s = Scope::NewRootScope();
  layers::Dense(s, Source(s, "x", {2, -1}), 2);
  BOOST_TEST(s.status().ToString().find(
                 "Dense needs an input of rank 2 or more whose last dimension is known, but 'x:0' has shape [2,?]") !=
             std::string::npos);
  BOOST_TEST(s.status().ToString().find("layers_test.cc:") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_small_convolutional_net_learns) {
  const Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", {2, 6, 6, 1});
  layers::ConvOptions conv;
  conv.kernel_initializer = init::Constant(0.1);
  conv.padding = "SAME";
  conv.activation = "Tanh";
  Output h = layers::MaxPool2D(s, layers::Conv2D(s, x, 2, {3, 3}, conv), {2, 2}, {2, 2});
  h = layers::Flatten(s, h);
  BOOST_TEST(s.ShapeOf(h).DebugString() == "[2,18]");
  layers::LayerOptions dense;
  dense.kernel_initializer = init::Constant(0.05);
  const Output error = layers::Dense(s, h, 1, dense) - Const(s, {{1.0}, {-1.0}}, DType::kFloat);
  const Output loss = Build(s, "Sum", {error * error, Const(s, {0, 1})});
  train::GradientDescent sgd(0.05);
  const Operation step = sgd.Minimize(s, loss);
  const auto session = Start(s);
  Tensor images(DType::kFloat, {2, 6, 6, 1});
  for (int i = 0; i < 72; ++i) images.data<float>()[i] = static_cast<float>((i * 7) % 13) / 13 - (i < 36 ? 0.0f : 0.6f);
  const Feeds feeds = {{"x", images}};
  const float before = Fetch(*session, {loss}, feeds)[0].scalar<float>();
  for (int i = 0; i < 30; ++i) Fetch(*session, {}, feeds, {step.name()});
  BOOST_TEST(Fetch(*session, {loss}, feeds)[0].scalar<float>() < before / 10);
}

BOOST_AUTO_TEST_CASE(flatten_of_unknown_sizes) {
  const Scope s = Scope::NewRootScope();
  const Output y = layers::Flatten(s, Source(s, "x", {-1, -1, 2}));
  const auto session = Start(s);
  BOOST_TEST(Fetch(*session, {y}, {{"x", Tensor(DType::kFloat, {3, 2, 2})}})[0].TypeAndShape() == "float32 [3,4]");
  BOOST_TEST(Fetch(*session, {y}, {{"x", Tensor(DType::kFloat, {0, 2, 2})}})[0].TypeAndShape() == "float32 [0,4]");
}

BOOST_AUTO_TEST_CASE(dropout_drops_and_scales) {
  const Scope s = Scope::NewRootScope();
  const Output x = Build(s, "Fill", {Const(s, {1000}), Const(s, 1.0f)});
  const Output p = Build(s.WithOpName("p"), "Placeholder", {},
                         {{"dtype", DType::kBool}, {"shape", PartialTensorShape(TensorShape())}});
  const Output dropped = layers::Dropout(s, x, 0.25, true, 7), same = layers::Dropout(s, x, 0.25, false),
               either = layers::Dropout(s, x, 0.25, p, 7);
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, {dropped, same, either}, {{"p", Tensor::Scalar(false)}});
  // Where it did not train, nothing was drawn: it begins where the other one began.
  CheckNear(Doubles(Fetch(*session, {either}, {{"p", Tensor::Scalar(true)}})[0]), Doubles(got[0]), 0, "the first draw");
  int zeros = 0;
  for (double v : Doubles(got[0])) {
    BOOST_TEST((v == 0 || std::abs(v - 4.0 / 3) < 1e-6));
    zeros += v == 0;
  }
  BOOST_TEST(zeros > 200);
  BOOST_TEST(zeros < 300);
  for (int i : {1, 2}) {
    for (double v : Doubles(got[i])) BOOST_TEST(v == 1.0);
  }
}

BOOST_AUTO_TEST_CASE(initializers_have_the_spread_of_their_formulas) {
  const Scope s = Scope::NewRootScope();
  double in, out;
  init::ComputeFans({3, 3, 8, 16}, &in, &out);
  BOOST_TEST(in == 72);
  BOOST_TEST(out == 144);
  struct Case {
    const char* name;
    init::Initializer make;
    double mean, stddev, limit;  // no value is farther than `limit` from the mean
  };
  const double glorot = std::sqrt(2.0 / (40 + 60)), he = std::sqrt(2.0 / 40);
  const std::vector<Case> cases = {
      {"zeros", init::Zeros(), 0, 0, 0},
      {"ones", init::Ones(), 1, 0, 0},
      {"constant", init::Constant(0.25), 0.25, 0, 0},
      {"uniform", init::RandomUniform(-1, 3, 5), 1, 4 / std::sqrt(12.0), 2},
      {"normal", init::RandomNormal(2, 0.5, 5), 2, 0.5, 4},
      {"truncated normal", init::TruncatedNormal(2, 0.5, 5), 2, 0.5 * 0.87962566, 1},
      {"glorot uniform", init::GlorotUniform(5), 0, glorot, glorot * std::sqrt(3.0)},
      {"glorot normal", init::GlorotNormal(5), 0, glorot, glorot * 2 / 0.8796},
      {"he uniform", init::HeUniform(5), 0, he, he * std::sqrt(3.0)},
      {"he normal", init::HeNormal(5), 0, he, he * 2 / 0.8796},
  };
  std::vector<Output> outs;
  for (const DType dtype : {DType::kFloat, DType::kDouble}) {
    for (const Case& c : cases) outs.push_back(c.make(s, {40, 60}, dtype));
  }
  const auto session = Start(s);
  const std::vector<Tensor> got = Fetch(*session, outs);
  for (size_t i = 0; i < got.size(); ++i) {
    const Case& c = cases[i % cases.size()];
    const std::vector<double> v = Doubles(got[i]);
    double mean = 0, square = 0;
    for (double e : v) {
      mean += e / v.size();
      square += (e - c.mean) * (e - c.mean) / v.size();
      BOOST_CHECK_MESSAGE(std::abs(e - c.mean) <= c.limit + 1e-6, c.name << ": " << e);
    }
    BOOST_CHECK_MESSAGE(std::abs(mean - c.mean) <= 0.1 * c.stddev + 1e-6, c.name << ": mean " << mean);
    BOOST_CHECK_MESSAGE(std::abs(std::sqrt(square) - c.stddev) <= 0.06 * c.stddev + 1e-6,
                        c.name << ": standard deviation " << std::sqrt(square));
  }
}

}  // namespace layers_test
}  // namespace troupe::testing
