// Linear regression from files, through two queues: runners put names of files into the first one,
// and the points of these files into the second one, from which each step takes some at random.
//
//   two_queues A.csv B.csv ...       lines of x,y; without files it makes up points
//   two_queues --model_dir RUN       goes on from the newest checkpoint there, with what is queued
#include <cstdio>
#include <random>

#include "examples/common/training.h"
#include "troupe/files.h"
#include "troupe/train/input.h"

namespace {

using namespace troupe;  // NOLINT: an example reads better with it

struct Flags : example::Flags {
  std::vector<std::string> files;
  int64_t batch = 32;
  double learning_rate = 0.05;
};

// y = 3 x - 1, with some noise.
absl::StatusOr<std::vector<std::string>> MakeUpFiles() {
  std::mt19937 random(1);
  const auto between = [&](double low, double high) { return low + (high - low) * random() / 0x1p32; };
  std::vector<std::string> paths;
  for (int file = 0; file < 4; ++file) {
    std::string text;
    for (int i = 0; i < 100; ++i) {
      const double x = between(-1, 1);
      text += StrCat(x, ",", 3 * x - 1 + between(-0.1, 0.1), "\n");
    }
    paths.push_back(StrCat("mem://points-", file, ".csv"));
    TROUPE_RETURN_IF_ERROR(files::Write(paths.back(), text));
  }
  return paths;
}

absl::Status Run(Flags flags) {
  if (flags.files.empty()) {
    if (!flags.json) std::printf("no files were given: points of the line y = 3 x - 1 are made up\n");
    TROUPE_ASSIGN_OR_RETURN(flags.files, MakeUpFiles());
  }
  const Scope root = Scope::NewRootScope();
  // The first queue, of names, in another order in each epoch.
  const Queue names = train::StringInputProducer(root, flags.files, {.seed = flags.seed});
  // The second queue, of points. Both come with runners.
  const Output text = ops::ReadFile(root, names.Dequeue(root)[0]);
  const Output lines = ops::StringSplit(root, ops::ExpandDims(root, text, 0), "\n").values;
  const OutputList columns = ops::DecodeCSV(root, lines, {Tensor::Scalar(0.0f), Tensor::Scalar(0.0f)});
  train::BatchOptions batching;
  batching.batch_size = flags.batch;
  batching.capacity = 1000;
  batching.enqueue_many = true;  // a file has many points
  const OutputList batch = train::ShuffleBatch(root, columns, batching, /*min_after_dequeue=*/200, flags.seed);

  const Variable w(root.WithOpName("w"), 0.0f), b(root.WithOpName("b"), 0.0f);
  const Output error = w * batch[0] + b - batch[1];
  const Output loss = ops::Mean(root.WithOpName("loss"), ops::Square(root, error));
  const Operation step = train::GradientDescent(static_cast<float>(flags.learning_rate)).Minimize(root, loss);
  const Operation init = GlobalVariablesInitializer(root);
  TROUPE_RETURN_IF_ERROR(root.status());

  Session* session = nullptr;
  example::Job job;
  job.unit = "points";
  job.begin = [&](Session& s) { return s.Run({}, {}, {init}, nullptr); };
  job.start = [&](Session& s) {
    session = &s;
    return absl::OkStatus();
  };
  job.step = [&](int64_t, int64_t* units) -> absl::StatusOr<double> {
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(session->Run({}, {loss}, {step}, &out));
    *units += flags.batch;
    return static_cast<double>(out[0].scalar<float>());
  };
  job.test = [&]() -> absl::StatusOr<example::Numbers> {
    TROUPE_ASSIGN_OR_RETURN(const Tensor slope, session->Get(w));
    TROUPE_ASSIGN_OR_RETURN(const Tensor offset, session->Get(b));
    return example::Numbers{{"w", static_cast<double>(slope.scalar<float>())},
                            {"b", static_cast<double>(offset.scalar<float>())}};
  };
  return example::Train(flags, root, job);
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.steps = 300;
  CLI::App app("Fits a line to the points of files", "two_queues");
  example::AddFlags(&app, &flags);
  app.add_option("files", flags.files, "lines of x,y");
  app.add_option("--batch", flags.batch, "points a step")->check(CLI::Range(1, 800))->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "of gradient descent")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return example::Main(&app, argc, argv, [&] { return Run(flags); });
}
