#include "tools/benchmarks/models.h"

#include "examples/language_model/model.h"
#include "tools/benchmarks/image_models.h"
#include "troupe/train/adagrad.h"
#include "troupe/train/embedding.h"
#include "troupe/train/ftrl.h"
#include "troupe/train/sampled_loss.h"

namespace troupe::bench {
namespace {

// Adds a placeholder and says what it is fed.
Output Fed(const Scope& root, TrainingModel* m, const char* name, DType dtype, const TensorShape& shape,
           int64_t below) {
  const Output to = ops::Placeholder(root.WithOpName(name), dtype, {.shape = shape});
  m->feeds.push_back({to, shape, below});
  return to;
}

// Initial values count for nothing here: the program sets them (models_main.cc).
Variable Weights(const Scope& root, const char* name, const TensorShape& shape) {
  return Variable(root.WithOpName(name), init::Zeros()(root, shape, DType::kFloat));
}

TrainingModel Word2Vec(const Scope& root) {
  constexpr int64_t kWords = 50000, kWidth = 128, kBatch = 128, kSampled = 64;
  TrainingModel m;
  m.batches = 64;
  const Output centres = Fed(root, &m, "centres", DType::kInt64, {kBatch}, kWords);
  const Output neighbours = Fed(root, &m, "neighbours", DType::kInt64, {kBatch, 1}, kWords);
  const Variable vectors = Weights(root, "vectors", {kWords, kWidth});
  const Variable weights = Weights(root, "weights", {kWords, kWidth});
  const Variable biases = Weights(root, "biases", {kWords});
  train::SampledLossOptions options;
  options.seed = 3;
  m.loss = ops::Mean(root, train::NceLoss(root, {weights}, {biases}, neighbours,
                                          train::EmbeddingLookup(root, vectors, centres), kSampled, kWords, options));
  m.train = train::Adagrad(0.5f).Minimize(root, m.loss);
  return m;
}

TrainingModel Lstm(const Scope& root) {
  language_model::ModelOptions options;
  options.symbols = 10000;
  options.units = 650;
  options.batch = 20;
  options.time = 35;
  options.unrolled = true;
  const language_model::Model built = language_model::Build(root, options);
  TrainingModel m;
  const TensorShape of_step = {options.batch, options.time};
  m.feeds = {{built.x, of_step, options.symbols}, {built.y, of_step, options.symbols}};
  m.always.emplace_back(built.training, Tensor::Scalar(true));
  for (const Output& part : built.before) {
    const std::vector<float> zeros(static_cast<size_t>(options.batch * options.units));
    m.always.emplace_back(part, Tensor::Of<float>(zeros, {options.batch, options.units}));
  }
  m.loss = built.loss;
  m.train = built.train;
  return m;
}

// Cheng et al. (2016): ten crossed columns for the wide part; eight columns as embeddings, and
// thirteen numbers, for the deep one.
TrainingModel WideAndDeep(const Scope& root) {
  constexpr int64_t kBatch = 256, kCrossings = 100000, kCrossed = 10, kColumns = 8, kRows = 10000, kWidth = 32,
                    kNumbers = 13;
  TrainingModel m;
  m.batches = 64;
  const Output crossed = Fed(root, &m, "crossed", DType::kInt64, {kBatch, kCrossed}, kCrossings);
  const Output columns = Fed(root, &m, "columns", DType::kInt64, {kBatch, kColumns}, kRows);
  const Output numbers = Fed(root, &m, "numbers", DType::kFloat, {kBatch, kNumbers}, 0);
  const Output clicked = Fed(root, &m, "clicked", DType::kFloat, {kBatch, 1}, 2);
  const Variable wide = Weights(root, "wide/weights", {kCrossings, 1});
  const Output remembered = ops::Sum(root, train::EmbeddingLookup(root, wide, crossed), Const(root, {1}));
  std::vector<Input> parts;
  const auto ids = ops::Unpack(root, columns, kColumns, {.axis = 1});
  for (int64_t i = 0; i < kColumns; ++i)
    parts.push_back(layers::Embedding(root.WithOpName(StrCat("deep/column", i)), ids[i], kRows, kWidth));
  parts.push_back(numbers);
  Output h = ops::ConcatV2(root, parts, 1);
  layers::LayerOptions relu;
  relu.activation = "Relu";
  int layer = 0;
  for (const int64_t units : {1024, 512, 256})
    h = layers::Dense(root.WithOpName(StrCat("deep/layer", layer++)), h, units, relu);
  const Output x = layers::Dense(root.WithOpName("deep/logit"), h, 1) + remembered;
  // The cross entropy of sigmoids: max(x, 0) - x z + log(1 + exp(-|x|)).
  const Output rest = ops::Log1p(root, ops::Exp(root, -ops::Abs(root, x)));
  m.loss = ops::Mean(root, ops::Relu(root, x) - x * clicked + rest, Const(root, {0, 1}));
  train::Ftrl ftrl(0.1f, {.l1 = 0.001});
  train::Adagrad adagrad(0.05f);
  std::vector<train::GradAndVar> of_wide, of_deep;
  for (const train::GradAndVar& g : adagrad.ComputeGradients(root, m.loss))
    (g.var.variable_name() == wide.variable_name() ? of_wide : of_deep).push_back(g);
  m.train = Group(root, {ftrl.ApplyGradients(root, of_wide), adagrad.ApplyGradients(root, of_deep)});
  return m;
}

// Vaswani et al. (2017), normalised before each part; it learns a word for each place.
TrainingModel Transformer(const Scope& root, const GradientOptions& gradients) {
  constexpr int64_t kBatch = 16, kTime = 64, kWords = 8000, kWidth = 256, kHeads = 4, kInner = 1024, kLayers = 6;
  TrainingModel m;
  const Output words = Fed(root, &m, "words", DType::kInt32, {kBatch, kTime}, kWords);
  const Output wanted = Fed(root, &m, "wanted", DType::kInt32, {kBatch, kTime}, kWords);
  Output h = layers::Embedding(root.WithOpName("embedding"), words, kWords, kWidth);
  h = h + Weights(root, "places", {kTime, kWidth});
  layers::LayerOptions relu;
  relu.activation = "Relu";
  for (int64_t i = 0; i < kLayers; ++i) {
    const Scope s = root.NewSubScope(StrCat("layer", i));
    const Output seen = layers::LayerNorm(s.WithOpName("norm1"), h);
    h = h + layers::MultiHeadAttention(s.WithOpName("attention"), seen, seen, kHeads, kWidth / kHeads);
    const Output inner =
        layers::Dense(s.WithOpName("inner"), layers::LayerNorm(s.WithOpName("norm2"), h), kInner, relu);
    h = h + layers::Dense(s.WithOpName("outer"), inner, kWidth);
  }
  h = layers::LayerNorm(root.WithOpName("norm"), h);
  const Output rows = ops::Reshape(root, h, Tensor::Vector<int32_t>({-1, static_cast<int32_t>(kWidth)}));
  const Output logits = layers::Dense(root.WithOpName("softmax"), rows, kWords);
  const Output labels = ops::Reshape(root, wanted, Tensor::Vector<int32_t>({-1}));
  m.loss = ops::Mean(root, ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, labels).loss);
  m.train = train::Adam(1e-3f).Minimize(root, m.loss, {}, {}, gradients);
  return m;
}

}  // namespace

TrainingModel BuildModel(const Scope& root, const std::string& name, const GradientOptions& gradients) {
  if (name == "word2vec") return Word2Vec(root);
  if (name == "lstm") return Lstm(root);
  if (name == "wide_and_deep") return WideAndDeep(root);
  if (name == "transformer") return Transformer(root, gradients);
  if (name == "resnet50") return ResNet50(root, gradients);
  if (name == "mobilenetv2") return MobileNetV2(root, gradients);
  root.UpdateStatus(InvalidArgument("there is no model '", name, "'"));
  return {};
}

}  // namespace troupe::bench
