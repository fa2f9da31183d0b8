// Cutting a graph by device: graphs as text and their parts, and runs of both by the interpreter.
#include "graph/passes/partition.h"

#include <boost/test/unit_test.hpp>

#include "graph/passes/recv_schedule.h"
#include "tests/passes/graphs.h"
#include "tests/passes/interpreter.h"

namespace troupe {
namespace partition_test {

const std::string kA = "/job:w/replica:0/task:0/device:CPU:0", kB = "/job:w/replica:0/task:1/device:CPU:0",
                  kC = "/job:w/replica:0/task:0/device:CPU:1";

DeviceSet Devices() {
  auto set = DeviceSet::Make({{kA, 7, 0}, {kB, 8, 0}, {kC, 9, 0}});
  BOOST_REQUIRE(set.ok());
  return *std::move(set);
}

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Devices are written A, B and C in these tests.
std::unique_ptr<Graph> Placed(std::string text) {
  text = Replace(Replace(Replace(std::move(text), " @A", " @=" + kA), " @B", " @=" + kB), " @C", " @=" + kC);
  return MustParse(text);
}

// The part as lines, with short devices; the number of the edge, which no rule fixes, is left out.
std::string Short(const Graph& graph) {
  std::string s = Replace(Replace(Replace(SortedText(graph), kA, "A"), kB, "B"), kC, "C");
  for (size_t at = s.find("edge_"); at != std::string::npos; at = s.find("edge_", at + 1)) {
    const size_t end = s.find_first_not_of("0123456789", at + 5);
    s.erase(at + 5, end + 1 - (at + 5));
  }
  return s;
}

std::vector<GraphPart> MustCut(Graph* graph, const PartitionOptions& options = {}) {
  auto parts = PartitionGraph(graph, Devices(), options);
  BOOST_REQUIRE_MESSAGE(parts.ok(), parts.status().ToString());
  for (const GraphPart& p : *parts) {
    const absl::Status s = p.graph->Validate();
    BOOST_TEST(s.ok(), s.ToString() << "\n" << SortedText(*p.graph));
    int sends = 0, recvs = 0;
    for (const Node* n : p.graph->op_nodes()) {
      BOOST_TEST(n->assigned_device() == p.device);
      sends += n->IsSend();
      recvs += n->IsRecv();
    }
    BOOST_TEST(sends == p.num_sends);
    BOOST_TEST(recvs == p.num_recvs);
  }
  return *std::move(parts);
}

std::vector<const Graph*> Graphs(const std::vector<GraphPart>& parts) {
  std::vector<const Graph*> graphs;
  for (const GraphPart& p : parts) graphs.push_back(p.graph.get());
  return graphs;
}

struct Case {
  const char *what, *graph;
  std::vector<const char*> parts;
};

BOOST_AUTO_TEST_SUITE(partition)

BOOST_AUTO_TEST_CASE(each_graph_is_cut_into_the_parts_beside_it) {
  const Case kCases[] = {
      {"one device: nothing is cut",
       "a = TestRandom @A\nb = TestNeg(a, ^a) @A",
       {"a = TestRandom @=A\nb = TestNeg(a, ^a) @=A"}},
      {"one pair per value and receiver, however many consumers",
       R"(x = TestFeed[dtype=float32] @A
          a = TestSplit(x) @A
          b = TestAdd(a, a) @B
          c = TestAdd(a, a:1) @B
          d = TestNeg(a) @A)",
       {R"(x = TestFeed[dtype=float32] @=A
           a = TestSplit(x) @=A
           d = TestNeg(a) @=A
           a/_S1 = _Send[tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="B"](a) @=A
           a/_S3 = _Send[tensor_name="edge_a:1", send_device="A", send_device_incarnation=7, recv_device="B"](a:1) @=A)",
        R"(a/_S2 = _Recv[tensor_type=float32, tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           a/_S4 = _Recv[tensor_type=float32, tensor_name="edge_a:1", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           b = TestAdd(a/_S2, a/_S2) @=B
           c = TestAdd(a/_S2, a/_S4) @=B)"}},
      {"parts come by task, then by device; each receiver has its pair",
       "a = TestRandom @A\nb = TestNeg(a) @B\nc = TestNeg(a) @C",
       {R"(a = TestRandom @=A
           a/_S1 = _Send[tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="B"](a) @=A
           a/_S3 = _Send[tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="C"](a) @=A)",
        R"(a/_S4 = _Recv[tensor_type=float32, tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="C"] @=C
           c = TestNeg(a/_S4) @=C)",
        R"(a/_S2 = _Recv[tensor_type=float32, tensor_name="edge_a:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           b = TestNeg(a/_S2) @=B)"}},
      {"a control edge is carried by a constant, or by a value that goes the same way",
       "a = TestRandom @A\nn = TestNone(^a) @B\nm = TestNone(^a) @B\nc = TestRandom @A\nd = "
       "TestNeg(c, ^a) @C\ne = TestNone(^c) @C",
       {R"(a = TestRandom @=A
           c = TestRandom @=A
           a/_S3 = Const[value=float32[0]{}](^a) @=A
           a/_S4 = _Send[tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="B"](a/_S3) @=A
           a/_S6 = _Send[tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="C"](a/_S3) @=A
           c/_S1 = _Send[tensor_name="edge_c:0", send_device="A", send_device_incarnation=7, recv_device="C"](c) @=A)",
        R"(c/_S2 = _Recv[tensor_type=float32, tensor_name="edge_c:0", send_device="A", send_device_incarnation=7, recv_device="C"] @=C
           a/_S7 = _Recv[tensor_type=float32, tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="C"] @=C
           d = TestNeg(c/_S2, ^a/_S7) @=C
           e = TestNone(^c/_S2) @=C)",
        R"(a/_S5 = _Recv[tensor_type=float32, tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           n = TestNone(^a/_S5) @=B
           m = TestNone(^a/_S5) @=B)"}},
      {"control edges of one device into one node cross together, but for those that cross anyway",
       "a = TestRandom @A\nb = TestRandom @A\nc = TestRandom @A\nd = TestNeg(c) @B\nn = TestNone(^a, ^b, ^c) @B",
       {R"(a = TestRandom @=A
           b = TestRandom @=A
           c = TestRandom @=A
           a/_S3 = Const[value=float32[0]{}](^a, ^b) @=A
           a/_S4 = _Send[tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="B"](a/_S3) @=A
           c/_S1 = _Send[tensor_name="edge_c:0", send_device="A", send_device_incarnation=7, recv_device="B"](c) @=A)",
        R"(a/_S5 = _Recv[tensor_type=float32, tensor_name="edge_^a", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           c/_S2 = _Recv[tensor_type=float32, tensor_name="edge_c:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           d = TestNeg(c/_S2) @=B
           n = TestNone(^a/_S5, ^c/_S2) @=B)"}},
      {"the control edge of a Switch never goes with one of its values, which may be dead",
       "x = TestRandom @A\np = TestRandom[dtype=bool] @A\ns = Switch(x, p) @A\nn = TestNeg(s, ^s) "
       "@B",
       {R"(x = TestRandom @=A
           p = TestRandom[dtype=bool] @=A
           s = Switch(x, p) @=A
           s/_S1 = _Send[tensor_name="edge_s:0", send_device="A", send_device_incarnation=7, recv_device="B"](s) @=A
           s/_S3 = Const[value=float32[0]{}](^s) @=A
           s/_S4 = _Send[tensor_name="edge_^s", send_device="A", send_device_incarnation=7, recv_device="B"](s/_S3) @=A)",
        R"(s/_S2 = _Recv[tensor_type=float32, tensor_name="edge_s:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           s/_S5 = _Recv[tensor_type=float32, tensor_name="edge_^s", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           n = TestNeg(s/_S2, ^s/_S5) @=B)"}},
      {"a reference that is read crosses as a value; small constants are copied, large ones sent",
       R"(v = TestVar @A
          k = Const[value=float32{1}] @A
          big = Const[value=float32[1000]{1}] @A
          l = TestAddN(v, k, big, k) @B)",
       {R"(v = TestVar @=A
           k = Const[value=float32{1}] @=A
           big = Const[value=float32[1000]{1}] @=A
           v/_S1 = _Send[tensor_name="edge_v:0", send_device="A", send_device_incarnation=7, recv_device="B"](v) @=A
           big/_S4 = _Send[tensor_name="edge_big:0", send_device="A", send_device_incarnation=7, recv_device="B"](big) @=A)",
        R"(v/_S2 = _Recv[tensor_type=float32, tensor_name="edge_v:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           k/_S3 = Const[value=float32{1}] @=B
           big/_S5 = _Recv[tensor_type=float32, tensor_name="edge_big:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
           l = TestAddN(v/_S2, k/_S3, big/_S5, k/_S3) @=B)"}},
  };
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = Placed(c.graph);
      const std::vector<GraphPart> parts = MustCut(graph.get());
      BOOST_REQUIRE(parts.size() == c.parts.size());
      for (size_t i = 0; i < parts.size(); ++i) BOOST_TEST(Short(*parts[i].graph) == SortedLines(c.parts[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_graph_that_cannot_be_cut_is_refused) {
  const struct {
    const char *graph, *a, *b;
  } kCases[] = {
      {"a = TestRandom", "node 'a'", "no device"},
      {"a = TestRandom @=/job:x/replica:0/task:0/device:CPU:0", "node 'a'", "no such device"},
      {"v = TestVar @A\nx = TestRandom @B\na = TestAssign(v, x) @B", "node 'a'", "reference from 'v'"},
      {R"(x = TestRandom @A
          e = Enter[frame_name="f"](x) @A
          m = Merge(e, next) @A
          y = TestNeg(m) @B
          z = TestNeg(y) @A
          next = NextIteration(z) @A)",
       "loop 'f'", "no LoopCond"},
  };
  for (const auto& c : kCases) {
    auto graph = Placed(c.graph);
    auto parts = PartitionGraph(graph.get(), Devices());
    BOOST_REQUIRE_MESSAGE(!parts.ok(), c.graph);
    const std::string message(parts.status().message());
    BOOST_TEST(message.find(c.a) != std::string::npos, message);
    BOOST_TEST(message.find(c.b) != std::string::npos, message);
  }
}

// while (i < 10) i += w, with the addition on B.
const char* kLoop = R"(
  x = _Arg[T=int32, index=0] @A
  w = _Arg[T=int32, index=1] @A
  ten = Const[value=int32{10}] @A
  e = Enter[frame_name="f"](x) @A
  ew = Enter[frame_name="f", is_constant=true](w) @A
  el = Enter[frame_name="f", is_constant=true](ten) @A
  m = Merge(e, next) @A
  less = TestLess(m, el) @A
  cond = LoopCond(less) @A
  sw = Switch(m, cond) @A
  body = TestAdd(sw:1, ew) @B
  next = NextIteration(body) @B
  exit = Exit(sw) @B
  out = TestNeg(exit) @B
  r = _Retval[index=0](out) @A
)";

// if (x < y) the result is x, else that of: while (x < 10) x += x, with the addition on B.
const char* kLoopInBranch = R"(
  x = _Arg[T=int32, index=0] @A
  y = _Arg[T=int32, index=1] @A
  p = TestLess(x, y) @A
  s = Switch(x, p) @A
  e = Enter[frame_name="f"](s) @A
  m = Merge(e, next) @A
  ten = Const[value=int32{10}](^m) @A
  less = TestLess(m, ten) @A
  cond = LoopCond(less) @A
  sw = Switch(m, cond) @A
  body = TestAdd(sw:1, sw:1) @B
  next = NextIteration(body) @A
  exit = Exit(sw) @A
  j = Merge(exit, s:1) @B
  r = _Retval[index=0](j) @A
)";

