// Every message among the parts of a step, and of users' actors, through CAF's binary serialiser:
// equal bits come back; bytes that are cut off or changed give an error or a value, never more.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "actors/wire/session_messages.h"
#include "tests/actors/graphs.h"
#include "tests/cast/same_tensor.h"
#include "tests/common/message_bytes.h"
#include "troupe/kernel.h"
#include "troupe/node_builder.h"
#include "troupe/proto/config.pb.h"
#include "troupe/proto/graph.pb.h"

namespace troupe {
namespace wire_test {

using namespace std::chrono_literals;
using testing::BytesOf;
using testing::Read;
using testing::System;

BOOST_AUTO_TEST_SUITE(wire_messages)

// Of every dtype that can cross, with what numbers have of special values.
std::vector<Tensor> AllTensors() {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kTiny = std::numeric_limits<float>::denorm_min();
  std::vector<Tensor> all{
      Tensor(),
      Tensor::Scalar(2.5f),
      Tensor::Vector({kInf, -kInf, std::nanf("7"), -0.0f, kTiny, 1e38f}),
      Tensor::Of<double>({std::numeric_limits<double>::infinity(), std::nan("3"), -0.0, 5e-324}, TensorShape({2, 2})),
      Tensor::Vector<std::string>({"", "a", std::string(1000, 'x'), std::string("\0\xff", 2)}),
      Tensor::Of<std::string>({}, TensorShape({3, 0})),
      Tensor(DType::kInt64, TensorShape({0})),
      Tensor::Of<bool>({true, false}, TensorShape({1, 2, 1, 1, 1, 1, 1, 1})),
  };
  for (int n = 1; n < kNumDTypes; ++n) {
    const auto dtype = static_cast<DType>(n);
    if (dtype == DType::kString || dtype == DType::kResource || dtype == DType::kVariant || dtype == DType::kBool)
      continue;
    Tensor t(dtype, TensorShape({3, 5}));
    for (size_t i = 0; i < t.bytes(); ++i) static_cast<unsigned char*>(t.raw())[i] = static_cast<unsigned char>(i * 37);
    all.push_back(std::move(t));
  }
  return all;
}

BOOST_AUTO_TEST_CASE(tensors_come_back_bit_for_bit) {
  for (Tensor& t : AllTensors()) {
    auto copy = wire::ThroughBytes(System(), t);
    BOOST_REQUIRE_MESSAGE(copy.ok(), copy.status());
    BOOST_TEST(Same(t, *copy), t.TypeAndShape());
  }
}

BOOST_AUTO_TEST_CASE(a_reference_and_a_variant_do_not_cross) {
  for (const DType dtype : {MakeRef(DType::kFloat), DType::kVariant}) {
    Tensor t(dtype, TensorShape({}));
    if (!t.valid()) continue;  // there are no tensors of that type
    BOOST_TEST(!wire::ThroughBytes(System(), t).ok());
  }
}

class Thing : public Resource {
 public:
  std::string DebugString() const override { return "a thing"; }
};

BOOST_AUTO_TEST_CASE(a_resource_crosses_as_its_name_and_is_bound_where_it_lives) {
  ResourceContainers containers;
  const auto thing = containers.LookUpOrCreate<Thing>("box", "thing", [] { return std::make_shared<Thing>(); }).value();
  Tensor t(DType::kResource, TensorShape({2}));
  auto* handles = static_cast<ResourceHandle*>(t.raw());
  handles[0] = ResourceHandle("/device:CPU:0", "box", "thing", thing);
  handles[1] = ResourceHandle("/device:CPU:0", "box", "other", thing);
  Tensor copy = wire::ThroughBytes(System(), t).value();
  const auto* read = static_cast<const ResourceHandle*>(copy.raw());
  BOOST_TEST(read[0].object() == nullptr);
  BOOST_TEST(read[0].device() == "/device:CPU:0");
  BOOST_TEST(read[0].container() == "box");
  BOOST_TEST(read[1].name() == "other");
  BindResources(&copy, [&](const std::string& device) { return device == "/device:CPU:0" ? &containers : nullptr; });
  BOOST_TEST(read[0].object() == thing);
  BOOST_TEST(read[1].object() == nullptr);  // nobody has it
}

absl::Status Failure() {
  absl::Status s = WithAddress(InvalidArgument("no\n'good'"), "node", "Op", "/device:CPU:0", {});
  return s;
}

BOOST_AUTO_TEST_CASE(statuses_keep_code_text_and_address) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status s(static_cast<absl::StatusCode>(code), "text");
    BOOST_TEST((wire::StatusOf(wire::FieldsOf(s)) == s));
  }
  const absl::Status s = wire::StatusOf(wire::FieldsOf(Failure()));
  BOOST_TEST((s == Failure()));
  BOOST_TEST(HasAddress(s));
  BOOST_TEST(wire::StatusOf({17, "x", {}}).code() == absl::StatusCode::kInvalidArgument);
  BOOST_TEST(wire::StatusOf({-1, "x", {}}).code() == absl::StatusCode::kInvalidArgument);
  wire::StatusFields many{3, "x", {}};
  for (int i = 0; i < 1000; ++i) many.payloads.emplace_back(StrCat(i), "");
  BOOST_TEST(wire::StatusOf(many).message() == "a status with 1000 payloads: x");
}

