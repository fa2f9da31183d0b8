// Monitored sessions: the order of the hooks' calls, what is recovered and what is not, companions,
// chiefs and workers.
#include "troupe/train/monitored_session.h"

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <thread>

#include "tests/common/check_ok.h"
#include "troupe/files.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "troupe/train/global_step.h"
#include "troupe/train/input.h"
#include "troupe/troupe.h"

namespace troupe {
namespace monitored_session_test {

using namespace train;  // NOLINT

// The errors that the next runs of MayFail give, the last first.
std::mutex mu;
std::vector<absl::Status> failures;

TROUPE_OP("MonitoredMayFail")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's op")
    .Doc("Fails as a test wants it to.");
absl::Status MayFail(KernelContext& ctx) {
  std::lock_guard<std::mutex> lock(mu);
  if (!failures.empty()) {
    const absl::Status s = failures.back();
    failures.pop_back();
    if (!s.ok()) return s;
  }
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("MonitoredMayFail").Device("CPU").Function<MayFail>();

struct Model {
  Scope root = Scope::NewRootScope();
  Variable step, w;
  Output value;
  Operation update;
  explicit Model(const std::string& container = "") {
    step = GetOrCreateGlobalStep(root);
    w = Variable(root.WithOpName("w"), 1.0f, {.container = container});
    value = EmitOp(root.WithOpName("value"), "MonitoredMayFail", {w.Read(root)}).output(0);
    const Output more = w.AssignAdd(root.WithControlDependencies(Operation(value)), 1.0f);
    update = step.AssignAdd(root.WithControlDependencies(Operation(more)), int64_t{1});
    REQUIRE_OK(root.status());
    failures.clear();
  }
  std::unique_ptr<SessionCreator> Chief(std::string folder = {}) {
    return std::make_unique<ChiefSessionCreator>(root, std::make_shared<Scaffold>(), SessionOptions(), folder);
  }
};

// Tells what is called, and fails where it is told to.
class Teller : public Hook {
 public:
  Teller(std::string name, std::vector<std::string>* told) : name_(std::move(name)), told_(told) {}
  absl::Status Begin(const Scope&) override { return Tell("begin"); }
  absl::Status AfterCreateSession(Session&) override { return Tell("created"); }
  absl::StatusOr<RunArgs> BeforeRun(RunContext& c) override {
    BOOST_TEST(c.fetches().size() <= 1u);
    TROUPE_RETURN_IF_ERROR(Tell("before"));
    return args;
  }
  absl::Status AfterRun(RunContext& c, const RunValues& values) override {
    BOOST_TEST(values.fetches.size() == args.fetches.size());
    fetched = values.fetches;
    if (stop) c.RequestStop();
    return Tell("after");
  }
  absl::Status End(Session&) override { return Tell("end"); }

  RunArgs args;
  std::vector<Tensor> fetched;
  bool stop = false;
  std::string fail_at;
  absl::Status fail_with;

 private:
  absl::Status Tell(const std::string& what) {
    told_->push_back(name_ + what);
    return what == fail_at ? std::exchange(fail_with, absl::OkStatus()) : absl::OkStatus();
  }
  const std::string name_;
  std::vector<std::string>* const told_;
};

struct Monitored {
  Model m;
  std::vector<std::string> told;
  std::shared_ptr<Teller> a = std::make_shared<Teller>("a.", &told), b = std::make_shared<Teller>("b.", &told);
  std::unique_ptr<MonitoredSession> session;
  MonitoredSessionOptions options;

  Monitored() { options.hooks = {a, b}; }
  void Start(std::string folder = {}) {
    auto made = MonitoredSession::Create(m.root, m.Chief(std::move(folder)), options);
    REQUIRE_OK(made.status());
    session = *std::move(made);
  }
  absl::Status Run(std::vector<Tensor>* out = nullptr) { return session->Run({}, {m.value}, {m.update}, out); }
  std::string Told() { return StrJoin(std::exchange(told, {}), " "); }
};

BOOST_AUTO_TEST_CASE(hooks_are_called_in_order) {
  Monitored t;
  t.b->args = {.fetches = {t.m.w.Read(t.m.root).name(), "global_step/Read"}};
  t.Start();
  BOOST_TEST(t.Told() == "a.begin b.begin a.created b.created");
  std::vector<Tensor> out;
  REQUIRE_OK(t.Run(&out));
  BOOST_TEST(t.Told() == "a.before b.before a.after b.after");
  BOOST_REQUIRE_EQUAL(out.size(), 1u);
  BOOST_TEST(out[0].scalar<float>() == 1.0f);
  BOOST_TEST((t.b->fetched[0].dtype() == DType::kFloat));
  BOOST_TEST((t.b->fetched[1].dtype() == DType::kInt64));
  BOOST_TEST(!t.session->ShouldStop());
  t.a->stop = true;
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.session->ShouldStop());
  BOOST_TEST(absl::IsFailedPrecondition(t.Run()));
  BOOST_TEST(t.Told() == "a.before b.before a.after b.after");
  REQUIRE_OK(t.session->Close());
  REQUIRE_OK(t.session->Close());
  BOOST_TEST(t.Told() == "a.end b.end");
  BOOST_TEST(t.session->session() == nullptr);
  BOOST_TEST(absl::IsFailedPrecondition(t.Run()));
}

BOOST_AUTO_TEST_CASE(feeds_of_hooks_join_and_may_not_collide) {
  Monitored t;
  const Output x = ops::Placeholder(t.m.root.WithOpName("x"), DType::kFloat, {.shape = TensorShape()});
  const Output y = ops::Add(t.m.root.WithOpName("y"), x, 1.0f);
  t.options.hooks.push_back(std::make_shared<FeedHook>([n = 0]() mutable -> absl::StatusOr<Feeds> {
    if (++n > 4) return absl::OutOfRangeError("no more");
    return Feeds{{"x", Tensor::Scalar(static_cast<float>(n))}};
  }));
  t.Start();
  std::vector<Tensor> out;
  REQUIRE_OK(t.session->Run({}, {y}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 2.0f);
  t.Told();
  t.a->args.feeds = {{"y:0", Tensor::Scalar(7.0f)}};
  REQUIRE_OK(t.session->Run({}, {y}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 7.0f);
  t.a->args.feeds.clear();
  REQUIRE_OK(t.session->Run({}, {y}, {}, &out));
  BOOST_TEST(out[0].scalar<float>() == 4.0f);
  // OUT_OF_RANGE, which a feed may give, ends it well; a collision does not.
  Monitored u;
  const Output v = ops::Placeholder(u.m.root.WithOpName("v"), DType::kFloat, {.shape = TensorShape()});
  u.a->args.feeds = {{"v", Tensor::Scalar(1.0f)}};
  u.Start();
  const absl::Status twice = u.session->Run({{"v:0", Tensor::Scalar(1.0f)}}, {v}, {}, &out);
  BOOST_TEST(absl::IsInvalidArgument(twice), twice);
  BOOST_TEST(u.session->ShouldStop());
  REQUIRE_OK(u.session->Close());
  BOOST_TEST(u.Told().find("end") == std::string::npos);
  t.Told();
  REQUIRE_OK(t.session->Run({}, {y}, {}, &out));
  BOOST_TEST(absl::IsOutOfRange(t.session->Run({}, {y}, {}, &out)));
  BOOST_TEST(t.session->ShouldStop());
  t.Told();
  REQUIRE_OK(t.session->Close());
  BOOST_TEST(t.Told() == "a.end b.end");
}

BOOST_AUTO_TEST_CASE(what_was_lost_is_made_again_and_the_step_done_again) {
  for (const absl::Status& lost : {absl::AbortedError("lost"), absl::UnavailableError("away")}) {
    Monitored t;
    t.Start();
    REQUIRE_OK(t.Run());
    t.Told();
    Session* const first = t.session->session();
    failures = {lost, lost};
    std::vector<Tensor> out;
    REQUIRE_OK(t.Run(&out));
    BOOST_TEST(out[0].scalar<float>() == 1.0f);  // without a checkpoint all begins anew
    BOOST_TEST(t.session->sessions_made() == 3);
    BOOST_TEST(t.Told() ==
               "a.before b.before a.created b.created a.before b.before a.created b.created "
               "a.before b.before a.after b.after");
    BOOST_TEST(t.session->session()->Get(t.m.step)->scalar<int64_t>() == 1);
    (void)first;
  }
  // An error of a hook is one of the step; so is one while a session is made.
  Monitored t;
  t.Start();
  t.a->fail_at = "after";
  t.a->fail_with = absl::AbortedError("from a hook");
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.session->sessions_made() == 2);
  t.a->fail_at = "created";
  t.a->fail_with = absl::UnavailableError("from a hook");
  failures = {absl::AbortedError("lost")};
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.session->sessions_made() == 4);
}

BOOST_AUTO_TEST_CASE(other_errors_end_it_without_end) {
  for (const absl::Status& bad : {absl::InternalError("bad"), absl::InvalidArgumentError("bad"),
                                  absl::CancelledError("bad"), absl::DeadlineExceededError("bad")}) {
    Monitored t;
    t.Start();
    failures = {bad};
    const absl::Status s = t.Run();
    BOOST_TEST((s.code() == bad.code()), s);
    BOOST_TEST(t.session->ShouldStop());
    BOOST_TEST(absl::IsFailedPrecondition(t.Run()));
    t.Told();
    REQUIRE_OK(t.session->Close());
    BOOST_TEST(t.Told().empty());
    BOOST_TEST(t.session->sessions_made() == 1);
  }
  // Not more often than it is allowed.
  Monitored t;
  t.options.max_recoveries = 2;
  t.Start();
  failures = {absl::AbortedError("1"), absl::AbortedError("2"), absl::AbortedError("3")};
  BOOST_TEST(absl::IsAborted(t.Run()));
  BOOST_TEST(t.session->sessions_made() == 3);
  // An error of Begin, and one of End.
  Monitored u;
  u.a->fail_at = "begin";
  u.a->fail_with = absl::InternalError("no");
  BOOST_TEST(absl::IsInternal(MonitoredSession::Create(u.m.root, u.m.Chief(), u.options).status()));
  Monitored v;
  v.a->fail_at = "end";
  v.a->fail_with = absl::InternalError("no");
  v.Start();
  BOOST_TEST(absl::IsInternal(v.session->Close()));
  BOOST_TEST(v.Told().find("a.end b.end") != std::string::npos);
}

class Beside : public Companions {
 public:
  explicit Beside(std::vector<std::string>* told) : told_(told) {}
  bool should_stop() const override { return stop; }
  absl::Status Stop() override {
    told_->push_back("stopped");
    return result;
  }
  std::atomic<bool> stop{false};
  absl::Status result;

