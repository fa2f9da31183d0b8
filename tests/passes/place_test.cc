// Placement: requests, groups, kernels, memory and the cost model.
#include "graph/core/hash_map.h"
#include "graph/passes/place.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"

namespace troupe {
namespace place_test {

const std::string kHost = "/job:w/replica:0/task:0", kPs = "/job:ps/replica:0/task:0";
const std::string kCpu = kHost + "/device:CPU:0", kGpu0 = kHost + "/device:GPU:0", kGpu1 = kHost + "/device:GPU:1";
const std::string kPsCpu = kPs + "/device:CPU:0";

// Everything runs on CPUs; on GPUs what is named.
class TestKernels : public KernelLookup {
 public:
  explicit TestKernels(std::string gpu_ops, bool prefer_gpu = false, std::string no_cpu = "")
      : gpu_(StrSplit(gpu_ops, ' ')), no_cpu_(StrSplit(no_cpu, ' ')), prefer_gpu_(prefer_gpu) {}
  bool HasKernel(const Node& node, const std::string& type) const override {
    return type == "GPU" ? Has(gpu_, node.op().name) : !Has(no_cpu_, node.op().name);
  }
  int Priority(const Node&, const std::string& type) const override { return prefer_gpu_ && type == "GPU" ? 1 : 0; }

