// Training of mirrored replicas whose tasks are all of one runtime: what is lost of each, and what
// the others give it.
#include "troupe/train/train_mirrored.h"

#include <atomic>

#include "actors/train/server_recovery.h"
#include "tests/monitored/training_runs.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace train_mirrored_test {

constexpr int kReplicas = 3;

std::shared_ptr<Runtime> Workers() {
  RuntimeOptions options;
  options.threads = 2;
  options.tasks.clear();
  for (int w = 0; w < kReplicas; ++w) options.tasks.push_back(StrCat("/job:worker/replica:0/task:", w));
  auto runtime = Runtime::Start(options);
  REQUIRE_OK(runtime.status());
  return *std::move(runtime);
}

InGraphOptions OnTasks(const std::vector<int>& tasks, AllReduceOptions::Algorithm algorithm = AllReduceOptions::kRing) {
  InGraphOptions options;
  for (const int task : tasks) options.devices.push_back(StrCat("/job:worker/task:", task));
  options.all_reduce.algorithm = algorithm;
  return options;
}

// One graph of all replicas: x times w plus b; the rows of a step are fed.
struct Mirrors {
  explicit Mirrors(bool fragile, bool follow = false) {
    const Scope chief = root.WithDevice("/job:worker/task:0");
    step = GetOrCreateGlobalStep(chief);
    const auto tower = [&](const Scope& on, int) {
      const Variable w(on.WithOpName("w"),
                       init::TruncatedNormal(0.0, 0.5, 7)(on, TensorShape({kIn, kOut}), DType::kFloat));
      const Variable b(on.WithOpName("b"), Tensor::Vector<float>({0.1f, -0.2f}));
      x.push_back(ops::Placeholder(on, DType::kFloat, {.shape = PartialTensorShape({-1, kIn})}));
      const Output y = ops::Add(on, ops::MatMul(on, x.back(), w), b);
      const Output target = ops::Const(on, Tensor::Vector<float>({1.0f, -1.0f}));
      return ops::Mean(on, ops::Square(on, ops::Sub(on, y, target)), Tensor::Vector<int32_t>({0, 1}));
    };
    const auto optimizer = [&](const Scope&) -> std::unique_ptr<Optimizer> {
      if (fragile) return std::make_unique<Brittle>();
      return std::make_unique<Adam>(0.1);
    };
    replicas.emplace(chief, tower, optimizer, step, OnTasks({0, 1, 2}));
    mirrored.emplace(chief, *replicas, step, MirroredOptions{.others_follow = follow});
    REQUIRE_OK(root.status());
  }
  Scope root = Scope::NewRootScope();
  Variable step;
  std::vector<Output> x;
  std::optional<InGraphReplicas> replicas;
  std::optional<MirroredTraining> mirrored;
};

