// A monitored session of a process whose own server is stopped.
#include <boost/test/unit_test.hpp>

#include "actors/runtime/remote_tasks.h"
#include "actors/runtime/runtime_impl.h"
#include "tests/common/check_ok.h"
#include "troupe/train/global_step.h"
#include "troupe/train/monitored_session.h"
#include "troupe/troupe.h"

namespace troupe {
namespace own_server_test {

using namespace train;  // NOLINT

// Of a task that knows of a parameter server.
std::shared_ptr<Runtime> OfAWorker() {
  ClusterOptions cluster;
  cluster.remote_tasks = {"/job:ps/replica:0/task:0"};
  return StartRuntime({.threads = 1}, cluster, std::make_unique<caf::actor_system_config>()).value();
}

// The process's own server is stopped while no session can be made.
BOOST_AUTO_TEST_CASE(whose_own_server_was_stopped_waits_for_nobody) {
  const auto runtime = OfAWorker();
  const Scope root = Scope::NewRootScope();
  GetOrCreateGlobalStep(root);
  int made = 0;
  class Creator : public SessionCreator {
   public:
    Creator(std::shared_ptr<Runtime> runtime, const Graph* graph, int* made)
        : runtime_(std::move(runtime)), graph_(graph), made_(*made) {}
    absl::StatusOr<std::unique_ptr<Session>> CreateSession() override {
      if (++made_ > 1) {
        LeaveCluster(*runtime_);
        return absl::UnavailableError("the variables are out of reach");
      }
      TROUPE_ASSIGN_OR_RETURN(auto session, Session::Create({.runtime = runtime_}));
      TROUPE_RETURN_IF_ERROR(session->Extend(*graph_));
      return session;
    }

   private:
    const std::shared_ptr<Runtime> runtime_;
    const Graph* const graph_;
    int& made_;
  };
  class Loses : public Hook {
    absl::StatusOr<RunArgs> BeforeRun(RunContext&) override { return absl::UnavailableError("a task is lost"); }
  };
  MonitoredSessionOptions options;
  options.hooks = {std::make_shared<Loses>()};
  const auto monitored =
      MonitoredSession::Create(root, std::make_unique<Creator>(runtime, root.graph(), &made), options);
  REQUIRE_OK(monitored.status());
  const absl::Status s = (*monitored)->Run({}, {}, {}, nullptr);
  BOOST_TEST(absl::IsUnavailable(s), s);
  BOOST_TEST(s.message().find("out of reach") != std::string::npos, s);
  BOOST_TEST(made == 2);
}

// So is that of a chief which has never had a session.
BOOST_AUTO_TEST_CASE(whose_own_server_was_stopped_before_the_first_session_waits_for_nobody) {
  const auto runtime = OfAWorker();
  const Scope root = Scope::NewRootScope();
  GetOrCreateGlobalStep(root);
  class Creator : public ChiefSessionCreator {
   public:
    Creator(const Scope& root, const std::shared_ptr<Runtime>& runtime, int* made)
        : ChiefSessionCreator(root, nullptr, {.runtime = runtime}), made_(*made) {}
    absl::StatusOr<std::unique_ptr<Session>> CreateSession() override {
      if (++made_ == 2) LeaveCluster(*runtime());
      return absl::UnavailableError("the task has not been there yet");
    }

   private:
    int& made_;
  };
  int made = 0;
  const absl::Status s = MonitoredSession::Create(root, std::make_unique<Creator>(root, runtime, &made)).status();
  BOOST_TEST(absl::IsUnavailable(s), s);
  BOOST_TEST(made == 2);
}

}  // namespace own_server_test
}  // namespace troupe
