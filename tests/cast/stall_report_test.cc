// What a step that hangs says: the culprit first, with device, iteration and time, and then who
// waits for it, from part to part.
#include <future>
#include <regex>
#include <thread>

#include "actors/step/local_transport.h"
#include "actors/watch/stall_report.h"
#include "kernels/state/variable_slot.h"
#include "tests/cast/play.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace stall_report_test {

using namespace std::chrono_literals;

std::vector<DoneFn> held;

TROUPE_OP("CastHold")
    .Input("x: float")
    .Output("y: float")
    .Attr("until: float = 0")
    .Stateful()
    .Shape(shape_fn::Unchanged)
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

// What the kernels of CastHeavy and the test tell each other.
struct Heavy {
  const std::thread::id stage = std::this_thread::get_id();
  ComputeThreads* threads = nullptr;
  bool stuck = false;
  std::promise<void> began, go_on;
};
Heavy* heavy = nullptr;

TROUPE_OP("CastHeavy")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .NotDifferentiable("it is a test's")
    .Doc(
        "Hands its input on after longer than it takes to be heavy. As a job it waits for the test to let it go on, "
        "when it is stuck.");
absl::Status RunHeavy(KernelContext& ctx) {
  heavy->threads = ctx.threads();
  std::this_thread::sleep_for(200us);
  if (heavy->stuck && std::this_thread::get_id() != heavy->stage) {
    heavy->began.set_value();
    heavy->go_on.get_future().wait_for(60s);
  }
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("CastHeavy").Device("CPU").Function<RunHeavy>();

// Times are T and the devices' common beginning is left out.
std::string Plain(std::string text) {
  text = std::regex_replace(text, std::regex("[0-9.]+ m?s\\b"), "T");
  text = std::regex_replace(text, std::regex("/job:localhost/replica:0/task:0/device:"), "");
  return std::regex_replace(text, std::regex("step [0-9]+ "), "step N ");
}
std::string Plain(const std::vector<std::string>& lines) { return Plain("\n" + StrJoin(lines, "\n")); }

struct Hanging : Play {
  explicit Hanging(int devices = 1, int threads = 1) : Play(Options(&reports), devices, threads) {}
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
    return Built(x, NodeBuilder(root.graph(), name, "CastHold")
                        .Input(NodeOut{x.node(), x.index()})
                        .Attr("until", until)
                        .Device(StrCat("/device:CPU:", device))
                        .Build());
  }
  Output Slow(const char* name, const Output& x) {
    return Built(x, NodeBuilder(root.graph(), name, "CastHeavy").Input(NodeOut{x.node(), x.index()}).Build());
  }
  static Output Built(const Output& x, absl::StatusOr<Node*> n) {
    BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
    return Output({*n, 0}, x.scope_state());
  }
  // A loop that counts from `twice` on, and stays where it gets to 6, on `device`.
  Output Loop(int device) {
    return While(
        root.WithOpName("loop"), {twice},
        [&](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], ops::Const(s, 100.0f)); },
        [&](const Scope& s, const OutputList& v) {
          const Output there = Hold("body", v[0], device, 6.0f);
          return OutputList{ops::Add(s, there, ops::Const(s, 1.0f))};
        })[0];
  }
  // The report of a step that is started and hangs.
  std::string ReportOf(const Names& fetches) {
    Extend();
    Warm(feeds, fetches);
    Start(fetches);
    stage.Play();
    return ReportOfRunning();
  }
  std::string ReportOfRunning() {
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
    stage.Inline([&] { lines = session->RunningSteps(); });
    return Plain(lines);
  }
  std::vector<std::string> reports;
};

// Whoever asks may hold a lock that the answer takes.
BOOST_AUTO_TEST_CASE(a_question_to_nobody_is_not_asked) {
  struct Nobody : StepListener {
    void PartDone(uint32_t, part_done&) override {}
    void PartFails(uint32_t, const absl::Status&) override {}
    void ResultCame(uint32_t, Tensor) override {}
  } listener;
  caf::actor_system_config config;
  caf::actor_system system(config);
  const EdgeTable edges;
  const std::vector<std::shared_ptr<Executor>> none;
  LocalTransport transport(&system, false, nullptr, &edges, &none, &listener);
  bool answered = false;
  const auto question = std::make_shared<StepQuestion>(none);
  BOOST_TEST(!question->Ask(&transport, [&](const std::shared_ptr<StepQuestion>&) { answered = true; }));
  BOOST_TEST(!answered);
  BOOST_TEST(question->Lines().empty());
}

