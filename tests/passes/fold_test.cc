// Folding of constants: graphs as text, before and after.
#include "graph/passes/fold.h"

#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace fold_test {

// Computes the test ops on int32 vectors; counts what it is asked.
class TestEvaluator : public ConstantEvaluator {
 public:
  absl::StatusOr<std::vector<Tensor>> Evaluate(const Node& node, absl::Span<const Tensor> in) override {
    ++evaluations;
    const std::string& op = node.op().name;
    if (op == "TestBig" || op == "TestBigShaped") {
      Tensor zeros(DType::kInt32, TensorShape({*in[0].data<int32_t>()}));
      std::fill_n(zeros.data<int32_t>(), zeros.num_elements(), 0);
      if (last != 0) zeros.data<int32_t>()[zeros.num_elements() - 1] = last;
      return std::vector<Tensor>{zeros};
    }
    if (op == "TestLongest") {
      const TensorShape shape = in[0].shape();
      return std::vector<Tensor>{
          Tensor::Scalar(static_cast<int32_t>(*std::max_element(shape.dims().begin(), shape.dims().end())))};
    }
    const int64_t n = in[0].num_elements();
    Tensor out(DType::kInt32, in[0].shape());
    for (int64_t i = 0; i < n; ++i) {
      const int32_t a = in[0].data<int32_t>()[i], b = in.size() > 1 ? in[1].data<int32_t>()[i] : 0;
      if (op == "TestSub" && b == 13) return InvalidArgument("13 brings bad luck");
      out.data<int32_t>()[i] = op == "TestAdd" ? a + b : op == "TestSub" ? a - b : op == "TestNeg" ? -a : a;
    }
    return op == "TestSplit" ? std::vector<Tensor>{out, out} : std::vector<Tensor>{out};
  }
  bool CanEvaluate(const Node& node) override { return node.op().name != "TestAddN"; }
  int evaluations = 0;
  int32_t last = 0;  // number of what TestBig makes
};

TROUPE_OP("TestLongest")
    .Input("x: T")
    .Output("longest: int32")
    .Attr("T: type")
    .Trait(OpTrait::kReadsOnlyShape)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("test")
    .Doc("The largest dimension.");
// Ops of a user's own that are what Shape, Size and Rank are. They have no kernels.
TROUPE_OP("TestOwnShape")
    .Input("x: float")
    .Output("shape: int32")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kShape)
    .Shape([](InferenceContext& c) {
      c.set_output(0, PartialTensorShape{c.input(0).rank()});
      return absl::OkStatus();
    })
    .NotDifferentiable("test");
TROUPE_OP("TestOwnSize")
    .Input("x: float")
    .Output("size: int64")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kSize)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("test");
TROUPE_OP("TestOwnRank")
    .Input("x: float")
    .Output("rank: int32")
    .Trait(OpTrait::kReadsOnlyShape)
    .Trait(OpTrait::kRank)
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("test");
TROUPE_OP("TestBig").Input("n: int32").Output("y: int32").NotDifferentiable("test");
TROUPE_OP("TestBigShaped")
    .Input("n: int32")
    .Output("y: int32")
    .Shape([](InferenceContext& c) {
      c.set_output(0, {*c.input_tensor(0)->data<int32_t>()});
      return absl::OkStatus();
    })
    .NotDifferentiable("test");

struct Case {
  const char *what, *before, *after;
};

BOOST_AUTO_TEST_SUITE(fold)

