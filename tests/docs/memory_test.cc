// The code of docs/guide/memory.md.
#include "tests/docs/pages.h"
#include "troupe/step_memory.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/layers.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

// Ten blocks of two dense layers below deep/layer0, deep/layer1, ...
Output DeepNet(const Scope& root) {
  Output h = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, 64})});
  layers::LayerOptions tanh;
  tanh.activation = "Tanh";
  const Scope deep = root.NewSubScope("deep");
  for (int i = 0; i < 10; ++i) {
    const Scope block = deep.NewSubScope(StrCat("layer", i));
    h = layers::Dense(block.WithOpName("wide"), h, 256, tanh);
    h = layers::Dense(block.WithOpName("narrow"), h, 64, tanh);
  }
  return ops::Mean(root.WithOpName("loss"), ops::Square(root, h));
}

// What the step of `train` takes at its peak, with 1000 rows.
int64_t PeakOf(const Scope& root, const Operation& train) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const Graph& graph = *root.graph();
  const std::string step_name = train.name();
  // [predict]
  auto memory = PredictStepMemory(graph, {"x"}, {}, {step_name}, {.feed_shapes = {TensorShape({1000, 64})}});
  // memory->peak_bytes, memory->peak_node, memory->holders[0].what
  // [/predict]
  BOOST_REQUIRE_MESSAGE(memory.ok(), memory.status());
  return memory->peak_bytes;
}

BOOST_AUTO_TEST_CASE(memory_of_training) {
  constexpr int64_t kValue = 1000 * 64 * 4;
  const auto all = [] {
    const Scope root = Scope::NewRootScope();
    const Output loss = DeepNet(root);
    return PeakOf(root, train::GradientDescent(0.1f).Minimize(root, loss));
  }();
  BOOST_TEST(all > 50 * kValue);
  {
    const Scope root = Scope::NewRootScope();
    const Output loss = DeepNet(root);
    // [scopes]
    GradientOptions options;
    options.recompute.scopes = {"deep/layer1", "deep/layer2", "deep/layer3"};
    Operation train = train::GradientDescent(0.1f).Minimize(root, loss, {}, {}, options);
    // [/scopes]
    BOOST_TEST(PeakOf(root, train) < 0.85 * static_cast<double>(all));
  }
  {
    const Scope root = Scope::NewRootScope();
    const Output loss = DeepNet(root);
    // [budget]
    GradientOptions options;
    options.recompute.budget_bytes = 4 << 20;
    options.recompute.assumed_dimension = 1000;  // rows, which the graph does not know
    Operation train = train::GradientDescent(0.1f).Minimize(root, loss, {}, {}, options);
    // [/budget]
    BOOST_TEST(PeakOf(root, train) < all / 2);
  }
}

}  // namespace
}  // namespace troupe