 private:
  std::vector<std::string>* const told_;
};

BOOST_AUTO_TEST_CASE(companions_live_with_their_session) {
  Monitored t;
  Beside* now = nullptr;
  t.options.start_companions = [&](Session&) -> absl::StatusOr<std::unique_ptr<Companions>> {
    t.told.push_back("started");
    auto made = std::make_unique<Beside>(&t.told);
    now = made.get();
    return made;
  };
  t.Start();
  BOOST_TEST(t.Told() == "a.begin b.begin started a.created b.created");
  failures = {absl::AbortedError("lost")};
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.Told() == "a.before b.before stopped started a.created b.created a.before b.before a.after b.after");
  // They ask for the end, well.
  now->stop = true;
  now->result = absl::OutOfRangeError("all is read");
  BOOST_TEST(t.session->ShouldStop());
  REQUIRE_OK(t.session->Close());
  BOOST_TEST(t.Told() == "stopped a.end b.end");
  // Their first error is that of a step that failed because of it.
  t.Start();
  now->stop = true;
  now->result = absl::DataLossError("a file is damaged");
  failures = {absl::CancelledError("the queue is closed")};
  BOOST_TEST(absl::IsDataLoss(t.Run()));
  REQUIRE_OK(t.session->Close());
  // And that of the end otherwise.
  t.Start();
  now->stop = true;
  now->result = absl::DataLossError("a file is damaged");
  BOOST_TEST(absl::IsDataLoss(t.session->Close()));
  // Companions may meet the loss of the session first.
  t.Start();
  (void)t.Told();
  now->stop = true;
  now->result = absl::AbortedError("the device is gone");
  BOOST_TEST(!t.session->ShouldStop());
  BOOST_TEST(t.session->sessions_made() == 2);
  BOOST_TEST(t.Told() == "stopped started a.created b.created");
  REQUIRE_OK(t.Run());
  now->stop = true;
  now->result = absl::DataLossError("a file is damaged");
  BOOST_TEST(t.session->ShouldStop());
  BOOST_TEST(absl::IsDataLoss(t.session->Close()));
}

// Nothing is saved of a step beside which companions have met the loss of the session: those who
// fill queues have been stopped.
BOOST_AUTO_TEST_CASE(hooks_do_not_see_a_step_beside_which_the_session_was_lost) {
  Monitored t;
  std::vector<Beside*> made;
  t.options.start_companions = [&](Session&) -> absl::StatusOr<std::unique_ptr<Companions>> {
    auto one = std::make_unique<Beside>(&t.told);
    made.push_back(one.get());
    return one;
  };
  t.Start();
  (void)t.Told();
  made.back()->result = absl::AbortedError("an actor died");
  made.back()->stop = true;
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.Told() == "a.before b.before stopped a.created b.created a.before b.before a.after b.after");
  BOOST_TEST(t.session->sessions_made() == 2);
  made.back()->result = absl::DataLossError("a file is damaged");
  made.back()->stop = true;
  REQUIRE_OK(t.Run());
  BOOST_TEST(t.session->ShouldStop());
  BOOST_TEST(absl::IsDataLoss(t.session->Close()));
}

