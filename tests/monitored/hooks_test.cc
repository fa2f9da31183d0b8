// The hooks of hooks.h, each with a session.
#include "troupe/train/hooks.h"

#include <boost/test/unit_test.hpp>
#include <caf/all.hpp>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>

#include "tests/common/check_ok.h"
#include "troupe/actors.h"
#include "troupe/files.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/event.pb.h"
#include "troupe/queues.h"
#include "troupe/records.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"
#include "troupe/train/queue_runner.h"
#include "troupe/troupe.h"

namespace troupe {
namespace hooks_test {

using namespace train;  // NOLINT

// A step that counts, and computes 1 / (3 - count), which is no number at the fourth.
struct Counting {
  Scope root = Scope::NewRootScope();
  Variable step = GetOrCreateGlobalStep(root);
  Output x, loss, summary, update;
  std::vector<std::shared_ptr<Hook>> hooks;

  Counting() {
    x = ops::Cast(root.WithOpName("x"), step, DType::kFloat);
    const Output zero = ops::Sub(root, 3.0f, x);
    loss = ops::RealDiv(root.WithOpName("loss"), zero, zero);
    summary = ops::MergeSummary(root, {ops::ScalarSummary(root, "x", x)});
    const Scope later = root.WithControlDependencies({Operation(x), Operation(loss), Operation(summary)});
    update = step.AssignAdd(later, int64_t{1});
    REQUIRE_OK(root.status());
  }
  std::unique_ptr<MonitoredSession> Start(std::string folder = {}) {
    auto made = MonitoredSession::Create(
        root, std::make_unique<ChiefSessionCreator>(root, std::make_shared<Scaffold>(), SessionOptions(), folder),
        {.hooks = hooks});
    REQUIRE_OK(made.status());
    return *std::move(made);
  }
  // How many steps it runs until it should stop, at most `most`.
  int Run(MonitoredSession& session, int most, absl::Status* s = nullptr) {
    for (int i = 0; i < most; ++i) {
      if (session.ShouldStop()) return i;
      const absl::Status status = session.Run({}, {}, {update}, nullptr);
      if (s != nullptr) *s = status;
      if (!status.ok()) {
        BOOST_REQUIRE_MESSAGE(s != nullptr, status);
        return i;
      }
    }
    return most;
  }
};

std::vector<proto::Event> ReadEvents(const std::string& path) {
  const auto reader = files::RecordReader::Open(path);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  std::vector<proto::Event> events;
  std::string_view record;
  while (*(*reader)->Next(&record)) BOOST_REQUIRE(events.emplace_back().ParseFromString(std::string(record)));
  return events;
}

std::shared_ptr<FileWriter> Events(const std::string& folder) {
  auto made = FileWriter::Create(folder);
  BOOST_REQUIRE_MESSAGE(made.ok(), made.status());
  return *std::move(made);
}

BOOST_AUTO_TEST_CASE(stops_at_a_step) {
  Counting c;
  c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::LastStep(4))};
  BOOST_TEST(c.Run(*c.Start(), 100) == 4);
  c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::Steps(2))};
  BOOST_TEST(c.Run(*c.Start(), 100) == 2);
  // A session that goes on where there is nothing left to do makes no step.
  REQUIRE_OK(files::MakeDirectory("mem://hooks/done"));
  CheckpointSaverOptions saving;
  saving.folder = "mem://hooks/done";
  c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::LastStep(3)),
             std::make_shared<CheckpointSaverHook>(saving)};
  const auto first = c.Start(saving.folder);
  BOOST_TEST(c.Run(*first, 100) == 3);
  REQUIRE_OK(first->Close());
  c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::LastStep(3))};
  BOOST_TEST(c.Run(*c.Start(saving.folder), 100) == 0);
  // As many steps as there are numbers.
  c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::Steps(std::numeric_limits<int64_t>::max()))};
  BOOST_TEST(c.Run(*c.Start(saving.folder), 2) == 2);
  // A hook that needs a global step says so.
  const Scope bare = Scope::NewRootScope();
  BOOST_TEST(absl::IsFailedPrecondition(StopAtStepHook::LastStep(4).Begin(bare)));
}

