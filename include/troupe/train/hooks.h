// Hooks: what goes along with the steps of a MonitoredSession. Counting, logging, saving and
// stopping are hooks, and programs add their own.
//
//   auto stop = std::make_shared<train::StopAtStepHook>(train::StopAtStepHook::LastStep(1000));
//   auto log = std::make_shared<train::LoggingHook>(
//       std::vector<std::pair<std::string, GraphName>>{{"loss", loss}}, train::Every{.steps = 100});
//
// The calls of a hook, in this order; of several hooks each is made in the order of the list:
//
// Begin: once, before there is a session; the graph may still grow.
// AfterCreateSession: whenever a session was made, also after a failure (MonitoredSession).
// BeforeRun: before each step; what the hook wants to be fetched and fed besides.
// AfterRun: after each step that did not fail.
// SessionEnded: when a session was lost and closed, before the next one is made.
// End: once, when the session is closed, unless a step failed for good.
// ShouldStop: at any time between these.
//
// A step that is done again on a new session has BeforeRun again. An error of a hook is the error
// of the call that met it; an exception is such an error (INTERNAL).
//
// Source of the semantics: tf.train.SessionRunHook and the hooks of tf.train (StopAtStepHook,
// LoggingTensorHook, CheckpointSaverHook and so on); SessionEnded and ShouldStop are Troupe's own.
//
// Thread rule: all calls of a hook come from the thread that uses its MonitoredSession.
#ifndef TROUPE_TRAIN_HOOKS_H_
#define TROUPE_TRAIN_HOOKS_H_

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/export.h"
#include "troupe/names.h"
#include "troupe/scope.h"
#include "troupe/session.h"
#include "troupe/train/file_writer.h"
#include "troupe/train/saver.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct Scaffold;

// What a hook wants of a step.
struct RunArgs {
  Names fetches;
  Feeds feeds;                 // INVALID_ARGUMENT when somebody else feeds one of them
  bool collect_stats = false;  // RunValues.metadata
  // As in RunOptions. The folder of the first hook that names one counts.
  bool check_numerics = false;
  std::string numerics_folder;
};

// A step of a MonitoredSession, before and after it is run.
class RunContext {
 public:
  RunContext(Session& session, const Feeds& feeds, const Names& fetches, const Names& targets)
      : session_(session), feeds_(feeds), fetches_(fetches), targets_(targets) {}
  Session& session() const { return session_; }
  // What the caller of Run asked for.
  const Feeds& feeds() const { return feeds_; }
  const Names& fetches() const { return fetches_; }
  const Names& targets() const { return targets_; }
  // No further step: ShouldStop of the MonitoredSession is true from now on.
  void RequestStop() { stop_ = true; }
  bool stop_requested() const { return stop_; }

 private:
  Session& session_;
  const Feeds& feeds_;
  const Names& fetches_;
  const Names& targets_;
  bool stop_ = false;
};

struct RunValues {
  std::vector<Tensor> fetches;                   // of the hook's RunArgs
  const proto::RunMetadata* metadata = nullptr;  // null unless some hook wanted it
};

class Hook {
 public:
  virtual ~Hook();
  virtual absl::Status Begin(const Scope& root);
  virtual absl::Status AfterCreateSession(Session& session);
  virtual absl::StatusOr<RunArgs> BeforeRun(RunContext& context);
  virtual absl::Status AfterRun(RunContext& context, const RunValues& values);
  // Ends what the hook still does with the lost session. A checkpoint that is being written must be
  // whole, or given up, before the next session looks for the newest one.
  virtual absl::Status SessionEnded();
  virtual absl::Status End(Session& session);
  // True when no further step should begin: the MonitoredSession's ShouldStop asks it. So a hook
  // can end training before the first step, too.
  virtual bool ShouldStop() const;
};