 private:
  static bool Has(const std::vector<std::string>& list, const std::string& op) {
    return std::find(list.begin(), list.end(), op) != list.end();
  }
  std::vector<std::string> gpu_, no_cpu_;
  bool prefer_gpu_;
};

DeviceSet Devices(const std::vector<std::string>& names) {
  std::vector<DeviceInfo> infos;
  for (const std::string& n : names) infos.push_back({n, 1, 0});
  auto set = DeviceSet::Make(std::move(infos));
  BOOST_REQUIRE_MESSAGE(set.ok(), set.status().ToString());
  return *std::move(set);
}

// "name device" lines, devices in short: cpu, gpu0, gpu1, ps.
std::string Placement(const Graph& graph) {
  std::string s;
  for (const Node* n : graph.op_nodes()) {
    const std::string& d = n->assigned_device();
    StrAppend(&s, s.empty() ? "" : " ", n->name(), ":",
              d == kCpu     ? "cpu"
              : d == kGpu0  ? "gpu0"
              : d == kGpu1  ? "gpu1"
              : d == kPsCpu ? "ps"
                            : "?" + d);
  }
  return s;
}

struct Case {
  const char *what, *graph;
  bool soft;
  const char* after;  // or a part of the message of INVALID_ARGUMENT
  std::vector<const char*> errors;
};

BOOST_AUTO_TEST_SUITE(place)

BOOST_AUTO_TEST_CASE(requests_groups_and_errors) {
  const DeviceSet devices = Devices({kCpu, kGpu0, kGpu1, kPsCpu});
  const Case kCases[] = {
      {"what is free goes to the first device",
       "a = TestRandom\nb = TestNeg(a)\nc = TestAdd(b, a)",
       false,
       "a:cpu b:cpu c:cpu",
       {}},
      {"what only waits for others goes where most of these are, if nobody says otherwise",
       R"(a = TestRandom @/job:ps
          b = TestRandom @/job:ps
          c = TestRandom
          d = TestNeg(c) @/job:w
          n = NoOp(^a, ^b, ^d)
          m = NoOp(^n)
          o = NoOp(^a) @/job:w
          e = NoOp(^a, ^d)
          f = NoOp)",
       false,
       "a:ps b:ps c:cpu d:cpu n:ps m:ps o:cpu e:cpu f:cpu",
       {}},
      {"requests in part and in full",
       "a = TestRandom @/job:ps\nb = TestNeg(a) @/gpu:1\nc = TestNeg(a) @/device:GPU:*\nd = "
       "TestNeg(a) @/job:w/replica:0/task:0/cpu:0",
       false,
       "a:ps b:gpu1 c:gpu0 d:cpu",
       {}},
      {"what was assigned stays",
       "a = TestRandom @=/job:ps/replica:0/task:0/device:CPU:0\nb = TestNeg(a)",
       false,
       "a:ps b:cpu",
       {}},
      {"colocation by class, also with a node that comes later, also among those whose namesake is "
       "gone",
       R"(a = TestRandom
          b = TestNeg[_class={"loc:@d"}](a)
          c = TestNeg[_class={"loc:@b"}](a)
          d = TestNeg(a) @/gpu:1
          e = TestNeg[_class={"loc:@gone"}](a) @/gpu:0
          f = TestNeg[_class={"loc:@gone", "other"}](a))",
       false,
       "a:cpu b:gpu1 c:gpu1 d:gpu1 e:gpu0 f:gpu0",
       {}},
      {"references keep their nodes together, values do not",
       R"(v = TestVar @/gpu:1
          x = TestRandom
          a = TestAssign(v, x)
          n = TestNeg(v)
          p = TestRandom[dtype=bool]
          s = RefSwitch(a, p)
          m = RefMerge(s, s:1)
          e = RefEnter[frame_name="f"](v))",
       false,
       "v:gpu1 x:cpu a:gpu1 n:cpu p:cpu s:gpu1 m:gpu1 e:gpu1",
       {}},
      {"resources keep their nodes together",
       "h = TestHandle @/job:ps\nr = TestRead(h)\nn = TestNeg(r)\nu = TestUpdate(h, n)",
       false,
       "h:ps r:ps n:cpu u:ps",
       {}},
      {"parts of requests add up in a group",
       "a = TestRandom @/job:w\nb = TestNeg(a) @/job:w\nc = TestNeg[_class={\"loc:@b\"}](a) "
       "@/device:GPU:*\nd = TestNeg[_class={\"loc:@c\"}](a) @/device:GPU:1",
       false,
       "a:cpu b:gpu1 c:gpu1 d:gpu1",
       {}},
      {"a node without inputs goes where its consumers are, if they agree",
       R"(a = Const[value=float32{1}]
          b = Const[value=float32{2}]
          c = Const[value=float32{2}] @/job:w
          d = TestAdd(a, b) @/job:ps
          e = TestAdd(b, c) @/gpu:0
          f = TestAdd(c, a) @/job:ps)",
       false,
       "a:ps b:cpu c:cpu d:ps e:gpu0 f:ps",
       {}},
      {"shapes stay with their tensor, fetches with what they fetch",
       "a = TestRandom @/job:ps\ns = Shape(a)\nr = _Retval[index=0](a)\nq = _Retval[index=1](s)",
       false,
       "a:ps s:ps r:ps q:ps",
       {}},
      {"no such device",
       "a = TestRandom @/job:nope",
       false,
       nullptr,
       {"node 'a' (TestRandom)", "/job:nope", "no such device", "/job:w/replica:0/task:0/device:GPU:1"}},
      {"no such device is not softened when the task is wrong",
       "a = TestRandom @/job:w/task:7",
       true,
       nullptr,
       {"/job:w/task:7", "no such device"}},
      {"no kernel there",
       "a = TestRandom @/gpu:0",
       false,
       nullptr,
       {"node 'a'", "'/device:GPU:0'", "kernels for CPU only"}},
      {"softly it falls back to the CPU of the same task",
       "a = TestRandom @/gpu:0\nb = TestRandom @/job:ps/gpu:3",
       true,
       "a:cpu b:ps",
       {}},
      {"a device number that is not there",
       "a = TestNeg[T=float32](r) @/gpu:7\nr = TestRandom",
       true,
       "a:cpu r:cpu",
       {}},
      {"softly a conflict of types in a group drops both",
       "r = TestRandom\na = TestNeg(r) @/gpu:0\nb = TestNeg[_class={\"loc:@a\"}](r) @/cpu:0",
       true,
       "r:cpu a:cpu b:cpu",
       {}},
      {"requests of a group conflict",
       "r = TestRandom\na = TestNeg(r) @/gpu:0\nb = TestNeg[_class={\"loc:@a\"}](r) @/cpu:0",
       false,
       nullptr,
       {"'a' (TestNeg, asked for '/gpu:0') and 'b' (TestNeg, asked for '/cpu:0') must be on one "
        "device",
        "'_class'", "different device types"}},
      {"jobs of a group conflict whatever is soft",
       "v = TestVar @/job:ps\nr = TestRandom\na = TestAssign(v, r) @/job:w",
       true,
       nullptr,
       {"'v'", "'a'", "takes a reference", "different jobs"}},
      {"a third member conflicts: the group is named",
       "r = TestRandom\na = TestNeg(r) @/gpu:0\nb = TestNeg[_class={\"loc:@a\"}](r)\nc = "
       "TestNeg[_class={\"loc:@b\"}](r) @/gpu:1",
       false,
       nullptr,
       {"node 'c'", "'a' (TestNeg, asked for '/gpu:0'), 'b' (TestNeg)", "different devices"}},
      {"no device type has all kernels of a group",
       "h = TestHandle\nr = TestGpuRead(h)",
       false,
       nullptr,
       {"'h' (TestHandle) and 'r' (TestGpuRead)", "resource handle", "no device type has kernels for all of them"}},
      {"a member without a kernel for what another asked",
       "r = TestRandom @/cpu:0\na = TestSub(r, r)\nb = TestNeg[_class={\"loc:@a\"}](r) @/gpu:0",
       false,
       nullptr,
       {"'/device:GPU:0'", "kernels for CPU only", "'a' (TestSub), 'b'"}},
      {"a bad name", "a = TestRandom @/jub:w", false, nullptr, {"node 'a'", "'/jub:w' is no device name"}},
      {"an assigned device that is not there",
       "a = TestRandom @=/job:x/replica:0/task:0/device:CPU:0",
       true,
       nullptr,
       {"node 'a'", "no such device"}},
      {"no kernel at all", "a = TestGpuOnly", true, nullptr, {"node 'a' (TestGpuOnly)", "no kernel", "CPU, GPU"}},
  };
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = MustParse(c.graph);
      const TestKernels wide("TestAdd TestNeg TestVar TestAssign RefSwitch RefMerge RefEnter TestGpuRead", false,
                             "TestGpuOnly TestGpuRead");
      PlaceOptions options;
      options.allow_soft_placement = c.soft;
      const absl::Status s = PlaceGraph(graph.get(), devices, wide, options);
      if (c.after != nullptr) {
        BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
        BOOST_TEST(Placement(*graph) == c.after);
        continue;
      }
      BOOST_REQUIRE(!s.ok());
      BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument));
      for (const char* part : c.errors) {
        BOOST_TEST(std::string(s.message()).find(part) != std::string::npos, part << " in: " << s.message());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_preferred_type_comes_first) {
  auto graph = MustParse("a = TestRandom\nb = TestNeg(a)\nc = TestSub(b, b)");
  const TestKernels kernels("TestNeg", true);
  BOOST_REQUIRE(PlaceGraph(graph.get(), Devices({kCpu, kGpu0, kGpu1}), kernels).ok());
  BOOST_TEST(Placement(*graph) == "a:cpu b:gpu0 c:cpu");
}

