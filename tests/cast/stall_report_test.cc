// What a step that hangs says: the culprit first, with device, iteration and time, and then who waits for it, from part to part.
#include <regex>

#include "cast/play.h"
#include "troupe/actors/stall_report.h"
#include "troupe/kernels/evaluate.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;

std::vector<DoneFn> held;

TROUPE_OP("CastHold")
    .Input("x: float")
    .Output("y: float")
    .Attr("until: float = 0")
    .Stateful()
    .NotDifferentiable("it never ends")
    .Doc("Hands its input on; from the value `until` on it does not.");
class HoldKernel {
 public:
  explicit HoldKernel(KernelInit& init) : until_(init.Attr<float>("until")) {}
  void ComputeAsync(KernelContext& ctx, DoneFn done) {
    if (*ctx.input(0).data<float>() >= until_) {
      held.push_back(std::move(done));
      return;
    }
    ctx.set_output(0, ctx.TakeInput(0));
    done(absl::OkStatus());
  }

 private:
  const float until_;
};
TROUPE_KERNEL("CastHold").Device("CPU").Class<HoldKernel>();

// Times are T and the devices' common beginning is left out.
std::string Plain(std::string text) {
  text = std::regex_replace(text, std::regex("[0-9.]+ m?s\\b"), "T");
  text = std::regex_replace(text, std::regex("/job:localhost/replica:0/task:0/device:"), "");
  return std::regex_replace(text, std::regex("step [0-9]+ "), "step N ");
}
std::string Plain(const std::vector<std::string>& lines) { return Plain("\n" + StrJoin(lines, "\n")); }

struct Hanging : Play {
  explicit Hanging(int devices = 1) : Play(Options(&reports), devices) {}
  ~Hanging() {
    stage.Inline([&] { session = nullptr; });
    for (DoneFn& done : std::exchange(held, {})) done(absl::OkStatus());
  }
  static SessionOptions Options(std::vector<std::string>* reports) {
    SessionOptions o;
    o.stall_report_ms = 100;
    o.fuse = false;
    o.on_stall = [reports](const std::string& text) { reports->push_back(text); };
    return o;
  }
  Output Hold(const char* name, const Output& x, int device, float until = 0) {
    auto n = NodeBuilder(root.graph(), name, "CastHold")
                 .Input(NodeOut{x.node(), x.index()})
                 .Attr("until", until)
                 .Device(StrCat("/device:CPU:", device))
                 .Build();
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, x.scope_state());
  }
  // The report of a step that is started and hangs.
  std::string ReportOf(const Names& fetches) {
    Extend();
    Warm(feeds, fetches);
    Start(fetches);
    stage.Play();
    for (int i = 0; i < 3; ++i) {
      stage.Advance(50ms);
      stage.Play();
    }
    BOOST_TEST(State() == "running", Message());
    BOOST_REQUIRE_EQUAL(reports.size(), 1u);
    return Plain(reports[0]);
  }
  std::string StatusNow() {
    std::vector<std::string> lines;
    stage.Inline([&] { lines = session->Status(); });
    return Plain(lines);
  }
  std::vector<std::string> reports;
};

BOOST_AUTO_TEST_CASE(AnAsynchronousKernelThatDoesNotEnd) {
  Hanging p;
  const Output h = p.Hold("hold", p.twice, 0);
  ops::Add(p.root.WithOpName("z"), p.x, h);
  BOOST_TEST(p.ReportOf({"z"}) ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'hold' (CastHold) on CPU:0 has run for T
    <- node 'z' (Add) on CPU:0 has waited T for input 1 'y' from 'hold:0' (running)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too))");
  BOOST_TEST(p.StatusNow() == R"(
step N (z): node 'hold' (CastHold) on CPU:0 has run for T
  <- node 'z' (Add) on CPU:0 has waited T for input 1 'y' from 'hold:0' (running)
  <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too))");
}

BOOST_AUTO_TEST_CASE(AReceiveWhoseSenderWaits) {
  Hanging p(2);
  const Output h = p.Hold("hold", p.twice, 1);
  const Output neg = ops::Neg(p.root.WithOpName("neg").WithDevice("/device:CPU:1"), h);
  ops::Add(p.root.WithOpName("z").WithDevice("/device:CPU:0"), p.x, neg);
  BOOST_TEST(p.ReportOf({"z"}) ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'hold' (CastHold) on CPU:1 has run for T
    <- node 'neg' (Neg) on CPU:1 has waited T for input 0 'x' from 'hold:0' (running)
    <- node 'neg/_S3' (_Send) on CPU:1 has waited T for input 0 'tensor' from 'neg:0' (waiting too)
    <- node 'neg/_S4' (_Recv) on CPU:0 has waited T for tensor 'edge_6_neg:0' of CPU:1
    <- node 'z' (Add) on CPU:0 has waited T for input 1 'y' from 'neg/_S4:0' (waiting for a tensor)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too))");
}

