// While and Cond emit the primitives that TensorFlow 1.x's while_v1 and cond_v1 emit (the texts
// below are its graphs, in order of names).
#include <algorithm>

#include <boost/test/unit_test.hpp>

#include "graph/ir/frames.h"
#include "tests/api/graph_text.h"
#include "troupe/const.h"
#include "troupe/control_flow.h"
#include "troupe/operators.h"
#include "troupe/ops.h"
#include "troupe/variable.h"

namespace troupe {
namespace control_flow_test {

using test::GraphText;
using test::NodeText;

std::string Sorted(const std::string& text) {
  std::vector<std::string> lines = StrSplit(text, '\n');
  std::sort(lines.begin(), lines.end());
  return StrJoin(lines, "\n");
}

// The whole graph as expected, every loop closed.
void CheckGraph(const Scope& root, const std::string& expected) {
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(Sorted(GraphText(*root.graph())) == Sorted(expected));
  BOOST_TEST(root.graph()->Validate().ToString() == "OK");
}

std::string Text(const Scope& root, std::string_view node) {
  const Node* n = root.graph()->Find(node);
  return n == nullptr ? StrCat("there is no '", node, "'") : NodeText(*n);
}

void CheckError(const Scope& root, const std::string& what) {
  BOOST_TEST(std::string(root.status().message()).find(what) != std::string::npos, root.status().ToString());
  BOOST_TEST(std::string(root.status().message()).find("control_flow_test.cc:") != std::string::npos,
             root.status().ToString());
}

struct Fixture {
  Scope root = Scope::NewRootScope();
  Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = PartialTensorShape(TensorShape())});
  Output n = ops::Placeholder(root.WithOpName("n"), DType::kInt32, {.shape = PartialTensorShape(TensorShape())});
  Output p = ops::Placeholder(root.WithOpName("p"), DType::kBool, {.shape = PartialTensorShape(TensorShape())});
};

BOOST_FIXTURE_TEST_SUITE(control_flow, Fixture)