// The graph's queue runners need no word of the program.
BOOST_AUTO_TEST_CASE(queue_runners_work_beside_the_steps) {
  const Scope root = Scope::NewRootScope();
  const Output element =
      StringInputProducer(root, {"a", "b", "c"}, {.num_epochs = 1, .shuffle = false}).Dequeue(root)[0];
  REQUIRE_OK(root.status());
  const auto chief = [&] { return std::make_unique<ChiefSessionCreator>(root, std::make_shared<Scaffold>()); };
  auto made = MonitoredSession::Create(root, chief());
  REQUIRE_OK(made.status());
  std::string all;
  absl::Status s;
  while (s.ok() && !(*made)->ShouldStop()) {
    std::vector<Tensor> out;
    s = (*made)->Run({}, {element}, {}, &out);
    if (s.ok()) all += out[0].scalar<std::string>();
  }
  BOOST_TEST(absl::IsOutOfRange(s), s);
  BOOST_TEST(all == "abc");
  REQUIRE_OK((*made)->Close());
  // Not started: the step waits for an element.
  MonitoredSessionOptions without;
  without.start_queue_runners = false;
  auto idle = MonitoredSession::Create(root, chief(), without);
  REQUIRE_OK(idle.status());
  RunOptions soon;
  soon.timeout_ms = 50;
  std::vector<Tensor> out;
  BOOST_TEST(absl::IsDeadlineExceeded((*idle)->session()->Run(soon, {}, {element}, {}, &out, nullptr)));
}