BOOST_AUTO_TEST_CASE(ALoopWithAStuckIteration) {
  Hanging p(2);
  const auto loop = While(
      p.root.WithOpName("loop"), {p.twice},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], ops::Const(s, 100.0f)); },
      [&](const Scope& s, const OutputList& v) {
        return OutputList{ops::Add(s, p.Hold("body", v[0], 0, 6.0f), ops::Const(s, 1.0f))};
      });
  ops::Neg(p.root.WithOpName("z").WithDevice("/device:CPU:1"), loop[0]);
  BOOST_TEST(p.ReportOf({"z"}) ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'body' (CastHold) on CPU:0 in iteration 2 of loop 'loop/while_context' has run for T
    <- node 'loop/Exit/_S1' (_Send) on CPU:0 has waited T for input 0 'tensor' from 'loop/Exit:0' (loop 'loop/while_context' has not ended)
    <- node 'loop/Exit/_S2' (_Recv) on CPU:1 has waited T for tensor 'edge_19_loop/Exit:0' of CPU:0
    <- node 'z' (Neg) on CPU:1 has waited T for input 0 'x' from 'loop/Exit/_S2:0' (waiting for a tensor)
    <- node '_retval_z_0' (_Retval) on CPU:1 has waited T for input 0 'input' from 'z:0' (waiting too))");
}

BOOST_AUTO_TEST_CASE(ALoopOverTwoDevicesIsStuckInTheOtherOne) {
  Hanging p(2);
  const auto loop = While(
      p.root.WithOpName("loop"), {p.twice},
      [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], ops::Const(s, 100.0f)); },
      [&](const Scope& s, const OutputList& v) {
        const Output there = p.Hold("body", v[0], 1, 6.0f);
        return OutputList{ops::Add(s, there, ops::Const(s, 1.0f))};
      });
  ops::Neg(p.root.WithOpName("z"), loop[0]);
  const std::string report = p.ReportOf({"z"});
  BOOST_TEST(report.find(R"(step N (z) has made no progress for T; it waits for:
  node 'body' (CastHold) on CPU:1 in iteration 2 of loop 'loop/while_context' has run for T
    <- node 'body/_S3' (_Send) on CPU:1 in iteration 2 of loop 'loop/while_context' has waited T for input 0 'tensor' from 'body:0' (running)
    <- node 'body/_S4' (_Recv) on CPU:0 in iteration 2 of loop 'loop/while_context' has waited T for tensor 'edge_15_body:0' of CPU:1
    <- node 'z' (Neg) on CPU:0 has waited T for input 0 'x' from 'loop/Exit:0' (loop 'loop/while_context' has not ended)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too)
    <- node 'loop/Add' (Add) on CPU:0 in iteration 2 of loop)") == 0u,
             report);
  // The other part's receives of the next iteration stand below the same culprit: nothing else waits for nobody.
  BOOST_TEST(report.find("\n  node ", report.find("\n  node ") + 1) == std::string::npos, report);
}

BOOST_AUTO_TEST_CASE(APartialRunThatIsNotFed) {
  Hanging p(2);
  ops::Neg(p.root.WithOpName("z").WithDevice("/device:CPU:1"), p.twice);
  p.Extend();
  std::string handle;
  p.stage.Inline([&] { handle = p.session->PartialRunSetup({"x"}, {"z"}, {}).value(); });
  BOOST_TEST(p.StatusNow() == R"(
step N (z): node '_arg_x_0' (_Arg) on CPU:0 has waited T to be fed
  <- node 'twice' (Add) on CPU:0 has waited T for input 0 'x' from '_arg_x_0:0' (not fed), input 1 'y' from '_arg_x_0:0' (not fed)
  <- node 'twice/_S1' (_Send) on CPU:0 has waited T for input 0 'tensor' from 'twice:0' (waiting too)
  <- node 'twice/_S2' (_Recv) on CPU:1 has waited T for tensor 'edge_3_twice:0' of CPU:0
  <- node 'z' (Neg) on CPU:1 has waited T for input 0 'x' from 'twice/_S2:0' (waiting for a tensor)
  <- node '_retval_z_0' (_Retval) on CPU:1 has waited T for input 0 'input' from 'z:0' (waiting too))");
}

