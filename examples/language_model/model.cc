#include "model.h"

#include "troupe/train/recurrent.h"

namespace language_model {

using namespace troupe;  // NOLINT: an example reads better with it

Model Build(const Scope& root, const ModelOptions& options) {
  Model m;
  int64_t seed = options.seed * 100;
  const auto next_seed = [&] { return options.seed == 0 ? 0 : ++seed; };
  const PartialTensorShape of_step = {options.batch, options.time};
  m.x = ops::Placeholder(root.WithOpName("x"), DType::kInt32, {.shape = of_step});
  m.y = ops::Placeholder(root.WithOpName("y"), DType::kInt32, {.shape = of_step});
  m.training = ops::Placeholder(root.WithOpName("training"), DType::kBool, {.shape = TensorShape()});
  const auto dropped = [&](const Output& h) {
    return options.dropout > 0 ? layers::Dropout(root, h, options.dropout, m.training, next_seed()) : h;
  };
  layers::EmbeddingOptions table;
  table.initializer = init::RandomUniform(-0.1, 0.1, next_seed());
  Output h = layers::Embedding(root.WithOpName("embedding"), m.x, options.symbols, options.units, table);
  for (int64_t i = 0; i < options.layers; ++i) {
    layers::LstmOptions cell;
    cell.kernel_initializer = init::GlorotUniform(next_seed());
    layers::RnnOptions rnn;
    rnn.unrolled = options.unrolled;
    for (const char* part : {"c", "h"}) {
      const std::string name = StrCat(part, i);
      m.before.push_back(
          ops::Placeholder(root.WithOpName(name), DType::kFloat, {.shape = {options.batch, options.units}}));
      rnn.initial_state.push_back(m.before.back());
    }
    const layers::RnnResult r = layers::Lstm(root.WithOpName(StrCat("layer", i)), dropped(h), options.units, cell, rnn);
    m.after.insert(m.after.end(), r.state.begin(), r.state.end());
    h = r.outputs;
  }
  layers::LayerOptions last;
  last.kernel_initializer = init::GlorotUniform(next_seed());
  const Output rows =
      ops::Reshape(root, dropped(h), Tensor::Vector<int32_t>({-1, static_cast<int32_t>(options.units)}));
  const Output logits = layers::Dense(root.WithOpName("softmax"), rows, options.symbols, last);
  const Output follow = ops::Reshape(root, m.y, Tensor::Vector<int32_t>({-1}));
  m.loss = ops::Mean(root.WithOpName("loss"), ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, follow).loss);
  // Of the last symbol of each stream.
  const Output ends = ops::Softmax(root, logits / static_cast<float>(options.temperature));
  m.next = ops::Identity(root.WithOpName("next"), ends);
  train::Adam adam(static_cast<float>(options.learning_rate));
  const std::vector<train::GradAndVar> grads = adam.ComputeGradients(root, m.loss);
  m.train = adam.ApplyGradients(root, train::ClipByGlobalNorm(root, grads, 5.0f));
  m.init = GlobalVariablesInitializer(root);
  return m;
}

}  // namespace language_model
