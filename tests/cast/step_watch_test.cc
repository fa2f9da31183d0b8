// What the watch does of its own with a step that goes on, is slow, or does not answer: the edges
// of step_watch.h that asynchronous_test.cc does not show.
#include "tests/cast/play.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace step_watch_test {

using namespace std::chrono_literals;

std::vector<DoneFn> gates;

TROUPE_OP("CastGate")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("a test's")
    .Doc("Hands its input on when the test says so.");
class GateKernel {
 public:
  explicit GateKernel(KernelInit&) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    ctx.set_output(0, ctx.TakeInput(0));
    gates.push_back(std::move(done));
  }
};
TROUPE_KERNEL("CastGate").Device("CPU").Class<GateKernel>();

void OpenGates() {
  for (const DoneFn& done : std::exchange(gates, {})) done(absl::OkStatus());
}

SessionOptions Reporting(std::vector<std::string>* reports) {
  SessionOptions options;
  options.stall_report_ms = 100;
  options.fuse = false;
  options.on_stall = [reports](const std::string& text) { reports->push_back(text); };
  return options;
}

BOOST_AUTO_TEST_CASE(edge_3_a_part_that_does_not_answer_does_not_hold_up_the_deadline) {
  Play p;
  p.Extend();
  p.Warm(p.feeds, {"never"});
  p.Start({"never"}, {.timeout_ms = 50});
  BOOST_TEST(p.Go() == R"(
executor <- run_step | running)");
  // The executor is asked, but its turn does not come.
  p.stage.Advance(50ms);
  BOOST_TEST(p.stage.Queue() == "executor <- doorbell");
  p.stage.Advance(99ms);
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(1ms);  // the step is told to end; that waits in the same mailbox
  BOOST_TEST(p.State() == "running");
  p.stage.Advance(50ms);
  BOOST_TEST(p.State() == "DEADLINE_EXCEEDED");
  BOOST_TEST(p.Message().find("the step did not end within 50 ms; it waits for:\n  the part on "
                              "/job:localhost/replica:0/task:0/device:CPU:0 has not answered for ") == 0u,
             p.Message());
  BOOST_TEST(p.stage.Play() == R"(
executor <- doorbell)");  // what it was told meanwhile, at once
  p.stage.Advance(1s);
  BOOST_TEST(!p.stage.clock()->IsSet());
}

BOOST_AUTO_TEST_CASE(edge_4_a_step_whose_nodes_run_is_not_reported) {
  std::vector<std::string> reports;
  Play p(Reporting(&reports));
  Output y = p.x;
  for (int i = 0; i < 6; ++i) {
    auto n = NodeBuilder(p.root.graph(), StrCat("gate", i), "CastGate").Input(NodeOut{y.node(), y.index()}).Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    y = Output({*n, 0}, p.x.scope_state());
  }
  p.Extend();
  p.Warm(p.feeds, {"gate5"});
  p.Start({"gate5"});
  p.stage.Play();
  // A node each 80 ms: at every look, 50 ms apart, the one before is 100 ms ago at most.
  for (int i = 0; i < 5; ++i) {
    for (int k = 0; k < 8; ++k) {
      p.stage.Advance(10ms);
      p.stage.Play();
    }
    OpenGates();
    p.stage.Play();
  }
  BOOST_TEST(reports.empty());
  BOOST_TEST(p.State() == "running");
  // The last one waits for longer.
  for (int k = 0; k < 20; ++k) {
    p.stage.Advance(10ms);
    p.stage.Play();
  }
  BOOST_REQUIRE_EQUAL(reports.size(), 1u);
  BOOST_TEST(reports[0].find("node 'gate5' (CastGate)") != std::string::npos, reports[0]);
  OpenGates();
  p.stage.Play();
  BOOST_TEST(p.State() == "OK");
}

BOOST_AUTO_TEST_CASE(edge_7_a_part_that_does_not_answer_is_reported_as_such) {
  std::vector<std::string> reports;
  Play p(Reporting(&reports));
  p.Extend();
  p.Warm(p.feeds, {"never"});
  p.Start({"never"});
  p.stage.Play();
  for (int i = 0; i < 3; ++i) p.stage.Advance(50ms);  // nodes have run, a look, none has for 100 ms
  BOOST_TEST(p.stage.Queue() == "executor <- doorbell");
  BOOST_TEST(reports.empty());
  p.stage.Advance(50ms);
  BOOST_REQUIRE_EQUAL(reports.size(), 1u);
  BOOST_TEST(reports[0].find("has made no progress for 100 ms; it waits for:\n  the part on "
                             "/job:localhost/replica:0/task:0/device:CPU:0 has not answered for ") != std::string::npos,
             reports[0]);
  p.stage.Play();  // the answer comes too late for a report of its own
  BOOST_TEST(reports.size() == 1u);
  BOOST_TEST(p.State() == "running");
}

}  // namespace step_watch_test
}  // namespace troupe