// How answers are put together, from answers made up.
struct Parts {
  Parts() {
    for (int i = 0; i < 2; ++i) {
      auto part = std::make_shared<CompiledPart>();
      part->info.resize(2);
      part->info[0].device = part->info[1].device = EvaluationDevice(1);
      part->info[0].name = StrCat("recv", i);
      part->info[1].name = StrCat("send", i);
      part->info[0].op = "_Recv";
      part->info[1].op = "_Send";
      part->recvs = {{Key(1 - i), 0}};
      part->sends = {{Key(i), 1}};
      answers.push_back({part, StepReport{true, {}}, StrCat("part ", i, " is silent")});
    }
  }
  static std::string Key(int from) { return StrCat("d", from, ";0;d", 1 - from, ";t"); }
  StepReport::Root& Add(int part, const char* text, int64_t nanos, StepReport::Link takes = {}) {
    answers[part].report->roots.push_back({text, nanos, std::move(takes), {}, {}});
    return answers[part].report->roots.back();
  }
  std::string Lines(size_t limit = 40) { return Plain(StallLines(answers, limit)); }
  std::vector<PartAnswer> answers;
};

BOOST_FIXTURE_TEST_CASE(TheOldestCulpritComesFirstAndIterationsAreToldApart, Parts) {
  Add(0, "young", 1).chains = {{{"c"}, {Key(0), 8, false}}};
  Add(0, "old", 2).chains = {{{"a", "b"}, {Key(0), 7, false}}, {{"a", "result"}, {}}};
  Add(1, "recv of 7", 2, {Key(0), 7, false}).chains = {{{"d"}, {}}};
  Add(1, "recv of 8", 2, {Key(0), 8, false});
  BOOST_TEST(Lines() == "\nold\n  <- a\n  <- b\n  <- result\n  <- recv of 7\n  <- d\nyoung\n  <- c\n  <- recv of 8");
  BOOST_TEST(Lines(3) == "\nold\n  <- a\n  <- b\nand 6 lines more");
}

BOOST_FIXTURE_TEST_CASE(AReceiveOfAnIterationThatHasNotBegunWaitsForWhatKeepsTheLoop, Parts) {
  Add(0, "stuck", 1).later = {Key(0)};
  Add(1, "recv", 2, {Key(0), 9, false});
  BOOST_TEST(Lines() == "\nstuck\n  <- recv");
}

BOOST_FIXTURE_TEST_CASE(ADeadEndIsNamed, Parts) {
  answers[0].report = StepReport{};  // done
  Add(1, "recv", 2, {Key(0), 0, false});
  BOOST_TEST(Lines().find("\nrecv; its other end, node 'send0' (_Send) on ") == 0u, Lines());
  BOOST_TEST(Lines().find(", did not run before its part ended") != std::string::npos, Lines());
  answers[1].report->roots[0].takes.key = "nobody's";
  BOOST_TEST(Lines() == "\nrecv; no part sends it");
  answers[1].report->roots[0].takes.grant = true;
  BOOST_TEST(Lines() == "\nrecv; no part receives it");
}

BOOST_FIXTURE_TEST_CASE(APartThatDoesNotAnswerIsACulprit, Parts) {
  answers[0].report.reset();
  Add(1, "recv", 2, {Key(0), 0, false}).chains = {{{"a"}, {}}};
  BOOST_TEST(Lines() == "\npart 0 is silent\n  <- recv\n  <- a");
}

BOOST_FIXTURE_TEST_CASE(AHeldValueWaitsForWhatItsReceiverWaitsFor, Parts) {
  Add(0, "held", 2, {Key(0), 3, true});
  Add(1, "slow", 1).chains = {{{"recv that asks"}, {Key(0), 3, true}}};
  BOOST_TEST(Lines() == "\nslow\n  <- recv that asks\n  <- held");
}

BOOST_FIXTURE_TEST_CASE(ACircleIsToldAsOne, Parts) {
  Add(0, "recv 0", 1, {Key(1), 0, false}).chains = {{{"send 0"}, {Key(0), 0, false}}};
  Add(1, "recv 1", 1, {Key(0), 0, false}).chains = {{{"send 1"}, {Key(1), 0, false}}};
  BOOST_TEST(Lines() ==
             "\na circle of parts that wait for each other:\n  <- recv 0\n  <- send 0\n  <- recv 1\n  <- send 1");
}

}  // namespace
}  // namespace troupe