BOOST_AUTO_TEST_CASE(stateful_nodes_stay_where_an_earlier_signature_put_them) {
  const DeviceSet devices = Devices({kCpu, kPsCpu});
  const TestKernels kernels("");
  HashMap<std::string, std::string> known;
  PlaceOptions options;
  options.stateful_devices = &known;
  auto first = MustParse("v = TestHandle\nr = TestRead(v) @/job:ps\nx = _Arg[T=float32, index=0]\nn = TestNeg(r)");
  BOOST_REQUIRE(PlaceGraph(first.get(), devices, kernels, options).ok());
  BOOST_TEST(Placement(*first) == "v:ps r:ps x:cpu n:cpu");
  BOOST_TEST(known.size() == 2);
  auto second = MustParse("v = TestHandle\nq = TestRead(v)");
  BOOST_REQUIRE(PlaceGraph(second.get(), devices, kernels, options).ok());
  BOOST_TEST(Placement(*second) == "v:ps q:ps");
  auto third = MustParse("v = TestHandle\nz = TestRead(v) @/job:w");
  BOOST_TEST(!PlaceGraph(third.get(), devices, kernels, options).ok());
}

BOOST_AUTO_TEST_CASE(the_cost_model_spreads_two_chains_over_devices) {
  // Two chains from one source, joined at the end.
  const char* kChains = R"(
    x = TestRandom
    a1 = TestNeg(x)
    b1 = TestNeg(x)
    a2 = TestNeg(a1)
    b2 = TestNeg(b1)
    sum = TestAdd(a2, b2)
  )";
  const DeviceSet devices = Devices({kCpu, kGpu0, kGpu1});
  const TestKernels kernels("TestNeg TestAdd");
  const struct {
    const char* what;
    double node_us, transfer_us;
    const char* after;
  } kCases[] = {
      {"cheap transfers: the chains run side by side", 100, 1, "x:cpu a1:cpu b1:gpu0 a2:cpu b2:gpu0 sum:gpu0"},
      {"dear transfers: everything stays together", 100, 1000, "x:cpu a1:cpu b1:cpu a2:cpu b2:cpu sum:cpu"},
  };
  for (const auto& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      CostModelOptions costs;
      costs.same_task = {c.transfer_us * 1e3, 1e9};
      CostModel model(costs);
      for (const char* n : {"x", "a1", "a2", "b1", "b2", "sum"}) model.SetMeasured(n, c.node_us * 1e3);
      auto graph = MustParse(kChains);
      PlaceOptions options;
      options.use_cost_model = true;
      options.cost_model = &model;
      BOOST_REQUIRE(PlaceGraph(graph.get(), devices, kernels, options).ok());
      BOOST_TEST(Placement(*graph) == c.after);
    }
  }
  // A device that is fast enough is worth the way to it.
  CostModelOptions costs;
  costs.same_task = {1e3, 1};
  CostModel model(costs);
  for (const char* n : {"a1", "a2", "b1", "b2", "sum"}) {
    model.SetMeasured(n, 1e6);
    model.SetMeasured(n, 1e4, "GPU");
  }
  auto graph = MustParse(kChains);
  PlaceOptions options;
  options.use_cost_model = true;
  options.cost_model = &model;
  int told = 0;
  options.log = [&](const Node& n) { told += !n.assigned_device().empty(); };
  BOOST_REQUIRE(PlaceGraph(graph.get(), devices, kernels, options).ok());
  BOOST_TEST(Placement(*graph) == "x:cpu a1:gpu0 b1:gpu1 a2:gpu0 b2:gpu1 sum:gpu0");
  BOOST_TEST(told == 6);
}

