// Trains one of the eight experiments on handwritten digits.
//
//   mnist --experiment E8 --data_dir DIR --steps N --seed S --threads T
//   mnist --experiment E8 --model_dir RUN --save_steps 100 --json
//
// Prints a progress bar with loss, images a second and the remaining time, the test accuracy every
// 100 steps, and at the end the last and the best; with --json one object a line instead, for each
// test and at the end. The same seed and number of threads give the same bits.
//
// With --model_dir it goes on from the newest checkpoint in that folder, saves there, and writes
// event files for TensorBoard. It may be killed at any time. Ctrl-C and SIGTERM end it after the
// step that runs, with a checkpoint.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "data.h"
#include "examples/common/training.h"
#include "model.h"
#include "profile.h"
#include "troupe/train/global_step.h"
#include "troupe/proto/config.pb.h"

namespace {

using namespace troupe;  // NOLINT
using Clock = std::chrono::steady_clock;
int64_t Nanos(Clock::duration d) { return std::chrono::nanoseconds(d).count(); }

struct Flags : example::Flags {
  std::string experiment = "E8", data_dir, digits = TROUPE_DIGITS_FILE;
  int64_t batch = 100;
  int profile = 0;
  double target = 0.0, learning_rate = 0.0, keep = 0.0;
};

// What is told of a run at its end.
struct Progress {
  int64_t step = 0, images = 0, best_step = 0;
  // The accuracies and the test loss are those of the last test.
  double loss = 0, accuracy = NAN, best = 0, test_loss = NAN;
};

// In a checkpoint: counts and numbers of Progress.
constexpr char kCounts[] = "mnist/progress/counts", kNumbers[] = "mnist/progress/numbers";

absl::StatusOr<Progress> ReadProgress(const CheckpointReader& checkpoint) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor counts, checkpoint.Read(kCounts));
  TROUPE_ASSIGN_OR_RETURN(const Tensor numbers, checkpoint.Read(kNumbers));
  if (counts.dtype() != DType::kInt64 || counts.num_elements() != 3 || numbers.dtype() != DType::kDouble ||
      numbers.num_elements() != 4) {
    return InvalidArgument("the checkpoint was not written by this program");
  }
  const int64_t* const c = counts.data<int64_t>();
  const double* const n = numbers.data<double>();
  return Progress{
      .step = c[0], .images = c[1], .best_step = c[2], .loss = n[0], .accuracy = n[1], .best = n[2], .test_loss = n[3]};
}

example::NamedTensors WhatIsSaved(const mnist::Batches& batches, const Progress& p) {
  example::NamedTensors all = batches.Position();
  all.emplace_back(kCounts, Tensor::Vector<int64_t>({p.step, p.images, p.best_step}));
  all.emplace_back(kNumbers, Tensor::Vector<double>({p.loss, p.accuracy, p.best, p.test_loss}));
  return all;
}

void PrintObject(const Progress& p) { example::PrintObject(p.step, {{"loss", p.loss}, {"accuracy", p.accuracy}}); }

// Goes on from the newest checkpoint, if there is one; whether there is.
absl::StatusOr<bool> GoOn(const Flags& flags, Session& session, example::RunFolder* folder, mnist::Batches* batches,
                          Progress* progress) {
  const auto restore = [&](const CheckpointReader& checkpoint) -> absl::StatusOr<int64_t> {
    TROUPE_ASSIGN_OR_RETURN(*progress, ReadProgress(checkpoint));
    TROUPE_RETURN_IF_ERROR(batches->SetPosition(checkpoint));
    return progress->step;
  };
  TROUPE_ASSIGN_OR_RETURN(const bool goes_on, folder->GoOn(session, restore));
  TROUPE_RETURN_IF_ERROR(folder->Open(progress->step));
  if (goes_on && !flags.json) {
    std::printf("going on from step %lld in %s\n", static_cast<long long>(progress->step), flags.model_dir.c_str());
  }
  return goes_on;
}

