// Synchronous and asynchronous training by several workers, whose tasks, and those of the parameter
// servers, are all of one runtime: each worker is a thread with a graph and sessions of its own.
#include "troupe/train/train_together.h"

#include <boost/test/unit_test.hpp>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "actors/runtime/runtime_impl.h"
#include "actors/train/server_recovery.h"
#include "tests/common/check_ok.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/resource_container.h"
#include "troupe/shape_inference.h"
#include "troupe/train/adam.h"
#include "troupe/train/global_step.h"
#include "troupe/train/gradient_descent.h"
#include "troupe/train/replica_devices.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

using namespace train;  // NOLINT
using namespace std::chrono_literals;

constexpr int kServers = 2, kRows = 8, kIn = 3, kOut = 2;

std::shared_ptr<Runtime> NewCluster(int workers) {
  RuntimeOptions options;
  options.threads = 2;
  options.tasks.clear();
  for (int w = 0; w < workers; ++w) options.tasks.push_back(StrCat("/job:worker/replica:0/task:", w));
  for (int p = 0; p < kServers; ++p) options.tasks.push_back(StrCat("/job:ps/replica:0/task:", p));
  auto runtime = Runtime::Start(options);
  REQUIRE_OK(runtime.status());
  return *std::move(runtime);
}

// Numbers that look random, and are those of (step, row).
float Noise(int64_t step, int64_t row, int64_t column) {
  const int64_t x = (step * 7919 + row * 104729 + column * 1299709 + 17) % 1000;
  return static_cast<float>(x) / 500.0f - 1.0f;
}
// `rows` rows from `first` on.
Tensor Batch(int64_t step, int64_t first, int64_t rows) {
  Tensor t(DType::kFloat, TensorShape({rows, kIn}));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kIn; ++c) t.data<float>()[r * kIn + c] = Noise(step, first + r, c);
  }
  return t;
}
Tensor Ids(int64_t step, int64_t first, int64_t rows) {
  Tensor t(DType::kInt32, TensorShape({rows}));
  for (int64_t r = 0; r < rows; ++r) t.data<int32_t>()[r] = static_cast<int32_t>((step * 5 + (first + r) * 3) % 6);
  return t;
}

// Fails once in the middle of an update: after `w` has been updated.
std::atomic<int> failing_updates{0};
TROUPE_OP("TogetherMayFail")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's op")
    .Doc("Fails as a test wants it to.");