run_step SomeBegin() {
  run_step m;
  m.step = 1ll << 40;
  m.cancelled = m.input.partial = m.timed = true;
  m.arguments = {Tensor::Scalar(1.0f), Tensor(), Tensor::Scalar<std::string>("s")};
  return m;
}
part_done SomeEnd() {
  return {7, Failure(), {}, 0, {{2, Tensor::Scalar(4.0f)}, {0, Tensor()}}, {{1, 1, 1000, 2000}, {2, 0, -1, 5}}};
}
run_request SomeRequest() {
  run_request r;
  r.feeds = {{"x", Tensor::Scalar(1.0f)}, {"y:1", Tensor::Vector<int64_t>({1, 2})}};
  r.fetches = {"a", "b"};
  r.targets = {"t"};
  r.options.timeout_ms = -5;
  r.options.collect_stats = true;
  return r;
}
run_reply SomeReply() {
  run_reply r{Failure(), {Tensor::Scalar(3.0f)}, std::make_shared<proto::RunMetadata>()};
  r.metadata->mutable_step_stats()->add_dev_stats()->set_device("d");
  return r;
}

resource_snapshot SomeState() {
  return {Failure(),
          {{"c", "n", "variable", {{"dtype", Tensor::Scalar(1)}, {"value", Tensor::Vector({1.0f, -0.0f})}}}}};
}

stall_report SomeReport() {
  stall_report m{3, {}};
  m.report.running = true;
  m.report.roots = {{"node", 5, {"edge", {{1, 2}}, true}, {{{"a", "b"}, {"other", {}, false}}}, {"later"}}};
  m.report.holders = {{"node 'n' (Op)", 7, 8}};
  return m;
}

// Who waits for a reply gets one. The pages of the big value are not touched.
BOOST_AUTO_TEST_CASE(in_place_of_a_reply_that_cannot_cross_comes_the_reason) {
  for (const Tensor& value :
       {Tensor(DType::kFloat, TensorShape({1 << 29})), Tensor(DType::kVariant, TensorShape({1}))}) {
    run_reply reply{absl::OkStatus(), {Tensor::Scalar(1.0f), value}, std::make_shared<proto::RunMetadata>()};
    const auto copy = wire::ThroughBytes(System(), reply);
    BOOST_REQUIRE_MESSAGE(copy.ok(), copy.status());
    BOOST_TEST(absl::IsInvalidArgument(copy->status), copy->status);
    BOOST_TEST(copy->outputs.empty());
    TROUPE_REQUIRE_OK(reply.status);
  }
}

