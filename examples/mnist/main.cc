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
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "data.h"
#include "model.h"
#include "profile.h"
#include "run_folder.h"
#include "troupe/train/global_step.h"
#include "troupe/proto/config.pb.h"

namespace {

using namespace troupe;  // NOLINT
using Clock = std::chrono::steady_clock;
int64_t Nanos(Clock::duration d) { return std::chrono::nanoseconds(d).count(); }

struct Flags {
  std::string experiment = "E8", data_dir, digits = TROUPE_DIGITS_FILE, model_dir;
  int64_t steps = 0, batch = 100, seed = 0, eval_every = 100, save_steps = 100;
  int threads = 0, profile = 0;
  bool json = false;
  double target = 0.0, learning_rate = 0.0, keep = 0.0;
};

// The signal that asked the program to end; the next one ends it at once.
volatile std::sig_atomic_t told_to_end = 0;

void EndWhenTold() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { told_to_end = signal; };
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

// One line that is redrawn on a terminal and written now and then elsewhere.
class ProgressBar {
 public:
  ProgressBar(int64_t from, int64_t steps)
      : from_(from), steps_(steps), tty_(isatty(STDOUT_FILENO) != 0), start_(Clock::now()) {}
  // `images`: since the start of this program.
  void Show(int64_t step, double loss, int64_t images, double accuracy, bool force) {
    const auto now = Clock::now();
    if (!force && (!tty_ || now - shown_ < std::chrono::milliseconds(100))) return;
    shown_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double rate = seconds > 0 ? static_cast<double>(images) / seconds : 0;
    const double done = static_cast<double>(step - from_);
    const double left = done > 0 ? seconds * static_cast<double>(steps_ - step) / done : 0;
    constexpr int kWidth = 24;
    const int full = static_cast<int>(kWidth * step / std::max<int64_t>(1, steps_));
    std::string bar(static_cast<size_t>(full), '#');
    bar.resize(kWidth, '.');
    std::printf("%s[%s] %lld/%lld  loss %8.4f  %8.0f images/s  %3.0f s left", tty_ ? "\r" : "", bar.c_str(),
                static_cast<long long>(step), static_cast<long long>(steps_), loss, rate, left);
    if (accuracy >= 0) std::printf("  test accuracy %.4f", accuracy);
    std::printf("%s", tty_ ? "\033[K" : "\n");
    if (tty_ && force) std::printf("\n");
    std::fflush(stdout);
  }

 private:
  int64_t from_, steps_;
  bool tty_;
  Clock::time_point start_, shown_;
};

// A number of JSON, which knows no infinities. Nine digits tell one float32 from the next.
std::string Number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", v);
  return std::isfinite(v) ? text : "null";
}

