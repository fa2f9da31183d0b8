#include "net.h"

#include <cmath>

namespace cluster_mnist {
namespace {

using namespace troupe;  // NOLINT: an example reads better with it
using mnist::kClasses;
using mnist::kPixels;
using mnist::kSide;

class Builder {
 public:
  Builder(const Scope& on, int64_t seed) : on_(on), seed_(seed) {}
  Output Weights(const std::string& name, const TensorShape& shape) {
    const Scope s = on_.NewSubScope(name);
    return Variable(s.WithOpName("w"),
                    init::TruncatedNormal(0.0, 0.1, seed_ * 1000 + ++made_)(s, shape, DType::kFloat));
  }
  Output Bias(const std::string& name, int64_t n) {
    const Scope s = on_.NewSubScope(name);
    return Variable(s.WithOpName("b"), ops::Fill(s, Tensor::Vector<int32_t>({static_cast<int32_t>(n)}), 0.1f));
  }
  Output Dense(const std::string& name, const Output& x, int64_t in, int64_t out) {
    const Output w = Weights(name, TensorShape({in, out})), b = Bias(name, out);
    return ops::BiasAdd(on_, ops::MatMul(on_, x, w), b);
  }
  Output Conv(const std::string& name, const Output& x, int64_t window, int64_t in, int64_t out, int64_t stride) {
    const Output w = Weights(name, TensorShape({window, window, in, out})), b = Bias(name, out);
    return ops::Relu(on_, ops::BiasAdd(on_, ops::Conv2D(on_, x, w, {1, stride, stride, 1}, "SAME"), b));
  }
  // From what is fed, and from no random stream: a worker that begins anew would begin that anew.
  Output Dropout(const Output& x, const Net& net) {
    const Output noise = ops::StatelessRandomUniform(on_, ops::Shape(on_, x), net.noise);
    return ops::Mul(on_, ops::RealDiv(on_, x, net.keep),
                    ops::Cast(on_, ops::Less(on_, noise, net.keep), DType::kFloat));
  }
  Output Flat(const Output& x, int64_t n) {
    return ops::Reshape(on_, x, Tensor::Vector<int32_t>({-1, static_cast<int32_t>(n)}));
  }

 private:
  Scope on_;
  int64_t seed_, made_ = 0;
};

}  // namespace

double Net::LearningRate(int64_t step) const {
  return falling_rate ? 0.0001 + (first_rate - 0.0001) * std::exp(-static_cast<double>(step) / 2000.0) : first_rate;
}

Inputs FedInputs(const Scope& on) {
  Inputs in;
  in.images = ops::Placeholder(on.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape({-1, kSide, kSide, 1})});
  in.labels = ops::Placeholder(on.WithOpName("t"), DType::kFloat, {.shape = PartialTensorShape({-1, kClasses})});
  in.noise = ops::Placeholder(on.WithOpName("noise"), DType::kInt64, {.shape = PartialTensorShape({2})});
  in.keep = ops::Placeholder(on.WithOpName("keep"), DType::kFloat, {.shape = TensorShape()});
  return in;
}

absl::StatusOr<Net> BuildNet(const Scope& on, const std::string& name, int64_t seed, const Inputs& inputs) {
  if (name != "small" && name != "e8") return InvalidArgument("there is no net '", name, "': take small or e8");
  Net net;
  static_cast<Inputs&>(net) = inputs;
  Builder b(on, seed);
  Output logits;
  if (name == "small") {
    constexpr int64_t kUnits = 32;
    const Output h = ops::Relu(on, b.Dense("layer1", b.Flat(net.images, kPixels), kPixels, kUnits));
    logits = b.Dense("layer2", h, kUnits, kClasses);
  } else {
    Output h = b.Conv("conv1", net.images, 6, 1, 6, 1);
    h = b.Conv("conv2", h, 5, 6, 12, 2);
    h = b.Conv("conv3", h, 4, 12, 24, 2);
    h = ops::Relu(on, b.Dense("fc4", b.Flat(h, 7 * 7 * 24), 7 * 7 * 24, 200));
    logits = b.Dense("fc5", b.Dropout(h, net), 200, kClasses);
    net.train_keep = 0.75;
    net.falling_rate = true;
  }
  const Tensor first = Tensor::Vector<int32_t>({0});
  const auto per_image = ops::SoftmaxCrossEntropyWithLogits(on, logits, net.labels);
  net.loss = ops::Mean(on.WithOpName("loss"), per_image.loss, first);
  const Output right = ops::Equal(on, ops::ArgMax(on, logits, 1), ops::ArgMax(on, net.labels, 1));
  net.accuracy = ops::Mean(on.WithOpName("accuracy"), ops::Cast(on, right, DType::kFloat), first);
  TROUPE_RETURN_IF_ERROR(on.status());
  return net;
}

void Share::Take(int64_t step, int part, Tensor* images, Tensor* labels) {
  *images = Tensor(DType::kFloat, TensorShape({batch_, kSide, kSide, 1}));
  *labels = Tensor(DType::kFloat, TensorShape({batch_, kClasses}));
  const int64_t at = (step * parts_ + part) * batch_;
  for (int64_t i = 0; i < batch_; ++i) {
    const int64_t from = order_.At(at + i);
    data_->CopyImage(from, images->data<float>() + i * kPixels);
    data_->CopyLabel(from, labels->data<float>() + i * kClasses);
  }
}

}  // namespace cluster_mnist