// What is missing, and what throws, is told.
BOOST_AUTO_TEST_CASE(bad_parts_are_errors) {
  Model m;
  BOOST_TEST(absl::IsInvalidArgument(MonitoredSession::Create(m.root, nullptr).status()));
  MonitoredSessionOptions options;
  options.hooks = {nullptr};
  BOOST_TEST(absl::IsInvalidArgument(MonitoredSession::Create(m.root, m.Chief(), options).status()));
  BOOST_TEST(absl::IsInvalidArgument(ChiefSessionCreator(m.root, nullptr).CreateSession().status()));
  BOOST_TEST(absl::IsInvalidArgument(WorkerSessionCreator(m.root, nullptr, {}, 1).CreateSession().status()));
  class NoSession : public SessionCreator {
    absl::StatusOr<std::unique_ptr<Session>> CreateSession() override { return nullptr; }
  };
  BOOST_TEST(absl::IsInvalidArgument(MonitoredSession::Create(m.root, std::make_unique<NoSession>()).status()));
  class Throws : public Hook {
   public:
    explicit Throws(int at) : at_(at) {}
    absl::Status Begin(const Scope&) override { return At(0); }
    absl::Status AfterCreateSession(Session&) override { return At(1); }
    absl::StatusOr<RunArgs> BeforeRun(RunContext&) override {
      TROUPE_RETURN_IF_ERROR(At(2));
      return RunArgs();
    }
    absl::Status AfterRun(RunContext&, const RunValues&) override { return At(3); }
    absl::Status End(Session&) override { return At(4); }

   private:
    absl::Status At(int now) const {
      if (now == at_) throw std::runtime_error(StrCat("thrown at ", now));
      return absl::OkStatus();
    }
    const int at_;
  };
  for (int at = 0; at <= 4; ++at) {
    options.hooks = {std::make_shared<Throws>(at)};
    auto made = MonitoredSession::Create(m.root, m.Chief(), options);
    absl::Status s = made.status();
    if (s.ok()) s = (*made)->Run({}, {}, {m.update}, nullptr);
    if (s.ok()) s = (*made)->Close();
    BOOST_TEST(absl::IsInternal(s), s);
    BOOST_TEST(s.message().find(StrCat("thrown at ", at)) != std::string::npos, s);
  }
  // Two sayings of when would mean never.
  MonitoredTrainingOptions both;
  both.save_checkpoint.steps = 100;
  BOOST_TEST(absl::IsInvalidArgument(MonitoredTrainingSession(m.root, both).status()));
}

