// The code of docs/guide/monitored_training.md.
#include <cstdio>

#include "tests/docs/pages.h"
#include "troupe/train/global_step.h"
#include "troupe/train/hooks.h"
#include "troupe/train/monitored_session.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

const std::string kFolder = "mem://guide/monitored";

// [train]
absl::Status Train(int64_t until) {
  Scope root = Scope::NewRootScope();
  Variable step = train::GetOrCreateGlobalStep(root);
  Variable w(root.WithOpName("w"), 5.0f);
  Output loss = ops::Square(root.WithOpName("loss"), w - 1.0f);
  Operation update = train::Adam(0.1).Minimize(root, loss, {}, step);

  auto scaffold = std::make_shared<train::Scaffold>();
  scaffold->summary = ops::MergeSummary(root, {ops::ScalarSummary(root, "loss", loss)});
  train::MonitoredTrainingOptions options;
  options.checkpoint_folder = kFolder;
  options.scaffold = scaffold;
  options.save_checkpoint = {.steps = 50};
  options.hooks = {
      std::make_shared<train::StopAtStepHook>(train::StopAtStepHook::LastStep(until)),
      std::make_shared<train::StopOnSignalHook>(),  // Ctrl-C: ends with a checkpoint
      std::make_shared<train::NanHook>(loss),
  };
  TROUPE_ASSIGN_OR_RETURN(std::unique_ptr<train::MonitoredSession> session,
                          train::MonitoredTrainingSession(root, options));
  while (!session->ShouldStop()) TROUPE_RETURN_IF_ERROR(session->Run({}, {}, {update}, nullptr));
  return session->Close();
}
// [/train]

// [hook]
// Prints the loss of every step.
class PrintLoss : public train::Hook {
 public:
  explicit PrintLoss(const Output& loss) : loss_(loss.name()) {}
  absl::StatusOr<train::RunArgs> BeforeRun(train::RunContext&) override { return train::RunArgs{.fetches = {loss_}}; }
  absl::Status AfterRun(train::RunContext& context, const train::RunValues& values) override {
    const float loss = values.fetches[0].scalar<float>();
    std::printf("loss %g\n", static_cast<double>(loss));
    if (loss < 10.0f) context.RequestStop();
    return absl::OkStatus();
  }

 private:
  const std::string loss_;
};
// [/hook]

BOOST_AUTO_TEST_CASE(a_monitored_run_goes_on) {
  absl::Status s = Train(120);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(*train::LatestCheckpoint(kFolder) == kFolder + "/model.ckpt-120");
  s = Train(150);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(*train::LatestCheckpoint(kFolder) == kFolder + "/model.ckpt-150");
}

BOOST_AUTO_TEST_CASE(a_hook_of_ones_own) {
  Scope root = Scope::NewRootScope();
  Variable w(root.WithOpName("w"), 5.0f);
  Output loss = ops::Square(root.WithOpName("loss"), w - 1.0f);
  Operation update = train::GradientDescent(0.1f).Minimize(root, loss);
  // [layers]
  train::MonitoredSessionOptions options;
  options.hooks = {std::make_shared<PrintLoss>(loss)};
  auto creator = std::make_unique<train::ChiefSessionCreator>(root, std::make_shared<train::Scaffold>());
  absl::StatusOr<std::unique_ptr<train::MonitoredSession>> session =
      train::MonitoredSession::Create(root, std::move(creator), options);
  // [/layers]
  BOOST_REQUIRE_MESSAGE(session.ok(), session.status());
  int steps = 0;
  for (; !(*session)->ShouldStop(); ++steps) BOOST_REQUIRE((*session)->Run({}, {}, {update}, nullptr).ok());
  BOOST_TEST(steps == 3);

  // [workers]
  SessionOptions shared;
  shared.runtime = *Runtime::Start();
  shared.share_variables = true;
  train::WorkerSessionCreator worker(root, std::make_shared<train::Scaffold>(), shared, /*max_wait_ms=*/10);
  absl::Status none = worker.CreateSession().status();  // no chief: DEADLINE_EXCEEDED, and what has no value
  // [/workers]
  BOOST_TEST(absl::IsDeadlineExceeded(none), none);
}

}  // namespace
}  // namespace troupe
