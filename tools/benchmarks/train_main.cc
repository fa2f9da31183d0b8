// Times the training step of the networks of examples/mnist: batches made beforehand, 100 images
// each, only the train op as a target.
//
//   train E5|E8 [--mode MODE] [--threads N] [--data_dir MNIST | --raw FOLDER] [--seconds S]
//   train --write FOLDER [--data_dir MNIST]
//
//   rate    a sample is images a second
//   tax     a sample is the time of a step divided by the time that its kernels take (RunMetadata of every second step; what two looks at the clock
//           take per node is measured and taken off)
//
// --write puts the images and labels as raw float32 into FOLDER/images.f32 and labels.f32, which --raw and the rivals' programs read. Ten thousand images are
// used at most.
#include <CLI/CLI.hpp>
#include <fstream>

#include "examples/mnist/data.h"
#include "examples/mnist/model.h"
#include "tools/benchmarks/serve.h"
#include "troupe/proto/config.pb.h"

namespace {

using namespace troupe;         // NOLINT
using namespace troupe::bench;  // NOLINT

constexpr int64_t kBatch = 100, kImages = 10000;

struct Flags {
  std::string experiment = "E8", mode = "rate", data_dir, write, raw;
  int threads = 1;
  double seconds = 0.4;
};

void Need(const absl::Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "train: %s\n", s.ToString().c_str());
  std::exit(1);
}
template <class T>
T Need(absl::StatusOr<T> s) {
  Need(s.status());
  return *std::move(s);
}

std::vector<std::pair<Tensor, Tensor>> ReadRaw(const std::string& folder) {
  std::ifstream images(folder + "/images.f32", std::ios::binary), labels(folder + "/labels.f32", std::ios::binary);
  std::vector<std::pair<Tensor, Tensor>> batches;
  std::vector<float> x(kBatch * mnist::kPixels), t(kBatch * mnist::kClasses);
  while (images.read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(x.size() * 4)) &&
         labels.read(reinterpret_cast<char*>(t.data()), static_cast<std::streamsize>(t.size() * 4))) {
    batches.emplace_back(Tensor::Of<float>(x, TensorShape({kBatch, mnist::kSide, mnist::kSide, 1})),
                         Tensor::Of<float>(t, TensorShape({kBatch, mnist::kClasses})));
  }
  if (batches.empty()) Need(NotFound("no batches in ", folder));
  return batches;
}

std::vector<std::pair<Tensor, Tensor>> MakeBatches(const Flags& flags) {
  if (!flags.raw.empty()) return ReadRaw(flags.raw);
  const mnist::Digits digits =
      Need(flags.data_dir.empty() ? mnist::ReadSmallDigits(TROUPE_DIGITS_FILE) : mnist::ReadIdx(flags.data_dir));
  std::vector<std::pair<Tensor, Tensor>> batches;
  for (int64_t at = 0; at + kBatch <= std::min(kImages, digits.train.size()); at += kBatch) {
    batches.emplace_back(digits.train.Images(at, at + kBatch), digits.train.Labels(at, at + kBatch));
  }
  return batches;
}

int Write(const Flags& flags) {
  std::ofstream images(flags.write + "/images.f32", std::ios::binary),
      labels(flags.write + "/labels.f32", std::ios::binary);
  for (const auto& [x, t] : MakeBatches(flags)) {
    images.write(reinterpret_cast<const char*>(x.data<float>()), x.num_elements() * 4);
    labels.write(reinterpret_cast<const char*>(t.data<float>()), t.num_elements() * 4);
  }
  if (!images.flush() || !labels.flush()) Need(Unavailable("cannot write to ", flags.write));
  return 0;
}

// Nanoseconds of two looks at the clock that follow each other.
double ClockNanos() {
  std::vector<double> all;
  for (int i = 0; i < 2001; ++i) {
    const Clock::time_point a = Clock::now();
    all.push_back(std::chrono::duration<double, std::nano>(Clock::now() - a).count());
  }
  std::nth_element(all.begin(), all.begin() + 1000, all.end());
  return all[1000];
}

int Main(const Flags& flags) {
  if (!flags.write.empty()) return Write(flags);
  const std::vector<std::pair<Tensor, Tensor>> batches = MakeBatches(flags);
  Scope root = Scope::NewRootScope();
  const mnist::Model model = Need(mnist::BuildModel(root, flags.experiment, 1));
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  const std::unique_ptr<Session> session = Need(Session::Create(options));
  Need(session->Extend(*root.graph()));
  Need(session->Run({}, {}, {model.init.name()}, nullptr));
  const Callable step =
      Need(session->Prepare({model.images.name(), model.labels.name(), model.keep.name(), model.learning_rate.name()},
                            {}, {model.train.name()}));
  const Tensor keep = Tensor::Scalar(static_cast<float>(model.train_keep)), rate = Tensor::Scalar(1e-3f);
  size_t next = 0;
  const auto run = [&](const RunOptions& run_options, proto::RunMetadata* metadata) {
    const auto& [x, t] = batches[next++ % batches.size()];
    Need(step.Run(run_options, {x, t, keep, rate}, nullptr, metadata));
  };
  for (int i = 0; i < 50; ++i) run({}, nullptr);
  const auto tail = [] { return StrCat("{\"peak_bytes\":", PeakMemory(), "}"); };
  if (flags.mode == "rate") {
    return Serve(
        "{}", [&] { return kBatch / Sample(flags.seconds, [&] { run({}, nullptr); }); }, tail);
  }
  if (flags.mode != "tax") return std::fprintf(stderr, "train: there is no mode '%s'\n", flags.mode.c_str()), 2;
  const double clock = ClockNanos();
  const RunOptions stats = {.collect_stats = true};
  size_t nodes = 0;
  const auto sample = [&] {
    std::vector<double> steps, kernels;
    const Clock::time_point start = Clock::now();
    while (SecondsSince(start) < flags.seconds) {
      const Clock::time_point a = Clock::now();
      run({}, nullptr);
      steps.push_back(SecondsSince(a));
      proto::RunMetadata metadata;
      run(stats, &metadata);
      double sum = 0;
      nodes = 0;
      for (const auto& device : metadata.step_stats().dev_stats()) {
        for (const auto& n : device.node_stats()) {
          sum += std::max(0.0, static_cast<double>(n.all_end_rel_nanos()) - clock);
          ++nodes;
        }
      }
      kernels.push_back(sum * 1e-9);
    }
    const auto median = [](std::vector<double>& v) {
      std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
      return v[v.size() / 2];
    };
    return median(steps) / median(kernels);
  };
  sample();
  return Serve(StrCat("{\"clock_ns\":", clock, ",\"timed_nodes\":", nodes, "}"), sample, tail);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times the training step of the networks of examples/mnist");
  app.add_option("experiment", flags.experiment);
  app.add_option("--mode", flags.mode);
  app.add_option("--threads", flags.threads);
  app.add_option("--data_dir", flags.data_dir);
  app.add_option("--seconds", flags.seconds);
  app.add_option("--write", flags.write);
  app.add_option("--raw", flags.raw);
  CLI11_PARSE(app, argc, argv);
  return Main(flags);
}