// When a hook acts: at most one of the two is set.
struct Every {
  int64_t steps = 0;
  double seconds = -1;
  bool valid() const { return (steps > 0) != (seconds >= 0); }
  // Neither of the two is set.
  bool never() const { return steps == 0 && seconds < 0; }
};

// Tells when so many steps or seconds are over. The first step is always due.
class StepTimer {
 public:
  explicit StepTimer(Every every) : every_(every) {}
  Every every() const { return every_; }
  bool IsDue(int64_t step) const;
  // Nine tenths of the steps or seconds are over; false before the first Update.
  bool IsNear(int64_t step) const;
  // It has acted at this step. Steps and seconds since the last time; zeros at the first.
  std::pair<int64_t, double> Update(int64_t step);
  std::optional<int64_t> last_step() const { return last_step_; }

 private:
  Every every_;
  std::optional<int64_t> last_step_;
  std::chrono::steady_clock::time_point last_time_;
};

// Stops when the global step has been reached; without a step, if it is reached when a session is
// made.
class StopAtStepHook : public Hook {
 public:
  static StopAtStepHook LastStep(int64_t step) { return StopAtStepHook(step, -1); }
  // So many steps from the global step of the first session on.
  static StopAtStepHook Steps(int64_t n) { return StopAtStepHook(-1, n); }
  absl::Status Begin(const Scope& root) override;
  absl::Status AfterCreateSession(Session& session) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;
  bool ShouldStop() const override { return reached_; }

 private:
  StopAtStepHook(int64_t last, int64_t steps) : last_(last), steps_(steps) {}
  int64_t last_, steps_;
  bool reached_ = false;
  std::string global_step_;
};

// Stops when the process is told to end by SIGINT (Ctrl-C) or SIGTERM; a second signal, of either
// kind, ends it at once. A signal that the process ignores stays ignored. With a
// CheckpointSaverHook the session's end then saves. The signals have their former handlers again
// when the hook is destroyed. One such hook at a time: FAILED_PRECONDITION for a second one.
class StopOnSignalHook : public Hook {
 public:
  ~StopOnSignalHook() override;
  absl::Status Begin(const Scope& root) override;
  bool ShouldStop() const override;

 private:
  bool installed_ = false;
  struct sigaction before_[2] = {};
};

struct CheckpointSaverOptions {
  std::string folder;
  std::string name = "model.ckpt";
  Every every{.seconds = 600};
  // Writes on a thread of its own, beside the steps. The error of such a save is that of the next
  // step, or of End. While one is being written no other begins: the next one is then due with the
  // first step after it.
  bool beside_steps = true;
  // Whose Saver saves, if the hook is given none; may be null.
  std::shared_ptr<Scaffold> scaffold;
  // Where checkpoints are told of, for TensorBoard; may be null.
  std::shared_ptr<FileWriter> events;
  // Called after each save, with the path and the step.
  std::function<void(const std::string&, int64_t)> after_save;
};

// Saves when a session was made, every so often, and at the end.
class CheckpointSaverHook : public Hook {
 public:
  // `saver`: without one, and without a scaffold, one of all variables is added to the graph.
  explicit CheckpointSaverHook(CheckpointSaverOptions options, std::optional<Saver> saver = std::nullopt);
  ~CheckpointSaverHook() override;
  absl::Status Begin(const Scope& root) override;
  absl::Status AfterCreateSession(Session& session) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;
  absl::Status SessionEnded() override;
  absl::Status End(Session& session) override;

  struct TROUPE_HIDDEN Saves;  // those under way

 private:
  absl::Status Save(Session& session, int64_t step, bool wait);
  CheckpointSaverOptions options_;
  std::optional<Saver> saver_;
  StepTimer timer_;
  const Graph* graph_ = nullptr;
  std::string global_step_;
  std::shared_ptr<Saves> saves_;
};

// Writes steps a second as the scalar "global_step/sec".
class StepCounterHook : public Hook {
 public:
  StepCounterHook(std::shared_ptr<FileWriter> events, Every every);
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;