// By reference a part works in the memory of the step; what has come through bytes has the same
// values in memory of its own.
BOOST_AUTO_TEST_CASE(a_step_and_its_end_cross_as_values) {
  std::vector<Tensor> arguments = {Tensor::Scalar(1.0f), Tensor::Vector<int64_t>({2, 3})}, results(3);
  std::vector<node_run> timings;
  run_step begin;
  begin.input.context = std::make_shared<StepContext>();
  begin.input.context->step_id = 9;
  begin.input.context->cancelled = true;
  begin.input.arguments = arguments.data();
  begin.input.results = results.data();
  begin.input.timings = &timings;
  begin.num_arguments = 2;
  run_step there = wire::ThroughBytes(System(), begin).value();
  BOOST_TEST(there.input.context == nullptr);
  MakeMemory(&there, 3);
  BOOST_TEST((there.input.context->step_id == 9 && there.input.context->cancelled));
  BOOST_TEST(there.input.results != results.data());
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST(Same(there.input.arguments[i], arguments[i]));
    BOOST_TEST(there.input.arguments[i].raw() != arguments[i].raw());
  }
  there.input.results[1] = Tensor::Scalar(4.0f);
  there.input.timings->push_back({1, 0, 10, 20});
  part_done end{9, absl::OkStatus(), there.input, 3, {}, {}};
  const part_done back = wire::ThroughBytes(System(), end).value();
  BOOST_TEST((back.step == 9 && back.status.ok() && back.input.results == nullptr));
  BOOST_REQUIRE(back.results.size() == 1u);
  BOOST_TEST((back.results[0].first == 1 && back.results[0].second.scalar<float>() == 4.0f));
  BOOST_REQUIRE(back.statistics.size() == 1u);
  BOOST_TEST(back.statistics[0].end_nanos == 20);
}

BOOST_AUTO_TEST_CASE(an_edge_is_found_by_its_name) {
  EdgeTable table;
  BOOST_TEST(table.Find("a") == -1);
  BOOST_TEST(table.Add("a") == 0u);
  BOOST_TEST(table.Add("b") == 1u);
  BOOST_TEST(table.Add("a") == 0u);
  BOOST_TEST(table.Find("b") == 1);
  BOOST_TEST(table.Find("c") == -1);
  BOOST_TEST((table.Has(1) && !table.Has(2) && !table.Has(~0u)));
}

