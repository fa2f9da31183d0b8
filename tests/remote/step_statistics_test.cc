// Statistics of a step's processes in one clock, and why its nodes ran when they did.
#include "actors/trace/step_statistics.h"

#include <limits>
#include <map>
#include <set>

#include "actors/executor/run_rows.h"
#include "actors/trace/run_causes.h"
#include "graph/passes/prune.h"
#include "kernels/run_kernel.h"
#include "tests/remote/processes.h"
#include "troupe/control_flow.h"
#include "troupe/timeline.h"

namespace troupe {
namespace step_statistics_test {

BOOST_AUTO_TEST_SUITE(step_statistics)

// One device of a process, whose clock is ahead by `offset`.
struct Side {
  Side(const std::string& task, int64_t offset) : offset(offset) {
    other.task = task;
    other.metadata.mutable_step_stats()->add_dev_stats()->set_device(task + "/device:CPU:0");
    other.metadata.mutable_step_trace()->add_devices()->set_device(task + "/device:CPU:0");
    Process(0, 1000);
  }
  void Process(int64_t begin, int64_t end) {
    auto* const own = other.metadata.mutable_step_trace()->mutable_own();
    own->set_begin_nanos(begin + offset);
    own->set_end_nanos(end + offset);
  }
  void Run(const std::string& name, int64_t start, int64_t end, const std::string& edge = "", bool receives = false) {
    auto* const n = other.metadata.mutable_step_stats()->mutable_dev_stats(0)->add_node_stats();
    n->set_node_name(name);
    n->set_all_start_nanos(start + offset);
    n->set_all_end_rel_nanos(end - start);
    n->set_scheduled_nanos(start + offset);
    n->set_thread_id(receives ? rows::kAsynchronous : rows::kTurn);
    other.metadata.mutable_step_trace()->mutable_devices(0)->add_runs()->set_edge(edge);
  }
  const int64_t offset;
  OtherStatistics other;
};

constexpr int64_t kAhead = 3'000'000'000'000, kBehind = -5'000'000'000;

BOOST_AUTO_TEST_CASE(others_are_moved_into_the_masters_clock) {
  Side master(kMasterTask, 0), ps(kPsTask, kAhead);
  master.Run("n", 500, 600);
  ps.Run("m", 1000, 1400);
  ps.Process(900, 1500);
  ps.other.clock.Exchange(800, 900 + kAhead, 1500 + kAhead, 1640);
  proto::RunMetadata all = master.other.metadata;
  AddAligned({ps.other}, &all);
  BOOST_REQUIRE(all.step_stats().dev_stats_size() == 2);
  BOOST_REQUIRE(all.step_trace().devices_size() == 2);
  const auto& p = all.step_trace().processes(0);
  BOOST_TEST(p.task() == kPsTask);
  BOOST_TEST(p.uncertainty_nanos() == 120);  // half of 100 + 140 on the way
  BOOST_TEST(p.offset_nanos() == kAhead - 20);
  const auto& m = all.step_stats().dev_stats(1).node_stats(0);
  BOOST_TEST(m.all_start_nanos() == 1020);
  BOOST_TEST(m.all_start_micros() == 1);
  BOOST_TEST(m.scheduled_nanos() == 1020);
  BOOST_TEST(p.begin_nanos() == 920);
  BOOST_TEST(all.step_stats().dev_stats(0).node_stats(0).all_start_nanos() == 500);
}

// The messages of the step took a millisecond; tensors were faster, and came from and to a third
// process, too.
BOOST_AUTO_TEST_CASE(tensors_narrow_the_bounds) {
  Side master(kMasterTask, 0), ps(kPsTask, kAhead), helper(kHelperTask, kBehind);
  const auto exchange = [](Side* s) {
    s->other.clock.Exchange(0, 1'000'000 + s->offset, 2'000'000 + s->offset, 3'000'000);
  };
  exchange(&ps);
  exchange(&helper);
  master.Run("s1", 1000, 1100, "M;1;P;x:0");
  ps.Run("r1", 500, 1700, "M;1;P;x:0", true);  // 700 after the send began
  ps.Run("s2", 1800, 1900, "P;1;M;y:0");
  master.Run("r2", 0, 2100, "P;1;M;y:0", true);  // 300
  ps.Run("s3", 2000, 2050, "P;1;H;z:0");
  helper.Run("r3", 0, 2400, "P;1;H;z:0", true);  // 400
  helper.Run("s4", 2500, 2550, "H;1;P;w:0");
  ps.Run("r4", 0, 2600, "H;1;P;w:0", true);  // 100
  ps.Run("s5", 2700, 2750, "P;1;H;twice:0");
  ps.Run("s5", 2800, 2850, "P;1;H;twice:0");
  helper.Run("r5", 0, 2701, "P;1;H;twice:0", true);  // of which it is not known which it was
  proto::RunMetadata all = master.other.metadata;
  AddAligned({ps.other, helper.other}, &all);
  const auto& p = all.step_trace().processes();
  BOOST_REQUIRE(p.size() == 2);
  BOOST_TEST(p[0].uncertainty_nanos() == 500);  // half of 700 + 300
  BOOST_TEST(std::abs(p[0].offset_nanos() - kAhead) <= p[0].uncertainty_nanos());
  BOOST_TEST(p[1].uncertainty_nanos() == 750);  // and of 400 + 100 more
  BOOST_TEST(std::abs(p[1].offset_nanos() - kBehind) <= p[1].uncertainty_nanos());
}

BOOST_AUTO_TEST_CASE(statistics_that_no_clock_tells_are_refused) {
  proto::RunMetadata m, read;
  m.mutable_step_trace()->mutable_own()->set_end_nanos(5);
  BOOST_TEST(ReadStatistics(m.SerializeAsString(), &read));
  m.mutable_step_stats()->add_dev_stats()->add_node_stats()->set_all_start_nanos(int64_t{1} << 62);
  BOOST_TEST(!ReadStatistics(m.SerializeAsString(), &read));
  BOOST_TEST(!ReadStatistics("no message", &read));
}

const proto::NodeExecStats& RunOf(const proto::RunMetadata& m, const std::string& node,
                                  const proto::StepTrace::Run** why, const proto::DeviceStepStats** device) {
  for (int d = 0; d < m.step_stats().dev_stats_size(); ++d) {
    const auto& stats = m.step_stats().dev_stats(d);
    for (int i = 0; i < stats.node_stats_size(); ++i) {
      if (stats.node_stats(i).node_name() != node) continue;
      *why = &m.step_trace().devices(d).runs(i);
      *device = &stats;
      return stats.node_stats(i);
    }
  }
  BOOST_FAIL(node << " has not run");
  std::abort();
}

BOOST_AUTO_TEST_CASE(a_step_of_two_processes_says_why_its_nodes_ran) {
  RemotePlay p;
  RunOptions options;
  options.collect_stats = true;
  proto::RunMetadata m;
  p.Start({"back"}, {}, options, &m);
  p.stage.Play();
  BOOST_REQUIRE_MESSAGE(p.State() == "OK", p.Message());
  BOOST_TEST(m.step_trace().own().task() == kMasterTask);
  BOOST_REQUIRE(m.step_trace().processes_size() == 1);
  const auto& other = m.step_trace().processes(0);
  BOOST_TEST(other.task() == kPsTask);
  // Of one clock, in truth.
  BOOST_TEST(std::abs(other.offset_nanos()) <= other.uncertainty_nanos());
  BOOST_TEST(other.begin_nanos() >= m.step_trace().own().begin_nanos() - other.uncertainty_nanos());
  const proto::StepTrace::Run* why = nullptr;
  const proto::DeviceStepStats* on = nullptr;
  const auto& back = RunOf(m, "back", &why, &on);
  BOOST_REQUIRE(why->after() > 0);
  const auto& received = on->node_stats(static_cast<int>(why->after()) - 1);
  BOOST_TEST(received.timeline_label().find("Recv") != std::string::npos, received.timeline_label());
  BOOST_TEST(back.scheduled_nanos() == received.all_start_nanos() + received.all_end_rel_nanos());
  BOOST_TEST(back.scheduled_nanos() <= back.all_start_nanos());
  RunOf(m, "there", &why, &on);
  BOOST_REQUIRE(why->after() > 0);
  BOOST_TEST(on->node_stats(static_cast<int>(why->after()) - 1).timeline_label().find("Recv") != std::string::npos);
  int ends = 0;
  std::set<std::string> edges;
  for (const auto& d : m.step_trace().devices()) {
    for (const auto& r : d.runs()) {
      if (r.edge().empty()) continue;
      ++ends;
      edges.insert(r.edge());
    }
  }
  BOOST_TEST(ends == 4);
  BOOST_TEST(edges.size() == 2u);

  // The file: both tasks, and two arrows for tensors beside those of the step's messages.
  Timeline t;
  t.Add(m, "the step");
  const std::string text = t.Text();
  for (const std::string& part : {StrCat("\"name\": \"", kMasterTask, "\""), StrCat("\"name\": \"", kPsTask, "\""),
                                  std::string("\"name\": \"the step\""), std::string("\"tensor\": \"twice:0\"")}) {
    BOOST_TEST(text.find(part) != std::string::npos, part << " is missing in " << text);
  }
  size_t arrows = 0;
  for (size_t at = 0; (at = text.find("\"ph\": \"s\"", at)) != std::string::npos; ++at) ++arrows;
  BOOST_TEST(arrows == 4u);
}

// A part compiled of this graph, and runs of it that are made up.
struct Made {
  Made(const Scope& root, const Names& fetches) {
    BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
    auto pruned = PruneForExecution(*root.graph(), {}, fetches, {});
    BOOST_REQUIRE_MESSAGE(pruned.ok(), pruned.status());
    auto compiled = CompiledPart::Compile(*pruned->graph, EvaluationDevice(1), SessionScope("test"));
    BOOST_REQUIRE_MESSAGE(compiled.ok(), compiled.status());
    part = *compiled;
  }
  // In whatever scope.
  uint32_t NodeOf(const std::string& name) const {
    for (uint32_t i = 0; i < part->info.size(); ++i) {
      const std::string whole(part->info[i].name);
      if (whole == name || whole.ends_with("/" + name)) return i;
    }
    BOOST_FAIL("no node " << name);
    return 0;
  }
  void Ran(const std::string& name, int64_t start, int64_t end, uint32_t row = rows::kTurn) {
    runs.push_back({NodeOf(name), row, start, end});
  }
  std::string After(size_t run) const {
    const RunCause c = CausesOf(*part, runs, 5).at(run);
    return c.after < 0 ? StrCat("begin ", c.ready_nanos)
                       : StrCat(part->info[runs[static_cast<size_t>(c.after)].node].name, " ", c.ready_nanos);
  }
  std::shared_ptr<const CompiledPart> part;
  std::vector<node_run> runs;
};

BOOST_AUTO_TEST_CASE(the_input_that_ended_last_made_a_node_ready) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::RandomUniform(root.WithOpName("x"), ops::Const(root, std::vector<int32_t>{2}), DType::kFloat),
               a = ops::Neg(root.WithOpName("a"), x), b = ops::Neg(root.WithOpName("b"), x);
  ops::Add(root.WithOpName("c"), a, b);
  const Operation order = ops::NoOp(root.WithOpName("order").WithControlDependencies(a));
  const Operation more = ops::NoOp(root.WithOpName("more").WithControlDependencies(order));
  ops::Neg(root.WithOpName("d").WithControlDependencies(more), x);
  Made m(root, {"c", "d"});
  m.Ran("x", 10, 20);
  m.Ran("a", 20, 50, 1);
  m.Ran("b", 21, 40);
  m.Ran("c", 60, 70);
  m.Ran("d", 61, 80);
  BOOST_TEST(m.After(0) == "begin 5");
  BOOST_TEST(m.After(1) == "x 20");
  BOOST_TEST(m.After(2) == "x 20");
  BOOST_TEST(m.After(3) == "a 50");
  BOOST_TEST(m.After(4) == "a 50");  // by way of two nodes that only order
}

// The first iteration's b comes after the second one's a, and is for the first one's.
BOOST_AUTO_TEST_CASE(in_a_loop_runs_belong_to_each_other_by_their_iteration) {
  Scope root = Scope::NewRootScope();
  const auto loop = While(
      root, {ops::Const(root, 0), ops::Const(root, 1.0f)},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 2); },
      [](const Scope& s, const OutputList& v) {
        const Output a = ops::Neg(s.WithOpName("a"), v[1]);
        return OutputList{ops::Add(s, v[0], 1), ops::Tanh(s.WithOpName("b"), a)};
      });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  Made m(root, {loop[1].name()});
  m.Ran("a", 10, 20);
  m.Ran("a", 25, 35);
  m.Ran("b", 40, 50);
  m.Ran("b", 55, 60);
  const std::string a(m.part->info[m.NodeOf("a")].name);
  BOOST_TEST(m.After(2) == StrCat(a, " 20"));
  BOOST_TEST(m.After(3) == StrCat(a, " 35"));
}

