// Training that cannot go on ends: errors of the user's functions at once, whatever they are, and
// what hangs, or fails again and again, after TrainingOptions.give_up.
#include <boost/test/unit_test.hpp>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/monitored/training_runs.h"
#include "troupe/queues.h"
#include "troupe/train/train_mirrored.h"

namespace troupe {
namespace give_up_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

BOOST_AUTO_TEST_SUITE(give_up)

enum class Mode { kSync, kElastic, kApart, kMirrored };
constexpr Mode kModes[] = {Mode::kSync, Mode::kElastic, Mode::kApart, Mode::kMirrored};
enum class Wrong {
  kNothing,
  kHangs,  // the tower waits for what nobody gives
  kFails,  // the tower reads a variable that nobody sets
};

// One worker, or replica, that trains w by its square.
struct One {
  One(Mode mode, Wrong wrong) : mode(mode), cluster(NewCluster(1)), descent(0.1f) {
    const Scope on = root.WithDevice("/job:worker/task:0");
    const Variable step = GetOrCreateGlobalStep(on);
    const auto tower = [&](const Scope& here, int) {
      const Variable w(here.WithOpName("w"), 1.0f);
      Output loss = ops::Square(here, w);
      QueueOptions empty;
      empty.shapes = {TensorShape()};
      if (wrong == Wrong::kHangs)
        loss = ops::Add(here, loss, Queue::Fifo(here, {DType::kFloat}, empty).Dequeue(here).at(0));
      if (wrong == Wrong::kFails) {
        VariableOptions nobodys{.trainable = false, .collections = {}};
        loss = ops::Add(here, loss, Variable(here.WithOpName("unset"), 1.0f, nobodys).Read(here));
      }
      return loss;
    };
    if (mode == Mode::kMirrored) {
      const auto optimizer = [](const Scope&) { return std::make_unique<GradientDescent>(0.1f); };
      const InGraphReplicas replicas(on, tower, optimizer, step, {.devices = {"/job:worker/task:0"}});
      mirrored.emplace(on, replicas, step, MirroredOptions{.others_follow = false});
    } else {
      const Output loss = tower(on, 0);
      const auto grads = descent.ComputeGradients(on, loss);
      if (mode == Mode::kApart) {
        apart.emplace(on, descent, grads, loss, step, AsyncReplicasOptions{.workers = 1});
      } else {
        sync.emplace(on, descent, grads, loss, step,
                     SyncReplicasOptions{.workers = 1, .parts = mode == Mode::kElastic ? 2 : 0});
      }
    }
    REQUIRE_OK(root.status());
    options.session.runtime = cluster;
    options.last_step = 5;
    options.give_up = 400ms;
    options.part_feeds = [](int64_t, int) { return Feeds(); };
    options.on_event = [this](const TrainingEvent& e) { told += e.kind == TrainingEvent::kLost; };
  }
  absl::Status Train() {
    if (mirrored) return TrainMirrored(root, *mirrored, 0, options).status();
    return apart ? TrainApart(root, *apart, options).status() : TrainTogether(root, *sync, options).status();
  }
  const Mode mode;
  const std::shared_ptr<Runtime> cluster;
  GradientDescent descent;
  Scope root = Scope::NewRootScope();
  std::optional<SyncReplicas> sync;
  std::optional<AsyncReplicas> apart;
  std::optional<MirroredTraining> mirrored;
  TrainingOptions options;
  std::atomic<int> told{0};
};

// It is a fault of the program, and no lost process, also where it has that code.
BOOST_AUTO_TEST_CASE(an_error_of_feeds_ends_training_whatever_it_is) {
  for (const Mode mode : kModes) {
    for (const bool update : {false, true}) {
      for (const absl::Status& error :
           {absl::FailedPreconditionError("no images"), absl::UnavailableError("no disk")}) {
        One one(mode, Wrong::kNothing);
        one.options.give_up = 60s;
        std::atomic<int> asked{0};
        const auto fail = [&](int64_t) -> absl::StatusOr<Feeds> {
          ++asked;
          return error;
        };
        if (update) {
          one.options.update_feeds = fail;
        } else {
          one.options.feeds = fail;
          one.options.part_feeds = [&](int64_t s, int) { return fail(s); };
        }
        const absl::Status s = one.Train();
        BOOST_TEST((s.code() == error.code()), "mode " << static_cast<int>(mode) << ": " << s);
        BOOST_TEST(s.message().find(error.message()) != std::string::npos, s);
        BOOST_TEST(asked == 1);
        BOOST_TEST(one.told == 0);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_hangs_is_given_up) {
  for (const Mode mode : kModes) {
    One one(mode, Wrong::kHangs);
    const Clock::time_point start = Clock::now();
    const absl::Status s = one.Train();
    BOOST_TEST(absl::IsDeadlineExceeded(s), "mode " << static_cast<int>(mode) << ": " << s);
    BOOST_TEST((Clock::now() - start >= 400ms));
    BOOST_TEST((Clock::now() - start < 30s));
  }
}

BOOST_AUTO_TEST_CASE(a_step_that_always_fails_is_given_up_with_its_error) {
  for (const Mode mode : kModes) {
    One one(mode, Wrong::kFails);
    one.options.give_up = 1200ms;  // in half of which a try ends on a busy machine, too
    const absl::Status s = one.Train();
    BOOST_TEST(absl::IsFailedPrecondition(s), "mode " << static_cast<int>(mode) << ": " << s);
    BOOST_TEST(s.message().find("'unset'") != std::string::npos, s);
    // The pauses grow. Of a worker beside its chief nobody is told, who goes on.
    BOOST_TEST(one.told >= (one.sync ? 0 : 1));
    BOOST_TEST(one.told < 60);
  }
}

// What failed before is no reason where the worker has had a step to do since, and does not end it.
BOOST_AUTO_TEST_CASE(an_error_of_before_is_not_what_a_step_that_hangs_ends_with) {
  for (const Mode mode : {Mode::kSync, Mode::kElastic}) {
    One one(mode, Wrong::kFails);
    one.options.give_up = 2s;
    std::atomic<int> asked{0};
    const auto hang = [&](int64_t) -> absl::StatusOr<Feeds> {
      if (++asked > 1) std::this_thread::sleep_for(4s);
      return Feeds();
    };
    one.options.feeds = hang;
    one.options.part_feeds = [&](int64_t s, int) { return hang(s); };
    const absl::Status s = one.Train();
    BOOST_TEST(absl::IsDeadlineExceeded(s), "mode " << static_cast<int>(mode) << ": " << s);
    BOOST_TEST(s.message().find("no gradient of step 0 has come") != std::string::npos, s);
    BOOST_TEST(asked == 2);
  }
}

// Each life leaves hellos in the queue, which is full one day.
BOOST_AUTO_TEST_CASE(a_worker_gives_up_also_where_the_queue_of_notices_is_full) {
  const std::shared_ptr<Runtime> cluster = NewCluster(2);
  for (int life = 0; life < 40; ++life) {
    Adam adam(0.1);
    const Model m(1, 2, adam, false);
    TrainingOptions options;
    options.session.runtime = cluster;
    options.last_step = 5;
    options.give_up = 50ms;
    options.feeds = [](int64_t) { return Feeds(); };
    auto ended = std::async(std::launch::async, [&] { return TrainTogether(m.root, *m.sync, options).status(); });
    BOOST_REQUIRE_MESSAGE((ended.wait_for(20s) == std::future_status::ready), "life " << life);
    const absl::Status s = ended.get();
    BOOST_TEST(absl::IsDeadlineExceeded(s), s);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace give_up_test
}  // namespace troupe
