// The code of docs/guide/layers.md.
#include "tests/docs/pages.h"
#include "troupe/train/recurrent.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

std::vector<Tensor> RunOnce(const Scope& root, const Feeds& feeds, const OutputList& fetches,
                            const std::vector<Operation>& targets = {}) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const Operation init = GlobalVariablesInitializer(root);
  auto session = *Session::Create();
  std::vector<Tensor> out;
  absl::Status s = session->Extend(*root.graph());
  if (s.ok()) s = session->Run({}, {}, {init}, nullptr);
  if (s.ok()) s = session->Run(feeds, fetches, targets, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  return out;
}

Tensor Zeros(const TensorShape& shape) {
  Tensor t(DType::kFloat, shape);
  std::fill_n(t.data<float>(), t.num_elements(), 0.0f);
  return t;
}

BOOST_AUTO_TEST_CASE(a_net_with_batch_normalization) {
  // [images]
  Scope root = Scope::NewRootScope();
  Output images = ops::Placeholder(root.WithOpName("images"), DType::kFloat, {.shape = {-1, 32, 32, 3}});
  Output labels = ops::Placeholder(root.WithOpName("labels"), DType::kInt32, {.shape = {-1}});
  Output training = ops::Placeholder(root.WithOpName("training"), DType::kBool, {.shape = TensorShape()});
  layers::ConvOptions conv;
  conv.padding = "SAME";
  conv.use_bias = false;  // BatchNorm has one
  Output h = layers::Conv2D(root.WithOpName("conv1"), images, 16, {3, 3}, conv);
  h = ops::Relu(root, layers::BatchNorm(root.WithOpName("norm1"), h, training));
  h = layers::MaxPool2D(root, h, {2, 2}, {2, 2});
  h = layers::Dropout(root, layers::Flatten(root, h), 0.25, training);
  Output logits = layers::Dense(root.WithOpName("logits"), h, 10);
  Output loss = ops::Mean(root, ops::SparseSoftmaxCrossEntropyWithLogits(root, logits, labels).loss);
  // The updates of moving means and variances run with each step.
  Operation step = train::Adam(0.001).Minimize(root.WithControlDependencies(layers::UpdateOps(root)), loss);
  // [/images]
  const std::vector<Tensor> out = RunOnce(root,
                                          {{"images", Zeros({2, 32, 32, 3})},
                                           {"labels", Tensor::Vector<int32_t>({1, 2})},
                                           {"training", Tensor::Scalar(true)}},
                                          {loss}, {step});
  BOOST_TEST(std::isfinite(out[0].scalar<float>()));
}

BOOST_AUTO_TEST_CASE(layers_for_sequences) {
  // [sequences]
  Scope root = Scope::NewRootScope();
  Output words = ops::Placeholder(root.WithOpName("words"), DType::kInt32, {.shape = {-1, -1}});  // [batch, time]
  Output lengths = ops::Placeholder(root.WithOpName("lengths"), DType::kInt32, {.shape = {-1}});  // of each sequence
  Output vectors = layers::Embedding(root, words, /*rows=*/1000, /*width=*/64);
  layers::RnnResult forward = layers::Lstm(root.WithOpName("forward"), vectors, 32, {}, {.sequence_lengths = lengths});
  layers::RnnResult backward =
      layers::Gru(root.WithOpName("backward"), vectors, 32, {}, {.sequence_lengths = lengths, .reverse = true});
  Output both = ops::ConcatV2(root, {forward.outputs, backward.outputs}, 2);  // [batch, time, 64]
  Output last = forward.state[1];                                             // h behind the last word, [batch, 32]
  // [/sequences]
  // [attention]
  layers::MultiHeadOptions causal;
  causal.causal = true;  // no word sees those behind it
  Output seen =
      layers::MultiHeadAttention(root.WithOpName("attention"), both, both, /*heads=*/4, /*head_size=*/16, causal);
  Output block = layers::LayerNorm(root.WithOpName("norm"), both + seen);
  // [/attention]
  const std::vector<Tensor> out = RunOnce(
      root, {{"words", Tensor::Of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3})}, {"lengths", Tensor::Vector<int32_t>({3, 1})}},
      {both, last, block});
  BOOST_TEST(out[0].TypeAndShape() == "float32 [2,3,64]");
  BOOST_TEST(out[1].TypeAndShape() == "float32 [2,32]");
  BOOST_TEST(out[2].TypeAndShape() == "float32 [2,3,64]");
}

// [cell]
// The plain recurrent cell: h' = tanh(x * of_input + h * of_state).
class PlainCell : public layers::RnnCell {
 public:
  PlainCell(const Scope& s, int64_t width, int64_t units)
      : units_(units),
        of_input_(Variable(s.WithOpName("of_input"), init::GlorotUniform()(s, {width, units}, DType::kFloat))),
        of_state_(Variable(s.WithOpName("of_state"), init::Orthogonal()(s, {units, units}, DType::kFloat))) {}
  std::vector<int64_t> StateSizes() const override { return {units_}; }
  Output Project(const ScopeAt& at, const Output& x) const override { return ops::MatMul(at, x, of_input_); }
  OutputList Step(const ScopeAt& at, const Output& projected, const OutputList& state) const override {
    return {ops::Tanh(at, ops::AddV2(at, projected, ops::MatMul(at, state[0], of_state_)))};
  }

 private:
  const int64_t units_;
  const Output of_input_, of_state_;
};
// [/cell]

BOOST_AUTO_TEST_CASE(a_cell_of_your_own) {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1, -1, 3}});
  // [use_cell]
  PlainCell cell(root.NewSubScope("cell"), /*width=*/3, /*units=*/5);
  layers::RnnResult r = layers::Rnn(root, cell, x);
  // [/use_cell]
  const std::vector<Tensor> out = RunOnce(root, {{"x", Zeros({2, 4, 3})}}, {r.outputs, r.state[0]});
  BOOST_TEST(out[0].TypeAndShape() == "float32 [2,4,5]");
  BOOST_TEST(out[1].TypeAndShape() == "float32 [2,5]");
}

}  // namespace
}  // namespace troupe