BOOST_AUTO_TEST_CASE(a_chief_goes_on_from_its_checkpoint) {
  const std::string folder = "mem://monitored/chief";
  for (int run = 0; run < 2; ++run) {
    Model m;
    MonitoredTrainingOptions options;
    options.checkpoint_folder = folder;
    options.save_checkpoint = {.steps = 3};
    options.hooks = {std::make_shared<StopAtStepHook>(StopAtStepHook::Steps(5))};
    auto session = MonitoredTrainingSession(m.root, options);
    REQUIRE_OK(session.status());
    int steps = 0;
    while (!(*session)->ShouldStop()) {
      // Lost in between: from the newest checkpoint.
      if (steps == 3 && run == 1) failures = {absl::AbortedError("lost")};
      std::vector<Tensor> out;
      REQUIRE_OK((*session)->Run({}, {m.value}, {m.update}, &out));
      ++steps;
    }
    REQUIRE_OK((*session)->Close());
    BOOST_TEST((*session)->sessions_made() == run + 1);
    BOOST_TEST(*LatestCheckpoint(folder) == StrCat(folder, "/model.ckpt-", 5 * (run + 1)));
    const auto reader = *CheckpointReader::Open(*LatestCheckpoint(folder));
    BOOST_TEST(reader->Read("w")->scalar<float>() == 1.0f + static_cast<float>(5 * (run + 1)));
  }
}

