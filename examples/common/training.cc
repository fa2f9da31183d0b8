#include "training.h"

#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>

#include "troupe/files.h"
#include "troupe/queues.h"
#include "troupe/train/queue_runner.h"

namespace example {
namespace {

using troupe::Tensor;
using troupe::train::SessionEvent;

volatile std::sig_atomic_t told_to_end = 0;

// In a checkpoint: how many steps were done, and the loss of the last one.
constexpr char kSteps[] = "run/steps", kLoss[] = "run/loss";

std::string Number(double v, int digits) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.*g", digits, v);
  return text;
}

}  // namespace

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--steps", flags->steps, "training steps")->check(CLI::NonNegativeNumber)->capture_default_str();
  app->add_option("--seed", flags->seed, "of all that is drawn; 0 = random")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--threads", flags->threads, "busy threads; 0 = one per core")->check(CLI::Range(0, 1024));
  app->add_option("--eval_every", flags->eval_every, "steps between tests")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--model_dir", flags->model_dir,
                  "folder of checkpoints and event files: goes on from the newest checkpoint there");
  app->add_option("--save_steps", flags->save_steps, "steps between checkpoints")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_flag("--json", flags->json, "print one JSON object a line: for each test, and at the end");
}

namespace {

// Output that is lost is a failure, too.
bool WroteAll(const CLI::App& app) {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return true;
  std::fprintf(stderr, "\n%s: standard output cannot be written\n", app.get_name().c_str());
  return false;
}

}  // namespace

int Main(CLI::App* app, int argc, char** argv, const std::function<absl::Status()>& run) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int status = app->exit(e);
    if (status != 0) return 2;
    return WroteAll(*app) ? 0 : 1;
  }
  const absl::Status s = run();
  if (s.ok()) return WroteAll(*app) ? 0 : 1;
  std::fprintf(stderr, "\n%s: %s\n", app->get_name().c_str(), s.ToString().c_str());
  return 1;
}

void EndWhenTold() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { told_to_end = signal; };
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}
int ToldToEnd() { return told_to_end; }

void PrintObject(int64_t step, const Numbers& numbers) {
  std::printf("{\"step\": %lld", static_cast<long long>(step));
  // Nine digits tell one float32 from the next.
  for (const auto& [name, value] : numbers)
    std::printf(", \"%s\": %s", name.c_str(), std::isfinite(value) ? Number(value, 9).c_str() : "null");
  std::printf("}\n");
  std::fflush(stdout);
}

ProgressBar::ProgressBar(int64_t from, int64_t steps, std::string unit)
    : from_(from), steps_(steps), unit_(std::move(unit)), tty_(isatty(STDOUT_FILENO) != 0), start_(Clock::now()) {}

void ProgressBar::Show(int64_t step, double loss, int64_t units, const std::string& also, bool force) {
  const auto now = Clock::now();
  if (!force && (!tty_ || now - shown_ < std::chrono::milliseconds(100))) return;
  shown_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(units) / seconds : 0;
  const double done = static_cast<double>(step - from_);
  const double left = done > 0 ? seconds * static_cast<double>(steps_ - step) / done : 0;
  constexpr int kWidth = 24;
  const int full = static_cast<int>(kWidth * step / std::max<int64_t>(1, steps_));
  std::string bar(static_cast<size_t>(full), '#');
  bar.resize(kWidth, '.');
  std::printf("%s[%s] %lld/%lld  loss %8.4f  %8.0f %s/s  %3.0f s left", tty_ ? "\r" : "", bar.c_str(),
              static_cast<long long>(step), static_cast<long long>(steps_), loss, rate, unit_.c_str(), left);
  if (!also.empty()) std::printf("  %s", also.c_str());
  std::printf("%s", tty_ ? "\033[K" : "\n");
  if (tty_ && force) std::printf("\n");
  std::fflush(stdout);
}

absl::StatusOr<bool> RunFolder::GoOn(
    troupe::Session& session, const std::function<absl::StatusOr<int64_t>(const troupe::CheckpointReader&)>& restore) {
  const absl::StatusOr<std::string> newest = troupe::train::LatestCheckpoint(folder_);
  // A list that names a checkpoint which is not there is no fresh start.
  if (absl::IsNotFound(newest.status()) && !troupe::files::Exists(troupe::files::Join(folder_, "checkpoint")))
    return false;
  if (!newest.ok()) return newest.status();
  TROUPE_ASSIGN_OR_RETURN(const auto reader, troupe::CheckpointReader::Open(*newest));
  TROUPE_ASSIGN_OR_RETURN(saved_, restore(*reader));
  TROUPE_RETURN_IF_ERROR(saver_.Restore(session, *newest));
  return true;
}

absl::Status RunFolder::Open(int64_t step) {
  TROUPE_ASSIGN_OR_RETURN(events_, troupe::train::FileWriter::Create(folder_));
  TROUPE_RETURN_IF_ERROR(events_->AddGraph(*graph_));
  // What a killed run wrote of later steps is void.
  return events_->AddSessionLog(SessionEvent::kStart, step + 1);
}

absl::Status RunFolder::Save(troupe::Session& session, int64_t step, NamedTensors extra) {
  if (step == saved_) return absl::OkStatus();
  troupe::train::SaveOptions options{.global_step = step, .graph = graph_};
  options.extra = std::move(extra);
  TROUPE_ASSIGN_OR_RETURN(const std::string path, saver_.Save(session, troupe::files::Join(folder_, "model"), options));
  saved_ = step;
  TROUPE_RETURN_IF_ERROR(events_->AddSessionLog(SessionEvent::kCheckpoint, step, path));
  return events_->Flush();
}