BOOST_AUTO_TEST_CASE(timers_count_steps_or_seconds) {
  StepTimer steps({.steps = 3});
  BOOST_TEST(steps.IsDue(5));
  BOOST_TEST((steps.Update(5) == std::pair<int64_t, double>(0, 0.0)));
  BOOST_TEST(!steps.IsDue(5));
  BOOST_TEST(!steps.IsDue(7));
  BOOST_TEST(steps.IsDue(8));
  BOOST_TEST(!steps.IsNear(6));
  BOOST_TEST(steps.IsNear(7));
  BOOST_TEST(steps.Update(9).first == 4);
  StepTimer twenty({.steps = 20});
  BOOST_TEST(!twenty.IsNear(19));
  twenty.Update(0);
  BOOST_TEST(!twenty.IsNear(17));
  BOOST_TEST(twenty.IsNear(18));
  StepTimer always({.seconds = 0}), never({.seconds = 1e9});
  BOOST_TEST(!always.IsNear(1));
  always.Update(1);
  never.Update(1);
  BOOST_TEST(!always.IsDue(1));
  BOOST_TEST(always.IsDue(2));
  BOOST_TEST(always.IsNear(2));
  BOOST_TEST(!never.IsDue(2));
  BOOST_TEST(!never.IsNear(2));
  BOOST_TEST(!Every().valid());
  BOOST_TEST(!Every({.steps = 1, .seconds = 1}).valid());
}

BOOST_AUTO_TEST_CASE(checkpoints_are_saved_at_the_start_every_so_often_and_at_the_end) {
  for (const bool beside : {false, true}) {
    const std::string folder = beside ? "mem://hooks/beside" : "mem://hooks/between";
    Counting c;
    const auto events = Events(folder);
    std::vector<int64_t> saved;
    CheckpointSaverOptions options;
    options.folder = folder;
    options.every = {.steps = 3};
    options.beside_steps = beside;
    options.events = events;
    options.after_save = [&](const std::string& path, int64_t step) {
      BOOST_TEST(path == StrCat(folder, "/model.ckpt-", step));
      saved.push_back(step);
    };
    c.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::LastStep(8)),
               std::make_shared<CheckpointSaverHook>(options)};
    const auto session = c.Start();
    BOOST_TEST(c.Run(*session, 100) == 8);
    REQUIRE_OK(session->Close());
    // Beside the steps a save may come later, when the one before is written.
    if (beside) {
      BOOST_TEST(saved.front() == 0);
      BOOST_TEST(saved.back() == 8);
      BOOST_TEST(std::is_sorted(saved.begin(), saved.end()));
    } else {
      BOOST_TEST(saved == (std::vector<int64_t>{0, 3, 6, 8}), boost::test_tools::per_element());
    }
    REQUIRE_OK(events->Close());
    int told = 0;
    for (const proto::Event& e : ReadEvents(events->path())) told += e.has_session_log() ? 1 : 0;
    BOOST_TEST(told == static_cast<int>(saved.size()));
    BOOST_TEST(files::Exists(folder + "/model.ckpt-8.meta"));
  }
  // A save that fails is the error of a step, or of the end.
  Counting c;
  CheckpointSaverOptions options;
  options.folder = "mem://hooks/fails";
  options.every = {.steps = 2};
  c.hooks = {std::make_shared<CheckpointSaverHook>(options)};
  const auto session = c.Start();
  REQUIRE_OK(files::MakeDirectory("mem://hooks/fails/model.ckpt-2.index"));
  absl::Status s;
  c.Run(*session, 4, &s);
  if (s.ok()) s = session->Close();
  BOOST_TEST(!s.ok());
  Counting d;
  options.folder = "";
  BOOST_TEST(absl::IsInvalidArgument(CheckpointSaverHook(options).Begin(d.root)));
  options.every = {};
  BOOST_TEST(absl::IsInvalidArgument(CheckpointSaverHook(options).Begin(d.root)));
}