struct MirrorRun {
  explicit MirrorRun(bool breaks = false) : fragile(breaks), cluster(Workers()) {}
  // The chief, once; at_end looks at all replicas.
  absl::StatusOr<TrainingReport> Chief() {
    const Mirrors m(fragile, follow);
    TrainingOptions options = Common();
    options.feeds = [&](int64_t s) -> absl::StatusOr<Feeds> {
      if (before_step) {
        const absl::Status status = before_step(s);
        if (!status.ok()) return status;
      }
      Feeds feeds;
      for (int r = 0; r < kReplicas; ++r)
        feeds.emplace_back(m.x[static_cast<size_t>(r)].name(), Batch(s, r * kRows, kRows));
      return feeds;
    };
    options.on_event = [&](const TrainingEvent& e) {
      if (e.kind == TrainingEvent::kStep) losses[e.step].push_back(e.loss);
      if (e.kind == TrainingEvent::kBegin) begins.push_back(e);
      if (e.kind == TrainingEvent::kLost) lost.push_back(e.why);
    };
    options.at_end = [&](Session& session) {
      if (before_end) before_end();
      bits = Bits(session, m.root);
      // Mirrors are equal while their tasks are needed.
      for (size_t r = 1; r < kReplicas && look_at_mirrors; ++r) {
        for (size_t v = 0; v < m.replicas->variables()[r].size(); ++v) {
          const Tensor first = session.Get(m.replicas->variables()[0][v]).value(),
                       mirror = session.Get(m.replicas->variables()[r][v]).value();
          BOOST_TEST((std::string(static_cast<const char*>(first.raw()), first.bytes()) ==
                      std::string(static_cast<const char*>(mirror.raw()), mirror.bytes())));
        }
      }
      return absl::OkStatus();
    };
    return TrainMirrored(m.root, *m.mirrored, 0, options);
  }
  absl::Status Follow(int replica) {
    const Mirrors m(fragile, follow);
    return TrainMirrored(m.root, *m.mirrored, replica, Common()).status();
  }
  // All of them; the chief is begun anew while it dies.
  TrainingReport All() {
    follow = true;
    std::vector<std::future<absl::Status>> others;
    for (int r = 1; r < kReplicas; ++r)
      others.push_back(std::async(std::launch::async, [this, r] { return Follow(r); }));
    TrainingReport report;
    for (int tries = 0;; ++tries) {
      const auto s = Chief();
      if (s.ok()) report = *s;
      if (s.ok() || !absl::IsResourceExhausted(s.status()) || tries > 5) {
        BOOST_TEST(s.ok(), s.status());
        break;
      }
    }
    for (auto& o : others) CHECK_OK(o.get());
    return report;
  }
  TrainingOptions Common() const {
    TrainingOptions options;
    options.session.runtime = cluster;
    options.last_step = steps;
    options.checkpoints = {.folder = folder, .every_steps = 4};
    options.give_up = give_up;
    return options;
  }
  // What a task had is gone, as if its process had died and been started again; but a follower's
  // queue is needed by the thread that waits there.
  void Lose(int task) {
    for (const auto& d : cluster->impl()->devices) {
      if (d->name().find(StrCat("/job:worker/replica:0/task:", task)) != std::string::npos)
        d->shared_containers()->Clear("");
    }
  }
  const bool fragile;
  const std::shared_ptr<Runtime> cluster;
  int64_t steps = 10;
  bool look_at_mirrors = true, follow = false;
  std::string folder;
  std::function<absl::Status(int64_t step)> before_step;
  std::function<void()> before_end;
  std::chrono::milliseconds give_up{60'000};
  std::map<int64_t, std::vector<double>> losses;
  std::vector<TrainingEvent> begins;
  std::vector<absl::Status> lost;
  std::string bits;
};

// What a run that nothing disturbs gives. Its cluster goes with it: none is there when the program
// ends.
struct Expected {
  std::string bits;
  std::map<int64_t, std::vector<double>> losses;
  int64_t steps;
};
const Expected& Undisturbed() {
  static const Expected expected = [] {
    MirrorRun run;
    run.All();
    return Expected{run.bits, run.losses, run.steps};
  }();
  return expected;
}
void CheckEqual(const MirrorRun& run) {
  const Expected& expected = Undisturbed();
  BOOST_TEST((run.bits == expected.bits));
  BOOST_TEST(run.losses.size() == expected.losses.size());
  for (const auto& [step, losses] : run.losses) {
    for (const double loss : losses) BOOST_TEST(loss == expected.losses.at(step).at(0), "step " << step);
  }
}

BOOST_AUTO_TEST_SUITE(train_mirrored)

BOOST_AUTO_TEST_CASE(replicas_do_what_one_does_with_all_of_it) {
  const Expected& run = Undisturbed();
  BOOST_TEST(run.losses.size() == 10u);
  Adam adam(0.1);
  const Model m(0, 0, adam, /*sparse=*/false);
  auto session = Session::Create({.runtime = NewCluster(1)}).value();
  REQUIRE_OK(session->Extend(*m.root.graph()));
  REQUIRE_OK(session->Run({}, {}, {m.init}, nullptr));
  for (int64_t step = 0; step < run.steps; ++step) {
    std::vector<Tensor> out;
    REQUIRE_OK(session->Run({{m.x, Batch(step, 0, kReplicas * kRows)}}, {m.loss}, {m.update}, &out));
    BOOST_TEST(std::abs(run.losses.at(step + 1).at(0) - static_cast<double>(out[0].scalar<float>())) < 1e-6,
               "step " << step);
  }
}

// Each replica, the chief's too, and two of three: the last one gives what it has.
BOOST_AUTO_TEST_CASE(a_lost_replica_is_given_what_another_one_has) {
  const std::vector<std::vector<int>> all = {{1}, {2}, {0}, {0, 1}, {1, 2}, {0, 2}};
  for (const std::vector<int>& lost : all) {
    MirrorRun run;
    int64_t at = 6;
    run.before_step = [&](int64_t step) {
      if (step == at) {
        at = -1;
        for (const int task : lost) run.Lose(task);
      }
      return absl::OkStatus();
    };
    const auto report = run.Chief();
    REQUIRE_OK(report.status());
    CheckEqual(run);
    BOOST_TEST(report->recoveries == 1);
    BOOST_TEST(report->lost_updates == 0);
    BOOST_REQUIRE(run.begins.size() == 2u);
    BOOST_TEST((run.begins[1].from == TrainingEvent::kServers));
    BOOST_TEST(run.begins[1].step == 6);
  }
}

BOOST_AUTO_TEST_CASE(when_all_are_lost_they_go_back_to_the_checkpoint) {
  MirrorRun run;
  run.folder = "mem://mirrored_all_lost";
  int64_t at = 6;
  run.before_step = [&](int64_t step) {
    if (step == at) {
      at = -1;
      for (int task = 0; task < kReplicas; ++task) run.Lose(task);
    }
    return absl::OkStatus();
  };
  const auto report = run.Chief();
  REQUIRE_OK(report.status());
  CheckEqual(run);
  BOOST_TEST(report->lost_updates == 2);
  BOOST_REQUIRE(run.begins.size() == 2u);
  BOOST_TEST((run.begins[1].from == TrainingEvent::kCheckpoint));
  BOOST_TEST(run.begins[1].step == 4);
  // Another one begins where that ended, and has nothing left to do; who follows it, neither.
  run.look_at_mirrors = false;
  run.begins.clear();
  for (int task = 0; task < kReplicas; ++task) run.Lose(task);
  run.bits.clear();
  run.All();
  CheckEqual(run);
  BOOST_REQUIRE(run.begins.size() == 1u);
  BOOST_TEST(run.begins[0].step == 10);
}

// Of one replica that has updated a variable, or of all; at the chief's task or at another.
BOOST_AUTO_TEST_CASE(an_update_that_breaks_off_is_taken_back_at_all_replicas) {
  for (const int lost : {-1, 0, 2}) {
    MirrorRun run(/*fragile=*/true);
    int64_t at = 5;
    run.before_step = [&](int64_t step) {
      if (step == at) {
        at = -1;
        failing_updates = 2;
      } else if (at == -1 && lost >= 0) {
        run.Lose(lost);
        at = -2;
      }
      return absl::OkStatus();
    };
    const auto report = run.Chief();
    failing_updates = 0;
    REQUIRE_OK(report.status());
    CheckEqual(run);
    BOOST_TEST(!run.lost.empty());
    for (size_t i = 1; i < run.begins.size(); ++i) BOOST_TEST((run.begins[i].from == TrainingEvent::kServers));
  }
}

BOOST_AUTO_TEST_CASE(a_chief_that_begins_anew_costs_nothing) {
  MirrorRun run;
  int64_t at = 3;
  run.before_step = [&](int64_t step) {
    if (step != at) return absl::OkStatus();
    at += 4;
    return Died();
  };
  run.All();
  CheckEqual(run);
  BOOST_REQUIRE(run.begins.size() == 3u);
  BOOST_TEST((run.begins[1].from == TrainingEvent::kServers));
  BOOST_TEST(run.begins[1].step == 3);
  BOOST_TEST(run.begins[2].step == 7);
}

// Marks as losses between the parts of an update leave them.
BOOST_AUTO_TEST_CASE(the_step_of_a_new_chief_follows_from_the_marks) {
  const std::shared_ptr<Runtime> cluster = Workers();
  const Mirrors m(false);
  const ServerState& state = m.mirrored->state();
  BOOST_REQUIRE(state.servers().size() == 3u);
  ServerRecovery recovery(m.root, *m.mirrored, {});
  auto session = Session::Create({.runtime = cluster, .share_variables = true}).value();
  REQUIRE_OK(session->Extend(*m.root.graph()));
  BOOST_TEST((recovery.Begin(*session, 0)->from == TrainingEvent::kStart));
  const auto& variables = m.replicas->variables();
  const auto b_of = [&](size_t r) { return session->Get(variables[r][1])->data<float>()[0]; };
  const auto set = [&](size_t r, float to, int64_t mark) {
    REQUIRE_OK(session->Set(variables[r][1], Tensor::Vector<float>({to, to})));
    REQUIRE_OK(session->Set(state.servers()[r].mark, Tensor::Scalar(mark)));
  };
  const auto lose_first = [&] {
    for (const auto& d : cluster->impl()->devices) {
      if (d->name().find("/task:0") != std::string::npos) d->shared_containers()->Clear("");
    }
  };
  // The update of step 0 had been begun at one of them: all have what they kept.
  const float start = b_of(1);
  set(1, 7, 0);
  lose_first();
  ServerRecovery::Begun begun = recovery.Begin(*session, 0).value();
  BOOST_TEST((begun.from == TrainingEvent::kServers));
  BOOST_TEST(begun.step == 0);
  for (const size_t r : {0u, 1u, 2u}) BOOST_TEST(b_of(r) == start);
  // It had been done everywhere, and one had kept it: it is done.
  for (const size_t r : {1u, 2u}) set(r, 9, 0);
  REQUIRE_OK(session->Set(m.step, Tensor::Scalar(int64_t{1})));
  REQUIRE_OK(session->Run({}, {}, {state.servers()[2].keep}, nullptr));
  lose_first();
  for (int again = 0; again < 2; ++again) {
    begun = recovery.Begin(*session, 1).value();
    BOOST_TEST((begun.from == TrainingEvent::kServers));
    BOOST_TEST(begun.step == 1);
    BOOST_TEST(begun.lost_updates == 0);
    BOOST_TEST(session->Get(m.step)->scalar<int64_t>() == 1);
    for (const size_t r : {0u, 1u, 2u}) {
      BOOST_TEST(b_of(r) == 9);
      BOOST_TEST(session->Get(state.servers()[r].mark)->scalar<int64_t>() == 1);
    }
  }
  // It had been done everywhere, and nobody had kept all of it: half of what is kept is newer.
  const Variable kept = Variable::Find(m.root, StrCat("servers/kept/", variables[1][1].variable_name()));
  REQUIRE_OK(m.root.status());
  for (const size_t r : {1u, 2u}) set(r, 11, 1);
  REQUIRE_OK(session->Set(state.servers()[1].reached, Tensor::Scalar(int64_t{2})));
  REQUIRE_OK(session->Set(kept, Tensor::Vector<float>({11, 11})));
  lose_first();
  begun = recovery.Begin(*session, 1).value();
  BOOST_TEST((begun.from == TrainingEvent::kServers));
  BOOST_TEST(begun.step == 2);
  for (const size_t r : {0u, 1u, 2u}) BOOST_TEST(b_of(r) == 11);
  // Marks that are of no one step: nobody is believed.
  REQUIRE_OK(session->Set(state.servers()[1].mark, Tensor::Scalar(int64_t{5})));
  lose_first();
  begun = recovery.Begin(*session, 1).value();
  BOOST_TEST((begun.from == TrainingEvent::kStart));
  BOOST_TEST(begun.lost_updates == 5);
}

BOOST_AUTO_TEST_CASE(who_follows_gives_up_when_there_is_no_chief) {
  const MirrorRun run;
  const Mirrors m(false);
  TrainingOptions options = run.Common();
  options.give_up = std::chrono::milliseconds(200);
  const auto s = TrainMirrored(m.root, *m.mirrored, 1, options);
  BOOST_TEST(absl::IsDeadlineExceeded(s.status()), s.status());
  BOOST_TEST(absl::IsInvalidArgument(TrainMirrored(m.root, *m.mirrored, 3, options).status()));
  options.last_step = -1;
  for (const int replica : {0, 1}) {
    const auto below = TrainMirrored(m.root, *m.mirrored, replica, options).status();
    BOOST_TEST(absl::IsInvalidArgument(below), below);
    BOOST_TEST(below.message().find("last_step is -1") != std::string::npos, below);
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_trained_is_told) {
  const auto told = [](const std::vector<int>& tasks, InGraphOptions::Variables kind, int step_on, bool more,
                       const std::string& what) {
    const Scope root = Scope::NewRootScope();
    const Scope chief = root.WithDevice("/job:worker/task:0");
    const Variable step = GetOrCreateGlobalStep(root.WithDevice(StrCat("/job:worker/task:", step_on)));
    if (more) Variable(chief.WithOpName("more"), 1.0f);
    InGraphOptions options = OnTasks(tasks);
    options.variables = kind;
    const InGraphReplicas replicas(
        chief, [](const Scope& on, int) { return ops::Square(on, Variable(on.WithOpName("v"), 1.0f)); },
        [](const Scope&) { return std::make_unique<Adam>(0.1); }, step, options);
    REQUIRE_OK(root.status());
    const MirroredTraining mirrored(chief, replicas, step);
    BOOST_TEST(absl::IsInvalidArgument(root.status()), root.status());
    BOOST_TEST(root.status().ToString().find(what) != std::string::npos, root.status());
  };
  told({0, 1}, InGraphOptions::kShared, 0, false, "needs replicas with mirrored variables");
  told({0, 0}, InGraphOptions::kMirrored, 0, false, "has several");
  told({0, 1}, InGraphOptions::kMirrored, 1, false, "not with replica 0");
  told({0, 1}, InGraphOptions::kMirrored, 0, true, "'more' belongs to no replica");
}

// at_end may look at all replicas.
BOOST_AUTO_TEST_CASE(followers_serve_until_at_end_has_returned) {
  MirrorRun run;
  run.follow = true;
  run.folder = "mem://mirrored_at_end";
  std::future<absl::Status> one, other = std::async(std::launch::async, [&] { return run.Follow(2); });
  run.before_end = [&] {
    // All is saved when it comes.
    one = std::async(std::launch::async, [&] { return run.Follow(1); });
    BOOST_TEST((one.wait_for(std::chrono::milliseconds(500)) == std::future_status::timeout));
  };
  const auto s = run.Chief();
  CHECK_OK(s.status());
  CHECK_OK(one.get());
  CHECK_OK(other.get());
  CheckEqual(run);
}

// A run in which a thief takes the token that tells a follower of the end; or tries to.
bool EndOfFollowerIsStolen() {
  MirrorRun run;
  run.give_up = std::chrono::milliseconds(3000);  // a follower looks again then
  const Mirrors thiefs(false, /*follow=*/true);
  const auto thief = Session::Create({.runtime = run.cluster, .share_variables = true}).value();
  REQUIRE_OK(thief->Extend(*thiefs.root.graph()));
  std::atomic<bool> ending{false};
  std::future<bool> stolen;
  run.before_step = [&](int64_t step) {
    if (step + 1 != run.steps) return absl::OkStatus();
    stolen = std::async(std::launch::async, [&] {
      for (;;) {
        RunOptions at_most;
        at_most.timeout_ms = 10'000;
        const Operation await = thiefs.mirrored->await_end()[1];
        if (!thief->Run(at_most, {}, {}, {await}, nullptr, nullptr).ok()) return false;
        if (ending) return true;
      }
    });
    // It waits behind the follower, whom a token of no end sends there once more.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return thief->Run({}, {}, {thiefs.mirrored->tell_end()[1]}, nullptr);
  };
  run.before_end = [&] { ending = true; };
  run.All();
  CheckEqual(run);
  return stolen.get();
}

// As when the step that waits for it was cut off just then.
BOOST_AUTO_TEST_CASE(a_follower_ends_although_its_token_is_lost) {
  // Whether the thief comes before the follower depends on the two threads.
  bool stolen = false;
  for (int tries = 0; tries < 10 && !stolen; ++tries) stolen = EndOfFollowerIsStolen();
  BOOST_TEST(stolen);
}

BOOST_AUTO_TEST_CASE(a_follower_gives_up_a_chief_that_stays_at_its_step) {
  MirrorRun run;
  run.follow = true;
  run.give_up = std::chrono::milliseconds(500);
  run.before_step = [](int64_t step) {
    return step == 3 ? absl::InvalidArgumentError("the end of the images") : absl::OkStatus();
  };
  auto follower = std::async(std::launch::async, [&] { return run.Follow(1); });
  const auto s = run.Chief();
  BOOST_TEST(absl::IsInvalidArgument(s.status()), s.status());
  const absl::Status f = follower.get();
  BOOST_TEST(absl::IsDeadlineExceeded(f), f);
  BOOST_TEST(f.message().find("stays at step 3") != std::string::npos, f);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace train_mirrored_test
}  // namespace troupe