absl::Status MayFail(KernelContext& ctx) {
  if (failing_updates > 0 && failing_updates-- == 1) return Unavailable("a test's failure");
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("TogetherMayFail").Device("CPU").Function<MayFail>();

// Adam, whose second variable is updated after the first, and may fail.
class Brittle : public Adam {
 public:
  Brittle() : Adam(0.1) {}

 protected:
  Operation Apply(const Scope& scope, const Output& grad, const Variable& var) override {
    if (!before_.valid()) return before_ = Adam::Apply(scope, grad, var);
    const Scope after = scope.WithControlDependencies(before_);
    return Adam::Apply(after, EmitOp(after, "TogetherMayFail", {grad}).output(0), var);
  }

 private:
  Operation before_;
};

// One worker's graph: rows of a table by id, times a matrix.
struct Model {
  Model(int worker, int workers, Optimizer& optimizer, bool sparse, int take = 0, bool async = false) {
    const Scope on = root.WithDeviceFunction(
        ReplicaDevices({.ps_tasks = kServers, .worker_device = StrCat("/job:worker/task:", worker)}));
    w = Variable(on.WithOpName("w"),
                 init::TruncatedNormal(0.0, 0.5, 7)(on, TensorShape({sparse ? 6 : kIn, kOut}), DType::kFloat));
    b = Variable(on.WithOpName("b"), Tensor::Vector<float>({0.1f, -0.2f}));
    x = ops::Placeholder(on, sparse ? DType::kInt32 : DType::kFloat);
    const Output y = sparse ? ops::GatherV2(on, w, x, 0) : ops::MatMul(on, x, w);
    const Output target = ops::Const(on, Tensor::Vector<float>({1.0f, -1.0f}));
    loss = ops::Mean(on, ops::Square(on, ops::Sub(on, ops::Add(on, y, b), target)), Tensor::Vector<int32_t>({0, 1}));
    step = GetOrCreateGlobalStep(on);
    const auto grads = optimizer.ComputeGradients(on, loss);
    if (workers == 0) {
      update = optimizer.ApplyGradients(on, grads, step);
      init = GlobalVariablesInitializer(on);
    } else if (async) {
      apart.emplace(on, optimizer, grads, loss, step, AsyncReplicasOptions{.workers = workers, .worker = worker});
    } else {
      sync.emplace(on, optimizer, grads, loss, step,
                   SyncReplicasOptions{.workers = workers, .worker = worker, .take = take});
    }
    REQUIRE_OK(root.status());
  }
  Scope root = Scope::NewRootScope();
  Variable w, b, step;
  Output x, loss;
  Operation update, init;
  std::optional<SyncReplicas> sync;
  std::optional<AsyncReplicas> apart;
};

// The bytes of all variables.
std::string Bits(Session& session, const Scope& root) {
  std::string bits;
  for (const Variable& v : VariablesIn(root, kGlobalVariables)) {
    const Tensor t = session.Get(v).value();
    bits.append(static_cast<const char*>(t.raw()), t.bytes());
  }
  return bits;
}

// A run with some workers, some of which are begun anew.
struct Run {
  explicit Run(int n) : workers(n), cluster(NewCluster(n)) {}
  // Of a worker, once; what it says.
  absl::StatusOr<TrainingReport> Part(int worker) {
    std::unique_ptr<Optimizer> optimizer;
    if (brittle) {
      optimizer = std::make_unique<Brittle>();
    } else {
      optimizer = std::make_unique<Adam>(0.1);
    }
    const Model m(worker, workers, *optimizer, sparse, take, async);
    TrainingOptions options;
    options.session.runtime = cluster;
    options.last_step = steps;
    options.checkpoints = {.folder = folder, .every_steps = save_steps};
    options.give_up = 60s;
    options.feeds = [&](int64_t step) -> absl::StatusOr<Feeds> {
      if (before_feeds) {
        const absl::Status s = before_feeds(worker, step);
        if (!s.ok()) return s;
      }
      return Feeds{{m.x.name(), sparse ? Ids(step, worker * kRows, kRows) : Batch(step, worker * kRows, kRows)}};
    };
    if (before_update) {
      options.update_feeds = [&](int64_t step) -> absl::StatusOr<Feeds> {
        const absl::Status s = before_update(step);
        if (!s.ok()) return s;
        return Feeds();
      };
    }
    options.on_event = [&, worker](const TrainingEvent& e) {
      std::lock_guard<std::mutex> lock(mu);
      if (e.kind == TrainingEvent::kStep) losses[e.step].push_back(e.loss);
      if (e.kind == TrainingEvent::kBegin && worker == 0) begins.push_back(e);
      if (e.kind == TrainingEvent::kLost) lost.push_back(e.why);
    };
    options.at_end = [&](Session& session) {
      bits = Bits(session, m.root);
      return absl::OkStatus();
    };
    return async ? TrainApart(m.root, *m.apart, options) : TrainTogether(m.root, *m.sync, options);
  }
  // All of them, each begun anew while it fails with `again`.
  TrainingReport All() {
    std::vector<std::future<void>> others;
    TrainingReport report;
    const auto play = [this](int worker, TrainingReport* to) {
      for (int tries = 0;; ++tries) {
        auto s = Part(worker);
        if (s.ok()) *to = *s;
        if (s.ok() || !absl::IsResourceExhausted(s.status()) || tries > 5) {
          BOOST_TEST(s.ok(), s.status());
          return;
        }
      }
    };
    std::vector<TrainingReport> reports(static_cast<size_t>(workers));
    for (int w = 1; w < workers; ++w)
      others.push_back(std::async(std::launch::async, [&, w] { play(w, &reports[static_cast<size_t>(w)]); }));
    play(0, &report);
    for (auto& o : others) o.get();
    return report;
  }
  // What a server had is gone, as if its process had died and been started again.
  void LoseServer(int server) {
    for (const auto& d : cluster->impl()->devices) {
      if (d->name().find(StrCat("/job:ps/replica:0/task:", server)) != std::string::npos)
        d->shared_containers()->Clear("");
    }
  }
  const int workers;
  const std::shared_ptr<Runtime> cluster;
  int take = 0;
  int64_t steps = 10, save_steps = 4;
  bool sparse = false, brittle = false, async = false;
  std::string folder;
  std::function<absl::Status(int worker, int64_t step)> before_feeds;
  std::function<absl::Status(int64_t step)> before_update;
  std::mutex mu;
  std::map<int64_t, std::vector<double>> losses;  // by step; again after a restore
  std::vector<TrainingEvent> begins;
  std::vector<absl::Status> lost;
  std::string bits;
};

// What says that a worker's process has died: its loop ends, and All begins it anew.
absl::Status Died() { return ResourceExhausted("a test ends this worker"); }

// A run with that many workers in which nobody is lost.
std::pair<std::string, std::map<int64_t, std::vector<double>>> Undisturbed(int workers, bool brittle = false) {
  Run run(workers);
  run.brittle = brittle;
  run.All();
  return {run.bits, run.losses};
}
// Each step's losses are those, however often it was made.
void CheckLosses(const Run& run, const std::map<int64_t, std::vector<double>>& expected) {
  BOOST_TEST(run.losses.size() == expected.size());
  for (const auto& [step, losses] : run.losses) {
    for (const double loss : losses) BOOST_TEST(loss == expected.at(step).at(0), "step " << step);
  }
}

BOOST_AUTO_TEST_SUITE(train_together)

// Several replicas with a part of a batch each do what one does with all of it.
BOOST_AUTO_TEST_CASE(the_mean_of_several_gradients_is_that_of_one_batch) {
  for (const bool sparse : {false, true}) {
    constexpr int kWorkers = 3;
    Run run(kWorkers);
    run.sparse = sparse;
    run.All();
    Adam adam(0.1);
    const std::shared_ptr<Runtime> alone = NewCluster(1);
    const Model m(0, 0, adam, sparse);
    auto session = Session::Create({.runtime = alone}).value();
    REQUIRE_OK(session->Extend(*m.root.graph()));
    REQUIRE_OK(session->Run({}, {}, {m.init}, nullptr));
    for (int64_t step = 0; step < run.steps; ++step) {
      const Tensor x = sparse ? Ids(step, 0, kWorkers * kRows) : Batch(step, 0, kWorkers * kRows);
      std::vector<Tensor> out;
      REQUIRE_OK(session->Run({{m.x, x}}, {m.loss}, {m.update}, &out));
      BOOST_TEST(std::abs(run.losses.at(step + 1).at(0) - static_cast<double>(out[0].scalar<float>())) < 1e-6,
                 "step " << step);
    }
    const std::string bits = Bits(*session, m.root);
    BOOST_REQUIRE(bits.size() == run.bits.size());
    const size_t w = m.w.variable_shape().num_elements();
    for (size_t i = 0; i < w; ++i) {
      float a, b;
      std::memcpy(&a, bits.data() + 4 * i, 4);
      std::memcpy(&b, run.bits.data() + 4 * i, 4);
      BOOST_TEST(std::abs(a - b) < 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_added_in_the_order_of_the_workers) {
  const auto [bits, losses] = Undisturbed(3);
  // Whoever is slow.
  for (const int slow : {0, 1, 2}) {
    Run run(3);
    run.before_feeds = [slow](int worker, int64_t) {
      if (worker == slow) std::this_thread::sleep_for(3ms);
      return absl::OkStatus();
    };
    run.All();
    BOOST_TEST((run.bits == bits));
    CheckLosses(run, losses);
  }
}

BOOST_AUTO_TEST_CASE(a_worker_that_begins_anew_costs_nothing) {
  const auto [bits, losses] = Undisturbed(2);
  Run run(2);
  std::atomic<int> deaths{2};
  run.before_feeds = [&](int worker, int64_t step) {
    return worker == 1 && step >= 3 && deaths-- > 0 ? Died() : absl::OkStatus();
  };
  const TrainingReport report = run.All();
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_TEST(report.restarts == 2);
  BOOST_TEST(report.lost_updates == 0);
}

BOOST_AUTO_TEST_CASE(a_chief_that_begins_anew_asks_the_servers_and_restores_nothing) {
  const auto [bits, losses] = Undisturbed(2);
  Run run(2);
  run.folder = "mem://together_chief";
  std::atomic<int> deaths{2};
  run.before_update = [&](int64_t step) { return step >= 5 && deaths-- > 0 ? Died() : absl::OkStatus(); };
  run.All();
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_REQUIRE(run.begins.size() == 3u);
  BOOST_TEST(run.begins[0].from == TrainingEvent::kStart);
  for (const int i : {1, 2}) {
    BOOST_TEST(run.begins[static_cast<size_t>(i)].from == TrainingEvent::kServers);
    BOOST_TEST(run.begins[static_cast<size_t>(i)].step == 5);  // and not that of the checkpoint, 4
  }
}

// After one of two variables was updated.
BOOST_AUTO_TEST_CASE(an_update_that_breaks_off_is_taken_back_and_made_again) {
  failing_updates = 0;
  const auto [bits, losses] = Undisturbed(2, /*brittle=*/true);
  Run run(2);
  run.brittle = true;
  failing_updates = 6;
  const TrainingReport report = run.All();
  BOOST_TEST(failing_updates == 0);
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_TEST(report.recoveries == 1);
  BOOST_TEST(report.lost_updates == 0);
  BOOST_TEST(run.lost.size() == 1u);
}

BOOST_AUTO_TEST_CASE(after_the_loss_of_a_server_all_go_back_to_the_same_checkpoint) {
  const auto [bits, losses] = Undisturbed(2);
  for (const int server : {0, 1}) {
    Run run(2);
    run.folder = StrCat("mem://together_server_", server);
    std::atomic<int> deaths{1};
    run.before_update = [&](int64_t step) {
      if (step == 6 && deaths-- > 0) run.LoseServer(server);
      return absl::OkStatus();
    };
    const TrainingReport report = run.All();
    BOOST_TEST((run.bits == bits), "server " << server);
    CheckLosses(run, losses);
    BOOST_REQUIRE(run.begins.size() == 2u);
    BOOST_TEST(run.begins[1].from == TrainingEvent::kCheckpoint);
    BOOST_TEST(run.begins[1].step == 4);
    BOOST_TEST(run.begins[1].lost_updates == 2);
    BOOST_TEST(report.lost_updates == 2);
    BOOST_TEST(run.losses.at(5).size() == 2u);
    BOOST_TEST(run.losses.at(4).size() == 1u);
  }
}

// All wait for tokens, but one, which dies: nobody else touches the server that was lost.
BOOST_AUTO_TEST_CASE(the_loss_of_a_server_is_found_by_the_worker_that_begins_anew) {
  const auto [bits, losses] = Undisturbed(2);
  Run run(2);
  run.folder = "mem://together_found";
  std::atomic<int> deaths{1};
  run.before_feeds = [&](int worker, int64_t step) {
    if (worker != 1 || step != 6 || deaths-- <= 0) return absl::OkStatus();
    std::this_thread::sleep_for(50ms);
    run.LoseServer(1);
    return Died();
  };
  run.All();
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_TEST(run.begins.back().from == TrainingEvent::kCheckpoint);
}

BOOST_AUTO_TEST_CASE(without_a_folder_all_begin_anew) {
  const auto [bits, losses] = Undisturbed(2);
  Run run(2);
  std::atomic<int> deaths{1};
  run.before_update = [&](int64_t step) {
    if (step == 6 && deaths-- > 0) run.LoseServer(1);
    return absl::OkStatus();
  };
  const TrainingReport report = run.All();
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_TEST(run.begins.back().from == TrainingEvent::kStart);
  BOOST_TEST(report.lost_updates == 6);
}

BOOST_AUTO_TEST_CASE(of_backup_workers_the_first_are_taken_and_what_is_late_is_dropped) {
  for (const bool sparse : {false, true}) {
    Run run(3);
    run.take = 2;
    run.sparse = sparse;
    std::promise<void> go_on;
    const std::shared_future<void> told = go_on.get_future().share();
    std::atomic<int> waits{1};
    // Until five updates were made without it.
    run.before_feeds = [&](int worker, int64_t) {
      if (worker == 2 && waits-- > 0) told.wait();
      return absl::OkStatus();
    };
    run.before_update = [&](int64_t step) {
      if (step == 5) go_on.set_value();
      if (step > 5) std::this_thread::sleep_for(5ms);  // so that it is asked again before the end
      return absl::OkStatus();
    };
    const TrainingReport report = run.All();
    BOOST_TEST(report.dropped >= 1);
    BOOST_TEST(run.losses.size() == 10u);
    BOOST_TEST(run.losses.at(10)[0] < run.losses.at(1)[0]);
  }
}

BOOST_AUTO_TEST_CASE(who_comes_when_all_is_done_ends_at_once) {
  Run run(2);
  run.All();
  const auto late = run.Part(1);
  BOOST_TEST(late.ok(), late.status());
}

BOOST_AUTO_TEST_CASE(a_worker_that_does_not_come_is_named) {
  Run run(2);
  run.steps = 2;
  Adam adam(0.1);
  const Model m(0, 2, adam, false);
  TrainingOptions options;
  options.session.runtime = run.cluster;
  options.last_step = 2;
  options.give_up = 300ms;
  options.feeds = [&](int64_t step) -> absl::StatusOr<Feeds> { return Feeds{{m.x.name(), Batch(step, 0, kRows)}}; };
  const auto s = TrainTogether(m.root, *m.sync, options).status();
  BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  BOOST_TEST(s.message().find("no gradient of step 0 has come from these workers: 1") != std::string::npos, s);
}

BOOST_AUTO_TEST_CASE(asynchronous_workers_count_their_updates_and_lose_those_of_a_lost_server) {
  for (const int server : {0, 1}) {
    Run run(2);
    run.async = true;
    run.steps = 60;
    run.save_steps = 1000;  // only that of step 0
    run.folder = StrCat("mem://apart_", server);
    std::atomic<int64_t> lost_at{-1};
    run.before_feeds = [&](int worker, int64_t step) {
      if (worker == 0 && step >= 22 && lost_at == -1) {
        lost_at = step;
        run.LoseServer(server);
      }
      // Or the other one would have made all updates before the chief comes to its first.
      if (worker == 1 && step >= 30) {
        for (int i = 0; i < 10000 && lost_at == -1; ++i) std::this_thread::sleep_for(1ms);
      }
      return absl::OkStatus();
    };
    const TrainingReport report = run.All();
    BOOST_TEST(report.step >= 60);
    BOOST_REQUIRE(run.begins.size() >= 2u);
    const TrainingEvent& again = run.begins.back();
    BOOST_TEST(again.from == TrainingEvent::kCheckpoint);
    // The other server has counted them all, among them those of the worker 1 that were under way.
    BOOST_TEST(report.lost_updates >= lost_at);
    BOOST_TEST(report.lost_updates <= lost_at + 2);
    // The global step stands on the first one.
    if (server == 0) BOOST_TEST(again.step == 0);
    if (server == 1) BOOST_TEST(again.step >= lost_at);
    BOOST_TEST(!run.bits.empty());
  }
}

// What a chief finds decides for each server; the servers of two variables, w and b.
BOOST_AUTO_TEST_CASE(what_is_done_with_each_server_follows_from_its_mark) {
  const auto cluster = NewCluster(1);
  Adam adam(0.1);
  const Model m(0, 1, adam, false);
  const ServerState& state = m.sync->state();
  ServerRecovery recovery(m.root, state, {.folder = "mem://together_marks"}, /*each_alone=*/false);
  auto session = Session::Create({.runtime = cluster, .share_variables = true}).value();
  REQUIRE_OK(session->Extend(*m.root.graph()));
  BOOST_TEST(!StepOfServers(*session, state)->has_value());
  BOOST_TEST((recovery.Begin(*session, 0)->from == TrainingEvent::kStart));
  BOOST_TEST(StepOfServers(*session, state)->value() == 0);
  BOOST_TEST(LatestCheckpoint("mem://together_marks").value() == "mem://together_marks/model.ckpt-0");
  BOOST_REQUIRE(state.servers().size() == 2u);
  const auto server_of = [&](const Variable& v) {
    return state.servers()[0].device == v.handle().node()->requested_device() ? 0u : 1u;
  };
  const size_t of_w = server_of(m.w), of_b = server_of(m.b);
  BOOST_REQUIRE(of_w != of_b);
  const Tensor b = session->Get(m.b).value(), w = session->Get(m.w).value();
  const Tensor other_b = Tensor::Vector<float>({5, 6});
  Tensor other_w(DType::kFloat, w.shape());
  std::fill_n(other_w.data<float>(), other_w.num_elements(), 9.0f);
  const auto first = [&](const Variable& v) { return session->Get(v)->data<float>()[0]; };
  // As in the middle of an update of step 0: what was changed is taken back.
  REQUIRE_OK(session->Set(m.b, other_b));
  ServerRecovery::Begun begun = recovery.Begin(*session, 0).value();
  BOOST_TEST((begun.from == TrainingEvent::kServers));
  BOOST_TEST(first(m.b) == b.data<float>()[0]);
  // As when it is done, and one server has not kept it: that is kept, and not taken back.
  REQUIRE_OK(session->Set(m.b, other_b));
  REQUIRE_OK(session->Set(m.w, other_w));
  REQUIRE_OK(session->Set(m.step, Tensor::Scalar(int64_t{1})));
  REQUIRE_OK(session->Run({}, {}, {state.servers()[of_w].keep}, nullptr));
  for (int i = 0; i < 2; ++i) {
    begun = recovery.Begin(*session, 0).value();
    BOOST_TEST((begun.from == TrainingEvent::kServers));
    BOOST_TEST(begun.step == 1);
    BOOST_TEST(first(m.b) == 5);
    BOOST_TEST(first(m.w) == 9);
  }
  // Marks that are of no one step: from the checkpoint. As when a server has none, or was being
  // restored.
  for (const int64_t mark : {int64_t{7}, int64_t{-1}}) {
    REQUIRE_OK(session->Set(state.servers()[of_b].mark, Tensor::Scalar(mark)));
    BOOST_TEST(StepOfServers(*session, state)->has_value() == (mark >= 0));
    begun = recovery.Begin(*session, 3).value();
    BOOST_TEST((begun.from == TrainingEvent::kCheckpoint));
    BOOST_TEST(begun.step == 0);
    BOOST_TEST(begun.lost_updates == std::max<int64_t>(3, mark));
    BOOST_TEST(first(m.b) == b.data<float>()[0]);
    BOOST_TEST(first(m.w) == w.data<float>()[0]);
  }
  // A server that began anew, and whose chief was lost before it had restored more than the mark.
  for (const auto& d : cluster->impl()->devices) {
    if (d->name().find("/job:ps") != std::string::npos) d->shared_containers()->Clear("");
  }
  REQUIRE_OK(session->Run({}, {}, {state.unmark()}, nullptr));
  BOOST_TEST(!StepOfServers(*session, state)->has_value());
  BOOST_TEST((recovery.Begin(*session, 0)->from == TrainingEvent::kCheckpoint));
  BOOST_TEST(first(m.w) == w.data<float>()[0]);
}

BOOST_AUTO_TEST_CASE(a_saver_whose_nodes_save_takes_variables_alone) {
  const Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), 1.0f);
  Saver saver(root, {.session_state = false, .by_nodes = true});
  Saver wrong(root, {.by_nodes = true});
  const Operation init = GlobalVariablesInitializer(root);
  auto session = Session::Create().value();
  REQUIRE_OK(session->Extend(*root.graph()));
  REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  BOOST_TEST(absl::IsInvalidArgument(wrong.Save(*session, "mem://by_nodes/m").status()));
  SaveOptions more;
  more.extra = {{"x", Tensor::Scalar(1.0f)}};
  BOOST_TEST(absl::IsInvalidArgument(saver.Save(*session, "mem://by_nodes/m", more).status()));
  const auto path = saver.Save(*session, "mem://by_nodes/m", 3);
  BOOST_TEST((path.ok() && *path == "mem://by_nodes/m-3"), path.status());
  BOOST_TEST(LatestCheckpoint("mem://by_nodes").value() == *path);
  REQUIRE_OK(session->Set(v, Tensor::Scalar(2.0f)));
  REQUIRE_OK(saver.Restore(*session, *path));
  BOOST_TEST(session->Get(v)->scalar<float>() == 1);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_built_is_told) {
  const auto told = [](const SyncReplicasOptions& options, bool no_gradients) {
    const Scope root = Scope::NewRootScope();
    const Variable w(root.WithOpName("w"), 1.0f);
    const Output loss = ops::Square(root, w);
    GradientDescent descent(0.1f);
    auto grads = descent.ComputeGradients(root, loss);
    if (no_gradients) grads.clear();
    const SyncReplicas sync(root, descent, grads, loss, GetOrCreateGlobalStep(root), options);
    return std::string(root.status().message());
  };
  BOOST_TEST(told({.workers = 0}, false).find("worker 0 of 0") != std::string::npos);
  BOOST_TEST(told({.workers = 2, .worker = 2}, false).find("worker 2 of 2") != std::string::npos);
  BOOST_TEST(told({.workers = 2, .take = 3}, false).find("of which 3 are taken") != std::string::npos);
  BOOST_TEST(told({.workers = 2}, true).find("no gradients") != std::string::npos);
  BOOST_TEST(told({.workers = 2}, false) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