// Tests the model after progress->step steps, with a piece of the digits at a time.
absl::Status Evaluate(const Callable& test, const mnist::DataSet& digits, Progress* progress) {
  constexpr int64_t kPiece = 1000;
  double right = 0, sum = 0;
  for (int64_t at = 0; at < digits.size(); at += kPiece) {
    const int64_t end = std::min(at + kPiece, digits.size());
    std::vector<Tensor> out;
    TROUPE_RETURN_IF_ERROR(
        test.Run({digits.Images(at, end), digits.Labels(at, end), Tensor::Scalar(1.0f), Tensor::Scalar(0.0f)}, &out));
    right += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(end - at);
    sum += static_cast<double>(out[1].scalar<float>()) * static_cast<double>(end - at);
  }
  progress->accuracy = right / static_cast<double>(digits.size());
  progress->test_loss = sum / static_cast<double>(digits.size());
  if (progress->accuracy > progress->best) {
    progress->best = progress->accuracy;
    progress->best_step = progress->step;
  }
  return absl::OkStatus();
}

// Step number `step` on a batch: its loss. `left`: the steps that are left, with this one.
absl::StatusOr<double> RunStep(const Flags& flags, const Callable& train, const std::vector<Tensor>& values,
                               int64_t step, int64_t left, int64_t batch_nanos, mnist::StepProfile* profile) {
  std::vector<Tensor> out;
  const auto ready = Clock::now();
  const bool in_profile = left <= 2 * flags.profile;  // every other step is timed by node
  if (in_profile && step % 2 == 0) {
    RunOptions run;
    run.collect_stats = true;
    proto::RunMetadata metadata;
    TROUPE_RETURN_IF_ERROR(train.Run(run, values, &out, &metadata));
    profile->Add(metadata);
  } else {
    TROUPE_RETURN_IF_ERROR(train.Run(values, &out));
    if (in_profile) profile->AddStep(batch_nanos, Nanos(Clock::now() - ready));
  }
  return static_cast<double>(out[0].scalar<float>());
}

// Of a run that has ended: `steps` were to be done.
void PrintEnd(const Flags& flags, const Progress& p, int64_t steps) {
  if (flags.json) return PrintObject(p);
  if (p.step < steps) std::printf("\nstopped by signal %d\n", example::ToldToEnd());
  std::printf("%s: %lld steps, test accuracy %.4f, best %.4f at step %lld, train loss %.4f, test loss %.4f\n",
              flags.experiment.c_str(), static_cast<long long>(p.step), p.accuracy, p.best,
              static_cast<long long>(p.best_step), p.loss, p.test_loss);
}