BOOST_AUTO_TEST_CASE(estimates_come_from_shapes_and_memory_is_respected) {
  CostModel model;
  auto graph = MustParse(R"(
    x = TestFeed[dtype=float32, shape=[1000,1000]]
    y = TestFeed[dtype=float32, shape=[10]]
    a = TestNeg(x)
    b = TestNeg(y)
    v = TestVar[shape=[1000,1000]]
    w = TestVar[shape=[1000,1000]]
  )");
  BOOST_TEST(model.InferShapes(*graph).ok());
  BOOST_TEST(model.OutputBytes({graph->Find("a"), 0}) == 4000000);
  const DeviceName cpu = *DeviceName::ParseFull(kCpu), gpu = *DeviceName::ParseFull(kGpu0),
                   ps = *DeviceName::ParseFull(kPsCpu);
  BOOST_TEST(model.ExecutionNs(*graph->Find("a"), cpu) > 100 * model.ExecutionNs(*graph->Find("b"), cpu));
  BOOST_TEST(model.ExecutionNs(*graph->Find("a"), gpu) < model.ExecutionNs(*graph->Find("a"), cpu));
  BOOST_TEST(model.TransferNs(4000000, cpu, cpu) == 0);
  BOOST_TEST(model.TransferNs(4000000, cpu, ps) > model.TransferNs(4000000, cpu, gpu));
  BOOST_TEST(!model.IsMeasured(*graph->Find("a")));
}

