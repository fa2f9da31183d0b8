// The ops that the tests of import use; they have no kernels.
#include "tests/import/ops_test.h"

#include <boost/test/unit_test.hpp>

#include <google/protobuf/text_format.h>

namespace troupe {
namespace ops_test {

constexpr const char* kWhy = "it is an op of a test";

TROUPE_OP("ImpNoOp").NotDifferentiable(kWhy);
TROUPE_OP("ImpConst").Output("output: dtype").Attr("value: tensor").Attr("dtype: type").NotDifferentiable(kWhy);
TROUPE_OP("ImpPlaceholder")
    .Output("output: dtype")
    .Attr("dtype: type")
    .Attr("shape: shape = { unknown_rank: true }")
    .Trait(OpTrait::kPlaceholder)
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpAdd")
    .Input("x: T")
    .Input("y: T")
    .Output("z: T")
    .Attr("T: {float, double, int32}")
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpIdentity").Input("x: T").Output("y: T").Attr("T: type").NotDifferentiable(kWhy);
TROUPE_OP("ImpPack")
    .Input("values: N * T")
    .Output("output: T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Attr("axis: int = 0")
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpSplit")
    .Input("x: T")
    .Output("outputs: N * T")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpTuple").Input("x: T").Output("y: T").Attr("T: list(type) >= 1").NotDifferentiable(kWhy);
TROUPE_OP("ImpVariable").Output("ref: Ref(T)").Attr("T: type").Stateful().NotDifferentiable(kWhy);
TROUPE_OP("ImpAssign")
    .Input("ref: Ref(T)")
    .Input("value: T")
    .Output("out: Ref(T)")
    .Attr("T: type")
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpOld").Deprecated(5, "use ImpNoOp").NotDifferentiable(kWhy);
TROUPE_OP("ImpAttrs")
    .Attr("s: string = 'd'")
    .Attr("i: int = 3")
    .Attr("f: float = 0.5")
    .Attr("b: bool = true")
    .Attr("t: type = DT_FLOAT")
    .Attr("shape: shape = {}")
    .Attr("mode: {'same', 'valid'} = 'same'")
    .Attr("ints: list(int) = [1, 2]")
    .Attr("strings: list(string) = []")
    .Attr("types: list({float, int32}) = []")
    .Attr("few: list(int) >= 2 = [1, 2]")
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpFunc").Attr("f: func").NotDifferentiable(kWhy);
TROUPE_OP("ImpMerge")
    .Input("inputs: N * T")
    .Output("output: T")
    .Output("index: int32")
    .Attr("N: int >= 1")
    .Attr("T: type")
    .Flow(ControlFlow::kMerge)
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpEnter")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("frame_name: string = 'loop'")
    .Flow(ControlFlow::kEnter)
    .NotDifferentiable(kWhy);
TROUPE_OP("ImpNextIteration")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Flow(ControlFlow::kNextIteration)
    .NotDifferentiable(kWhy);

}  // namespace ops_test

proto::GraphDef ParseGraph(const std::string& text) {
  proto::GraphDef def;
  BOOST_REQUIRE_MESSAGE(google::protobuf::TextFormat::ParseFromString(text, &def), text);
  return def;
}

std::string ImportMessage(const std::string& text) {
  Graph graph;
  const auto result = ImportGraphDef(ParseGraph(text), {.keep_unknown_ops = false}, &graph);
  if (result.ok()) return "OK";
  BOOST_TEST(graph.num_nodes() == 2, "a failed import left nodes behind: " << text);
  return std::string(result.status().message());
}

}  // namespace troupe