BOOST_AUTO_TEST_CASE(summaries_steps_a_second_and_metadata_are_written) {
  Counting c;
  const auto events = Events("mem://hooks/events");
  c.hooks = {std::make_shared<SummarySaverHook>(events, c.summary, Every{.steps = 3}),
             std::make_shared<StepCounterHook>(events, Every{.steps = 2}),
             std::make_shared<ProfilerHook>(events, Every{.steps = 4})};
  const auto session = c.Start();
  BOOST_TEST(c.Run(*session, 10) == 10);
  REQUIRE_OK(session->Close());
  REQUIRE_OK(events->Close());
  std::string told;
  for (const proto::Event& e : ReadEvents(events->path())) {
    if (e.has_session_log()) StrAppend(&told, "start ", e.step(), "; ");
    for (const auto& v : e.summary().value()) {
      if (v.tag() == "x") StrAppend(&told, "x ", e.step(), " ", static_cast<int>(v.simple_value()), "; ");
      if (v.tag() == "global_step/sec") BOOST_TEST(v.simple_value() > 0);
      if (v.tag() == "global_step/sec") StrAppend(&told, "rate ", e.step(), "; ");
    }
    if (!e.has_tagged_run_metadata()) continue;
    proto::RunMetadata metadata;
    BOOST_REQUIRE(metadata.ParseFromString(e.tagged_run_metadata().run_metadata()));
    BOOST_TEST(metadata.step_stats().dev_stats_size() > 0);
    StrAppend(&told, e.tagged_run_metadata().tag(), "; ");
  }
  BOOST_TEST(told == "start 1; x 1 0; rate 3; x 4 3; rate 5; step_5; x 7 6; rate 7; rate 9; step_9; x 10 9; ");
}

BOOST_AUTO_TEST_CASE(values_are_logged) {
  Counting c;
  std::vector<std::string> lines;
  c.hooks = {std::make_shared<LoggingHook>(LoggingHook::Tensors{{"x", c.x}, {"step", "global_step/Read"}},
                                           Every{.steps = 2}, [&](const std::string& line) { lines.push_back(line); })};
  const auto session = c.Start();
  c.Run(*session, 5);
  BOOST_REQUIRE_EQUAL(lines.size(), 3u);
  BOOST_TEST(lines[0].starts_with("step 1: x = 0, step = "), lines[0]);
  BOOST_TEST(lines[2].starts_with("step 5: x = 4, step = "), lines[2]);
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_no_number_fails_or_stops) {
  Counting c;
  c.hooks = {std::make_shared<NanHook>(c.loss)};
  absl::Status s;
  BOOST_TEST(c.Run(*c.Start(), 100, &s) == 3);
  BOOST_TEST(absl::IsInvalidArgument(s), s);
  BOOST_TEST(s.ToString().find("'loss:0' is not a number") != std::string::npos, s);
  Counting d;
  d.hooks = {std::make_shared<NanHook>(d.loss, false)};
  BOOST_TEST(d.Run(*d.Start(), 100) == 4);
}

BOOST_AUTO_TEST_CASE(a_step_that_checks_itself_names_the_node_and_updates_nothing) {
  Counting c;
  c.hooks = {std::make_shared<NumericsHook>()};
  absl::Status s;
  const auto session = c.Start();
  BOOST_TEST(c.Run(*session, 100, &s) == 3);
  BOOST_TEST(absl::IsInvalidArgument(s), s);
  BOOST_TEST(s.ToString().find("node 'loss' (") != std::string::npos, s);
  // Every second of its steps: the first, the third and on.
  Counting d;
  d.hooks = {std::make_shared<NumericsHook>(Every{.steps = 2})};
  BOOST_TEST(d.Run(*d.Start(), 100, &s) == 100);  // the fourth step is not looked at
  // A step that was not done does not count, and is checked when it is done again.
  NumericsHook hook(Every{.steps = 2}, "mem://nan");
  const auto step = [&](bool done) {
    RunContext context(*session->session(), {}, {}, {});
    const absl::StatusOr<RunArgs> args = hook.BeforeRun(context);
    BOOST_REQUIRE(args.ok());
    BOOST_TEST((args->numerics_folder == (args->check_numerics ? "mem://nan" : "")));
    if (done) REQUIRE_OK(hook.AfterRun(context, {}));
    return args->check_numerics;
  };
  REQUIRE_OK(hook.Begin(c.root));
  BOOST_TEST(step(false));
  BOOST_TEST(step(true));
  BOOST_TEST(!step(false));
  BOOST_TEST(!step(true));
  BOOST_TEST(step(true));
}

