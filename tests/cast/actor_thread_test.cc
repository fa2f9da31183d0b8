// Where a blocking call is refused: on the threads of any actor system's scheduler, and nowhere else.
#include <caf/all.hpp>
#include <future>
#include <thread>

#include "actors/graphs.h"
#include "troupe/actors.h"

namespace troupe {
namespace {

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

// CAF 0.17 binds a reference to the arguments of an actor's function, to nothing where there are none, which UBSan minds: so there is one.
constexpr int kArgument = 0;

template <class F>
absl::Status Ask(caf::actor_system& system, F spawn) {
  std::promise<absl::Status> said;
  spawn(system, said);
  return said.get_future().get();
}

BOOST_AUTO_TEST_CASE(ABlockingRunIsRefusedOnASchedulersThread) {
  caf::actor_system_config config;
  caf::actor_system theirs(config);  // it knows nothing of Troupe
  for (const bool in_theirs : {true, false}) {
    Twice t(in_theirs ? &theirs : nullptr);
    TROUPE_REQUIRE_OK(t.Run());
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

BOOST_AUTO_TEST_CASE(WhoHasAThreadOfItsOwnMayBlock) {
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

}  // namespace
}  // namespace troupe
