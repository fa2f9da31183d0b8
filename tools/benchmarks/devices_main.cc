// Times the training step of experiment E8's network on one CPU device and split over two of the
// same process, batch 100 in all.
//
//   devices one|layers|data THREADS FOLDER
//
//   one      everything on CPU:0
//   layers   convolutions on CPU:0, what follows on CPU:1; gradients beside what they are gradients of
//   data     fifty images on each device; variables and Adam on CPU:0, which averages the gradients
//
// FOLDER is what `train --write` left. A sample is images a second.
#include <fstream>

#include "tools/benchmarks/serve.h"
#include "troupe/troupe.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

constexpr int64_t kBatch = 100, kPixels = 784, kClasses = 10;
const char* const kDevices[] = {"/device:CPU:0", "/device:CPU:1"};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "devices: %s\n", s.ToString().c_str());
  std::exit(1);
}

// Weights and bias of the five layers.
struct Parameters {
  std::vector<Variable> w, b;
};
Parameters MakeParameters(const Scope& root, const char* convolutions, const char* rest) {
  Parameters p;
  const TensorShape shapes[] = {TensorShape({6, 6, 1, 6}), TensorShape({5, 5, 6, 12}), TensorShape({4, 4, 12, 24}),
                                TensorShape({1176, 200}), TensorShape({200, 10})};
  for (int i = 0; i < 5; ++i) {
    const Scope s = root.WithDevice(i < 3 ? convolutions : rest);
    const int64_t n = shapes[i].dim(shapes[i].rank() - 1);
    p.w.push_back(
        Variable(s.WithOpName(StrCat("w", i)), init::TruncatedNormal(0.0, 0.1, i + 1)(s, shapes[i], DType::kFloat)));
    p.b.push_back(
        Variable(s.WithOpName(StrCat("b", i)), ops::Fill(s, Tensor::Vector<int32_t>({static_cast<int32_t>(n)}), 0.1f)));
  }
  return p;
}

Output Loss(const Scope& root, const Parameters& p, const Output& x, const Output& t, const char* convolutions,
            const char* rest) {
  const Scope c = root.WithDevice(convolutions), f = root.WithDevice(rest);
  Output y = x;
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = i == 0 ? 1 : 2;
    y = ops::Relu(c, ops::BiasAdd(c, ops::Conv2D(c, y, p.w[i], {1, stride, stride, 1}, "SAME"), p.b[i]));
  }
  y = ops::Relu(
      f, ops::BiasAdd(f, ops::MatMul(f, ops::Reshape(f, y, Tensor::Vector<int32_t>({-1, 1176})), p.w[3]), p.b[3]));
  const Output noise = ops::RandomUniform(f, ops::Shape(f, y), DType::kFloat, {.seed = 1, .seed2 = 2});
  y = ops::Mul(f, ops::RealDiv(f, y, 0.75f), ops::Cast(f, ops::Less(f, noise, 0.75f), DType::kFloat));
  const Output logits = ops::BiasAdd(f, ops::MatMul(f, y, p.w[4]), p.b[4]);
  return ops::Mul(f, ops::Mean(f, ops::SoftmaxCrossEntropyWithLogits(f, logits, t).loss, Tensor::Vector<int32_t>({0})),
                  100.0f);
}

int Main(const std::string& mode, int threads, const std::string& folder) {
  const int towers = mode == "data" ? 2 : 1;
  const char* const rest = mode == "layers" ? kDevices[1] : kDevices[0];
  const Scope root = Scope::NewRootScope();
  const Parameters p = MakeParameters(root, kDevices[0], rest);
  train::Adam adam(1e-3f);
  const GradientOptions gradients = {.colocate_gradients_with_ops = true};
  Names feeds;
  std::vector<std::vector<train::GradAndVar>> grads;
  for (int i = 0; i < towers; ++i) {
    const char* own = kDevices[i];
    const Scope s = root.NewSubScope(StrCat("tower", i));
    const Output x = ops::Placeholder(s.WithDevice(own).WithOpName("x"), DType::kFloat,
                                      {.shape = PartialTensorShape({-1, 28, 28, 1})});
    const Output t = ops::Placeholder(s.WithDevice(towers == 2 ? own : rest).WithOpName("t"), DType::kFloat,
                                      {.shape = PartialTensorShape({-1, kClasses})});
    feeds.push_back(x.name());
    feeds.push_back(t.name());
    const Output loss = towers == 2 ? Loss(s, p, x, t, own, own) : Loss(s, p, x, t, kDevices[0], rest);
    grads.push_back(adam.ComputeGradients(s, loss, {}, gradients));
  }
  const Scope average = root.WithDevice(kDevices[0]);
  for (size_t v = 0; towers == 2 && v < grads[0].size(); ++v) {
    grads[0][v].grad = ops::Mul(average, ops::Add(average, grads[0][v].grad, grads[1][v].grad), 0.5f);
  }
  const Operation train = adam.ApplyGradients(root, grads[0]);
  const Operation init = GlobalVariablesInitializer(root);
  Need(root.status());

  SessionOptions options;
  options.runtime_options.threads = threads;
  options.runtime_options.cpu_devices = 2;
  const std::unique_ptr<Session> session = Session::Create(options).value();
  Need(session->Extend(*root.graph()));
  Need(session->Run({}, {}, {init.name()}, nullptr));
  const Callable step = session->Prepare(feeds, {}, {train.name()}).value();

  std::ifstream images(folder + "/images.f32", std::ios::binary), labels(folder + "/labels.f32", std::ios::binary);
  const int64_t part = kBatch / towers;
  std::vector<float> x(static_cast<size_t>(part * kPixels)), t(static_cast<size_t>(part * kClasses));
  std::vector<std::vector<Tensor>> batches;
  for (bool more = true; more;) {
    std::vector<Tensor> batch;
    for (int i = 0; i < towers && more; ++i) {
      more = images.read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(x.size() * 4)) &&
             labels.read(reinterpret_cast<char*>(t.data()), static_cast<std::streamsize>(t.size() * 4));
      batch.push_back(Tensor::Of<float>(x, TensorShape({part, 28, 28, 1})));
      batch.push_back(Tensor::Of<float>(t, TensorShape({part, kClasses})));
    }
    if (more) batches.push_back(std::move(batch));
  }
  if (batches.empty()) Need(NotFound("no batches in ", folder));
  size_t next = 0;
  const auto run = [&] { Need(step.Run(batches[next++ % batches.size()], nullptr)); };
  for (int i = 0; i < 50; ++i) run();
  return Serve("{}", [&] { return kBatch / Sample(0.4, run); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 4 ? argv[1] : "";
  if (mode != "one" && mode != "layers" && mode != "data")
    return std::fprintf(stderr, "usage: devices one|layers|data THREADS FOLDER\n"), 2;
  return Main(mode, std::atoi(argv[2]), argv[3]);
}