void PrintObject(const mnist::Progress& p) {
  std::printf("{\"step\": %lld, \"loss\": %s, \"accuracy\": %s}\n", static_cast<long long>(p.step),
              Number(p.loss).c_str(), Number(p.accuracy).c_str());
  std::fflush(stdout);
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
  std::optional<mnist::RunFolder> folder;
  if (!flags.model_dir.empty()) folder.emplace(root, flags.model_dir);
  TROUPE_RETURN_IF_ERROR(root.status());
  SessionOptions options;
  options.runtime_options.threads = flags.threads;
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  mnist::Batches batches(&digits.train, static_cast<uint64_t>(flags.seed));
  mnist::Progress progress;
  bool goes_on = false;
  if (folder) {
    TROUPE_ASSIGN_OR_RETURN(goes_on, folder->GoOn(*session, &batches, &progress));
    TROUPE_RETURN_IF_ERROR(folder->Open(progress.step));
    if (goes_on && !flags.json) {
      std::printf("going on from step %lld in %s\n", static_cast<long long>(progress.step), flags.model_dir.c_str());
    }
  }
  if (!goes_on) TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {model.init.name()}, nullptr));

  const Names feeds = {model.images.name(), model.labels.name(), model.keep.name(), model.learning_rate.name()};
  TROUPE_ASSIGN_OR_RETURN(const Callable train, session->Prepare(feeds, {model.loss.name()}, {model.train.name()}));
  TROUPE_ASSIGN_OR_RETURN(const Callable test, session->Prepare(feeds, {model.accuracy.name(), model.loss.name()}, {}));
  const auto evaluate = [&](double* accuracy, double* loss) -> absl::Status {
    constexpr int64_t kPiece = 1000;
    double right = 0, sum = 0;
    for (int64_t at = 0; at < digits.test.size(); at += kPiece) {
      const int64_t end = std::min(at + kPiece, digits.test.size());
      std::vector<Tensor> out;
      TROUPE_RETURN_IF_ERROR(test.Run(
          {digits.test.Images(at, end), digits.test.Labels(at, end), Tensor::Scalar(1.0f), Tensor::Scalar(0.0f)},
          &out));
      right += static_cast<double>(out[0].scalar<float>()) * static_cast<double>(end - at);
      sum += static_cast<double>(out[1].scalar<float>()) * static_cast<double>(end - at);
    }
    *accuracy = right / static_cast<double>(digits.test.size());
    *loss = sum / static_cast<double>(digits.test.size());
    return absl::OkStatus();
  };

  const int64_t steps = flags.steps > 0 ? flags.steps : model.steps;
  ProgressBar bar(progress.step, steps);
  mnist::StepProfile profile;
  const int64_t images_before = progress.images;
  EndWhenTold();
  while (progress.step < steps && told_to_end == 0) {
    const int64_t step = progress.step;
    const auto start = Clock::now();
    Tensor images, labels;
    batches.Next(flags.batch, &images, &labels);
    progress.images += images.dim(0);
    const auto rate = static_cast<float>(model.LearningRate(step));
    std::vector<Tensor> out;
    const std::vector<Tensor> values = {std::move(images), std::move(labels),
                                        Tensor::Scalar(static_cast<float>(model.train_keep)), Tensor::Scalar(rate)};
    const auto ready = Clock::now();
    const bool in_profile = steps - step <= 2 * flags.profile;  // every other step is timed by node
    if (in_profile && step % 2 == 0) {
      RunOptions run;
      run.collect_stats = true;
      proto::RunMetadata metadata;
      TROUPE_RETURN_IF_ERROR(train.Run(run, values, &out, &metadata));
      profile.Add(metadata);
    } else {
      TROUPE_RETURN_IF_ERROR(train.Run(values, &out));
      if (in_profile) profile.AddStep(Nanos(ready - start), Nanos(Clock::now() - ready));
    }
    ++progress.step;
    progress.loss = static_cast<double>(out[0].scalar<float>());
    const bool evaluate_now = progress.step % flags.eval_every == 0 || progress.step == steps;
    if (evaluate_now) {
      TROUPE_RETURN_IF_ERROR(evaluate(&progress.accuracy, &progress.test_loss));
      if (progress.accuracy > progress.best) {
        progress.best = progress.accuracy;
        progress.best_step = progress.step;
      }
      if (flags.json) PrintObject(progress);
      if (folder) TROUPE_RETURN_IF_ERROR(folder->Report(progress));
    }
    if (!flags.json) {
      bar.Show(progress.step, progress.loss, progress.images - images_before, evaluate_now ? progress.accuracy : -1,
               evaluate_now);
    }
    if (folder && progress.step % flags.save_steps == 0) {
      TROUPE_RETURN_IF_ERROR(folder->Save(*session, batches, progress));
    }
  }
  if (folder) {
    TROUPE_RETURN_IF_ERROR(folder->Save(*session, batches, progress));
    TROUPE_RETURN_IF_ERROR(folder->Close(progress));
  }
  if (flags.json) {
    PrintObject(progress);
  } else {
    if (progress.step < steps) std::printf("\nstopped by signal %d\n", static_cast<int>(told_to_end));
    std::printf("%s: %lld steps, test accuracy %.4f, best %.4f at step %lld, train loss %.4f, test loss %.4f\n",
                flags.experiment.c_str(), static_cast<long long>(progress.step), progress.accuracy, progress.best,
                static_cast<long long>(progress.best_step), progress.loss, progress.test_loss);
  }
  if (progress.step < steps) return session->Close();
  if (flags.profile > 0) profile.Print();
  if (progress.best < flags.target)
    return Internal("the best test accuracy ", progress.best, " is below the expected ", flags.target);
  return session->Close();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Trains one of the eight experiments on handwritten digits");
  app.add_option("--experiment", flags.experiment, "E1 to E8")->capture_default_str();
  app.add_option("--data_dir", flags.data_dir, "folder with the four IDX files of MNIST, plain or gzipped");
  app.add_option("--digits", flags.digits, "the 8x8 digits used without --data_dir");
  app.add_option("--steps", flags.steps, "training steps; 0 = as the experiment is described")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--batch", flags.batch, "images a step")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--seed", flags.seed, "of initial values, dropout and shuffling; 0 = random")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--threads", flags.threads, "busy threads; 0 = one per core")->check(CLI::Range(0, 1024));
  app.add_option("--learning_rate", flags.learning_rate, "at the first step, instead of the experiment's own")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep_probability", flags.keep, "of a unit by the dropout of E6 and E8, instead of 0.75")
      ->check(CLI::Range(0.01, 1.0));
  app.add_option("--eval_every", flags.eval_every, "steps between tests")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--model_dir", flags.model_dir,
                 "folder of checkpoints and event files: goes on from the newest checkpoint there");
  app.add_option("--save_steps", flags.save_steps, "steps between checkpoints")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print one JSON object a line: for each test, and at the end");
  app.add_option("--profile", flags.profile, "time this many of the last steps, and every node in as many more")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--expect", flags.target, "fail when the best test accuracy stays below this");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app.exit(e);
    return status == 0 ? 0 : 2;
  }
  const absl::Status s = Train(flags);
  if (s.ok()) return 0;
  std::fprintf(stderr, "\nmnist: %s\n", s.ToString().c_str());
  return 1;
}
