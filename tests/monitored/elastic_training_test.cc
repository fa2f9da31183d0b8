// Workers that come and go while they train together: each example is used exactly once in an
// epoch, and losses and variables are those of any other run with as many parts.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <set>
#include <thread>

#include "tests/monitored/training_runs.h"
#include "troupe/train/epoch_order.h"
#include "troupe/train/gradient_descent.h"

namespace troupe {
namespace elastic_training_test {

using namespace std::chrono_literals;

constexpr int kSeats = 4, kParts = 4, kBatch = 2, kExamples = 30;
// Eight epochs, which end in the middle of a step but for the last one.
constexpr int64_t kSteps = 30, kEpochs = kSteps * kParts * kBatch / kExamples;

// A model whose variables count: each use of an example takes one from its element of `used`, and
// each example that any gradient was computed of takes one from `total`.
struct Counting {
  explicit Counting(int worker) : descent(static_cast<float>(kParts)) {
    const Scope on = root.WithDeviceFunction(
        ReplicaDevices({.ps_tasks = kServers, .worker_device = StrCat("/job:worker/task:", worker)}));
    Tensor zeros(DType::kFloat, TensorShape({kExamples}));
    std::fill_n(zeros.data<float>(), kExamples, 0.0f);
    used = Variable(on.WithOpName("used"), zeros);
    total = Variable(on.WithOpName("total"), 0.0f);
    ids = ops::Placeholder(on, DType::kInt32, {.shape = PartialTensorShape({kBatch})});
    const Output of_ids = ops::Sum(on, ops::GatherV2(on, used, ids, 0), Tensor::Vector<int32_t>({0}));
    const Output loss = ops::Add(on, of_ids, ops::Mul(on, total, static_cast<float>(kBatch)));
    const Variable step = GetOrCreateGlobalStep(on);
    sync.emplace(on, descent, descent.ComputeGradients(on, loss), loss, step,
                 SyncReplicasOptions{.workers = kSeats, .worker = worker, .parts = kParts});
    REQUIRE_OK(root.status());
  }
  Scope root = Scope::NewRootScope();
  GradientDescent descent;
  Variable used, total;
  Output ids;
  std::optional<SyncReplicas> sync;
};

// A run whose workers are started, told to leave, and end in the middle, as a test wants it.
struct Cast {
  using Kind = TrainingEvent::Kind;
  absl::StatusOr<TrainingReport> Part(int worker) {
    const Counting m(worker);
    EpochOrder order(kExamples, /*seed=*/5);
    TrainingOptions options;
    options.session.runtime = cluster;
    options.last_step = kSteps;
    options.checkpoints = {.folder = folder, .every_steps = 4};
    options.give_up = 60s;
    options.part_feeds = [&](int64_t step, int part) -> absl::StatusOr<Feeds> {
      if (before_part) TROUPE_RETURN_IF_ERROR(before_part(worker, step));
      Tensor ids(DType::kInt32, TensorShape({kBatch}));
      for (int i = 0; i < kBatch; ++i)
        ids.data<int32_t>()[i] = static_cast<int32_t>(order.At((step * kParts + part) * kBatch + i));
      ++computed[static_cast<size_t>(worker)];
      return Feeds{{m.ids.name(), ids}};
    };
    options.update_feeds = [&](int64_t step) -> absl::StatusOr<Feeds> {
      if (before_update) TROUPE_RETURN_IF_ERROR(before_update(step));
      return Feeds();
    };
    options.is_there = [&](int w) { return there[static_cast<size_t>(w)].load(); };
    options.leaves = [&, worker] { return leaves[static_cast<size_t>(worker)].load(); };
    options.on_event = [&](const TrainingEvent& e) {
      std::lock_guard<std::mutex> lock(mu);
      if (e.kind == TrainingEvent::kLost) lost.push_back(e.why);
      if (e.kind >= TrainingEvent::kJoined) ++changes[{e.kind, e.worker}];
    };
    options.at_end = [&](Session& session) {
      used = session.Get(m.used).value();
      total = session.Get(m.total)->scalar<float>();
      return absl::OkStatus();
    };
    return TrainTogether(m.root, *m.sync, options);
  }
  void Start(int worker) {
    const auto w = static_cast<size_t>(worker);
    if (running[w].valid()) ended[w].push_back(running[w].get());
    there[w] = true;
    leaves[w] = false;
    running[w] = std::async(std::launch::async, [this, worker] { return Part(worker); });
  }
  // The chief, begun anew while it fails with Died; and the others.
  TrainingReport All() {
    there[0] = true;
    auto led = Part(0);
    for (int i = 0; i < 3 && absl::IsResourceExhausted(led.status()); ++i) led = Part(0);
    BOOST_TEST(led.ok(), led.status());
    for (size_t w = 1; w < kSeats; ++w) {
      if (running[w].valid()) ended[w].push_back(running[w].get());
    }
    return led.ok() ? *led : TrainingReport();
  }
  // How often it was so.
  int Count(Kind kind, int worker) {
    std::lock_guard<std::mutex> lock(mu);
    return changes[{kind, worker}];
  }
  void Await(Kind kind, int worker, int times = 1) {
    for (int i = 0; i < 20000 && Count(kind, worker) < times; ++i) std::this_thread::sleep_for(1ms);
    BOOST_TEST(Count(kind, worker) >= times, "worker " << worker);
  }
  void CheckUses() {
    BOOST_REQUIRE(used.valid());
    for (int i = 0; i < kExamples; ++i)
      BOOST_TEST(used.data<float>()[i] == -static_cast<float>(kEpochs), "example " << i);
    BOOST_TEST(total == -static_cast<float>(kEpochs * kExamples));
  }