BOOST_AUTO_TEST_CASE(a_step_waits_for_others) {
  Counting c;
  c.hooks = {std::make_shared<GlobalStepWaiterHook>(1, 20)};
  absl::Status s;
  BOOST_TEST(c.Run(*c.Start(), 1, &s) == 0);
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  Counting d;
  d.hooks = {std::make_shared<GlobalStepWaiterHook>(5)};
  const auto session = d.Start();
  REQUIRE_OK(session->session()->Set(d.step, Tensor::Scalar<int64_t>(5)));
  BOOST_TEST(d.Run(*session, 3) == 3);
  // The longest time there is is no time in the past.
  Counting e;
  e.hooks = {std::make_shared<GlobalStepWaiterHook>(1, std::numeric_limits<int64_t>::max())};
  const auto later = e.Start();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    BOOST_TEST(later->session()->Set(e.step, Tensor::Scalar<int64_t>(1)).ok());
  });
  BOOST_TEST(e.Run(*later, 1) == 1);
  other.join();
  Counting f;
  f.hooks = {std::make_shared<FeedHook>(nullptr)};
  BOOST_TEST(f.Run(*f.Start(), 1, &s) == 0);
  BOOST_TEST(absl::IsInvalidArgument(s), s);
}

BOOST_AUTO_TEST_CASE(a_signal_stops_with_a_checkpoint) {
  Counting c;
  CheckpointSaverOptions options;
  options.folder = "mem://hooks/signal";
  options.every = {.seconds = 1e9};
  c.hooks = {std::make_shared<StopOnSignalHook>(), std::make_shared<CheckpointSaverHook>(options)};
  const auto session = c.Start();
  BOOST_TEST(c.Run(*session, 3) == 3);
  // One at a time: two would take each other's handlers for the former ones.
  BOOST_TEST(absl::IsFailedPrecondition(StopOnSignalHook().Begin(c.root)));
  ::raise(SIGINT);
  BOOST_TEST(c.Run(*session, 3) == 0);
  REQUIRE_OK(session->Close());
  BOOST_TEST(*LatestCheckpoint("mem://hooks/signal") == "mem://hooks/signal/model.ckpt-3");
}

BOOST_AUTO_TEST_CASE(a_second_signal_of_either_kind_ends_the_process) {
  for (const auto& [first, second] :
       {std::pair(SIGINT, SIGINT), std::pair(SIGINT, SIGTERM), std::pair(SIGTERM, SIGINT)}) {
    const pid_t child = ::fork();
    if (child == 0) {
      // Nothing but the hook: the child has no other thread.
      StopOnSignalHook hook;
      const Scope root = Scope::NewRootScope();
      if (!hook.Begin(root).ok()) ::_exit(1);
      ::raise(first);
      if (!hook.ShouldStop()) ::_exit(2);
      ::raise(second);
      ::_exit(3);
    }
    int how = 0;
    BOOST_REQUIRE(::waitpid(child, &how, 0) == child);
    BOOST_TEST((WIFSIGNALED(how) && WTERMSIG(how) == second));
  }
}

// A disk slower than the steps collects no saves.
BOOST_AUTO_TEST_CASE(one_save_beside_the_steps_at_a_time) {
  Counting c;
  std::mutex gate;
  std::atomic<int> saved{0};
  CheckpointSaverOptions options;
  options.folder = "mem://hooks/slow";
  options.every = {.steps = 1};
  options.after_save = [&](const std::string&, int64_t step) {
    if (step > 0) std::lock_guard<std::mutex> lock(gate);
    ++saved;
  };
  c.hooks = {std::make_shared<CheckpointSaverHook>(options)};
  const auto session = c.Start();
  BOOST_TEST(saved == 1);
  {
    std::lock_guard<std::mutex> lock(gate);
    BOOST_TEST(c.Run(*session, 50) == 50);
    BOOST_TEST(saved == 1);
  }
  REQUIRE_OK(session->Close());
  BOOST_TEST(saved >= 2);
  BOOST_TEST(saved < 10);
  BOOST_TEST(*LatestCheckpoint("mem://hooks/slow") == "mem://hooks/slow/model.ckpt-50");
}

