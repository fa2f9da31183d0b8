// The ops and helpers that the tests of passes use.
#include "tests/passes/graphs.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "troupe/shape_inference.h"
#include "troupe/text.h"

namespace troupe {
namespace graphs_test {

TROUPE_OP("TestAdd")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: numbertype")
    .Commutative()
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("test");
TROUPE_OP("TestSub")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: numbertype")
    .Shape(shape_fn::BroadcastBinary)
    .NotDifferentiable("test");
TROUPE_OP("TestNeg")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: numbertype")
    .Attr("scale: float = 1.0")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("test");
TROUPE_OP("TestSplit")
    .Input("x: T")
    .Output("a: T")
    .Output("b: T")
    .Attr("T: numbertype")
    .Shape(shape_fn::Unchanged)
    .NotDifferentiable("test");
TROUPE_OP("TestAddN").Input("x: N * T").Output("y: T").Attr("N: int >= 1").Attr("T: type").NotDifferentiable("test");
TROUPE_OP("TestList")
    .Input("x: Tin")
    .Output("y: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .NotDifferentiable("test");
TROUPE_OP("TestFeed")
    .Output("y: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .Trait(OpTrait::kPlaceholder)
    .Shape(shape_fn::FromShapeAttr)
    .NotDifferentiable("test");
TROUPE_OP("TestRandom").Output("y: dtype").Attr("dtype: type = DT_FLOAT").Stateful().NotDifferentiable("test");
TROUPE_OP("TestPrint").Input("x: T").Output("y: T").Attr("T: type").Stateful().NotDifferentiable("test");
TROUPE_OP("TestLess").Input("x: T").Input("y: T").Output("z: bool").Attr("T: type").NotDifferentiable("test");
TROUPE_OP("TestVar")
    .Output("ref: Ref(dtype)")
    .Attr("dtype: type = DT_FLOAT")
    .Attr("shape: shape = { unknown_rank: true }")
    .Stateful()
    .Trait(OpTrait::kVariable)
    .NotDifferentiable("test");
TROUPE_OP("TestAssign")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("out: Ref(T)")
    .Attr("T: type")
    .AllowsUninitializedInput()
    .NotDifferentiable("test");
TROUPE_OP("TestHandle")
    .Output("handle: resource")
    .Attr("shared_name: string = ''")
    .Stateful()
    .NotDifferentiable("test");
TROUPE_OP("TestRead")
    .Input("handle: resource")
    .Output("y: dtype")
    .Attr("dtype: type = DT_FLOAT")
    .Stateful()
    .NotDifferentiable("test");
TROUPE_OP("TestGpuRead")
    .Input("handle: resource")
    .Output("y: dtype")
    .Attr("dtype: type = DT_FLOAT")
    .Stateful()
    .NotDifferentiable("test");
TROUPE_OP("TestGpuOnly").NotDifferentiable("test");
TROUPE_OP("TestUpdate").Input("handle: resource").Input("y: T").Attr("T: type").Stateful().NotDifferentiable("test");
TROUPE_OP("TestNone").NotDifferentiable("test");
TROUPE_OP("TestAttrs")
    .Attr("s: string = ''")
    .Attr("i: int = 0")
    .Attr("f: float = 0.0")
    .Attr("b: bool = false")
    .Attr("t: type = DT_INT32")
    .Attr("sh: shape = { unknown_rank: true }")
    .Attr("ls: list(string) = []")
    .Attr("li: list(int) = []")
    .Attr("lf: list(float) = []")
    .Attr("lt: list(type) = []")
    .Attr("lsh: list(shape) = []")
    .NotDifferentiable("test");

}  // namespace graphs_test

std::unique_ptr<Graph> MustParse(std::string_view text) {
  auto graph = ParseGraphText(text);
  BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString() << " in\n" << text);
  return *std::move(graph);
}

std::string SortedLines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& line : StrSplit(text, '\n')) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#') continue;
    lines.push_back(line.substr(begin, line.find_last_not_of(" \t") - begin + 1));
  }
  std::sort(lines.begin(), lines.end());
  return StrJoin(lines, "\n");
}

std::string SortedText(const Graph& graph) { return SortedLines(GraphText(graph)); }

}  // namespace troupe
