// Where a blocking call is refused: on the threads of any actor system's scheduler, and nowhere
// else.
#include <atomic>
#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "actors/threads/actor_thread.h"
#include "actors/messages/messages.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {
namespace actor_thread_test {

// A session over x -> twice, in a runtime of its own or in `system`.
struct Twice {
  explicit Twice(caf::actor_system* system) {
    SessionOptions options;
    if (system != nullptr) options.runtime = StartRuntimeIn(*system, {.threads = 1}).value();
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    ops::Add(root.WithOpName("twice"), x, x);
    session = NewSession(root, options);
  }
  absl::Status Run() {
    std::vector<Tensor> out;
    return session->Run({{"x", Tensor::Scalar(1.0f)}}, {"twice"}, {}, &out);
  }
  Scope root = Scope::NewRootScope();
  std::unique_ptr<Session> session;
};

// CAF 0.17 binds a reference to the arguments of an actor's function, to nothing where there are
// none, which UBSan minds: so there is one.
constexpr int kArgument = 0;

template <class F>
absl::Status Ask(caf::actor_system& system, F spawn) {
  std::promise<absl::Status> said;
  spawn(system, said);
  return said.get_future().get();
}

// A thread that is looked at for the first time while it does without its logger is what it is.
BOOST_AUTO_TEST_CASE(a_schedulers_thread_is_known_without_its_logger) {
  caf::actor_system_config config;
  config.set("scheduler.max-threads", size_t{1});
  caf::actor_system system(config);
  std::promise<bool> known;
  system.spawn(
      [&](caf::event_based_actor*, int) {
        { const NoLoggerMeanwhile quiet(&system); }
        const NoLoggerMeanwhile quiet(&system);
        known.set_value(OnSchedulerThread());
      },
      kArgument);
  BOOST_TEST(known.get_future().get());
}

BOOST_AUTO_TEST_CASE(a_blocking_run_is_refused_on_a_schedulers_thread) {
  caf::actor_system_config config;
  caf::actor_system theirs(config);  // it knows nothing of Troupe
  for (const auto& [in_theirs, compiled] : {std::pair(true, true), {true, false}, {false, true}}) {
    Twice t(in_theirs ? &theirs : nullptr);
    if (compiled) TROUPE_REQUIRE_OK(t.Run());
    const absl::Status refused = Ask(theirs, [&](caf::actor_system& s, std::promise<absl::Status>& said) {
      s.spawn([&](caf::event_based_actor*, int) { said.set_value(t.Run()); }, kArgument);
    });
    BOOST_TEST(refused.code() == absl::StatusCode::kFailedPrecondition, refused);
    BOOST_TEST(std::string(refused.message()).find("use RunAsync, or send the session actor a run message") !=
                   std::string::npos,
               refused);
    const absl::Status extend = Ask(theirs, [&](caf::actor_system& s, std::promise<absl::Status>& said) {
      s.spawn([&](caf::event_based_actor*, int) { said.set_value(t.session->Extend(*t.root.graph())); }, kArgument);
    });
    BOOST_TEST(extend.code() == absl::StatusCode::kFailedPrecondition, extend);
  }
}

BOOST_AUTO_TEST_CASE(who_has_a_thread_of_its_own_may_block) {
  caf::actor_system_config config;
  caf::actor_system theirs(config);
  Twice t(&theirs);
  TROUPE_REQUIRE_OK(Ask(theirs, [&](caf::actor_system& s, std::promise<absl::Status>& said) {
    s.spawn<caf::detached>([&](caf::event_based_actor*, int) { said.set_value(t.Run()); }, kArgument);
  }));
  TROUPE_REQUIRE_OK(Ask(theirs, [&](caf::actor_system& s, std::promise<absl::Status>& said) {
    s.spawn([&](caf::blocking_actor*, int) { said.set_value(t.Run()); }, kArgument);
  }));
  // A thread that a handler starts is no thread of the scheduler, though it has its name.
  TROUPE_REQUIRE_OK(Ask(theirs, [&](caf::actor_system& s, std::promise<absl::Status>& said) {
    s.spawn([&](caf::event_based_actor*, int) { std::thread([&] { said.set_value(t.Run()); }).detach(); }, kArgument);
  }));
}

// A thread that has made, run or destroyed a session keeps nothing of its actor system, which would
// otherwise not end before the thread does.
BOOST_AUTO_TEST_CASE(an_actor_system_ends_though_threads_that_used_it_live) {
  for (int what = 0; what < 3; ++what) {
    caf::actor_system_config config;
    auto system = std::make_unique<caf::actor_system>(config);
    std::unique_ptr<Twice> t;
    std::promise<void> used, over;
    const auto make = [&] { t = std::make_unique<Twice>(system.get()); };
    if (what != 0) make();
    std::thread user([&] {
      if (what == 0) make();
      if (what == 1) TROUPE_REQUIRE_OK(t->Run());
      if (what == 2) t.reset();
      used.set_value();
      over.get_future().wait();
    });
    used.get_future().wait();
    t.reset();
    // By the thread that made it, since that one has a share. If it hangs, the other one goes.
    std::promise<void> ended;
    auto in_time = std::async(std::launch::async, [&, end = ended.get_future()] {
      const bool ok = end.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
      over.set_value();
      return ok;
    });
    system.reset();
    ended.set_value();
    BOOST_TEST(in_time.get(), "what = " << what);
    user.join();
  }
}

// The same of a thread of another runtime's scheduler, on which a callback starts a step.
BOOST_AUTO_TEST_CASE(a_runtime_ends_though_callbacks_of_others_used_it) {
  Twice mine(nullptr);
  auto theirs = std::make_unique<Twice>(nullptr);
  for (Twice* t : {&mine, theirs.get()}) TROUPE_REQUIRE_OK(t->Run());
  const Feeds feeds = {{"x", Tensor::Scalar(1.0f)}};
  std::promise<void> over;
  // Not lent: several steps at once, so that a set of executors is made where they begin.
  mine.session->RunAsync({}, feeds, {"twice"}, {}, [&](const absl::Status&, const std::vector<Tensor>&) {
    auto left = std::make_shared<std::atomic<int>>(4);
    for (int i = 0; i < 4; ++i) {
      theirs->session->RunAsync({}, feeds, {"twice"}, {}, [&, left](const absl::Status&, const std::vector<Tensor>&) {
        if (left->fetch_sub(1) == 1) over.set_value();
      });
    }
  });
  over.get_future().wait();
  auto ended = std::async(std::launch::async, [&] { theirs.reset(); });
  BOOST_TEST((ended.wait_for(std::chrono::seconds(20)) == std::future_status::ready));
  if (ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready) mine.session.reset();  // frees the thread
}

}  // namespace actor_thread_test
}  // namespace troupe