BOOST_AUTO_TEST_CASE(messages_of_parts_come_back_equal) {
  run_step begin = SomeBegin();
  const run_step b = wire::ThroughBytes(System(), begin).value();
  BOOST_TEST(b.step == begin.step);
  BOOST_TEST((b.cancelled && b.timed && b.input.partial && !b.input.measure && !b.input.check_kernels));
  BOOST_TEST(b.arguments.size() == 3u);
  for (size_t i = 0; i < 3; ++i) BOOST_TEST(Same(b.arguments[i], begin.arguments[i]));
  BOOST_TEST(!b.input.token_messages);
  const auto tensor = std::get<tensor_to_part>(
      ThroughBytes(System(), tensor_to_part{5, 6, {{int64_t{1} << 40, 0, 7}}, true, Tensor::Scalar(1.5f)}).value());
  BOOST_TEST((tensor.step == 5 && tensor.edge == 6 && tensor.iteration == IterationPath{{int64_t{1} << 40, 0, 7}} &&
              tensor.dead));
  BOOST_TEST(tensor.value.scalar<float>() == 1.5f);
  const auto granted = std::get<grant>(ThroughBytes(System(), grant{5, 6, {{7}}}).value());
  BOOST_TEST((granted.step == 5 && granted.edge == 6 && granted.iteration == IterationPath{{7}}));
  const auto abort = std::get<abort_step>(ThroughBytes(System(), abort_step{5, Failure()}).value());
  BOOST_TEST((abort.step == 5 && abort.status == Failure()));
  const auto fed = std::get<argument>(ThroughBytes(System(), argument{5, 1, Tensor::Scalar(2.0f)}).value());
  BOOST_TEST((fed.step == 5 && fed.index == 1 && fed.value.scalar<float>() == 2.0f));
  result some{5, 2, Tensor::Scalar(2.0f)};
  const result r = wire::ThroughBytes(System(), some).value();
  BOOST_TEST((r.step == 5 && r.index == 2 && r.value.scalar<float>() == 2.0f));
  part_failed failed{5, Failure()};
  const part_failed g = wire::ThroughBytes(System(), failed).value();
  BOOST_TEST((g.step == 5 && g.status == Failure()));
  part_failed without{5, absl::OkStatus()};
  BOOST_TEST(!wire::ThroughBytes(System(), without).ok());
  BOOST_TEST(std::get<question>(ThroughBytes(System(), question{1ll << 40}).value()).number == 1ll << 40);
  stall_report report = SomeReport();
  const stall_report answer = wire::ThroughBytes(System(), report).value();
  BOOST_TEST((answer.number == 3 && answer.report.running && answer.report.roots.size() == 1));
  const StepReport::Root& root = answer.report.roots.at(0);
  BOOST_TEST((root.text == "node" && root.nanos == 5 && root.later == std::vector<std::string>{"later"}));
  BOOST_TEST((root.takes == StepReport::Link{"edge", {{1, 2}}, true}));
  BOOST_TEST((root.chains.size() == 1 && root.chains[0].lines.size() == 2 && root.chains[0].gives.key == "other"));
  part_done end = SomeEnd();
  const part_done e = wire::ThroughBytes(System(), end).value();
  BOOST_TEST((e.step == 7 && e.status == Failure() && e.results.size() == 2 && e.statistics.size() == 2));
  BOOST_TEST((e.results[0].first == 2 && e.results[0].second.scalar<float>() == 4.0f && !e.results[1].second.valid()));
  BOOST_TEST((e.statistics[0].node == 1 && e.statistics[1].start_nanos == -1));
  device_stats stats{{"d", "CPU", ~uint64_t{0}, {1, 2, 3, 4, 5, 6}}, {{"node 'n' (Op)", 7, 8}}};
  const device_stats d = wire::ThroughBytes(System(), stats).value();
  BOOST_TEST((d.device.name == "d" && d.device.type == "CPU" && d.device.incarnation == ~uint64_t{0}));
  BOOST_TEST((d.device.memory.bytes_in_use == 1 && d.device.memory.bytes_cached == 6));
  resource_list list{{{"c", "n", "w"}, {"", "", ""}}};
  const resource_list l = wire::ThroughBytes(System(), list).value();
  BOOST_TEST((l.entries.size() == 2 && l.entries[0].container == "c" && l.entries[0].what == "w"));
  BOOST_TEST((d.holders.size() == 1 && d.holders[0].what == "node 'n' (Op)" && d.holders[0].tensors == 8));
  set_memory_limit limit{-3};
  BOOST_TEST(wire::ThroughBytes(System(), limit).value().bytes == -3);
  memory_limit_set limited{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), limited).value().status == Failure()));
  memory_trimmed trimmed{1 << 30};
  BOOST_TEST(wire::ThroughBytes(System(), trimmed).value().bytes == 1 << 30);
  snapshot_resources ask_state{{"", "c"}};
  BOOST_TEST((wire::ThroughBytes(System(), ask_state).value().containers == ask_state.containers));
  resource_snapshot state = SomeState();
  const resource_snapshot st = wire::ThroughBytes(System(), state).value();
  BOOST_TEST((st.status == Failure() && st.entries.size() == 1 && st.entries[0].kind == "variable"));
  BOOST_TEST(
      (st.entries[0].tensors.size() == 2 && Same(st.entries[0].tensors[1].second, Tensor::Vector({1.0f, -0.0f}))));
  restore_resources restore{state.entries, {"c"}};
  const restore_resources re = wire::ThroughBytes(System(), restore).value();
  BOOST_TEST((re.entries.size() == 1 && re.entries[0].name == "n" && re.whole == restore.whole));
  resources_restored restored{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), restored).value().status == Failure()));
  resources_reset reset{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), reset).value().status == Failure()));
  run_request request = SomeRequest();
  const run_request q = wire::ThroughBytes(System(), request).value();
  BOOST_TEST((q.feeds.size() == 2 && q.feeds[1].first == "y:1" && Same(q.feeds[1].second, request.feeds[1].second)));
  BOOST_TEST((q.fetches == request.fetches && q.targets == request.targets && q.options.timeout_ms == -5));
  BOOST_TEST((q.options.collect_stats && !q.options.partition_graphs && q.options.cancellation == nullptr));
  run_reply reply = SomeReply();
  const run_reply p = wire::ThroughBytes(System(), reply).value();
  BOOST_TEST((p.status == Failure() && p.outputs.size() == 1 && p.outputs[0].scalar<float>() == 3.0f));
  BOOST_TEST(p.metadata->SerializeAsString() == reply.metadata->SerializeAsString());
}