// A clock so coarse that a loop's iterations all have one time: the order is that of what waits for
// what, and the path through them is the loop's.
BOOST_AUTO_TEST_CASE(iterations_of_equal_times_follow_each_other) {
  Scope root = Scope::NewRootScope();
  const auto loop = While(
      root, {ops::Const(root, 0), ops::Const(root, 1.0f)},
      [](const Scope& s, const OutputList& v) { return ops::Less(s, v[0], 4); },
      [](const Scope& s, const OutputList& v) {
        const Output a = ops::Neg(s.WithOpName("a"), v[1]);
        return OutputList{ops::Add(s, v[0], 1), ops::Tanh(s.WithOpName("b"), a)};
      });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  Made m(root, {loop[1].name()});
  const auto producer = [&](uint32_t node, uint32_t input) {
    return m.part->producers.at(m.part->nodes[node].first_slot + input).first;
  };
  // Once around, in the order of the data: the merge, what chooses, and the body.
  std::vector<uint32_t> around{m.NodeOf("b")};
  while (m.part->nodes[around.front()].flow != ControlFlow::kMerge)
    around.insert(around.begin(), producer(around.front(), 0));
  around.push_back(producer(around.front(), 1));
  BOOST_REQUIRE((m.part->nodes[around.back()].flow == ControlFlow::kNextIteration));
  BOOST_REQUIRE(around.size() >= 5u);
  for (int i = 0; i < 4; ++i) {
    for (const uint32_t node : around) m.runs.push_back({node, rows::kTurn, 10, 10});
  }
  const std::vector<RunCause> causes = CausesOf(*m.part, m.runs, 5);
  for (size_t r = 0; r < causes.size(); ++r) BOOST_TEST(causes[r].after == static_cast<int64_t>(r) - 1, "run " << r);
}