 private:
  const std::shared_ptr<FileWriter> events_;
  StepTimer timer_;
  std::string global_step_;
};

// Writes a summary that the step computes: a string scalar, mostly of MergeSummary.
class SummarySaverHook : public Hook {
 public:
  SummarySaverHook(std::shared_ptr<FileWriter> events, const GraphName& summary, Every every);
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;
  absl::Status End(Session& session) override;

 private:
  const std::shared_ptr<FileWriter> events_;
  const std::string summary_;
  StepTimer timer_;
  std::string global_step_;
  std::optional<int64_t> next_step_;
  bool requested_ = false;
};

// Tells values of tensors, a line each time: "step 100: loss = 0.25".
class LoggingHook : public Hook {
 public:
  using Tensors = std::vector<std::pair<std::string, GraphName>>;  // name in the line, tensor
  // `print`: where lines go; the log when it is empty. Steps are counted from the hook's first.
  LoggingHook(Tensors tensors, Every every, std::function<void(const std::string&)> print = {});
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;

 private:
  const Tensors tensors_;
  StepTimer timer_;
  const std::function<void(const std::string&)> print_;
  int64_t step_ = 0;
  bool due_ = false;
};

// Fails (INVALID_ARGUMENT), or only stops, when a tensor has an element that is not a number.
class NanHook : public Hook {
 public:
  explicit NanHook(const GraphName& tensor, bool fail = true) : tensor_(tensor.text()), fail_(fail) {}
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;

 private:
  const std::string tensor_;
  const bool fail_;
};

// Lets the step check itself every so often (RunOptions.check_numerics): it then fails
// (INVALID_ARGUMENT) at the first NaN or infinity that a node computes, and leaves the variables as
// they were. Steps are counted from the hook's first, those only that were done: one that was lost
// is checked when it is done again. `folder`: RunOptions.numerics_folder.
class NumericsHook : public Hook {
 public:
  explicit NumericsHook(Every every = {.steps = 1}, std::string folder = "")
      : timer_(every), folder_(std::move(folder)) {}
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;

 private:
  StepTimer timer_;
  const std::string folder_;
  int64_t step_ = 0;
  bool due_ = false;
};

// Feeds what a function gives for each step; its error is that of the step: OUT_OF_RANGE ends
// training well.
class FeedHook : public Hook {
 public:
  explicit FeedHook(std::function<absl::StatusOr<Feeds>()> next) : next_(std::move(next)) {}
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;

 private:
  const std::function<absl::StatusOr<Feeds>()> next_;
};

// Lets no step begin before the global step, which others make grow, has been reached: workers that
// start one after the other. DEADLINE_EXCEEDED when it is not within `max_wait_ms`. It looks again
// and again, after 1 ms and then ever later, up to half a second: the global step is a variable, of
// whose updates nobody is told, and those who make it grow may be other sessions and processes.
class GlobalStepWaiterHook : public Hook {
 public:
  explicit GlobalStepWaiterHook(int64_t until, int64_t max_wait_ms = 7'200'000)
      : until_(until), max_wait_ms_(max_wait_ms) {}
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;

 private:
  const int64_t until_, max_wait_ms_;
  bool reached_ = false;
  std::string global_step_;
};

// Measures a step every so often, and writes its RunMetadata ("step_100") for TensorBoard. A step
// that is done again after a failure is not written again.
class ProfilerHook : public Hook {
 public:
  ProfilerHook(std::shared_ptr<FileWriter> events, Every every);
  absl::Status Begin(const Scope& root) override;
  absl::StatusOr<RunArgs> BeforeRun(RunContext& context) override;
  absl::Status AfterRun(RunContext& context, const RunValues& values) override;

 private:
  const std::shared_ptr<FileWriter> events_;
  StepTimer timer_;
  std::string global_step_;
  std::optional<int64_t> next_step_;
  bool requested_ = false;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_HOOKS_H_