BOOST_AUTO_TEST_CASE(a_loop_on_two_devices_gets_a_control_loop_where_it_receives) {
  auto graph = Placed(kLoop);
  const std::vector<GraphPart> parts = MustCut(graph.get());
  BOOST_REQUIRE(parts.size() == 2);
  // On B: the control loop, driven by the received condition, and Recvs that wait for its Merge.
  // The constant's Enter moved to B and receives once, outside.
  BOOST_TEST(Short(*parts[1].graph) == SortedLines(R"(
    cond/_control_loop_enter_start = Const[value=int32{0}] @=B
    cond/_control_loop_enter = Enter[frame_name="f"](cond/_control_loop_enter_start) @=B
    cond/_control_loop_merge = Merge(cond/_control_loop_enter, cond/_control_loop_next) @=B
    cond/_control_loop_switch = Switch(cond/_control_loop_merge, cond/_S12) @=B
    cond/_control_loop_next = NextIteration(cond/_control_loop_switch:1) @=B
    cond/_S12 = _Recv[tensor_type=bool, tensor_name="edge_cond:0", send_device="A", send_device_incarnation=7, recv_device="B"](^cond/_control_loop_merge) @=B
    w/_S2 = _Recv[tensor_type=int32, tensor_name="edge_w:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
    ew = Enter[frame_name="f", is_constant=true](w/_S2) @=B
    sw/_S4 = _Recv[tensor_type=int32, tensor_name="edge_sw:1", send_device="A", send_device_incarnation=7, recv_device="B"](^cond/_control_loop_merge) @=B
    body = TestAdd(sw/_S4, ew) @=B
    body/_S5 = _Send[tensor_name="edge_body:0", send_device="B", send_device_incarnation=8, recv_device="A"](body) @=B
    exit/_S8 = _Recv[tensor_type=int32, tensor_name="edge_exit:0", send_device="A", send_device_incarnation=7, recv_device="B"] @=B
    out = TestNeg(exit/_S8) @=B
    out/_S9 = _Send[tensor_name="edge_out:0", send_device="B", send_device_incarnation=8, recv_device="A"](out) @=B
  )"));
}

// Each graph gives the same on one device and cut, and everything that is sent is received.
BOOST_AUTO_TEST_CASE(cut_graphs_compute_the_same) {
  const struct {
    const char *what, *graph;
    std::vector<int> args;
  } kCases[] = {
      {"a loop", kLoop, {1, 4}},
      {"a loop that is not entered", kLoop, {11, 4}},
      {"the condition on the other device",
       R"(x = _Arg[T=int32, index=0] @A
          e = Enter[frame_name="f"](x) @A
          m = Merge(e, next) @A
          ten = Const[value=int32{10}](^m) @B
          less = TestLess(m, ten) @B
          cond = LoopCond(less) @B
          sw = Switch(m, cond) @A
          one = Const[value=int32{3}](^sw) @C
          body = TestAdd(sw:1, one) @A
          p = TestPrint(body) @C
          next = NextIteration(body) @A
          exit = Exit(sw) @A
          r = _Retval[index=0](exit) @A)",
       {1}},
      {"a branch that is not taken, on another device",
       R"(x = _Arg[T=int32, index=0] @A
          y = _Arg[T=int32, index=1] @A
          p = TestLess(x, y) @A
          s = Switch(x, p) @A
          t = TestNeg(s:1) @B
          f = TestPrint(s) @B
          j = Merge(f, t) @C
          r = _Retval[index=0](j) @A)",
       {1, 2}},
      {"a loop inside of a branch that is not taken", kLoopInBranch, {1, 2}},
      {"the same loop, taken", kLoopInBranch, {3, 2}},
      // for (i = 0; i < 3; i += 1) for (j = i; j < 4; j += 1) acc += 1: the inner body on B, the
      // outer's on C.
      {"nested loops",
       R"(zero = _Arg[T=int32, index=0] @A
          e = Enter[frame_name="out"](zero) @A
          ea = Enter[frame_name="out"](zero) @A
          m = Merge(e, next) @A
          ma = Merge(ea, nexta) @A
          three = Const[value=int32{3}](^m) @A
          less = TestLess(m, three) @A
          cond = LoopCond(less) @A
          sw = Switch(m, cond) @A
          swa = Switch(ma, cond) @A
          one = Const[value=int32{1}](^sw) @A
          i1 = TestAdd(sw:1, one) @C
          next = NextIteration(i1) @A
          e2 = Enter[frame_name="in"](sw:1) @A
          ea2 = Enter[frame_name="in"](swa:1) @A
          m2 = Merge(e2, next2) @A
          ma2 = Merge(ea2, nexta2) @A
          four = Const[value=int32{4}](^m2) @A
          less2 = TestLess(m2, four) @A
          cond2 = LoopCond(less2) @A
          sw2 = Switch(m2, cond2) @A
          swa2 = Switch(ma2, cond2) @A
          one2 = Const[value=int32{1}](^sw2) @A
          j1 = TestAdd(sw2:1, one2) @B
          a1 = TestAdd(swa2:1, one2) @B
          next2 = NextIteration(j1) @A
          nexta2 = NextIteration(a1) @A
          exit2 = Exit(sw2) @A
          exita2 = Exit(swa2) @A
          same = TestPrint(exita2) @C
          nexta = NextIteration(same) @A
          exit = Exit(sw) @A
          exita = Exit(swa) @A
          r = _Retval[index=0](exita) @B)",
       {0}},
      {"an inner loop on another device than the outer",
       R"(zero = _Arg[T=int32, index=0] @A
          e = Enter[frame_name="out"](zero) @A
          m = Merge(e, next) @A
          three = Const[value=int32{30}](^m) @A
          less = TestLess(m, three) @A
          cond = LoopCond(less) @A
          sw = Switch(m, cond) @A
          one = Const[value=int32{7}](^sw) @A
          i1 = TestAdd(sw:1, one) @A
          e2 = Enter[frame_name="in"](i1) @B
          lim = Enter[frame_name="in", is_constant=true](three) @B
          m2 = Merge(e2, next2) @B
          less2 = TestLess(m2, lim) @B
          cond2 = LoopCond(less2) @B
          sw2 = Switch(m2, cond2) @B
          j1 = TestAdd(sw2:1, sw2:1) @B
          next2 = NextIteration(j1) @B
          exit2 = Exit(sw2) @B
          next = NextIteration(exit2) @A
          exit = Exit(sw) @A
          r = _Retval[index=0](exit) @A)",
       {1}},
  };
  for (const auto& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      std::vector<Tensor> args;
      for (int a : c.args) args.push_back(Tensor::Scalar<int32_t>(a));
      auto graph = Placed(c.graph);
      const Interpretation whole = Interpret({graph.get()}, args);
      BOOST_REQUIRE(whole.retvals.size() == 1);
      BOOST_TEST(whole.retvals.at(0) != "dead");
      const std::vector<GraphPart> parts = MustCut(graph.get());
      BOOST_TEST(parts.size() > 1);
      const Interpretation cut = Interpret(Graphs(parts), args);
      BOOST_TEST((cut.retvals == whole.retvals), (cut.retvals.empty() ? "nothing came" : cut.retvals.at(0)));
      BOOST_TEST((cut.printed == whole.printed));
      BOOST_TEST(cut.messages > 0);
      BOOST_TEST(cut.unclaimed == 0);
      BOOST_TEST(cut.stuck.empty(), StrJoin(cut.stuck, ", "));
    }
  }
}

