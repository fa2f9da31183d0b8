#include "tools/benchmarks/image_models.h"

#include "troupe/train/momentum.h"

namespace troupe::bench {
namespace {

constexpr int64_t kImages = 8, kSide = 224, kClasses = 1000;

// Adds layers to a scope, each with a number in its name.
class Layers {
 public:
  explicit Layers(const Scope& root) : root_(root) {}

  // Convolution, normalization and what follows it: an op of one input, or nothing.
  Output Conv(const Output& x, int64_t window, int64_t filters, int64_t stride, const char* activation) {
    layers::ConvOptions options;
    options.strides = {stride, stride};
    options.padding = "SAME";
    options.use_bias = false;
    return Normed(layers::Conv2D(Next("conv"), x, filters, {window, window}, options), activation);
  }

  Output Depthwise(const Output& x, int64_t stride, const char* activation) {
    layers::SeparableConvOptions options;
    options.strides = {stride, stride};
    options.padding = "SAME";
    options.use_bias = false;
    return Normed(layers::DepthwiseConv2D(Next("depthwise"), x, {3, 3}, options), activation);
  }

  int64_t Channels(const Output& x) const { return root_.ShapeOf(x).dim(3); }

 private:
  Scope Next(const char* what) { return root_.WithOpName(StrCat(what, count_++)); }

  Output Normed(const Output& y, const char* activation) {
    const Output normed = layers::BatchNorm(Next("norm"), y, true);
    if (activation == nullptr || !root_.ok()) return normed;
    return Output(EmitOp(Next(activation), activation, {normed}).output(0));
  }

  const Scope root_;
  int count_ = 0;
};

Output Images(const Scope& root, TrainingModel* m) {
  // One batch, and a small rate below: deep normalised layers make of a rounding error a loss that
  // differs in the third digit, as soon as steps are large or the images others.
  m->batches = 1;
  const TensorShape shape = {kImages, kSide, kSide, 3};
  const Output to = ops::Placeholder(root.WithOpName("images"), DType::kFloat, {.shape = shape});
  m->feeds.push_back({to, shape});
  return to;
}

// The mean of each channel, a dense layer, the loss of the classes, and the step.
void Learn(const Scope& root, const Output& x, float rate, const GradientOptions& gradients, TrainingModel* m) {
  const TensorShape shape = {kImages};
  const Output wanted = ops::Placeholder(root.WithOpName("wanted"), DType::kInt32, {.shape = shape});
  m->feeds.push_back({wanted, shape, kClasses});
  const Output logits = layers::Dense(root.WithOpName("classes"), layers::GlobalAvgPool2D(root, x), kClasses);
  m->loss = ops::Mean(root, ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, wanted).loss, Const(root, {0}));
  const Scope after = root.WithControlDependencies(layers::UpdateOps(root));
  m->train = train::Momentum(rate, 0.9f).Minimize(after, m->loss, {}, {}, gradients);
}

}  // namespace

TrainingModel ResNet50(const Scope& root, const GradientOptions& gradients) {
  TrainingModel m;
  Layers l(root);
  Output y = l.Conv(Images(root, &m), 7, 64, 2, "Relu");
  y = layers::MaxPool2D(root, y, {3, 3}, {2, 2}, "SAME");
  for (const auto& [width, blocks] : std::vector<std::pair<int64_t, int>>{{64, 3}, {128, 4}, {256, 6}, {512, 3}}) {
    for (int block = 0; block < blocks && root.ok(); ++block) {
      const int64_t stride = block == 0 && width > 64 ? 2 : 1;
      const Output cut = block == 0 ? l.Conv(y, 1, 4 * width, stride, nullptr) : y;
      const Output inner = l.Conv(l.Conv(y, 1, width, 1, "Relu"), 3, width, stride, "Relu");
      y = ops::Relu(root, l.Conv(inner, 1, 4 * width, 1, nullptr) + cut);
    }
  }
  if (root.ok()) Learn(root, y, 1e-7f, gradients, &m);
  return m;
}

TrainingModel MobileNetV2(const Scope& root, const GradientOptions& gradients) {
  struct Stage {
    int64_t expansion, filters;
    int blocks;
    int64_t stride;
  };
  TrainingModel m;
  Layers l(root);
  Output y = l.Conv(Images(root, &m), 3, 32, 2, "Relu6");
  for (const Stage& stage : std::vector<Stage>{
           {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}}) {
    for (int block = 0; block < stage.blocks && root.ok(); ++block) {
      const Output wide = stage.expansion > 1 ? l.Conv(y, 1, stage.expansion * l.Channels(y), 1, "Relu6") : y;
      const Output seen = l.Depthwise(wide, block == 0 ? stage.stride : 1, "Relu6");
      const Output narrow = l.Conv(seen, 1, stage.filters, 1, nullptr);
      y = block == 0 ? narrow : y + narrow;
    }
  }
  if (root.ok()) Learn(root, l.Conv(y, 1, 1280, 1, "Relu6"), 5e-7f, gradients, &m);
  return m;
}

}  // namespace troupe::bench