  const std::shared_ptr<Runtime> cluster = NewCluster(kSeats);
  std::string folder;
  std::function<absl::Status(int worker, int64_t step)> before_part;
  std::function<absl::Status(int64_t step)> before_update;
  std::atomic<bool> there[kSeats] = {}, leaves[kSeats] = {};
  std::atomic<int> computed[kSeats] = {};
  std::future<absl::StatusOr<TrainingReport>> running[kSeats];
  std::vector<absl::StatusOr<TrainingReport>> ended[kSeats];
  std::mutex mu;
  std::map<std::pair<Kind, int>, int> changes;
  std::vector<absl::Status> lost;
  Tensor used;
  float total = 0;
};

BOOST_AUTO_TEST_SUITE(elastic_training)

BOOST_AUTO_TEST_CASE(each_example_is_used_once_in_an_epoch_while_workers_come_and_go) {
  Cast c;
  std::atomic<int> deaths{1};
  c.before_update = [&](int64_t step) {
    if (step == 3) {
      c.Start(1);
      c.Start(3);
    }
    if (step == 10) c.leaves[1] = true;
    if (step == 14) c.Start(2);
    if (step == 22) {
      c.Start(1);
      c.Start(2);
    }
    return absl::OkStatus();
  };
  c.before_part = [&](int worker, int64_t step) {
    // The step goes on without it.
    if (worker == 2 && step >= 18 && deaths-- > 0) {
      c.there[2] = false;
      return Died();
    }
    if (worker != 0) return absl::OkStatus();
    if (step == 5) c.Await(TrainingEvent::kJoined, 1);
    if (step == 5) c.Await(TrainingEvent::kJoined, 3);
    if (step == 12) c.Await(TrainingEvent::kLeft, 1);
    if (step == 16) c.Await(TrainingEvent::kJoined, 2);
    if (step == 20) c.Await(TrainingEvent::kGone, 2);
    if (step == 24) c.Await(TrainingEvent::kJoined, 1, 2);
    if (step == 24) c.Await(TrainingEvent::kJoined, 2, 2);
    return absl::OkStatus();
  };
  const TrainingReport report = c.All();
  c.CheckUses();
  BOOST_TEST(report.recoveries == 0);
  BOOST_TEST(report.restarts == 1);  // the worker 2; the worker 1 had left
  for (const int w : {1, 2, 3}) BOOST_TEST(c.computed[w] > 0, "worker " << w);
  BOOST_REQUIRE(c.ended[1].size() == 2u);
  BOOST_REQUIRE(c.ended[2].size() == 2u);
  BOOST_REQUIRE(c.ended[3].size() == 1u);
  BOOST_TEST((c.ended[1][0].ok() && c.ended[1][0]->left));
  BOOST_TEST(c.ended[1][0]->step < kSteps);
  BOOST_TEST((c.ended[1][1].ok() && !c.ended[1][1]->left));
  BOOST_TEST(absl::IsResourceExhausted(c.ended[2][0].status()));
  BOOST_TEST((c.ended[2][1].ok() && c.ended[3][0].ok()));
}

// It was taken for gone, and leaves its gradient in a place where by now there is that of another
// worker, for a later step.
BOOST_AUTO_TEST_CASE(what_a_worker_leaves_too_late_is_never_taken_for_a_gradient) {
  Cast c;
  std::promise<void> go_on;
  const std::shared_future<void> told = go_on.get_future().share();
  std::atomic<int> waits{1};
  c.before_part = [&](int worker, int64_t step) {
    if (worker == 0 && step == 3) c.Await(TrainingEvent::kJoined, 1);
    if (worker == 1 && step >= 4 && waits-- > 0) {
      c.there[1] = false;
      told.wait();
    }
    if (worker == 0 && step == 8) c.Await(TrainingEvent::kGone, 1);
    return absl::OkStatus();
  };
  std::atomic<bool> late{false};
  c.before_update = [&](int64_t step) {
    if (step == 2) c.Start(1);
    if (step == 10 && !late.exchange(true)) {
      c.leaves[1] = true;
      go_on.set_value();
      c.running[1].wait();
    }
    return absl::OkStatus();
  };
  const TrainingReport report = c.All();
  c.CheckUses();
  BOOST_TEST(report.recoveries == 1);
  BOOST_REQUIRE(c.lost.size() == 1u);
  BOOST_TEST(absl::IsAborted(c.lost[0]), c.lost[0]);
  BOOST_TEST(c.lost[0].message().find("has values of number") != std::string::npos, c.lost[0]);
  BOOST_TEST(report.lost_updates == 0);
}

// What it had would be waited for otherwise: its process is there.
BOOST_AUTO_TEST_CASE(a_worker_that_leaves_while_its_step_fails_says_so) {
  Cast c;
  c.before_part = [&](int worker, int64_t step) {
    if (worker == 0 && step == 3) c.Await(TrainingEvent::kJoined, 1);
    if (worker != 1) return absl::OkStatus();
    c.leaves[1] = true;
    std::this_thread::sleep_for(300ms);  // several looks
    return absl::Status(absl::StatusCode::kUnavailable, "its disk is gone");
  };
  c.before_update = [&](int64_t step) {
    if (step == 2) c.Start(1);
    return absl::OkStatus();
  };
  c.All();
  c.CheckUses();
  BOOST_TEST((c.changes[{TrainingEvent::kLeft, 1}] == 1));
  BOOST_TEST((c.ended[1].size() == 1u && c.ended[1][0].ok() && c.ended[1][0]->left));
}

BOOST_AUTO_TEST_CASE(after_the_loss_of_a_server_or_of_the_chief_each_example_still_counts_once) {
  Cast c;
  c.folder = "mem://elastic_counts";
  std::atomic<int> losses{1}, deaths{1};
  c.before_update = [&](int64_t step) {
    if (step == 1) c.Start(1);
    if (step == 6 && !c.running[2].valid()) c.Start(2);
    if (step == 10 && losses-- > 0) {
      for (const auto& d : c.cluster->impl()->devices) {
        if (d->name().find("/job:ps/replica:0/task:1") != std::string::npos) d->shared_containers()->Clear("");
      }
    }
    return step == 17 && deaths-- > 0 ? Died() : absl::OkStatus();
  };
  const TrainingReport report = c.All();
  c.CheckUses();
  BOOST_TEST(losses <= 0);
  BOOST_TEST(deaths <= 0);
  BOOST_TEST(!c.lost.empty());
  BOOST_TEST(report.step == kSteps);
}

// Two workers do what three do that each have their own part.
BOOST_AUTO_TEST_CASE(the_bits_are_those_of_any_workers_with_as_many_parts) {
  for (const bool sparse : {false, true}) {
    Run each(3), two(2), one(1);
    for (Run* run : {&each, &two, &one}) {
      run->sparse = sparse;
      if (run != &each) run->parts = 3;
      run->All();
    }
    for (const Run* run : {&two, &one}) {
      BOOST_TEST((run->bits == each.bits), "sparse " << sparse);
      CheckLosses(*run, each.losses);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_built_or_run_is_told) {
  const auto built = [](const SyncReplicasOptions& options) {
    const Scope root = Scope::NewRootScope();
    const Variable w(root.WithOpName("w"), 1.0f);
    const Output loss = ops::Square(root, w);
    GradientDescent descent(0.1f);
    const SyncReplicas sync(root, descent, descent.ComputeGradients(root, loss), loss, GetOrCreateGlobalStep(root),
                            options);
    if (!root.ok()) return root.status();
    TrainingOptions none;
    none.last_step = 1;
    return TrainTogether(root, sync, none).status();
  };
  BOOST_TEST(built({.workers = 2, .take = 1, .parts = 2}).message().find("2 parts of which 1 are taken") !=
             std::string::npos);
  BOOST_TEST(built({.parts = 1025}).message().find("at most 1024") != std::string::npos);
  BOOST_TEST(built({.parts = -1}).message().find("-1 parts") != std::string::npos);
  BOOST_TEST(built({.parts = 2}).message().find("needs TrainingOptions.part_feeds") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_epoch_has_each_example_once_in_an_order_of_its_own) {
  constexpr int64_t kN = 100;
  EpochOrder order(kN, 3), same(kN, 3), other(kN, 4);
  std::vector<std::vector<int64_t>> epochs(3);
  for (int64_t i = 0; i < 3 * kN; ++i) {
    BOOST_TEST(order.EpochOf(i) == i / kN);
    epochs[static_cast<size_t>(i / kN)].push_back(order.At(i));
  }
  for (const auto& epoch : epochs) BOOST_TEST(std::set<int64_t>(epoch.begin(), epoch.end()).size() == kN);
  BOOST_TEST(epochs[0] != epochs[1]);
  // Whatever was asked before.
  for (const int64_t i : {250, 7, 199, 0}) BOOST_TEST(same.At(i) == epochs[static_cast<size_t>(i / kN)][i % kN]);
  int64_t equal = 0;
  for (int64_t i = 0; i < kN; ++i) equal += other.At(i) == epochs[0][static_cast<size_t>(i)];
  BOOST_TEST(equal < 20);
  BOOST_TEST(other.At(-1) == other.At(0));
  BOOST_TEST(EpochOrder(0, 1).At(17) == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace elastic_training_test
}  // namespace troupe