device_list SomeDevices() {
  return {7, "/job:a/replica:0/task:1", 3, {{"/job:a/replica:0/task:1/device:CPU:0", "CPU", 1ull << 60}}};
}
register_graph SomeGraph() {
  register_graph m;
  m.compile = 1ll << 40;
  m.session = "12";
  m.share_variables = m.fuse = false;
  m.only_graphs = true;
  auto graph = std::make_shared<Graph>();
  Node* const a = *NodeBuilder(graph.get(), "a", "Const")
                       .Attr("dtype", DType::kFloat)
                       .Attr("value", Tensor::Vector<float>({1.5f, -0.0f}))
                       .Build();
  Node* const b = *NodeBuilder(graph.get(), "b", "Neg").Input(NodeOut{a, 0}).Control(a).Build();
  b->set_location({"there.cpp", 41});
  a->set_location({});
  m.parts.push_back({"device", {graph}});
  m.parts.push_back({"other", {}});
  return m;
}
graph_registered SomeParts() {
  graph_registered m;
  m.compile = 5;
  m.task = "task";
  m.status = Failure();
  m.handle = 1ull << 63;
  m.parts = {{"device", {{"in", true}}, {{"out", false}, {"more", true}}}};
  m.graphs = {SomeGraph().parts[0].graph};
  return m;
}

BOOST_AUTO_TEST_CASE(messages_of_workers_come_back_equal) {
  list_devices asked{9};
  BOOST_TEST(wire::ThroughBytes(System(), asked).value().number == 9);
  device_list devices = SomeDevices();
  const device_list d = wire::ThroughBytes(System(), devices).value();
  BOOST_TEST((d.number == 7 && d.task == devices.task && d.incarnation == 3u && d.devices.size() == 1u));
  BOOST_TEST((d.devices[0].name == devices.devices[0].name && d.devices[0].type == "CPU" &&
              d.devices[0].incarnation == 1ull << 60));
  withdraw_graph withdrawn{"12", 1ll << 40};
  const withdraw_graph w = wire::ThroughBytes(System(), withdrawn).value();
  BOOST_TEST((w.session == "12" && w.compile == 1ll << 40));
  register_graph request = SomeGraph();
  const register_graph r = wire::ThroughBytes(System(), request).value();
  BOOST_TEST((r.compile == 1ll << 40 && r.session == "12" && !r.share_variables && !r.fuse && r.only_graphs));
  BOOST_REQUIRE_EQUAL(r.parts.size(), 2u);
  BOOST_TEST((r.parts[0].device == "device" && r.parts[1].device == "other"));
  BOOST_TEST(r.parts[1].graph.graph == nullptr);
  const Graph& graph = *r.parts[0].graph.graph;
  BOOST_TEST(&graph != request.parts[0].graph.graph.get());
  const Node* const b = graph.Find("b");
  BOOST_REQUIRE(b != nullptr);
  BOOST_TEST(b->location().ToString() == "there.cpp:41");
  BOOST_TEST(!graph.Find("a")->location().known());
  BOOST_TEST(b->input_edge(0)->src->name() == "a");
  BOOST_TEST(Same(*graph.Find("a")->Attr<Tensor>("value"), Tensor::Vector<float>({1.5f, -0.0f})));
  BOOST_TEST(BytesOf(r) == BytesOf(request));
  graph_registered answer = SomeParts();
  const graph_registered p = wire::ThroughBytes(System(), answer).value();
  BOOST_TEST((p.compile == 5 && p.task == "task" && p.status == Failure() && p.handle == 1ull << 63));
  BOOST_TEST((p.graph == nullptr && p.graphs.size() == 1u && p.graphs[0].graph->Find("b") != nullptr));
  BOOST_REQUIRE_EQUAL(p.parts.size(), 1u);
  BOOST_TEST((p.parts[0].in.at(0).name == "in" && p.parts[0].in[0].granted));
  BOOST_TEST((p.parts[0].out.at(1).name == "more" && p.parts[0].out[1].granted && !p.parts[0].out[0].granted));
  // The ends meet by their names; the numbers are the table's.
  const EdgeTable edges = EdgesBetween(
      {{"d0", {{"x", false}}, {{"y", true}, {"z", false}}}, {"d1", {{"y", true}, {"z", false}}, {}}}, {4, 6});
  BOOST_TEST(edges.size() == 3u);
  const EdgeTable::Edge& y = edges[static_cast<uint32_t>(edges.Find("y"))];
  BOOST_TEST((y.granted && y.sender == PartAddress{4, 0} && y.receiver == PartAddress{6, 1}));
  BOOST_TEST((!edges[static_cast<uint32_t>(edges.Find("z"))].granted));
}