absl::Status Train(const Flags& flags) {
  TROUPE_ASSIGN_OR_RETURN(const mnist::Digits digits, flags.data_dir.empty() ? mnist::ReadSmallDigits(flags.digits)
                                                                             : mnist::ReadIdx(flags.data_dir));
  if (!flags.json) {
    std::printf("data: %s (%lld to learn from, %lld to test)\n", digits.source.c_str(),
                static_cast<long long>(digits.train.size()), static_cast<long long>(digits.test.size()));
  }
  Scope root = Scope::NewRootScope();
  const Variable global_step = flags.model_dir.empty() ? Variable() : train::GetOrCreateGlobalStep(root);
  TROUPE_ASSIGN_OR_RETURN(mnist::Model model, mnist::BuildModel(root, flags.experiment, flags.seed, global_step));
  if (flags.learning_rate > 0) model.first_rate = flags.learning_rate;
  if (flags.keep > 0) model.train_keep = flags.keep;
  std::optional<example::RunFolder> folder;
  if (!flags.model_dir.empty()) folder.emplace(root, flags.model_dir);
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  mnist::Batches batches(&digits.train, static_cast<uint64_t>(flags.seed));
  Progress progress;
  bool goes_on = false;
  if (folder) {
    TROUPE_ASSIGN_OR_RETURN(goes_on, GoOn(flags, *session, &*folder, &batches, &progress));
  }
  if (!goes_on) TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {model.init.name()}, nullptr));

  const Names feeds = {model.images.name(), model.labels.name(), model.keep.name(), model.learning_rate.name()};
  TROUPE_ASSIGN_OR_RETURN(const Callable train, session->Prepare(feeds, {model.loss.name()}, {model.train.name()}));
  TROUPE_ASSIGN_OR_RETURN(const Callable test, session->Prepare(feeds, {model.accuracy.name(), model.loss.name()}, {}));

  const int64_t steps = flags.steps > 0 ? flags.steps : model.steps;
  example::ProgressBar bar(progress.step, steps, "images");
  mnist::StepProfile profile;
  const int64_t images_before = progress.images;
  example::EndWhenTold();
  while (progress.step < steps && example::ToldToEnd() == 0) {
    const int64_t step = progress.step;
    const auto start = Clock::now();
    Tensor images, labels;
    batches.Next(flags.batch, &images, &labels);
    progress.images += images.dim(0);
    const auto rate = static_cast<float>(model.LearningRate(step));
    const std::vector<Tensor> values = {std::move(images), std::move(labels),
                                        Tensor::Scalar(static_cast<float>(model.train_keep)), Tensor::Scalar(rate)};
    const int64_t batch_nanos = Nanos(Clock::now() - start);
    TROUPE_ASSIGN_OR_RETURN(progress.loss, RunStep(flags, train, values, step, steps - step, batch_nanos, &profile));
    ++progress.step;
    const bool evaluate_now = progress.step % flags.eval_every == 0 || progress.step == steps;
    if (evaluate_now) {
      TROUPE_RETURN_IF_ERROR(Evaluate(test, digits.test, &progress));
      if (flags.json) PrintObject(progress);
      if (folder) {
        TROUPE_RETURN_IF_ERROR(folder->Report(
            progress.step,
            {{"loss", progress.loss}, {"test/accuracy", progress.accuracy}, {"test/loss", progress.test_loss}}));
      }
    }
    if (!flags.json) {
      char also[64] = "";
      if (evaluate_now) std::snprintf(also, sizeof(also), "test accuracy %.4f", progress.accuracy);
      bar.Show(progress.step, progress.loss, progress.images - images_before, also, evaluate_now);
    }
    if (folder && progress.step % flags.save_steps == 0) {
      TROUPE_RETURN_IF_ERROR(folder->Save(*session, progress.step, WhatIsSaved(batches, progress)));
    }
  }
  if (folder) {
    TROUPE_RETURN_IF_ERROR(folder->Save(*session, progress.step, WhatIsSaved(batches, progress)));
    TROUPE_RETURN_IF_ERROR(folder->Close(progress.step));
  }
  PrintEnd(flags, progress, steps);
  if (progress.step < steps) return session->Close();
  if (flags.profile > 0) profile.Print();
  if (progress.best < flags.target)
    return Internal("the best test accuracy ", progress.best, " is below the expected ", flags.target);
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains one of the eight experiments on handwritten digits", "mnist");
  app.add_option("--experiment", flags.experiment, "E1 to E8")->capture_default_str();
  app.add_option("--data_dir", flags.data_dir, "folder with the four IDX files of MNIST, plain or gzipped");
  app.add_option("--digits", flags.digits, "the 8x8 digits used without --data_dir");
  example::AddFlags(&app, &flags);  // --steps 0: as the experiment is described
  app.add_option("--batch", flags.batch, "images a step")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "at the first step, instead of the experiment's own")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep_probability", flags.keep, "of a unit by the dropout of E6 and E8, instead of 0.75")
      ->check(CLI::Range(0.01, 1.0));
  app.add_option("--profile", flags.profile, "time this many of the last steps, and every node in as many more")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--expect", flags.target, "fail when the best test accuracy stays below this");
  return example::Main(&app, argc, argv, [&] { return Train(flags); });
}