BOOST_AUTO_TEST_CASE(a_wait_stands_before_the_run_that_it_was_for) {
  Scope root = Scope::NewRootScope();
  const Output x = ops::RandomUniform(root.WithOpName("x"), ops::Const(root, std::vector<int32_t>{2}), DType::kFloat);
  ops::Neg(root.WithOpName("a"), x);
  Made m(root, {"a"});
  m.Ran("x", 10, 20);
  m.Ran("a", 25, 90, rows::kAsynchronous);
  m.Ran("a", 95, 99);
  BOOST_TEST(m.After(1) == "x 20");
  BOOST_TEST(m.After(2) == "a 90");
}

// Statistics of a server of somebody else's: a file comes of them whose times are times.
BOOST_AUTO_TEST_CASE(a_timeline_of_times_that_no_clock_tells_has_times) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  for (const int64_t start : {kLeast, int64_t{0}, kMost}) {
    for (const int64_t length : {kLeast, int64_t{-1}, kMost}) {
      proto::RunMetadata m;
      proto::DeviceStepStats* const device = m.mutable_step_stats()->add_dev_stats();
      device->set_device("/job:a/replica:0/task:0/device:CPU:0");
      for (const bool nanos : {false, true}) {
        proto::NodeExecStats* const n = device->add_node_stats();
        n->set_node_name("n");
        nanos ? n->set_all_start_nanos(start) : n->set_all_start_micros(start);
        nanos ? n->set_all_end_rel_nanos(length) : n->set_all_end_rel_micros(length);
        n->set_scheduled_nanos(-(start / 2) - 1);
      }
      proto::StepTrace::Process* const own = m.mutable_step_trace()->mutable_own();
      own->set_task("/job:a/replica:0/task:0");
      own->set_begin_nanos(start);
      own->set_end_nanos(length);
      proto::StepTrace::Process* const other = m.mutable_step_trace()->add_processes();
      *other = *own;
      other->set_task("/job:b/replica:0/task:0");
      other->set_offset_nanos(kLeast);
      other->set_uncertainty_nanos(length);
      Timeline timeline;
      timeline.Add(m);
      const std::string text = timeline.Text();
      for (const char* const key : {"\"dur\": -", "\"queued_us\": -", "\"uncertainty_us\": -"})
        BOOST_TEST(text.find(key) == std::string::npos, text);
      // As far from 0 as a clock may be, and twice that from the first.
      BOOST_TEST(text.find("2305843009213694") == std::string::npos, text);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace step_statistics_test
}  // namespace troupe