extend_request SomeNodes() {
  extend_request m;
  auto def = std::make_shared<proto::GraphDef>();
  proto::NodeDef* const n = def->add_node();
  n->set_name("more");
  n->set_op("Neg");
  n->add_input("there");
  n->mutable_attr();
  (*n->mutable_attr())["T"].set_type(proto::DT_FLOAT);
  m.def = std::move(def);
  auto graph = std::make_shared<Graph>();
  Node* const a =
      *NodeBuilder(graph.get(), "a", "Placeholder").Attr("dtype", DType::kFloat).Device("/device:CPU:1").Build();
  Node* const b = *NodeBuilder(graph.get(), "b", "Neg")
                       .Input(NodeOut{a, 0})
                       .Attr("_class", std::vector<std::string>{"loc:@a"})
                       .Build();
  b->set_location({"there.cpp", 41});
  m.graph = std::move(graph);
  return m;
}
compile_reply SomeSignature() {
  compile_reply m;
  m.status = Failure();
  m.signature = 1ull << 63;
  m.graphs = {SomeGraph().parts[0].graph, {}};
  m.found = nullptr;
  return m;
}

BOOST_AUTO_TEST_CASE(messages_of_sessions_come_back_equal) {
  extend_request nodes = SomeNodes();
  const extend_request n = wire::ThroughBytes(System(), nodes).value();
  BOOST_TEST(n.def != nodes.def);
  BOOST_TEST(n.def->SerializeAsString() == nodes.def->SerializeAsString());
  BOOST_TEST(n.graph != nodes.graph);
  const Node* const b = n.graph->Find("b");
  BOOST_REQUIRE(b != nullptr);
  BOOST_TEST(b->location().ToString() == "there.cpp:41");
  BOOST_TEST(n.graph->Find("a")->requested_device() == "/device:CPU:1");
  // It is to be placed yet.
  BOOST_TEST((b->Attr<std::vector<std::string>>("_class").value() == std::vector<std::string>{"loc:@a"}));
  for (const bool def : {false, true}) {
    extend_request one = SomeNodes();
    def ? one.graph.reset() : one.def.reset();
    const extend_request o = wire::ThroughBytes(System(), one).value();
    BOOST_TEST(((o.def != nullptr) == def && (o.graph != nullptr) == !def));
  }
  extend_reply extended{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), extended).value().status == Failure()));
  compile_request asked{1ll << 40, {"x", "y:1"}, {"a"}, {"t"}, true};
  const compile_request q = wire::ThroughBytes(System(), asked).value();
  BOOST_TEST((q.number == asked.number && q.feeds == asked.feeds && q.fetches == asked.fetches && q.graphs));
  BOOST_TEST(q.targets == asked.targets);
  compile_reply answer = SomeSignature();
  const compile_reply r = wire::ThroughBytes(System(), answer).value();
  BOOST_TEST((r.status == Failure() && r.signature == 1ull << 63 && r.graphs.size() == 2u && r.found == nullptr));
  BOOST_TEST((r.graphs[0].graph->Find("b") != nullptr && r.graphs[1].graph == nullptr));
  withdraw_compile withdrawn{-7};
  BOOST_TEST(wire::ThroughBytes(System(), withdrawn).value().number == -7);
  close_request close;
  BOOST_TEST(wire::ThroughBytes(System(), close).ok());
  close_reply closed{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), closed).value().status == Failure()));
  actor_failed death{"/job:a", 9, Failure()};
  const actor_failed f = wire::ThroughBytes(System(), death).value();
  BOOST_TEST((f.place == "/job:a" && f.incarnation == 9u && f.status == Failure()));
  death.status = absl::OkStatus();
  BOOST_TEST(!wire::ThroughBytes(System(), death).ok());  // nothing ends without a reason
  failure_noted noted{Failure()};
  BOOST_TEST((wire::ThroughBytes(System(), noted).value().status == Failure()));
}