// What was written before the session was lost is what the next one begins with.
BOOST_AUTO_TEST_CASE(a_recovery_waits_for_the_save_beside_the_steps) {
  Counting c;
  std::atomic<bool> lose{false};
  class Loses : public Hook {
   public:
    explicit Loses(std::atomic<bool>* lose) : lose_(lose) {}
    absl::Status AfterRun(RunContext&, const RunValues&) override {
      return lose_->exchange(false) ? absl::AbortedError("lost") : absl::OkStatus();
    }
    std::atomic<bool>* const lose_;
  };
  CheckpointSaverOptions options;
  options.folder = "mem://hooks/lost";
  options.every = {.steps = 2};
  std::atomic<int64_t> saved{-1};
  options.after_save = [&](const std::string&, int64_t step) {
    if (step == 4) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    saved = step;
  };
  // The checkpoint is on its way when the same step's next hook says that the session is lost.
  c.hooks = {std::make_shared<CheckpointSaverHook>(options), std::make_shared<Loses>(&lose)};
  const auto session = c.Start(options.folder);
  BOOST_TEST(c.Run(*session, 2) == 2);
  while (saved < 2) std::this_thread::yield();
  BOOST_TEST(c.Run(*session, 1) == 1);
  lose = true;
  std::vector<Tensor> step;
  REQUIRE_OK(session->Run({}, {}, {c.update}, nullptr));
  BOOST_TEST(session->sessions_made() == 2);
  REQUIRE_OK(session->Run({}, {c.step}, {}, &step));
  BOOST_TEST(step[0].scalar<int64_t>() == 5);
}

// The last save meets actors that are just being restarted.
BOOST_AUTO_TEST_CASE(a_death_beside_the_last_save_loses_no_checkpoint) {
  for (int round = 0; round < 10; ++round) {
    Counting c;
    CheckpointSaverOptions options;
    options.folder = StrCat("mem://hooks/death", round);
    options.every = {.steps = 100};
    c.hooks = {std::make_shared<CheckpointSaverHook>(options)};
    const auto session = c.Start();
    BOOST_TEST(c.Run(*session, 3) == 3);
    const Runtime& runtime = *session->session()->runtime();
    caf::anon_send_exit(ContainerActorOf(runtime, runtime.devices()[0].name), caf::exit_reason::kill);
    REQUIRE_OK(session->Close());
    BOOST_TEST(*LatestCheckpoint(options.folder) == options.folder + "/model.ckpt-3");
  }
}

// Those who fill the queues are cut off when no further step needs an element.
BOOST_AUTO_TEST_CASE(a_death_beside_the_end_is_no_error_of_queue_runners) {
  Counting c;
  const Queue q = Queue::Fifo(c.root, {DType::kFloat}, {.capacity = 1, .shapes = {TensorShape()}});
  AddQueueRunner(c.root, MakeQueueRunner(c.root, q, {q.Enqueue(c.root.WithOpName("put"), {Const(c.root, 1.0f)})}));
  const auto session = c.Start();
  BOOST_TEST(c.Run(*session, 3) == 3);
  const Session& in = *session->session();
  // The runner waits for room.
  const auto waits = [&] {
    for (const std::string& step : in.RunningSteps()) {
      if (step.find("'put'") != step.npos) return true;
    }
    return false;
  };
  while (!waits()) std::this_thread::yield();
  caf::anon_send_exit(ContainerActorOf(*in.runtime(), in.runtime()->devices()[0].name), caf::exit_reason::kill);
  while (waits()) std::this_thread::yield();
  REQUIRE_OK(session->Close());
}

}  // namespace hooks_test
}  // namespace troupe
