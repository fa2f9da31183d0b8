// Where variables are placed: by the whole graph, not by what one signature needs of it.
#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"
#include "tests/passes/session_graphs.h"
#include "troupe/text.h"

namespace troupe::test {
namespace variable_placement_test {

BOOST_AUTO_TEST_SUITE(variable_placement)

// What the first signature needs of a graph does not say where its variables can be.
BOOST_AUTO_TEST_CASE(variables_are_placed_for_the_whole_graph) {
  const std::string variables = R"(
    v = VarHandleOp[dtype=float32, shape=[], shared_name="v"]
    a = VarHandleOp[dtype=float32, shape=[], shared_name="a"]
    one = Const[value=float32{1}]
    half = Const[value=float32{0.5}]
    v/Assign = AssignVariableOp(v, one)
    a/Assign = AssignVariableOp(a, half)
    init = NoOp(^v/Assign, ^a/Assign)
  )";
  const struct {
    const char* what;
    std::string graph;
    Names targets;
    std::string want;
  } kCases[] = {
      {"an optimizer's slot has no attr that ties it to its variable",
       StrCat(variables, "up = ResourceApplyAdagrad(v, a, half, one)\nr = ReadVariableOp[dtype=float32](v, ^up)"),
       {},
       "0x1.2efa14p-1"},
      {"a later reader asks for a device",
       StrCat(variables, "up = AssignAddVariableOp(v, one)\nr = ReadVariableOp[dtype=float32](v, ^up) @/cpu:1"),
       {},
       "0x1p+1"},
      {"so does a node of its class, of a signature that does not have the variable",
       StrCat(variables, "k = Neg[_class={\"loc:@v\"}](one) @/cpu:2\nr = ReadVariableOp[dtype=float32](v, ^k)"),
       {},
       "0x1p+0"},
  };
  for (const auto& c : kCases) {
    for (const Mode& mode : AllModes()) {
      BOOST_TEST_CONTEXT(c.what << ", " << mode.what) {
        BOOST_TEST(RunSteps(c.graph, {"r"}, c.targets, 1, mode) == c.want + "\n");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_an_extension_ties_must_be_where_it_can) {
  const std::string first = R"(
    v = VarHandleOp[dtype=float32, shape=[], shared_name="v"]
    a = VarHandleOp[dtype=float32, shape=[], shared_name="a"] @/cpu:1
    one = Const[value=float32{1}]
    v/Assign = AssignVariableOp(v, one)
    a/Assign = AssignVariableOp(a, one)
    init = NoOp(^v/Assign, ^a/Assign)
    other = VarHandleOp[dtype=float32, shape=[], shared_name="other"]
    other/Assign = AssignVariableOp(other, one)
  )";
  auto graph = MustParse(first);
  auto session = SessionFor(first, {"", 3});
  BOOST_TEST_REQUIRE(session.ok());
  BOOST_TEST((*session)->Run({}, {}, {"init"}, nullptr).ok());
  // `other` has not run, and goes where `a` is; `v` cannot.
  const auto extend = [&](const std::string& text) {
    BOOST_TEST(AddGraphText(text, graph.get()).ok());
    return (*session)->Extend(*graph);
  };
  BOOST_TEST(extend(R"(
    both = ResourceApplyAdagrad(other, a, one, one)
    bad = ResourceApplyAdagrad(v, a, one, one)
    read = ReadVariableOp[dtype=float32](other))")
                 .ok());
  BOOST_TEST((*session)->Run({}, {}, {"other/Assign"}, nullptr).ok());
  BOOST_TEST((*session)->Run({}, {}, {"both"}, nullptr).ok());
  std::vector<Tensor> values;
  BOOST_TEST((*session)->Run({}, {"read"}, {}, &values).ok());
  const absl::Status s = (*session)->Run({}, {}, {"bad"}, nullptr);
  BOOST_TEST((s.code() == absl::StatusCode::kInvalidArgument));
  for (const char* part : {"'v' is on", "CPU:0", "'a' on", "CPU:1", "node 'bad'"}) {
    BOOST_TEST(std::string(s.message()).find(part) != std::string::npos, part << " in " << s.message());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace variable_placement_test
}  // namespace troupe::test
