#include "model.h"

#include <cmath>

#include "data.h"

namespace mnist {
namespace {

using namespace troupe;  // NOLINT: an example reads better with it

class Builder {
 public:
  Builder(const Scope& root, int64_t seed) : root_(root), seed_(seed) {}

  Output Weights(const std::string& name, const TensorShape& shape) {
    Scope s = root_.NewSubScope(name);
    return Variable(s.WithOpName("w"),
                    init::TruncatedNormal(0.0, 0.1, seed_ == 0 ? 0 : seed_ * 1000 + ++made_)(s, shape, DType::kFloat));
  }
  Output Bias(const std::string& name, int64_t n, float value) {
    Scope s = root_.NewSubScope(name);
    return Variable(s.WithOpName("b"), ops::Fill(s, Tensor::Vector<int32_t>({static_cast<int32_t>(n)}), value));
  }
  Output Dense(const std::string& name, Output x, int64_t in, int64_t out, float bias) {
    const Output w = Weights(name, TensorShape({in, out})), b = Bias(name, out, bias);
    return ops::BiasAdd(root_, ops::MatMul(root_, x, w), b);
  }
  Output Conv(const std::string& name, Output x, int64_t window, int64_t in, int64_t out, int64_t stride) {
    const Output w = Weights(name, TensorShape({window, window, in, out})), b = Bias(name, out, 0.1f);
    return ops::Relu(root_, ops::BiasAdd(root_, ops::Conv2D(root_, x, w, {1, stride, stride, 1}, "SAME"), b));
  }
  Output Dropout(Output x, Output keep) {
    const Output noise = ops::RandomUniform(root_, ops::Shape(root_, x), DType::kFloat,
                                            {.seed = seed_, .seed2 = seed_ == 0 ? 0 : ++made_});
    return ops::Mul(root_, ops::RealDiv(root_, x, keep),
                    ops::Cast(root_, ops::Less(root_, noise, keep), DType::kFloat));
  }

 private:
  Scope root_;
  int64_t seed_, made_ = 0;
};

}  // namespace

double Model::LearningRate(int64_t step) const {
  return falling_rate ? 0.0001 + (first_rate - 0.0001) * std::exp(-static_cast<double>(step) / 2000.0) : first_rate;
}

absl::StatusOr<Model> BuildModel(const Scope& root, const std::string& experiment, int64_t seed,
                                 const Variable& global_step) {
  if (experiment.size() != 2 || experiment[0] != 'E' || experiment[1] < '1' || experiment[1] > '8') {
    return InvalidArgument("there is no experiment '", experiment, "': take one of E1 to E8");
  }
  const int number = experiment[1] - '0';
  Model m;
  m.images =
      ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, kSide, kSide, 1})});
  m.labels = ops::Placeholder(root.WithOpName("t"), DType::kFloat, {.shape = PartialTensorShape({-1, kClasses})});
  m.learning_rate = ops::Placeholder(root.WithOpName("learning_rate"), DType::kFloat, {.shape = TensorShape()});
  m.keep = ops::Placeholder(root.WithOpName("keep"), DType::kFloat, {.shape = TensorShape()});
  m.falling_rate = number >= 5;
  m.train_keep = number == 6 || number == 8 ? 0.75 : 1.0;
  m.steps = number == 1 ? 1000 : 10000;

  Builder b(root, seed);
  const auto flat = [&](Output x, int64_t n) {
    return ops::Reshape(root, x, Tensor::Vector<int32_t>({-1, static_cast<int32_t>(n)}));
  };
  Output logits;
  if (number == 1) {
    const Output x = flat(m.images, kPixels);
    const Output w =
        Variable(root.WithOpName("w"), ops::Fill(root, Tensor::Vector<int32_t>({kPixels, kClasses}), 0.0f));
    const Output bias = Variable(root.WithOpName("b"), ops::Fill(root, Tensor::Vector<int32_t>({kClasses}), 0.0f));
    logits = ops::BiasAdd(root, ops::MatMul(root, x, w), bias);
  } else if (number <= 6) {
    const int64_t sizes[] = {kPixels, 200, 100, 60, 30, kClasses};
    Output h = flat(m.images, kPixels);
    for (int i = 0; i < 4; ++i) {
      h = b.Dense(StrCat("layer", i + 1), h, sizes[i], sizes[i + 1], number == 2 ? 0.0f : 0.1f);
      h = number == 2 ? ops::Sigmoid(root, h) : ops::Relu(root, h);
      if (number == 6) h = b.Dropout(h, m.keep);
    }
    logits = b.Dense("layer5", h, sizes[4], kClasses, number == 2 ? 0.0f : 0.1f);
  } else {
    const bool big = number == 8;
    const int64_t k = big ? 6 : 4, l = big ? 12 : 8, n = big ? 24 : 12;
    Output h = b.Conv("conv1", m.images, big ? 6 : 5, 1, k, 1);
    h = b.Conv("conv2", h, 5, k, l, 2);
    h = b.Conv("conv3", h, 4, l, n, 2);
    h = ops::Relu(root, b.Dense("fc4", flat(h, 7 * 7 * n), 7 * 7 * n, 200, 0.1f));
    if (big) h = b.Dropout(h, m.keep);
    logits = b.Dense("fc5", h, 200, kClasses, 0.1f);
  }

  const Output y = ops::Softmax(root.WithOpName("y"), logits);
  const Tensor both = Tensor::Vector<int32_t>({0, 1}), first = Tensor::Vector<int32_t>({0});
  if (number <= 3) {
    const Output sum = ops::Sum(root, ops::Mul(root, m.labels, ops::Log(root, y)), both);
    m.loss = ops::Neg(root.WithOpName("loss"), sum);
  } else {
    const auto per_image = ops::SoftmaxCrossEntropyWithLogits(root, logits, m.labels);
    m.loss = ops::Mul(root.WithOpName("loss"), ops::Mean(root, per_image.loss, first), 100.0f);
  }
  const Output right = ops::Equal(root, ops::ArgMax(root, y, 1), ops::ArgMax(root, m.labels, 1));
  m.accuracy = ops::Mean(root.WithOpName("accuracy"), ops::Cast(root, right, DType::kFloat), first);

  if (number == 1) {
    m.train = train::GradientDescent(m.learning_rate).Minimize(root, m.loss, {}, global_step);
  } else {
    m.train = train::Adam(m.learning_rate).Minimize(root, m.loss, {}, global_step);
  }
  m.init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());
  return m;
}

}  // namespace mnist