BOOST_AUTO_TEST_CASE(a_while_has_the_nodes_and_names_of_tensorflow) {
  const OutputList r = While(
      root, {Const(root.WithOpName("i0"), 0), Const(root.WithOpName("a0"), 1.0f)},
      [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [&](const Scope&, const OutputList& v) -> OutputList {
        return {v[0] + 1, v[1] * x};
      });
  BOOST_TEST(r.size() == 2u);
  CheckGraph(
      root,
      "x = Placeholder()\nn = Placeholder()\np = Placeholder()\ni0 = Const()\na0 = Const()\n"
      "while/Enter = Enter(i0)\nwhile/Enter_1 = Enter(a0)\n"
      "while/Merge = Merge(while/Enter, while/NextIteration)\nwhile/Merge_1 = Merge(while/Enter_1, "
      "while/NextIteration_1)\n"
      "while/Less = Less(while/Merge, while/Less/Enter)\nwhile/Less/Enter = Enter(n)\n"
      "while/LoopCond = LoopCond(while/Less)\n"
      "while/Switch = Switch(while/Merge, while/LoopCond)\nwhile/Switch_1 = Switch(while/Merge_1, while/LoopCond)\n"
      "while/Identity = Identity(while/Switch:1)\nwhile/Identity_1 = Identity(while/Switch_1:1)\n"
      "while/add/y = Const(^while/Identity)\nwhile/add = AddV2(while/Identity, while/add/y)\n"
      "while/mul = Mul(while/Identity_1, while/mul/Enter)\nwhile/mul/Enter = Enter(x)\n"
      "while/NextIteration = NextIteration(while/add)\nwhile/NextIteration_1 = NextIteration(while/mul)\n"
      "while/Exit = Exit(while/Switch)\nwhile/Exit_1 = Exit(while/Switch_1)\n");
  const Node& enter = *root.graph()->Find("while/Enter");
  BOOST_TEST(*enter.Attr<std::string>("frame_name") == "while/while_context");
  BOOST_TEST(!*enter.Attr<bool>("is_constant"));
  BOOST_TEST(*enter.Attr<int64_t>("parallel_iterations") == 10);
  BOOST_TEST(*root.graph()->Find("while/mul/Enter")->Attr<bool>("is_constant"));
  BOOST_TEST((*root.graph()->Find("while/Switch")->Attr<std::vector<std::string>>("_class") ==
              std::vector<std::string>{"loc:@while/Merge"}));
  BOOST_TEST(r[1].shape().DebugString() == "[]");
}

BOOST_AUTO_TEST_CASE(a_cond_has_the_nodes_and_names_of_tensorflow) {
  const Output y = Cond(
      root, p, [&](const Scope& s) { return ops::AddV2(s.WithOpName("a"), x, 1); },
      [&](const Scope& s) { return Const(s.WithOpName("b"), 2.0f); });
  BOOST_TEST(y.name() == "cond/Merge:0");
  CheckGraph(
      root,
      "x = Placeholder()\nn = Placeholder()\np = Placeholder()\n"
      "cond/Switch = Switch(p, p)\ncond/switch_t = Identity(cond/Switch:1)\ncond/switch_f = Identity(cond/Switch)\n"
      "cond/pred_id = Identity(p)\ncond/a/y = Const(^cond/switch_t)\ncond/a = AddV2(cond/a/Switch:1, cond/a/y)\n"
      "cond/a/Switch = Switch(x, cond/pred_id)\ncond/b = Const(^cond/switch_f)\ncond/Merge = Merge(cond/b, cond/a)\n");
  BOOST_TEST((*root.graph()->Find("cond/a/Switch")->Attr<std::vector<std::string>>("_class") ==
              std::vector<std::string>{"loc:@x"}));
}

BOOST_AUTO_TEST_CASE(a_cond_in_a_loop_in_a_loop) {
  const Output i0 = Const(root.WithOpName("i0"), 0);
  While(
      root, {i0, x}, [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        const Output j = While(
            s.WithOpName("inner"), i0, [&](const Scope&, const Output& j) { return j < n; },
            [&](const Scope& s, const Output& j) {
              return Cond(
                  s, j > v[0], [&](const Scope&) { return j + v[0]; }, [&](const Scope&) { return j * 2; });
            });
        return {v[0] + j, v[1] * x};
      });
  CheckGraph(
      root,
      "x = Placeholder()\nn = Placeholder()\np = Placeholder()\ni0 = Const()\n"
      "while/Enter = Enter(i0)\nwhile/Enter_1 = Enter(x)\n"
      "while/Merge = Merge(while/Enter, while/NextIteration)\nwhile/Merge_1 = Merge(while/Enter_1, "
      "while/NextIteration_1)\n"
      "while/Less = Less(while/Merge, while/Less/Enter)\nwhile/Less/Enter = Enter(n)\nwhile/LoopCond = "
      "LoopCond(while/Less)\n"
      "while/Switch = Switch(while/Merge, while/LoopCond)\nwhile/Switch_1 = Switch(while/Merge_1, while/LoopCond)\n"
      "while/Identity = Identity(while/Switch:1)\nwhile/Identity_1 = Identity(while/Switch_1:1)\n"
      "while/inner/Enter = Enter(i0)\nwhile/inner/Enter_1 = Enter(while/inner/Enter, ^while/Identity)\n"
      "while/inner/Merge = Merge(while/inner/Enter_1, while/inner/NextIteration)\n"
      "while/inner/Less = Less(while/inner/Merge, while/inner/Less/Enter)\nwhile/inner/Less/Enter = "
      "Enter(while/Less/Enter)\n"
      "while/inner/LoopCond = LoopCond(while/inner/Less)\nwhile/inner/Switch = Switch(while/inner/Merge, "
      "while/inner/LoopCond)\n"
      "while/inner/Identity = Identity(while/inner/Switch:1)\n"
      "while/inner/Greater = Greater(while/inner/Identity, while/inner/Greater/Enter)\n"
      "while/inner/Greater/Enter = Enter(while/Identity)\n"
      "while/inner/cond/Switch = Switch(while/inner/Greater, while/inner/Greater)\n"
      "while/inner/cond/switch_t = Identity(while/inner/cond/Switch:1)\n"
      "while/inner/cond/switch_f = Identity(while/inner/cond/Switch)\n"
      "while/inner/cond/pred_id = Identity(while/inner/Greater)\n"
      "while/inner/cond/add = AddV2(while/inner/cond/add/Switch:1, while/inner/cond/add/Switch_1:1)\n"
      "while/inner/cond/add/Switch = Switch(while/inner/Identity, while/inner/cond/pred_id)\n"
      "while/inner/cond/add/Switch_1 = Switch(while/inner/Greater/Enter, while/inner/cond/pred_id)\n"
      "while/inner/cond/mul/y = Const(^while/inner/cond/switch_f)\n"
      "while/inner/cond/mul = Mul(while/inner/cond/mul/Switch, while/inner/cond/mul/y)\n"
      "while/inner/cond/mul/Switch = Switch(while/inner/Identity, while/inner/cond/pred_id)\n"
      "while/inner/cond/Merge = Merge(while/inner/cond/mul, while/inner/cond/add)\n"
      "while/inner/NextIteration = NextIteration(while/inner/cond/Merge)\nwhile/inner/Exit = Exit(while/inner/Switch)\n"
      "while/add = AddV2(while/Identity, while/inner/Exit)\nwhile/mul = Mul(while/Identity_1, while/mul/Enter)\n"
      "while/mul/Enter = Enter(x)\nwhile/NextIteration = NextIteration(while/add)\n"
      "while/NextIteration_1 = NextIteration(while/mul)\nwhile/Exit = Exit(while/Switch)\nwhile/Exit_1 = "
      "Exit(while/Switch_1)\n");
}

BOOST_AUTO_TEST_CASE(a_branch_that_gives_outer_values) {
  const Output y = Cond(
      root, p, [&](const Scope&) { return x; }, [&](const Scope&) { return -x; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(Text(root, "cond/Switch_1") == "cond/Switch_1 = Switch(x, cond/pred_id)");
  BOOST_TEST(NodeText(*y.node()) == "cond/Merge = Merge(cond/Neg, cond/Switch_1:1)");
  BOOST_TEST(Text(root, "cond/Neg") == "cond/Neg = Neg(cond/Neg/Switch)");
}

BOOST_AUTO_TEST_CASE(branches_that_only_run_something) {
  const Variable v(root.WithOpName("v"), 0.0f);
  const Operation op = Cond(
      root, p, [&](const Scope& s) { return Operation(v.AssignAdd(s, 1)); },
      [&](const Scope& s) { return ops::NoOp(s); });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(op.name() == "cond/Merge");
  BOOST_TEST(Text(root, "cond/NoOp") == "cond/NoOp = NoOp(^cond/switch_f)");
  BOOST_TEST(Text(root, "cond/control_dependency") ==
             "cond/control_dependency = Identity(cond/switch_t, ^cond/AssignAdd/Read)");
  BOOST_TEST(Text(root, "cond/control_dependency_1") ==
             "cond/control_dependency_1 = Identity(cond/switch_f, ^cond/NoOp)");
  BOOST_TEST(Text(root, "cond/AssignAdd/value") == "cond/AssignAdd/value = Const(^cond/switch_t)");
}

BOOST_AUTO_TEST_CASE(control_inputs_from_outside_come_in_as_identities) {
  const Operation done = ops::NoOp(root.WithOpName("done"));
  While(
      root.WithControlDependencies(x), Const(root.WithOpName("i0"), 0),
      [&](const Scope&, const Output& i) { return i < 3; },
      [&](const Scope& s, const Output& i) {
        const Operation own = ops::NoOp(s.WithOpName("own").WithControlDependencies(i));
        const Output k = Const(s.WithOpName("k").WithControlDependencies({Operation(p), done, own}), 1);
        return i + k;
      });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(Text(root, "while/Enter") == "while/Enter = Enter(i0, ^x)");
  BOOST_TEST(Text(root, "while/own") == "while/own = NoOp(^while/Identity)");
  BOOST_TEST(Text(root, "while/k") == "while/k = Const(^while/k/after, ^while/k/after_1, ^while/own)");
  BOOST_TEST(Text(root, "while/k/after") == "while/k/after = Identity(while/k/Enter, ^while/Identity)");
  BOOST_TEST(Text(root, "while/k/Enter") == "while/k/Enter = Enter(p)");
  BOOST_TEST(Text(root, "while/k/Enter_1") == "while/k/Enter_1 = Enter(done/done)");
  BOOST_TEST(Text(root, "done/done") == "done/done = Const(^done)");
  BOOST_TEST(root.graph()->Validate().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(nodes_of_constants_wait_for_the_pivot) {
  While(
      root, Const(root, 0), [&](const Scope&, const Output& i) { return i < 3; },
      [&](const Scope& s, const Output& i) {
        ops::Neg(s.WithOpName("free"), x);
        const Output held = ops::Identity(s.WithOpName("held"), n);
        return i + held;
      });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(Text(root, "while/free") == "while/free = Neg(while/free/Enter, ^while/Identity)");
  BOOST_TEST(Text(root, "while/held") == "while/held = Identity(while/held/Enter, ^while/Identity)");
  // The condition has a pivot of its own.
  BOOST_TEST(Text(root, "while/Less/y") == "while/Less/y = Const(^while/Merge)");
}

BOOST_AUTO_TEST_CASE(a_value_is_brought_in_once) {
  While(
      root, x, [&](const Scope&, const Output& v) { return v < x; },
      [&](const Scope&, const Output& v) { return v * x + x; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  int enters = 0;
  for (const Node* node : root.graph()->op_nodes()) enters += node->IsEnter();
  BOOST_TEST(enters == 2);
}

BOOST_AUTO_TEST_CASE(a_bound_on_the_iterations) {
  const Output r = While(
      root, x, [&](const Scope&, const Output& v) { return v > 0; },
      [&](const Scope&, const Output& v) { return v * 2; },
      {.parallel_iterations = 1, .back_prop = false, .maximum_iterations = 5});
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(NodeText(*r.node()) == "while/StopGradient_1 = StopGradient(while/Exit_1)");
  BOOST_TEST(Text(root, "while/LogicalAnd") == "while/LogicalAnd = LogicalAnd(while/Less, while/Greater)");
  BOOST_TEST(Text(root, "while/add") == "while/add = AddV2(while/Identity, while/add/y)");
  BOOST_TEST(*root.graph()->Find("while/Enter")->Attr<int64_t>("parallel_iterations") == 1);
}

BOOST_AUTO_TEST_CASE(frames_are_as_the_graph_tells) {
  While(
      root, x, [&](const Scope&, const Output& v) { return v < 10; },
      [&](const Scope&, const Output& v) { return v * 2; });
  While(
      root, x, [&](const Scope&, const Output& v) { return v < 10; },
      [&](const Scope&, const Output& v) { return v * 2; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(*root.graph()->Find("while_1/Enter")->Attr<std::string>("frame_name") == "while_1/while_context");
  BOOST_TEST(root.graph()->Validate().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(cases_are_nested_conds) {
  const OutputList r = Case(
      root, {{p, [&](const Scope&) { return OutputList{x}; }}, {x > 1, [&](const Scope&) { return OutputList{-x}; }}},
      [&](const Scope&) { return OutputList{x * 3}; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_REQUIRE(r.size() == 1u);
  BOOST_TEST(NodeText(*r[0].node()) == "case/cond/Merge = Merge(case/cond/cond/Merge, case/cond/Switch_1:1)");
  BOOST_TEST(Text(root, "case/cond/cond/pred_id") == "case/cond/cond/pred_id = Identity(case/cond/cond/Switch/Switch)");
}

BOOST_AUTO_TEST_CASE(devices_reach_the_primitives) {
  const Scope gpu = root.WithDevice("/gpu:0");
  While(
      gpu, Const(gpu, 1.0f), [&](const Scope&, const Output& v) { return v < x; },
      [&](const Scope&, const Output& v) { return v * 2; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  for (const char* name : {"while/Enter", "while/Merge", "while/Switch", "while/Identity", "while/NextIteration",
                           "while/Exit", "while/mul"}) {
    BOOST_TEST(root.graph()->Find(name)->requested_device() == "/device:GPU:0", name);
  }
}

BOOST_AUTO_TEST_CASE(inner_values_cannot_leave) {
  Output leaked;
  While(
      root, x, [&](const Scope&, const Output& v) { return v < 10; },
      [&](const Scope&, const Output& v) { return leaked = v * 2; });
  BOOST_TEST(root.ok());
  BOOST_TEST(!ops::Neg(root, leaked).valid());
  CheckError(root,
             "'while/mul:0' belongs to the loop 'while' and cannot be used outside of it; if this is the loop's body, "
             "build with the scope that its function gets, otherwise make it a loop variable");
}

BOOST_AUTO_TEST_CASE(a_branchs_values_cannot_leave) {
  Output leaked;
  Cond(
      root, p, [&](const Scope&) { return leaked = x * 2; }, [&](const Scope&) { return leaked; });
  CheckError(
      root,
      "'cond/mul:0' belongs to a branch of 'cond' and cannot be used outside of it; if this is the branch, build "
      "with the scope that its function gets, otherwise return it from the branch");
}

BOOST_AUTO_TEST_CASE(branches_must_agree) {
  Cond(
      root, p, [&](const Scope&) { return x; }, [&](const Scope&) { return n; });
  CheckError(root, "result 0 is float32 in the true branch");
}

BOOST_AUTO_TEST_CASE(branches_must_give_as_many) {
  const OutputList r = Cond(
      root, p,
      [&](const Scope&) {
        return OutputList{x, x};
      },
      [&](const Scope&) { return OutputList{x}; });
  BOOST_TEST(r.size() == 2u);
  BOOST_TEST(!r[0].valid());
  CheckError(root, "gives 2 values, the false branch 1");
}

BOOST_AUTO_TEST_CASE(a_predicate_is_a_bool_scalar) {
  BOOST_TEST(!Cond(
                  root, x, [&](const Scope&) { return x; }, [&](const Scope&) { return x; })
                  .valid());
  BOOST_TEST(!root.ok());
}

BOOST_AUTO_TEST_CASE(a_condition_is_a_bool_scalar) {
  BOOST_TEST(!While(
                  root, x, [&](const Scope&, const Output& v) { return v + 1; },
                  [&](const Scope&, const Output& v) { return v; })
                  .valid());
  CheckError(root, "must be a bool scalar");
}

BOOST_AUTO_TEST_CASE(a_body_keeps_number_and_type) {
  const OutputList r = While(
      root, {x, n}, [&](const Scope&, const OutputList& v) { return v[0] < 1; },
      [&](const Scope&, const OutputList& v) -> OutputList { return {v[0]}; });
  BOOST_TEST(r.size() == 2u);
  CheckError(root, "gives 1 values for 2 loop variables");
  const Scope other = Scope::NewRootScope();
  While(
      other, {1.0f, 2}, [&](const Scope&, const OutputList& v) { return v[0] < 1; },
      [&](const Scope&, const OutputList& v) -> OutputList {
        return {v[1], v[0]};
      });
  CheckError(other, "loop variable 0 is float32, but the body makes it int32");
}

BOOST_AUTO_TEST_CASE(a_body_keeps_shapes_unless_told) {
  const auto grow = [](const Scope& root, const WhileOptions& options) {
    While(
        root, Const(root, {1.0f}), [&](const Scope& s, const Output& v) { return ops::Size(s, v) < 4; },
        [&](const Scope& s, const Output& v) {
          return ops::ConcatV2(s, {v, v}, 0);
        },
        options);
  };
  grow(root, {});
  CheckError(root, "has shape [1], but after an iteration [2]");
  const Scope told = Scope::NewRootScope();
  grow(told, {.shape_invariants = {PartialTensorShape({-1})}});
  BOOST_TEST(told.status().ToString() == "OK");
  BOOST_TEST(told.ShapeOf(Output({told.graph()->Find("while/Exit"), 0})).DebugString() == "[?]");
}

BOOST_AUTO_TEST_CASE(errors_inside_stop_quietly) {
  int runs = 0;
  const OutputList r = While(
      root, {x, x}, [&](const Scope&, const OutputList& v) { return v[0] < 1; },
      [&](const Scope& s, const OutputList& v) -> OutputList {
        ++runs;
        return {ops::MatMul(s, v[0], v[1]), v[1]};
      });
  BOOST_TEST(runs == 1);
  BOOST_TEST(r.size() == 2u);
  BOOST_TEST(!root.ok());
  BOOST_TEST(!Cond(
                  root, p, [&](const Scope&) { return x; }, [&](const Scope&) { return x; })
                  .valid());
  BOOST_TEST(!(x + 1).valid());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace control_flow_test
}  // namespace troupe
