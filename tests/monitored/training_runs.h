// Runs of several workers, whose tasks, and those of the parameter servers, are all of one runtime:
// each worker is a thread with a graph and sessions of its own.
//
// Thread rule: a Run is made and looked at by one thread; its workers are its own.
#ifndef TROUPE_TESTS_MONITORED_TRAINING_RUNS_H_
#define TROUPE_TESTS_MONITORED_TRAINING_RUNS_H_

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/runtime/runtime_impl.h"
#include "tests/common/check_ok.h"
#include "troupe/resource_container.h"
#include "troupe/train/adam.h"
#include "troupe/train/global_step.h"
#include "troupe/train/replica_devices.h"
#include "troupe/train/train_together.h"
#include "troupe/troupe.h"

namespace troupe {

using namespace train;  // NOLINT

constexpr int kServers = 2, kRows = 8, kIn = 3, kOut = 2;

inline std::shared_ptr<Runtime> NewCluster(int workers) {
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
inline float Noise(int64_t step, int64_t row, int64_t column) {
  const int64_t x = (step * 7919 + row * 104729 + column * 1299709 + 17) % 1000;
  return static_cast<float>(x) / 500.0f - 1.0f;
}
// `rows` rows from `first` on.
inline Tensor Batch(int64_t step, int64_t first, int64_t rows) {
  Tensor t(DType::kFloat, TensorShape({rows, kIn}));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kIn; ++c) t.data<float>()[r * kIn + c] = Noise(step, first + r, c);
  }
  return t;
}
inline Tensor Ids(int64_t step, int64_t first, int64_t rows) {
  Tensor t(DType::kInt32, TensorShape({rows}));
  for (int64_t r = 0; r < rows; ++r) t.data<int32_t>()[r] = static_cast<int32_t>((step * 5 + (first + r) * 3) % 6);
  return t;
}

// The update with this number from now on fails in its middle, at the op TogetherMayFail; 0: none
// (train_together_test.cc).
extern std::atomic<int> failing_updates;

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
  Model(int worker, int workers, Optimizer& optimizer, bool sparse, int take = 0, bool async = false, int parts = 0,
        bool live_replicas = false, bool many = false) {
    const Scope on = root.WithDeviceFunction(
        ReplicaDevices({.ps_tasks = kServers, .worker_device = StrCat("/job:worker/task:", worker)}));
    w = Variable(on.WithOpName("w"),
                 init::TruncatedNormal(0.0, 0.5, 7)(on, TensorShape({sparse ? 6 : kIn, kOut}), DType::kFloat));
    b = Variable(on.WithOpName("b"), Tensor::Vector<float>({0.1f, -0.2f}));
    x = ops::Placeholder(on, sparse ? DType::kInt32 : DType::kFloat);
    Output y = sparse ? ops::GatherV2(on, w, x, 0) : ops::MatMul(on, x, w);
    // A row of small variables on each server, one of more bytes than travel together, and one of
    // another type.
    Output more;
    if (many) {
      const auto variable = [&](const char* name, const TensorShape& shape, DType dtype) {
        return Variable(on.WithOpName(name), init::TruncatedNormal(0.0, 0.1, 11)(on, shape, dtype));
      };
      const Variable d = variable("d", {kOut, kOut}, DType::kFloat), c = variable("c", TensorShape(), DType::kFloat),
                     e = variable("e", {kOut}, DType::kFloat), f = variable("f", {1, kOut}, DType::kDouble),
                     large = variable("large", {200, 100}, DType::kFloat);
      more = ops::Add(on, ops::Mul(on, e, c), ops::Cast(on, f, DType::kFloat));
      more = ops::Add(on, more, ops::Mean(on, ops::Square(on, large), Tensor::Vector<int32_t>({0, 1})));
      y = ops::MatMul(on, y, d);
    }
    if (more.valid()) y = ops::Add(on, y, more);
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
      sync.emplace(
          on, optimizer, grads, loss, step,
          SyncReplicasOptions{
              .workers = workers, .worker = worker, .take = take, .parts = parts, .live_replicas = live_replicas});
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
inline std::string Bits(Session& session, const Scope& root) {
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
    const Model m(worker, workers, *optimizer, sparse, take, async, parts, live_replicas, many);
    TrainingOptions options;
    options.session.runtime = cluster;
    options.last_step = steps;
    options.checkpoints = {.folder = folder, .every_steps = save_steps};
    options.give_up = give_up;
    // Of a worker, or of a part.
    const auto feeds = [&, worker](int64_t step, int part) -> absl::StatusOr<Feeds> {
      if (before_feeds) {
        const absl::Status s = before_feeds(worker, step);
        if (!s.ok()) return s;
      }
      return Feeds{{m.x.name(), sparse ? Ids(step, part * kRows, kRows) : Batch(step, part * kRows, kRows)}};
    };
    if (parts == 0) options.feeds = [&](int64_t step) { return feeds(step, worker); };
    if (parts > 0) options.part_feeds = feeds;
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
      if (before_end) before_end(m, session);
      return at_end ? at_end() : absl::OkStatus();
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
  int take = 0, parts = 0;
  int64_t steps = 10, save_steps = 4;
  std::chrono::milliseconds give_up{60'000};
  bool sparse = false, brittle = false, async = false, live_replicas = false, many = false;
  std::string folder;
  std::function<absl::Status(int worker, int64_t step)> before_feeds;
  std::function<absl::Status(int64_t step)> before_update;
  std::function<void(const Model& chief, Session& session)> before_end;
  std::function<absl::Status()> at_end;
  std::mutex mu;
  std::map<int64_t, std::vector<double>> losses;  // by step; again after a restore
  std::vector<TrainingEvent> begins;
  std::vector<absl::Status> lost;
  std::string bits;
};

// What says that a worker's process has died: its loop ends, and All begins it anew.
inline absl::Status Died() { return ResourceExhausted("a test ends this worker"); }

// A run with that many workers in which nobody is lost.
inline std::pair<std::string, std::map<int64_t, std::vector<double>>> Undisturbed(int workers, bool brittle = false) {
  Run run(workers);
  run.brittle = brittle;
  run.All();
  return {run.bits, run.losses};
}
// Each step's losses are those, however often it was made.
inline void CheckLosses(const Run& run, const std::map<int64_t, std::vector<double>>& expected) {
  BOOST_TEST(run.losses.size() == expected.size());
  for (const auto& [step, losses] : run.losses) {
    for (const double loss : losses) BOOST_TEST(loss == expected.at(step).at(0), "step " << step);
  }
}

}  // namespace troupe

#endif  // TROUPE_TESTS_MONITORED_TRAINING_RUNS_H_