BOOST_AUTO_TEST_CASE(a_worker_waits_for_the_word_of_its_chief) {
  SessionOptions shared;
  shared.runtime = *Runtime::Start();
  shared.share_variables = true;
  Model chief, worker;
  // Without a chief: what has no value is listed.
  const auto late = MonitoredSession::Create(
      worker.root, std::make_unique<WorkerSessionCreator>(worker.root, std::make_shared<Scaffold>(), shared, 20));
  BOOST_TEST(absl::IsDeadlineExceeded(late.status()), late.status());
  for (const char* name : {"'", "w", "global_step"}) {
    if (*name != '\'') BOOST_TEST(late.status().ToString().find(name) != std::string::npos, late.status());
  }
  std::atomic<bool> began{false};
  std::thread thread([&] {
    Model mine;
    began = true;
    const auto session = MonitoredSession::Create(
        mine.root, std::make_unique<WorkerSessionCreator>(mine.root, std::make_shared<Scaffold>(), shared, -1));
    REQUIRE_OK(session.status());
    BOOST_TEST((*session)->session()->Get(mine.w)->scalar<float>() == 1.0f);
    REQUIRE_OK((*session)->Close());
  });
  while (!began) std::this_thread::yield();
  const auto session = MonitoredSession::Create(
      chief.root, std::make_unique<ChiefSessionCreator>(chief.root, std::make_shared<Scaffold>(), shared));
  REQUIRE_OK(session.status());
  thread.join();
}

BOOST_AUTO_TEST_CASE(a_scaffold_says_how_sessions_are_made_ready) {
  Scope root = Scope::NewRootScope();
  const Output start = ops::Placeholder(root.WithOpName("start"), DType::kFloat, {.shape = TensorShape()});
  const Variable w(root.WithOpName("w"), start, {.shape = TensorShape()});
  const Variable local(root.WithOpName("local"), 3, {.trainable = false, .collections = {kLocalVariables}});
  auto scaffold = std::make_shared<Scaffold>();
  scaffold->init_feeds = {{"start", Tensor::Scalar(2.0f)}};
  int calls = 0;
  scaffold->init_function = [&](Session& session) {
    ++calls;
    return session.Set(w, Tensor::Scalar(session.Get(w)->scalar<float>() * 2));
  };
  ChiefSessionCreator chief(root, scaffold, {}, "mem://monitored/scaffold");
  const auto session = chief.CreateSession();
  REQUIRE_OK(session.status());
  BOOST_TEST((*session)->Get(w)->scalar<float>() == 4.0f);
  BOOST_TEST((*session)->Get(local)->scalar<int32_t>() == 3);
  REQUIRE_OK(scaffold->saver->Save(**session, "mem://monitored/scaffold/m").status());
  // From the checkpoint nothing is initialized but what is local.
  const auto again = chief.CreateSession();
  REQUIRE_OK(again.status());
  BOOST_TEST(calls == 1);
  BOOST_TEST((*again)->Get(w)->scalar<float>() == 4.0f);
  BOOST_TEST((*again)->Get(local)->scalar<int32_t>() == 3);
  bool restored = true;
  const SessionManager manager(root.graph(), scaffold);
  REQUIRE_OK(manager.RecoverSession({}, "mem://monitored/nothing", {}, &restored).status());
  BOOST_TEST(!restored);
  BOOST_TEST(absl::IsNotFound(manager.PrepareSession({}, {}, "mem://monitored/none").status()));
  REQUIRE_OK(files::Delete("mem://monitored/scaffold/m.index"));
  BOOST_TEST(absl::IsNotFound(chief.CreateSession().status()));  // a list without its checkpoint is no fresh start
  // An initializer that leaves something out.
  auto half = std::make_shared<Scaffold>();
  half->init = local.initializer();
  const absl::Status missing = ChiefSessionCreator(root, half).CreateSession().status();
  BOOST_TEST(absl::IsFailedPrecondition(missing), missing);
  BOOST_TEST(missing.ToString().find("no value: w") != std::string::npos, missing);
}

}  // namespace monitored_session_test
}  // namespace troupe