BOOST_AUTO_TEST_CASE(recvs_that_are_not_needed_soon_are_held_back) {
  // On B a chain of five, then the large value from A is needed.
  const char* kGraph = R"(
    big = TestFeed[dtype=float32, shape=[1000000]] @A
    w = TestNeg(big) @A
    x = TestFeed[dtype=float32, shape=[10]] @B
    c1 = TestNeg(x) @B
    c2 = TestNeg(c1) @B
    c3 = TestNeg(c2) @B
    c4 = TestNeg(c3) @B
    c5 = TestNeg(c4) @B
    y = TestAdd(c5, w) @B
    p = TestRandom[dtype=bool] @B
    s = Switch(y, p) @B
    z = TestAdd(s, s) @B
  )";
  auto graph = Placed(kGraph);
  CostModelOptions costs;
  costs.other_task = {1000, 4};  // 4 MB take a millisecond
  CostModel model(costs);
  BOOST_TEST(model.InferShapes(*graph).ok());
  for (const char* n : {"c1", "c2", "c3", "c4", "c5"}) model.SetMeasured(n, 2e6);
  for (const char* n : {"big", "w", "x", "y", "s", "z", "p"}) model.SetMeasured(n, 1e3);
  PartitionOptions options;
  options.schedule_recvs = &model;
  const std::vector<GraphPart> parts = MustCut(graph.get(), options);
  const auto gate_of = [](const Graph& part) -> std::string {
    for (const Node* n : part.op_nodes()) {
      if (!n->IsRecv()) continue;
      for (const Edge* e : n->in_edges()) {
        if (e->IsControl() && e->src->IsOp()) return e->src->name();
      }
    }
    return "";
  };
  // It must be there after 10 ms, takes 1 ms, and half a millisecond of margin is wanted: c4 is
  // done at 8 ms.
  BOOST_TEST(gate_of(*parts[1].graph) == "c4");
  auto unscheduled = Placed(kGraph);
  BOOST_TEST(gate_of(*MustCut(unscheduled.get())[1].graph) == "");
  // Small tensors are left alone.
  options.schedule.min_bytes = 5000000;
  auto small = Placed(kGraph);
  BOOST_TEST(gate_of(*MustCut(small.get(), options)[1].graph) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace partition_test
}  // namespace troupe