BOOST_AUTO_TEST_CASE(an_asynchronous_kernel_that_does_not_end) {
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

BOOST_AUTO_TEST_CASE(a_receive_whose_sender_waits) {
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

BOOST_AUTO_TEST_CASE(a_loop_with_a_stuck_iteration) {
  Hanging p(2);
  ops::Neg(p.root.WithOpName("z").WithDevice("/device:CPU:1"), p.Loop(0));
  BOOST_TEST(p.ReportOf({"z"}) ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'body' (CastHold) on CPU:0 in iteration 2 of loop 'loop/while_context' has run for T
    <- node 'loop/Exit/_S1' (_Send) on CPU:0 has waited T for input 0 'tensor' from 'loop/Exit:0' (loop 'loop/while_context' has not ended)
    <- node 'loop/Exit/_S2' (_Recv) on CPU:1 has waited T for tensor 'edge_19_loop/Exit:0' of CPU:0
    <- node 'z' (Neg) on CPU:1 has waited T for input 0 'x' from 'loop/Exit/_S2:0' (waiting for a tensor)
    <- node '_retval_z_0' (_Retval) on CPU:1 has waited T for input 0 'input' from 'z:0' (waiting too))");
}

BOOST_AUTO_TEST_CASE(a_loop_over_two_devices_is_stuck_in_the_other_one) {
  Hanging p(2);
  ops::Neg(p.root.WithOpName("z"), p.Loop(1));
  const std::string report = p.ReportOf({"z"});
  BOOST_TEST(report.find(R"(step N (z) has made no progress for T; it waits for:
  node 'body' (CastHold) on CPU:1 in iteration 2 of loop 'loop/while_context' has run for T
    <- node 'body/_S3' (_Send) on CPU:1 in iteration 2 of loop 'loop/while_context' has waited T for input 0 'tensor' from 'body:0' (running)
    <- node 'body/_S4' (_Recv) on CPU:0 in iteration 2 of loop 'loop/while_context' has waited T for tensor 'edge_15_body:0' of CPU:1
    <- node 'z' (Neg) on CPU:0 has waited T for input 0 'x' from 'loop/Exit:0' (loop 'loop/while_context' has not ended)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too)
    <- node 'loop/Add' (Add) on CPU:0 in iteration 2 of loop)") == 0u,
             report);
  // The other part's receives of the next iteration stand below the same culprit: nothing else
  // waits for nobody.
  BOOST_TEST(report.find("\n  node ", report.find("\n  node ") + 1) == std::string::npos, report);
}

BOOST_AUTO_TEST_CASE(a_partial_run_that_is_not_fed) {
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

// The second device's big value is due when the first device has got past `hold`, which it never
// does.
BOOST_AUTO_TEST_CASE(a_value_is_held_back_for_a_receiver_that_does_not_get_to_ask_for_it) {
  Hanging p(2);
  const TensorShape shape({256, 256});
  const Scope first = p.root.WithDevice("/device:CPU:0"), second = p.root.WithDevice("/device:CPU:1");
  const Output big = ops::Placeholder(second.WithOpName("big"), DType::kFloat, {.shape = shape});
  const Output made = ops::Neg(second.WithOpName("made"), big);
  Output sum = p.Hold("hold", ops::Placeholder(first.WithOpName("start"), DType::kFloat, {.shape = shape}), 0);
  for (int i = 0; i < 4; ++i) sum = ops::Sqrt(first.WithOpName(StrCat("work", i)), sum);
  ops::Add(first.WithOpName("z"), sum, made);
  Tensor ones(DType::kFloat, shape);
  std::fill_n(ones.flat<float>().data(), shape.num_elements(), 1.0f);
  p.feeds = {{"big", ones}, {"start", ones}};
  BOOST_TEST(p.ReportOf({"z"}) ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'hold' (CastHold) on CPU:0 has run for T
    <- node 'work0' (Sqrt) on CPU:0 has waited T for input 0 'x' from 'hold:0' (running)
    <- node 'work1' (Sqrt) on CPU:0 has waited T for input 0 'x' from 'work0:0' (waiting too)
    <- node 'work2' (Sqrt) on CPU:0 has waited T for input 0 'x' from 'work1:0' (waiting too)
    <- node 'made/_S2' (_Recv) on CPU:0 has waited T for 1 control input from 'work2'
    <- node 'work3' (Sqrt) on CPU:0 has waited T for input 0 'x' from 'work2:0' (waiting too)
    <- node 'z' (Add) on CPU:0 has waited T for input 0 'x' from 'work3:0' (waiting too), input 1 'y' from 'made/_S2:0' (waiting too)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too)
    <- node 'made/_S1' (_Send) on CPU:1 has waited T for its receiver to ask for the value)");
}

BOOST_AUTO_TEST_CASE(a_heavy_kernel_that_runs_as_a_job) {
  Heavy h;
  heavy = &h;
  Hanging p(1, 2);
  const Output a = p.Slow("a", p.x), b = p.Slow("b", p.x);
  ops::Add(p.root.WithOpName("z"), a, b);
  p.Extend();
  p.Warm(p.feeds, {"z"});
  // In the first step both are found to be heavy. From the second on one of them goes to the other
  // thread, if that is idle.
  p.Start({"z"});
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  while (!h.threads->HasIdleWorker()) std::this_thread::yield();
  h.stuck = true;
  p.Start({"z"});
  p.stage.Play();
  BOOST_REQUIRE(h.began.get_future().wait_for(60s) == std::future_status::ready);
  BOOST_TEST(p.ReportOfRunning() ==
             R"(step N (z) has made no progress for T; it waits for:
  node 'a' (CastHeavy) on CPU:0 has run for T
    <- node 'z' (Add) on CPU:0 has waited T for input 0 'x' from 'a:0' (running)
    <- node '_retval_z_0' (_Retval) on CPU:0 has waited T for input 0 'input' from 'z:0' (waiting too))");
  // Its end rings the executor's bell; the stage stands still until it has rung.
  h.stuck = false;
  h.go_on.set_value();
  std::promise<void> rung;
  h.threads->Schedule([&] { rung.set_value(); });
  rung.get_future().wait();
  p.stage.Play();
  BOOST_TEST(p.State() == "OK", p.Message());
  BOOST_TEST(*p.outputs.at(0).data<float>() == 4.0f);
}

BOOST_AUTO_TEST_CASE(who_has_the_variable_that_a_node_waits_for) {
  Hanging p;
  const Variable v(p.root.WithOpName("v"), 1.0f);
  const Operation init = GlobalVariablesInitializer(p.root.WithOpName("init"));
  auto add = NodeBuilder(p.root.graph(), "add", "AssignAddVariableOp").Input(NodeOut{v.handle().node(), 0});
  auto n = add.Input(NodeOut{p.x.node(), 0}).Build();
  BOOST_REQUIRE_MESSAGE(n.ok(), n.status());
  p.Extend();
  p.stage.Inline([&] { TROUPE_REQUIRE_OK(p.session->Run({}, {}, {init.name()}, nullptr)); });
  const std::shared_ptr<Device> device = p.runtime->impl()->devices[0];
  std::shared_ptr<VariableSlot> slot;
  for (const auto& e : device->containers()->Entries()) {
    if (e.name == "v") slot = std::dynamic_pointer_cast<VariableSlot>(e.object);
  }
  BOOST_REQUIRE(slot != nullptr);
  BOOST_REQUIRE(slot->TryBegin());
  std::optional<absl::Status> done;
  p.session->RunAsync({}, p.feeds, {}, {"add"}, [&](const absl::Status& s, const std::vector<Tensor>&) { done = s; });
  p.stage.Play();
  const std::string waits = "\nstep N (add): node 'add' (AssignAddVariableOp) on CPU:0 has waited T for variable 'v'";
  BOOST_TEST(p.StatusNow() == waits);  // nobody has said who has it
  const SlotHolder no_step;
  slot->SetHolder(&no_step);
  BOOST_TEST(p.StatusNow() == waits + ", held outside of steps");
  const KernelNode other(**n, device.get());
  const SlotHolder step{&other, 7};
  slot->SetHolder(&step);
  BOOST_TEST(p.StatusNow() == waits + ", held by node 'add' (AssignAddVariableOp) of step 7");
  slot->End();
  p.stage.Play();
  BOOST_REQUIRE(done.has_value());
  TROUPE_REQUIRE_OK(*done);
}

}  // namespace stall_report_test
}  // namespace troupe