// A policy of the program's: asked once for each group that has a choice, with what is known then.
BOOST_AUTO_TEST_CASE(a_policy_chooses_among_what_is_left_open) {
  const DeviceSet devices = Devices({kCpu, kGpu0, kGpu1});
  const TestKernels kernels("TestNeg TestAdd");
  const char* const kGraph =
      "a = TestRandom\nb = TestNeg(a)\nc = TestNeg(a) @/gpu:0\nd = TestAdd(b, c)\ne = TestNeg(d)";
  auto graph = MustParse(kGraph);
  std::string asked;
  PlaceOptions options;
  options.policy = [&](const PlacementQuestion& q) -> absl::StatusOr<std::string> {
    StrAppend(&asked, q.node.name(), " of ", q.devices.size(), " after");
    for (const std::string& input : q.inputs)
      StrAppend(&asked, " ", input == kCpu ? "cpu" : input == kGpu0 ? "gpu0" : input == kGpu1 ? "gpu1" : "?");
    asked += "; ";
    return q.node.name() == "b" ? kGpu1 : q.node.name() == "e" ? std::string() : q.inputs[0];
  };
  BOOST_REQUIRE(PlaceGraph(graph.get(), devices, kernels, options).ok());
  BOOST_TEST(asked == "b of 3 after cpu; d of 3 after gpu1 gpu0; e of 3 after gpu1; ");
  BOOST_TEST(Placement(*graph) == "a:cpu b:gpu1 c:gpu0 d:gpu1 e:cpu");
}

BOOST_AUTO_TEST_CASE(what_a_policy_does_wrong_names_the_node) {
  const DeviceSet devices = Devices({kCpu, kGpu0});
  const TestKernels kernels("TestNeg");
  const auto fails = [&](PlacementPolicy policy) {
    auto graph = MustParse("a = TestRandom\nb = TestNeg(a)");
    PlaceOptions options;
    options.policy = std::move(policy);
    const absl::Status s = PlaceGraph(graph.get(), devices, kernels, options);
    BOOST_TEST(graph->Find("a")->assigned_device() == "");
    return std::string(s.message());
  };
  BOOST_TEST(fails([](const auto&) {
               return std::string("/gpu:7");
             }).find(StrCat("the placement policy: chose '/gpu:7', which is none of ", kCpu, ", ", kGpu0)) !=
             std::string::npos);
  BOOST_TEST(fails([](const auto&) { return absl::InternalError("no idea"); }).find("the placement policy: no idea") !=
             std::string::npos);
  const std::string thrown = fails([](const auto&) -> std::string { throw std::runtime_error("x"); });
  BOOST_TEST(thrown.find("the placement policy: threw x") != std::string::npos, thrown);
  BOOST_TEST(thrown.find("'b'") != std::string::npos, thrown);
}

BOOST_AUTO_TEST_CASE(device_sets_are_checked) {
  BOOST_TEST(!DeviceSet::Make({}).ok());
  BOOST_TEST(!DeviceSet::Make({{"/cpu:0", 1, 0}}).ok());
  BOOST_TEST(!DeviceSet::Make({{kCpu, 1, 0}, {kCpu, 2, 0}}).ok());
  const DeviceSet set = Devices({kCpu, kGpu0});
  BOOST_TEST(set.Find(kGpu0) == 1);
  BOOST_TEST(set.Find(kGpu1) == -1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace place_test
}  // namespace troupe
