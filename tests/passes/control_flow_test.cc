// Which frame each node belongs to, and which graphs have none that can be told.
#include "graph/ir/frames.h"

#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"

namespace troupe {
namespace control_flow_test {

// A loop "outer" with a loop "inner" in its body.
const char* kNested = R"(
  x = TestFeed[dtype=float32]
  limit = TestFeed[dtype=float32]
  e = Enter[frame_name="outer"](x)
  el = Enter[frame_name="outer", is_constant=true](limit)
  m = Merge(e, next)
  less = TestLess(m, el)
  cond = LoopCond(less)
  sw = Switch(m, cond)
  e2 = Enter[frame_name="inner"](sw:1)
  m2 = Merge(e2, next2)
  less2 = TestLess(m2, m2)
  cond2 = LoopCond(less2)
  sw2 = Switch(m2, cond2)
  pivot2 = TestNone(^sw2)
  body2 = TestNeg(sw2:1, ^pivot2)
  next2 = NextIteration(body2)
  exit2 = Exit(sw2)
  next = NextIteration(exit2)
  exit = Exit(sw)
  after = TestNeg(exit)
)";

BOOST_AUTO_TEST_SUITE(control_flow)

BOOST_AUTO_TEST_CASE(every_node_knows_its_frame_and_the_one_around) {
  auto graph = MustParse(kNested);
  std::vector<FrameInfo> info;
  const absl::Status s = BuildFrameInfo(*graph, &info);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
  const struct {
    const char *nodes, *frame, *enter, *parent;
  } kCases[] = {
      {"x limit after", "", "_SOURCE", "_SOURCE"},
      {"e m less cond sw next exit", "outer", "e", "_SOURCE"},
      {"el", "outer", "el", "_SOURCE"},
      {"e2 m2 less2 cond2 sw2 pivot2 body2 next2 exit2", "inner", "e2", "e"},
  };
  for (const auto& c : kCases) {
    for (const std::string& name : StrSplit(c.nodes, ' ')) {
      BOOST_TEST_CONTEXT(name) {
        const FrameInfo& i = info[graph->Find(name)->id()];
        BOOST_TEST(i.frame_name == c.frame);
        BOOST_TEST(i.frame->name() == c.enter);
        BOOST_TEST(i.parent_frame->name() == c.parent);
      }
    }
  }
  graph->ConnectSourceAndSink();
  BOOST_REQUIRE(BuildFrameInfo(*graph, &info).ok());
  BOOST_TEST(info[graph->Find("after")->id()].frame == graph->source());
  BOOST_TEST(info[graph->Find("body2")->id()].frame_name == "inner");
}

BOOST_AUTO_TEST_CASE(what_no_root_reaches_has_no_frame) {
  auto graph = MustParse(R"(
    m = Merge[T=float32](n, n)
    n = NextIteration[T=float32](m)
    a = TestNone
  )");
  std::vector<FrameInfo> info;
  BOOST_REQUIRE(BuildFrameInfo(*graph, &info).ok());
  BOOST_TEST(info[graph->Find("m")->id()].frame == nullptr);
  BOOST_TEST(info[graph->Find("a")->id()].frame == graph->source());
}

BOOST_AUTO_TEST_CASE(mixed_frames_are_refused_naming_both_nodes) {
  const struct {
    const char *text, *a, *b;
  } kCases[] = {
      {"x = TestFeed[dtype=float32]\ne = Enter[frame_name=\"f\"](x)\nbad = TestAdd(x, e)", "node 'bad'",
       "'e' is in frame 'f'"},
      {"x = TestFeed[dtype=float32]\ne = Enter[frame_name=\"f\"](x)\ng = "
       "Enter[frame_name=\"g\"](x)\nbad = TestAdd(e, g)",
       "'g' is in frame 'g'", "'e' is in frame 'f'"},
      {"x = TestFeed[dtype=float32]\ne = Enter[frame_name=\"f\"](x)\nbad = TestNone(^x, ^e)",
       "'x' is in the root frame", "'bad'"},
      {"x = TestFeed[dtype=float32]\ne = Enter[frame_name=\"f\"](x)\ng = "
       "Enter[frame_name=\"g\"](e)\nh = Enter[frame_name=\"g\"](x)",
       "enters frame 'g' from", "'g' enters it from frame 'f'"},
      {"x = TestFeed[dtype=float32]\ne = Enter[frame_name=\"\"](x)", "node 'e'", "must have a frame name"},
      {"x = TestFeed[dtype=float32]\ne = Exit(x)", "node 'e'", "must be inside a loop's frame"},
      {"x = TestFeed[dtype=bool]\ne = Enter[frame_name=\"f\"](x)\nc = LoopCond(e)\nd = LoopCond(e)", "node 'd'",
       "'c' already"},
  };
  for (const auto& c : kCases) {
    auto graph = MustParse(c.text);
    std::vector<FrameInfo> info;
    const absl::Status s = BuildFrameInfo(*graph, &info);
    BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument), c.text);
    const std::string message(s.message());
    for (const char* part : {c.a, c.b}) {
      // Which of the two frames is found first follows the order of the nodes, not the sense of the
      // message.
      BOOST_TEST(message.find(part) != std::string::npos, c.text << "\n" << message);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace control_flow_test
}  // namespace troupe