// Reads the bytes cut off at every length, and with random ones changed.
template <class T>
void Spoil(T message) {
  const std::vector<char> good = BytesOf(message);
  for (size_t n = 0; n < good.size(); ++n) {
    T read;
    BOOST_TEST(!Read(std::vector<char>(good.begin(), good.begin() + static_cast<long>(n)), &read), n << " bytes");
  }
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::vector<char> bad = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes)
      bad[random() % bad.size()] = static_cast<char>(random());
    T read;
    if (Read(bad, &read)) (void)BytesOf(read);  // what is accepted is a value like any other
  }
}

BOOST_AUTO_TEST_CASE(wrong_bytes_give_an_error_or_a_value) {
  for (const Tensor& t : AllTensors()) Spoil(t);
  Tensor handles(DType::kResource, TensorShape({2}));
  Spoil(handles);
  Spoil(SomeBegin());
  Spoil(SomeState());
  Spoil(SomeRequest());
  Spoil(SomeEnd());
  Spoil(part_failed{5, Failure()});
  Spoil(question{7});
  Spoil(SomeReport());
  Spoil(SomeReply());
  Spoil(tensor_to_part{5, 6, {{7, 1}}, false, Tensor::Vector({1.0f, 2.0f})});
  Spoil(grant{5, 6, {{7}}});
  Spoil(device_stats{{"d", "CPU", 1, {}}});
  Spoil(resource_list{{{"c", "n", "w"}}});
  Spoil(reset_resources{{"a", "b"}});
  Spoil(resources_reset{Failure()});
  Spoil(abort_step{5, Failure()});
  Spoil(argument{5, 6, Tensor::Scalar(1.0f)});
  Spoil(result{5, 6, Tensor::Scalar(1.0f)});
  Spoil(list_devices{9});
  Spoil(SomeDevices());
  Spoil(SomeGraph());
  Spoil(SomeParts());
  Spoil(withdraw_graph{"12", 5});
  Spoil(SomeNodes());
  Spoil(extend_reply{Failure()});
  Spoil(compile_request{5, {"x"}, {"a", "b"}, {}, true});
  Spoil(SomeSignature());
  Spoil(withdraw_compile{5});
  Spoil(close_reply{Failure()});
  Spoil(actor_failed{"/job:a", 9, Failure()});
  Spoil(failure_noted{Failure()});
}

// The header of a tensor may say anything: no memory is taken before its bytes are there.
BOOST_AUTO_TEST_CASE(a_size_is_not_believed) {
  Tensor t(DType::kFloat, TensorShape({2, 2}));
  std::vector<char> bytes = BytesOf(t);
  for (const int64_t dim : {int64_t{1} << 29, int64_t{1} << 33, int64_t{1} << 62, int64_t{-1}}) {
    const int64_t before = Allocator::Cpu()->stats().bytes_in_use;
    std::vector<char> header{static_cast<char>(DType::kFloat), 1};
    std::vector<char> dims;
    caf::binary_serializer out(System(), dims);
    int64_t d = dim;
    BOOST_REQUIRE(!out(d));
    header.insert(header.end(), dims.begin(), dims.end());
    Tensor read;
    BOOST_TEST(!Read(header, &read), dim);
    BOOST_TEST(!read.valid());
    BOOST_TEST(Allocator::Cpu()->stats().bytes_in_use == before);
  }
  std::vector<char> bools = BytesOf(Tensor::Of<bool>({true, false}, TensorShape({2})));
  bools.back() = 2;  // true: who sends it would wait for ever for an answer to what is refused
  Tensor read;
  BOOST_REQUIRE(Read(bools, &read));
  BOOST_TEST(static_cast<const unsigned char*>(read.raw())[1] == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace wire_test
}  // namespace troupe