BOOST_AUTO_TEST_CASE(each_graph_folds_to_the_one_beside_it) {
  const Case kCases[] = {
      {"a chain of constants becomes one",
       R"(a = Const[value=int32{1}]
          b = Const[value=int32{2}]
          c = TestAdd(a, b)
          d = TestNeg(c) @/cpu:0
          r = _Retval[index=0](d))",
       R"(d = Const[value=int32{-3}] @/cpu:0
          r = _Retval[index=0](d))"},
      {"what others need of the chain stays",
       R"(a = Const[value=int32{1}]
          x = _Arg[T=int32, index=0]
          c = TestAdd(a, a)
          d = TestNeg(c)
          e = TestSub(c, x)
          f = TestSub(d, a)
          r = _Retval[index=0](e)
          s = _Retval[index=1](f))",
       R"(x = _Arg[T=int32, index=0]
          c = Const[value=int32{2}]
          e = TestSub(c, x)
          f = Const[value=int32{-3}]
          r = _Retval[index=0](e)
          s = _Retval[index=1](f))"},
      {"each output that is used",
       R"(a = Const[value=int32{4}]
          t = TestSplit(a)
          r = _Retval[index=0](t)
          s = _Retval[index=1](t:1))",
       R"(t = Const[value=int32{4}]
          t_output_1 = Const[value=int32{4}]
          r = _Retval[index=0](t)
          s = _Retval[index=1](t_output_1))"},
      {"an error, an op without kernel, stateful ops and placeholders stay",
       R"(a = Const[value=int32{13}]
          err = TestSub(a, a)
          no = TestAddN(a, a)
          p = TestPrint(a)
          ph = TestFeed[dtype=int32]
          n = TestNeg(ph)
          all = TestList[Tout={}](err, no, p, n))",
       R"(a = Const[value=int32{13}]
          err = TestSub(a, a)
          no = TestAddN(a, a)
          p = TestPrint(a)
          ph = TestFeed[dtype=int32]
          n = TestNeg(ph)
          all = TestList[Tout={}](err, no, p, n))"},
      {"control inputs of what was folded are waited for, through folded nodes too",
       R"(x = TestRandom
          y = TestRandom
          a = Const[value=int32{1}](^x)
          b = TestNeg(a, ^y)
          c = TestNeg(b)
          d = TestNone(^b)
          r = _Retval[index=0](c))",
       R"(x = TestRandom
          y = TestRandom
          c = Const[value=int32{1}](^x, ^y)
          d = TestNone(^x, ^y)
          r = _Retval[index=0](c))"},
      {"a target without consumers keeps its node, its input is a constant",
       R"(a = Const[value=int32{1}]
          b = TestNeg(a)
          target = TestNeg(b))",
       R"(b = Const[value=int32{-1}]
          target = TestNeg(b))"},
      {"inside a loop constants stay in their frame",
       R"(x = _Arg[T=int32, index=0]
          e = Enter[frame_name="f"](x)
          m = Merge(e, next)
          less = TestLess(m, m)
          cond = LoopCond(less)
          sw = Switch(m, cond)
          pivot = Identity(sw:1)
          one = Const[value=int32{1}](^pivot)
          two = TestAdd(one, one)
          body = TestAdd(sw:1, two)
          next = NextIteration(body)
          exit = Exit(sw)
          r = _Retval[index=0](exit))",
       R"(x = _Arg[T=int32, index=0]
          e = Enter[frame_name="f"](x)
          m = Merge(e, next)
          less = TestLess(m, m)
          cond = LoopCond(less)
          sw = Switch(m, cond)
          pivot = Identity(sw:1)
          two = Const[value=int32{2}](^pivot)
          body = TestAdd(sw:1, two)
          next = NextIteration(body)
          exit = Exit(sw)
          r = _Retval[index=0](exit))"},
      {"Switch, Merge and Enter of constants are control flow",
       R"(p = _Arg[T=bool, index=0]
          a = Const[value=int32{1}]
          sw = Switch(a, p)
          n = TestNeg(sw:1)
          m = Merge(sw, n)
          r = _Retval[index=0](m))",
       R"(p = _Arg[T=bool, index=0]
          a = Const[value=int32{1}]
          sw = Switch(a, p)
          n = TestNeg(sw:1)
          m = Merge(sw, n)
          r = _Retval[index=0](m))"},
      {"shapes that are known, and what follows from them",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          n = TestNeg(x)
          s = Shape(n)
          q = TestNeg(s)
          r = _Retval[index=0](q))",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          q = Const[value=int32[2]{-2, -3}]
          r = _Retval[index=0](q))"},
      {"Size and Rank; a rank is known before the sizes are; ShapeN only as a whole",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          size = Size[out_type=int64](x)
          rank = Rank(y)
          no = Size(y)
          ns = ShapeN(x, y)
          ok = ShapeN(x, x)
          all = TestList[Tout={}](size, rank, no, ns, ok:1))",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          size = Const[value=int64{6}]
          rank = Const[value=int32{2}]
          no = Size(y)
          ns = ShapeN(x, y)
          ok_output_1 = Const[value=int32[2]{2, 3}]
          all = TestList[Tout={}](size, rank, no, ns, ok_output_1))"},
      {"an op whose trait says that it reads only shapes; of large and of unknown shapes it stays",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          z = _Arg[T=float32, index=2, _output_shapes={[1000000,1000]}]
          of_x = TestLongest(x)
          of_y = TestLongest(y)
          of_z = TestLongest(z)
          all = TestList[Tout={}](of_x, of_y, of_z))",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          z = _Arg[T=float32, index=2, _output_shapes={[1000000,1000]}]
          of_x = Const[value=int32{3}]
          of_y = TestLongest(y)
          of_z = TestLongest(z)
          all = TestList[Tout={}](of_x, of_y, of_z))"},
      {"ops of a user's own with the traits of Shape, Size and Rank, of large and of unknown shapes",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          z = _Arg[T=float32, index=2, _output_shapes={[1000000,1000]}]
          shape = TestOwnShape(z)
          size = TestOwnSize(z)
          rank = TestOwnRank(y)
          of_x = TestOwnShape(x)
          like_x = Reshape(y, of_x)
          inferred = Shape(like_x)
          all = TestList[Tout={}](shape, size, rank, inferred))",
       R"(x = _Arg[T=float32, index=0, _output_shapes={[2,3]}]
          y = _Arg[T=float32, index=1, _output_shapes={[2,?]}]
          z = _Arg[T=float32, index=2, _output_shapes={[1000000,1000]}]
          shape = Const[value=int32[2]{1000000, 1000}]
          size = Const[value=int64{1000000000}]
          rank = Const[value=int32{2}]
          inferred = Const[value=int32[2]{2, 3}]
          all = TestList[Tout={}](shape, size, rank, inferred))"},
      {"the shape of a value on a branch is known only when the branch is taken",
       R"(p = _Arg[T=bool, index=0]
          x = _Arg[T=float32, index=1, _output_shapes={[7]}]
          sw = Switch(x, p)
          n = TestNeg(sw:1)
          s = Shape(n)
          r = _Retval[index=0](s))",
       R"(p = _Arg[T=bool, index=0]
          x = _Arg[T=float32, index=1, _output_shapes={[7]}]
          sw = Switch(x, p)
          n = TestNeg(sw:1)
          s = Const[value=int32[1]{7}](^n)
          r = _Retval[index=0](s))"},
  };
  for (const Case& c : kCases) {
    BOOST_TEST_CONTEXT(c.what) {
      auto graph = MustParse(c.before);
      TestEvaluator evaluator;
      auto stats = FoldConstants(graph.get(), &evaluator);
      BOOST_REQUIRE_MESSAGE(stats.ok(), stats.status().ToString());
      BOOST_TEST(SortedText(*graph) == SortedLines(c.after));
      BOOST_TEST(graph->Validate().ok());
      // A second time there is nothing left to do.
      BOOST_REQUIRE(FoldConstants(graph.get(), &evaluator).ok());
      BOOST_TEST(SortedText(*graph) == SortedLines(c.after));
    }
  }
}

