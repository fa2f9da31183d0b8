// A runtime whose root supervisor died too often: nobody restarts its actors any more, and nobody
// waits for them.
#include <spdlog/spdlog.h>

#include "actors/runtime/runtime_impl.h"
#include "actors/session/session_master.h"
#include "tests/actors/graphs.h"
#include "troupe/actors.h"
#include "troupe/troupe.h"

namespace troupe {
namespace abandoned_test {

using namespace std::chrono_literals;

template <class F>
bool Soon(F f) {
  for (int i = 0; i < 10000; ++i) {
    if (f()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

struct Abandoned {
  Abandoned() {
    spdlog::set_level(spdlog::level::off);
    const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat);
    y = ops::Neg(root.WithOpName("y"), x);
    z = ops::Square(root.WithOpName("z"), x);
    runtime = Runtime::Start({.threads = 2}).value();
    SessionOptions options;
    options.runtime = runtime;
    session = NewSession(root, options);
  }
  ~Abandoned() { spdlog::set_level(before); }
  caf::actor Root() const { return runtime->impl()->root->actor(); }
  void KillTheRootForGood() {
    while (const caf::actor now = Root()) {
      caf::anon_send_exit(now, caf::exit_reason::kill);
      BOOST_REQUIRE(Soon([&] { return Root() != now; }));
    }
  }
  absl::Status Run(const Output& what) {
    RunOptions soon;
    soon.timeout_ms = 20000;
    std::vector<Tensor> out;
    return session->Run(soon, {{"x", Tensor::Scalar(1.0f)}}, {what}, {}, &out, nullptr);
  }

  const spdlog::level::level_enum before = spdlog::get_level();
  Scope root = Scope::NewRootScope();
  Output y, z;
  std::shared_ptr<Runtime> runtime;
  std::unique_ptr<Session> session;
};

BOOST_FIXTURE_TEST_CASE(a_session_whose_actor_nobody_restarts_has_ended, Abandoned) {
  // Dead before the last supervisor goes, or after it.
  KillTheRootForGood();
  TROUPE_REQUIRE_OK(Run(y));
  const caf::actor actor = ActorOf(*session);
  caf::anon_send_exit(actor, caf::exit_reason::kill);
  BOOST_REQUIRE(Soon([&] { return !session->Prepare({"x"}, {z}, {}).ok(); }));
  const absl::Status s = Run(z);
  BOOST_TEST(absl::IsFailedPrecondition(s), s);
}

BOOST_FIXTURE_TEST_CASE(an_actor_that_nobody_restarts_is_no_reason_to_try_again, Abandoned) {
  KillTheRootForGood();
  const std::string worker = WorkerName(runtime->impl()->tasks[0].name);
  BOOST_REQUIRE(!!runtime->impl()->directory->Find(worker));
  const absl::Status why = runtime->impl()->directory->WhyDown(worker);
  BOOST_TEST(absl::IsFailedPrecondition(why), why);
  BOOST_TEST(why.message().find("supervisor failed too often") != std::string::npos, why);
}

}  // namespace abandoned_test
}  // namespace troupe