absl::Status RunFolder::Report(int64_t step, const Numbers& numbers) {
  for (const auto& [name, value] : numbers)
    TROUPE_RETURN_IF_ERROR(events_->AddScalar(name, static_cast<float>(value), step));
  return absl::OkStatus();
}

absl::Status RunFolder::Close(int64_t step) {
  TROUPE_RETURN_IF_ERROR(events_->AddSessionLog(SessionEvent::kStop, step));
  return events_->Close();
}

namespace {

absl::Status DoSteps(const Flags& flags, const Job& job, troupe::Session& session, std::optional<RunFolder>& folder,
                     int64_t* step) {
  double loss = NAN;
  const auto restore = [&](const troupe::CheckpointReader& reader) -> absl::StatusOr<int64_t> {
    TROUPE_ASSIGN_OR_RETURN(const Tensor steps, reader.Read(kSteps));
    TROUPE_ASSIGN_OR_RETURN(const Tensor last, reader.Read(kLoss));
    if (steps.dtype() != troupe::DType::kInt64 || steps.rank() != 0 || last.dtype() != troupe::DType::kDouble ||
        last.rank() != 0) {
      return troupe::InvalidArgument("a checkpoint in ", flags.model_dir, " was not written by this program");
    }
    loss = last.scalar<double>();
    *step = steps.scalar<int64_t>();
    if (job.set_position) TROUPE_RETURN_IF_ERROR(job.set_position(reader));
    return *step;
  };
  bool goes_on = false;
  if (folder) {
    TROUPE_ASSIGN_OR_RETURN(goes_on, folder->GoOn(session, restore));
    TROUPE_RETURN_IF_ERROR(folder->Open(*step));
    if (goes_on && !flags.json)
      std::printf("going on from step %lld in %s\n", static_cast<long long>(*step), flags.model_dir.c_str());
  }
  if (!goes_on) TROUPE_RETURN_IF_ERROR(job.begin(session));
  if (job.start) TROUPE_RETURN_IF_ERROR(job.start(session));

  const auto numbers = [&]() -> absl::StatusOr<Numbers> {
    Numbers all = {{"loss", loss}};
    if (!job.test) return all;
    TROUPE_ASSIGN_OR_RETURN(const Numbers tested, job.test());
    all.insert(all.end(), tested.begin(), tested.end());
    return all;
  };
  Numbers told;
  const auto save = [&]() -> absl::Status {
    if (!folder) return absl::OkStatus();
    NamedTensors extra = job.position ? job.position() : NamedTensors();
    extra.emplace_back(kSteps, Tensor::Scalar(*step));
    extra.emplace_back(kLoss, Tensor::Scalar(loss));
    return folder->Save(session, *step, std::move(extra));
  };
  ProgressBar bar(*step, flags.steps, job.unit);
  int64_t units = 0;
  EndWhenTold();
  while (*step < flags.steps && told_to_end == 0) {
    TROUPE_ASSIGN_OR_RETURN(loss, job.step(*step, &units));
    ++*step;
    const bool report = *step % flags.eval_every == 0 || *step == flags.steps;
    std::string also;
    if (report) {
      TROUPE_ASSIGN_OR_RETURN(told, numbers());
      for (size_t i = 1; i < told.size(); ++i)
        also += troupe::StrCat(i > 1 ? "  " : "", told[i].first, " ", Number(told[i].second, 4));
      if (flags.json) PrintObject(*step, told);
      if (folder) TROUPE_RETURN_IF_ERROR(folder->Report(*step, told));
    }
    if (!flags.json) bar.Show(*step, loss, units, also, report);
    if (*step % flags.save_steps == 0) TROUPE_RETURN_IF_ERROR(save());
  }
  TROUPE_RETURN_IF_ERROR(save());
  if (folder) TROUPE_RETURN_IF_ERROR(folder->Close(*step));
  if (flags.json) {
    if (told.empty()) {  // no test was due
      TROUPE_ASSIGN_OR_RETURN(told, numbers());
    }
    told[0].second = loss;
    PrintObject(*step, told);
  } else if (*step < flags.steps) {
    std::printf("\nstopped by signal %d\n", static_cast<int>(told_to_end));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Train(const Flags& flags, const troupe::Scope& root, const Job& job,
                   const std::function<absl::Status(troupe::Session&)>& after) {
  std::optional<RunFolder> folder;
  if (!flags.model_dir.empty()) folder.emplace(root, flags.model_dir);
  TROUPE_RETURN_IF_ERROR(root.status());
  troupe::SessionOptions options;
  options.runtime_options.threads = flags.threads;
  TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<troupe::Session> session, troupe::Session::Create(options));
  TROUPE_RETURN_IF_ERROR(session->Extend(*root.graph()));
  TROUPE_ASSIGN_OR_RETURN(const std::vector<troupe::QueueRunner> runners, troupe::QueueRunnersOf(*root.graph()));
  std::optional<troupe::train::Coordinator> coordinator;
  Job with_runners = job;
  with_runners.start = [&](troupe::Session& s) -> absl::Status {
    if (job.start) TROUPE_RETURN_IF_ERROR(job.start(s));
    if (runners.empty()) return absl::OkStatus();
    coordinator.emplace(s);
    return troupe::train::StartQueueRunners(s, *coordinator, runners);
  };
  int64_t step = 0;
  absl::Status s = DoSteps(flags, with_runners, *session, folder, &step);
  if (s.ok() && after && step >= flags.steps) s = after(*session);
  if (coordinator) {
    coordinator->RequestStop();
    s.Update(coordinator->Join());
  }
  s.Update(session->Close());
  return s;
}

}  // namespace example