BOOST_AUTO_TEST_CASE(results_above_the_limit_stay_and_are_not_even_computed_when_foreseen) {
  for (const char* op : {"TestBig", "TestBigShaped"}) {
    for (int n : {24, 26}) {
      auto graph = MustParse(StrCat("a = Const[value=int32{", n, "}]\nb = ", op, "(a)\nr = _Retval[index=0](b)"));
      TestEvaluator evaluator;
      const auto stats = FoldConstants(graph.get(), &evaluator, {.max_result_bytes = 100});
      BOOST_REQUIRE(stats.ok());
      BOOST_TEST(stats->replaced == (n == 24 ? 1 : 0));
      if (n == 26) BOOST_TEST(evaluator.evaluations == (std::string_view(op) == "TestBig" ? 1 : 0));
    }
  }
}

// What a variable begins with is made once; but not where something else reads it, too, or where it
// is not the same number everywhere.
BOOST_AUTO_TEST_CASE(large_tensors_of_one_number_for_state_stay_nodes) {
  const std::string assigned = "v = VarHandleOp[dtype=int32, shape=[]]\nw = AssignVariableOp[dtype=int32](v, b)\n";
  const auto fold = [](int n, const std::string& rest, int32_t last = 0) {
    auto graph = MustParse(StrCat("a = Const[value=int32{", n, "}]\nb = TestBig(a)\n", rest));
    TestEvaluator evaluator;
    evaluator.last = last;
    BOOST_REQUIRE(FoldConstants(graph.get(), &evaluator).ok());
    BOOST_TEST(graph->Validate().ok());
    return graph;
  };
  BOOST_TEST(fold(32768, assigned)->Find("b")->IsConstant());
  BOOST_TEST(!fold(32769, assigned)->Find("b")->IsConstant());
  BOOST_TEST(fold(32769, assigned, 5)->Find("b")->IsConstant());
  const std::string read = "x = Placeholder[dtype=int32]\ns = TestAdd[T=int32](b, x)\n";
  BOOST_TEST(fold(32769, assigned + read)->Find("b")->IsConstant());
  // What is computed of it is a constant, and does not count as a reader.
  const auto behind = fold(40000, assigned + "c = TestNeg[T=int32](b)\nr = _Retval[index=0](c)");
  BOOST_TEST(behind->Find("c")->IsConstant());
  BOOST_TEST(!behind->Find("b")->IsConstant());
  // Its own input was computed.
  const auto deep = fold(3,
                         "c = Const[value=int32{40000}]\nd = TestNeg[T=int32](c)\ne = TestNeg[T=int32](d)\n"
                         "f = TestBig(e)\nv = VariableV2[dtype=int32, shape=[]]\nw = Assign(v, f)");
  BOOST_TEST(deep->Find("e")->IsConstant());
  BOOST_TEST(!deep->Find("f")->IsConstant());
}

BOOST_AUTO_TEST_CASE(a_cycle_is_an_error) {
  auto graph = MustParse("a = TestNeg[T=int32](b)\nb = TestNeg[T=int32](a)");
  TestEvaluator evaluator;
  BOOST_TEST((FoldConstants(graph.get(), &evaluator).status().code() == absl::StatusCode::kInvalidArgument));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace fold_test
}  // namespace troupe
