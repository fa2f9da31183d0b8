// Synchronous and asynchronous training by several workers in one process (training_runs.h).
#include <boost/test/unit_test.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/checkpoint/held_files.h"
#include "tests/monitored/training_runs.h"
#include "troupe/files.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/queues.h"
#include "troupe/shape_inference.h"
#include "troupe/train/gradient_descent.h"

namespace troupe {

std::atomic<int> failing_updates{0};

namespace train_together_test {

using namespace std::chrono_literals;

std::atomic<absl::StatusCode> failing_with{absl::StatusCode::kUnavailable};

TROUPE_OP("TogetherMayFail")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's op")
    .Doc("Fails as a test wants it to.");
absl::Status MayFail(KernelContext& ctx) {
  if (failing_updates > 0 && failing_updates-- == 1) return absl::Status(failing_with, "a test's failure");
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("TogetherMayFail").Device("CPU").Function<MayFail>();

BOOST_AUTO_TEST_SUITE(train_together)

// Several replicas with a part of a batch each do what one does with all of it.
BOOST_AUTO_TEST_CASE(the_mean_of_several_gradients_is_that_of_one_batch) {
  struct Case {
    bool sparse, many;
    int parts;
  };
  for (const auto& [sparse, many, parts] :
       {Case{false, false, 0}, {true, false, 0}, {false, true, 0}, {false, true, 3}, {true, true, 0}}) {
    BOOST_TEST_CONTEXT("sparse " << sparse << ", many variables " << many << ", parts " << parts) {
      constexpr int kWorkers = 3;
      Run run(kWorkers);
      run.sparse = sparse;
      run.many = many;
      run.parts = parts;
      run.All();
      Adam adam(0.1);
      const std::shared_ptr<Runtime> alone = NewCluster(1);
      const Model m(0, 0, adam, sparse, 0, false, 0, false, many);
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
}

// A worker other than the chief's waits 2.5 s for a token and its values, and then for one alone.
BOOST_AUTO_TEST_CASE(a_worker_that_has_waited_in_vain_waits_again) {
  const auto [bits, losses] = Undisturbed(2);
  Run run(2);
  run.before_update = [](int64_t step) {
    if (step == 3) std::this_thread::sleep_for(2800ms);
    return absl::OkStatus();
  };
  const TrainingReport report = run.All();
  BOOST_TEST((run.bits == bits));
  CheckLosses(run, losses);
  BOOST_TEST(report.lost_updates == 0);
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

// A run of two workers, of one of which a thief takes the token of the end; or tries to.
bool EndIsStolen(int robbed) {
  Run run(2);
  run.steps = 3;
  Adam adam(0.1);
  const Model thiefs(robbed, 2, adam, false);
  const auto thief = Session::Create({.runtime = run.cluster, .share_variables = true}).value();
  REQUIRE_OK(thief->Extend(*thiefs.root.graph()));
  std::future<bool> stolen;
  run.before_end = [&](const Model& chief, Session& session) {
    stolen = std::async(std::launch::async, [&] {
      for (int64_t what = SyncReplicas::kLook; what == SyncReplicas::kLook;) {
        RunOptions at_most;
        at_most.timeout_ms = 5000;
        std::vector<Tensor> out;
        if (!thief->Run(at_most, {}, {thiefs.sync->token().name()}, {}, &out, nullptr).ok()) return false;
        what = out[0].data<int64_t>()[1];
        if (what == SyncReplicas::kTheEnd) return true;
      }
      return false;
    });
    // It waits behind the worker, which is woken for nothing, and then before it.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Feeds feeds;
    for (int w = 0; w < 2; ++w) {
      Tensor rows(DType::kInt64, TensorShape({w == robbed ? 1 : 0, SyncReplicas::kTokenWords}));
      std::fill_n(rows.data<int64_t>(), rows.num_elements(), 0);
      if (w == robbed) rows.data<int64_t>()[1] = SyncReplicas::kLook;
      feeds.emplace_back(chief.sync->hands()[static_cast<size_t>(w)].name(), std::move(rows));
    }
    REQUIRE_OK(session.Run(feeds, {}, {chief.sync->hand_out()}, nullptr));
  };
  run.All();
  return stolen.valid() && stolen.get();
}

// As when the step that waits for it was cut off just then. The chief's own worker, whose chief is
// a thread beside it, and another one.
BOOST_AUTO_TEST_CASE(the_end_is_heard_although_its_token_is_lost) {
  for (const int robbed : {0, 1}) {
    // Whether the thief comes before the worker depends on the two threads.
    bool stolen = false;
    for (int tries = 0; tries < 10 && !stolen; ++tries) stolen = EndIsStolen(robbed);
    BOOST_TEST(stolen);
  }
}

// Files in memory that cannot be written from some time on.
class GoneFiles : public HeldFiles {
 public:
  explicit GoneFiles(const std::atomic<bool>* gone) : HeldFiles([](auto, const std::string&) {}), gone_(*gone) {}
  absl::StatusOr<std::unique_ptr<files::WritableFile>> OpenToWrite(const std::string& path,
                                                                   files::WriteMode mode) override {
    if (gone_) {
      std::this_thread::sleep_for(400ms);
      return Unavailable("the store is out of reach");
    }
    return HeldFiles::OpenToWrite(path, mode);
  }

 private:
  const std::atomic<bool>& gone_;
};

// All servers have all that they need, each time that the chief begins again. The store takes its
// time before it says no.
BOOST_AUTO_TEST_CASE(a_last_checkpoint_that_cannot_be_written_is_given_up) {
  static std::atomic<bool> gone{false};  // file systems stay registered
  REQUIRE_OK(files::RegisterFileSystem("gone", std::make_shared<GoneFiles>(&gone)));
  Run run(1);
  run.folder = "gone://run";
  run.give_up = 500ms;
  run.before_update = [&](int64_t step) {
    gone = step + 1 == run.steps;
    return absl::OkStatus();
  };
  const absl::Status s = run.Part(0).status();
  BOOST_TEST(absl::IsUnavailable(s), s);
  BOOST_TEST(s.message().find("out of reach") != std::string::npos, s);
  BOOST_TEST(run.losses.size() == 10u);
  // The time of the first save does not count, that of the next ones does.
  BOOST_TEST(run.lost.size() >= 1u);
  BOOST_TEST(run.lost.size() <= 3u);
}

// What is lost says so, whatever it has cut off.
BOOST_AUTO_TEST_CASE(a_step_that_was_cancelled_has_lost_nothing) {
  for (const bool async : {false, true}) {
    Run run(1);
    run.brittle = true;
    run.async = async;
    failing_with = absl::StatusCode::kCancelled;
    failing_updates = 4;
    const absl::Status s = run.Part(0).status();
    failing_with = absl::StatusCode::kUnavailable;
    BOOST_TEST(failing_updates.exchange(0) == 0);
    BOOST_TEST(absl::IsCancelled(s), s);
    BOOST_TEST(run.lost.empty());
  }
}

// Closes the queue of worker 0's tokens, for which it waits.
void CloseTokens(const Run& run) {
  const Scope there = Scope::NewRootScope().WithDevice("/job:ps/task:0");
  QueueOptions options;
  options.shared_name = "sync/tokens/0";
  options.capacity = -1;
  options.shapes = {{SyncReplicas::kTokenWords}};
  const Operation close = Queue::Fifo(there, {DType::kInt64}, options).Close(there);
  REQUIRE_OK(there.status());
  const auto session = Session::Create({.runtime = run.cluster, .share_variables = true}).value();
  REQUIRE_OK(session->Extend(*there.graph()));
  REQUIRE_OK(session->Run({}, {}, {close}, nullptr));
}

BOOST_AUTO_TEST_CASE(an_at_end_that_says_cancelled_is_asked_once) {
  for (const bool async : {false, true}) {
    Run run(1);
    run.async = async;
    int asked = 0;
    run.at_end = [&] {
      ++asked;
      return Cancelled("the operator has stopped the evaluation");
    };
    const absl::Status s = run.Part(0).status();
    BOOST_TEST(absl::IsCancelled(s), s);
    BOOST_TEST(s.message().find("the operator") != std::string::npos, s);
    BOOST_TEST(asked == 1);
  }
}

// The worker of its process fails meanwhile, for which everybody there is told to stop.
BOOST_AUTO_TEST_CASE(what_at_end_says_is_said_however_the_chiefs_worker_ends) {
  Run run(1);
  run.at_end = [&] {
    CloseTokens(run);
    std::this_thread::sleep_for(200ms);
    return Cancelled("the operator has stopped the evaluation");
  };
  const absl::Status s = run.Part(0).status();
  BOOST_TEST(absl::IsCancelled(s), s);
  BOOST_TEST(s.message().find("the operator") != std::string::npos, s);
}

// The queue of its tokens is closed while at_end runs: it fails, and cannot be told of the end.
BOOST_AUTO_TEST_CASE(what_is_done_stays_done_however_the_chiefs_worker_ends) {
  Run run(2);
  run.before_end = [&](const Model& chief, Session& chiefs) {
    CloseTokens(run);
    Feeds feeds;
    for (const int rows : {1, 0}) {
      Tensor t(DType::kInt64, TensorShape({rows, SyncReplicas::kTokenWords}));
      std::fill_n(t.data<int64_t>(), t.num_elements(), 0);
      feeds.emplace_back(chief.sync->hands()[static_cast<size_t>(1 - rows)].name(), std::move(t));
    }
    const absl::Status handed = chiefs.Run(feeds, {}, {chief.sync->hand_out()}, nullptr);
    BOOST_TEST(absl::IsCancelled(handed), handed);  // it is that queue
    std::this_thread::sleep_for(200ms);
  };
  BOOST_TEST(run.All().step == 10);
  BOOST_TEST(run.losses.size() == 10u);
}

// What an earlier run, of fewer steps or of as many, has left in a worker's queue, while the
// servers have not begun yet.
BOOST_AUTO_TEST_CASE(an_end_that_an_earlier_run_has_left_ends_nobody) {
  const auto [bits, losses] = Undisturbed(2);
  for (const int64_t last : {3, 10}) {
    Run run(2);
    Adam adam(0.1);
    const Model left(1, 2, adam, false);
    const auto before = Session::Create({.runtime = run.cluster, .share_variables = true}).value();
    REQUIRE_OK(before->Extend(*left.root.graph()));
    Feeds feeds;
    for (const int rows : {0, 1}) {
      Tensor t(DType::kInt64, TensorShape({rows, SyncReplicas::kTokenWords}));
      if (rows == 1) std::ranges::copy(std::array<int64_t, 4>{0, SyncReplicas::kTheEnd, last, 0}, t.data<int64_t>());
      feeds.emplace_back(left.sync->hands()[static_cast<size_t>(rows)].name(), std::move(t));
    }
    REQUIRE_OK(before->Run(feeds, {}, {left.sync->hand_out()}, nullptr));
    auto worker = std::async(std::launch::async, [&] { return run.Part(1).status(); });
    BOOST_TEST((worker.wait_for(300ms) == std::future_status::timeout));
    CHECK_OK(run.Part(0).status());
    CHECK_OK(worker.get());
    BOOST_TEST((run.bits == bits));
    CheckLosses(run, losses);
  }
}

BOOST_AUTO_TEST_CASE(a_number_of_updates_below_0_is_refused) {
  for (const bool async : {false, true}) {
    for (const int worker : {0, 1}) {
      Run run(2);
      run.async = async;
      run.steps = -1;
      const auto s = run.Part(worker).status();
      BOOST_TEST(absl::IsInvalidArgument(s), s);
      BOOST_TEST(s.message().find("last_step is -1") != std::string::npos, s);
    }
  }
}

// At once, and not when give_up is over.
BOOST_AUTO_TEST_CASE(a_folder_that_is_a_file_is_refused) {
  REQUIRE_OK(files::Write("mem://together_file", "x"));
  for (const bool async : {false, true}) {
    for (const char* folder : {"mem://together_file", "/dev/null", "/dev/null/below"}) {
      Run run(1);
      run.async = async;
      run.folder = folder;
      const auto s = run.Part(0).status();
      BOOST_TEST(absl::IsInvalidArgument(s), s);
      BOOST_TEST(s.message().find(folder) != std::string::npos, s);
    }
  }
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
    // The other server has counted them all, among them those of the worker 1 that were under way:
    // between worker 0's look at the step and the loss, it may have gone on to where it waits.
    BOOST_TEST(report.lost_updates >= lost_at);
    BOOST_TEST(report.lost_updates <= std::max<int64_t>(lost_at, 30) + 2);
    // The global step stands on the first one.
    if (server == 0) BOOST_TEST(again.step == 0);
    if (server == 1) BOOST_TEST(again.step >= lost_at);
    BOOST_TEST(!run.bits.empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace train_together_test
}  // namespace troupe
