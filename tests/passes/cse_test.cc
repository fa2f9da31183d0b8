// Merging of equal nodes: graphs as text, before and after.
#include "graph/passes/cse.h"

#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"

namespace troupe {
namespace cse_test {

struct Case {
  const char *what, *before, *after;
};

BOOST_AUTO_TEST_SUITE(cse)

BOOST_AUTO_TEST_CASE(each_graph_merges_to_the_one_beside_it) {
  const Case kCases[] = {
      {"equal nodes merge, then what reads them",
       R"(x = _Arg[T=float32, index=0]
          a = TestNeg(x)
          b = TestNeg(x)
          c = TestSub(a, x)
          d = TestSub(b, x)
          r = _Retval[index=0](c)
          s = _Retval[index=1](d, ^b))",
       R"(x = _Arg[T=float32, index=0]
          a = TestNeg(x)
          c = TestSub(a, x)
          r = _Retval[index=0](c)
          s = _Retval[index=1](c, ^a))"},
      {"order counts unless the op is commutative",
       R"(x = _Arg[T=float32, index=0]
          y = _Arg[T=float32, index=1]
          a = TestAdd(x, y)
          b = TestAdd(y, x)
          c = TestSub(x, y)
          d = TestSub(y, x)
          all = TestAddN(a, b, c, d))",
       R"(x = _Arg[T=float32, index=0]
          y = _Arg[T=float32, index=1]
          a = TestAdd(x, y)
          c = TestSub(x, y)
          d = TestSub(y, x)
          all = TestAddN(a, a, c, d))"},
      {"attrs, devices, outputs and control inputs must be the same",
       R"(x = _Arg[T=float32, index=0]
          t = TestSplit(x)
          a = TestNeg(t)
          b = TestNeg[scale=2.0](t)
          c = TestNeg(t) @/cpu:0
          d = TestNeg(t:1)
          e = TestNeg(t, ^x)
          f = TestNeg(t, ^x)
          g = TestNeg[scale=2.0](t)
          all = TestAddN(a, b, c, d, e, f, g))",
       R"(x = _Arg[T=float32, index=0]
          t = TestSplit(x)
          a = TestNeg(t)
          b = TestNeg[scale=2.0](t)
          c = TestNeg(t) @/cpu:0
          d = TestNeg(t:1)
          e = TestNeg(t, ^x)
          all = TestAddN(a, b, c, d, e, e, b))"},
      {"constants by value, type and shape",
       R"(a = Const[value=int32[2]{1, 2}]
          b = Const[value=int32[2]{1, 2}]
          c = Const[value=int32[2]{1, 3}]
          d = Const[value=int32[1,2]{1, 2}]
          e = Const[value=string{"s"}]
          f = Const[value=string{"s"}]
          g = Const[value=string{"t"}]
          all = TestList[Tout={}](a, b, c, d, e, f, g))",
       R"(a = Const[value=int32[2]{1, 2}]
          c = Const[value=int32[2]{1, 3}]
          d = Const[value=int32[1,2]{1, 2}]
          e = Const[value=string{"s"}]
          g = Const[value=string{"t"}]
          all = TestList[Tout={}](a, a, c, d, e, e, g))"},
      {"never stateful ops, placeholders, references or control flow",
       R"(x = TestFeed[dtype=float32]
          y = TestFeed[dtype=float32]
          p = _Arg[T=bool, index=0]
          a = TestRandom
          b = TestRandom
          v = TestVar
          w = TestVar
          s = TestAssign(v, x)
          t = TestAssign(v, x)
          i = Switch(x, p)
          j = Switch(x, p)
          all = TestList[Tout={}](x, y, a, b, s, t, i, j, w))",
       R"(x = TestFeed[dtype=float32]
          y = TestFeed[dtype=float32]
          p = _Arg[T=bool, index=0]
          a = TestRandom
          b = TestRandom
          v = TestVar
          w = TestVar
          s = TestAssign(v, x)
          t = TestAssign(v, x)
          i = Switch(x, p)
          j = Switch(x, p)
          all = TestList[Tout={}](x, y, a, b, s, t, i, j, w))"},
  };
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = MustParse(c.before);
      const int before = graph->num_nodes();
      auto removed = EliminateCommonSubexpressions(graph.get());
      BOOST_REQUIRE_MESSAGE(removed.ok(), removed.status().ToString());
      BOOST_TEST(SortedText(*graph) == SortedLines(c.after));
      BOOST_TEST(*removed == before - graph->num_nodes());
      BOOST_TEST(graph->Validate().ok());
      BOOST_TEST(*EliminateCommonSubexpressions(graph.get()) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_cycle_is_an_error) {
  auto graph = MustParse("a = TestNeg[T=int32](b)\nb = TestNeg[T=int32](a)");
  BOOST_TEST((EliminateCommonSubexpressions(graph.get()).status().code() == absl::StatusCode::kInvalidArgument));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace cse_test
}  // namespace troupe
