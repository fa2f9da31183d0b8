// A checkpoint is a cut between steps: no step is in it by half, and a save waits for steps that
// update, for no others.
#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <mutex>
#include <thread>

#include "tests/common/check_ok.h"
#include "troupe/checkpoint.h"
#include "troupe/train/saver.h"
#include "troupe/troupe.h"

namespace troupe {
namespace saves_and_steps_test {

// Two variables that every step updates together, and with them one on another device, beside steps
// that never wait for them.
struct Together {
  Scope root = Scope::NewRootScope();
  Variable a, b;
  Operation both, init;
  std::unique_ptr<train::Saver> saver;
  std::unique_ptr<Session> session;

  Together() {
    a = Variable(root.WithOpName("a"), Const(root, 0.0f, TensorShape({1000})));
    b = Variable(root.WithOpName("b"), 0);
    // One after the other, with work in between.
    const Output first = a.AssignAdd(root, Const(root, 1.0f, TensorShape({1000})));
    const Output work = ops::Sum(root, ops::Sin(root, ops::Sqrt(root, first)));
    const Output more = ops::Cast(root, ops::Add(root, ops::Mul(root, work, 0.0f), 1.0f), DType::kInt32);
    both = b.AssignAdd(root, more);
    init = GlobalVariablesInitializer(root);
    saver = std::make_unique<train::Saver>(root);
    REQUIRE_OK(root.status());
    SessionOptions so;
    so.runtime_options.threads = 4;
    session = *Session::Create(so);
    REQUIRE_OK(session->Extend(*root.graph()));
    REQUIRE_OK(session->Run({}, {}, {init}, nullptr));
  }
};

// What a checkpoint has of both; they are equal when no step is in it by half.
std::pair<float, int32_t> Counts(const std::string& path) {
  const auto reader = CheckpointReader::Open(path);
  BOOST_REQUIRE_MESSAGE(reader.ok(), reader.status());
  const Tensor a = *(*reader)->Read("a");
  BOOST_TEST(std::all_of(a.data<float>(), a.data<float>() + 1000, [&](float v) { return v == a.data<float>()[0]; }));
  return {a.data<float>()[0], (*reader)->Read("b")->scalar<int32_t>()};
}

BOOST_AUTO_TEST_CASE(no_step_is_in_a_checkpoint_by_half) {
  Together t;
  constexpr int kThreads = 8, kSaves = 30;
  std::atomic<bool> stop{false};
  std::atomic<int> steps{0}, open{0};
  std::vector<std::thread> threads;
  // Four threads that run, and four chains of asynchronous steps.
  for (int i = 0; i < kThreads / 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        if (t.session->Run({}, {}, {t.both}, nullptr).ok()) ++steps;
      }
    });
  }
  std::function<void()> next = [&] {
    t.session->RunAsync({}, {}, {t.both}, [&](const absl::Status& s, std::vector<Tensor>) {
      if (s.ok()) ++steps;
      if (stop) {
        --open;
      } else {
        next();
      }
    });
  };
  for (int i = 0; i < kThreads / 2; ++i) {
    ++open;
    next();
  }
  std::vector<std::string> async;
  std::mutex mu;
  float last = -1;
  for (int i = 0; i < kSaves; ++i) {
    // Something happens between two saves.
    const int before = steps;
    while (steps < before + 5) std::this_thread::yield();
    if (i % 3 != 2) {
      const auto path = t.saver->Save(*t.session, "mem://half/m", i);
      REQUIRE_OK(path.status());
      const auto [a, b] = Counts(*path);
      BOOST_TEST(a == static_cast<float>(b));
      BOOST_TEST(a > last);
      last = a;
    } else {
      t.saver->SaveAsync(*t.session, "mem://half/m", {.global_step = i}, [&](absl::StatusOr<std::string> path) {
        std::lock_guard<std::mutex> lock(mu);
        async.push_back(path.ok() ? *path : path.status().ToString());
      });
      t.saver->WaitForSaves();
      const auto [a, b] = Counts(StrCat("mem://half/m-", i));
      BOOST_TEST(a == static_cast<float>(b));
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  while (open > 0) std::this_thread::yield();
  BOOST_TEST(async.size() == static_cast<size_t>(kSaves / 3));
  BOOST_TEST(async[0] == "mem://half/m-2");
  // No step was lost or done twice.
  BOOST_TEST(t.session->Get(t.b)->scalar<int32_t>() == steps);
}

BOOST_AUTO_TEST_CASE(a_save_waits_for_updates_and_for_nothing_else) {
  Together t;
  // A step that updates, and waits to be fed.
  const Output x = ops::Placeholder(t.root.WithOpName("x"), DType::kInt32, {.shape = TensorShape()});
  const Output update = t.b.AssignAdd(t.root, x), read = ops::Add(t.root, x, 1);
  REQUIRE_OK(t.session->Extend(*t.root.graph()));
  const auto reading = t.session->PartialRunSetup({x}, {read}, {});
  REQUIRE_OK(reading.status());
  REQUIRE_OK(t.saver->Save(*t.session, "mem://waits/m", 1).status());
  const auto updating = t.session->PartialRunSetup({x}, {update}, {});
  REQUIRE_OK(updating.status());
  const absl::Status late = t.saver->Save(*t.session, "mem://waits/m", {.global_step = 2, .timeout_ms = 20}).status();
  BOOST_TEST(absl::IsDeadlineExceeded(late), late);
  BOOST_TEST(!CheckpointExists("mem://waits/m-2"));
  // Steps go on.
  REQUIRE_OK(t.session->Run({}, {}, {t.both}, nullptr));
  REQUIRE_OK(t.session->PartialRunCancel(*updating));
  REQUIRE_OK(t.saver->Save(*t.session, "mem://waits/m", 3).status());
  REQUIRE_OK(t.session->PartialRunCancel(*reading));
  std::string told;
  t.saver->SaveAsync(*t.session, "mem://waits/", {},
                     [&](absl::StatusOr<std::string> s) { told = s.status().ToString(); });
  BOOST_TEST(told.find("is no prefix") != std::string::npos, told);
}

}  // namespace saves_and_steps_test
}  // namespace troupe
