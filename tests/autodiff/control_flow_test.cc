// Gradients through loops and conditionals that are built here, against finite differences.
#include "tests/autodiff/numeric.h"
#include "tests/autodiff/test_ops.h"

namespace troupe::testing {
namespace control_flow_test {

struct Net {
  Scope s = Scope::NewRootScope();
  Output x = Source(s, "x"), w = Source(s, "w"), n = Source(s, "n", TensorShape(), DType::kInt32),
         p = Source(s, "p", TensorShape(), DType::kBool);
  Feeds Feed(double xv, double wv, int nv = 3, bool pv = true) const {
    return {{"x", Tensor::Scalar(xv)},
            {"w", Tensor::Scalar(wv)},
            {"n", Tensor::Scalar<int32_t>(nv)},
            {"p", Tensor::Scalar(pv)}};
  }
};

// n times a = f(i, a).
template <class F>
Output Repeat(const Scope& s, const Output& n, const Output& start, F f) {
  return While(
      s, {0, start}, [&](const Scope& b, const OutputList& v) { return v[0] < n; },
      [&](const Scope& b, const OutputList& v) -> OutputList {
        return {v[0] + 1, f(b, v[0], v[1])};
      })[1];
}

BOOST_AUTO_TEST_CASE(while_with_zero_one_and_many_trips) {
  Net t;
  const Output y = Repeat(
      t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) { return Op(s, "Tanh", {a * t.w}) + t.x; });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (int n : {0, 1, 2, 7}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.7, 1.3, n), g);
}

BOOST_AUTO_TEST_CASE(trips_that_depend_on_data) {
  Net t;
  const Output y = While(
      t.s, t.x, [&](const Scope& s, const Output& a) { return a < 50.0; },
      [&](const Scope& s, const Output& a) { return a * a * t.w; });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  CheckGradients(t.s, y, {t.x, t.w}, t.Feed(1.7, 1.2), g);
  CheckGradients(t.s, y, {t.x, t.w}, t.Feed(60.0, 1.2), g);
}

BOOST_AUTO_TEST_CASE(nested_loops) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output& i, const Output& a) {
    return Repeat(s, i, a * t.x,
                  [&](const Scope& s2, const Output&, const Output& b) { return Op(s2, "Tanh", {b * t.w + a}); }) +
           a;
  });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (int n : {0, 1, 2, 5}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.6, 0.9, n), g);
}

BOOST_AUTO_TEST_CASE(conditionals_on_both_sides) {
  Net t;
  const Output y =
      Cond(
          t.s, t.p, [&](const Scope& s) { return t.x * t.w; }, [&](const Scope& s) { return Op(s, "Tanh", {t.x}); }) *
      t.w;
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (bool p : {true, false}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.6, 0.9, 0, p), g);
}

BOOST_AUTO_TEST_CASE(conditional_in_loop) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output& i, const Output& a) {
    const Output two = i < 2;
    return Cond(
        s, two, [&](const Scope& c) { return a * t.w + t.x; }, [&](const Scope& c) { return Op(c, "Tanh", {a * a}); });
  });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (int n : {0, 1, 2, 3, 5}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.6, 0.9, n), g);
}

BOOST_AUTO_TEST_CASE(a_side_that_uses_nothing) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output& i, const Output& a) {
    return Cond(
               s, i < 1, [&](const Scope& c) { return Const(c, 2.0) + 0.5; }, [&](const Scope& c) { return a * t.x; }) *
           a;
  });
  CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.6, 0.9, 3));
}

// What is in a branch by a control edge alone uses what is outside of it without a Switch: outside
// of all loops, in one, under two conditions that do not depend on each other.
BOOST_AUTO_TEST_CASE(branches_that_use_what_no_switch_has_brought) {
  const std::string branches = R"(
    a/p = Switch(p, p)
    a/pt = Identity(a/p:1)
    a/pf = Identity(a/p)
    a/q = Switch(q, q)
    a/qt = Identity(a/q:1)
    a/qf = Identity(a/q)
    a/both = Mul(x, x, ^a/pt, ^a/qt)
    a/one = Sin(x, ^a/pt, ^a/qf)
    a/merged = Merge(a/both, a/one)
    a/none = Mul(x, w, ^a/pf)
    a/y = Merge(a/merged, a/none)
  )";
  const std::string inputs = R"(
    x = Placeholder[dtype=float64, shape=[]]
    w = Placeholder[dtype=float64, shape=[]]
    p = Placeholder[dtype=bool, shape=[]]
    q = Placeholder[dtype=bool, shape=[]]
  )";
  const std::string loop = R"(
    f/x = Enter[frame_name="f"](x)
    f/i = Enter[frame_name="f"](zero)
    w = Enter[frame_name="f", is_constant=true](outer/w)
    p = Enter[frame_name="f", is_constant=true](outer/p)
    f/one = Enter[frame_name="f", is_constant=true](one)
    f/two = Enter[frame_name="f", is_constant=true](two)
    f/mx = Merge(f/x, f/nx)
    f/mi = Merge(f/i, f/ni)
    f/q = Less(f/si:1, f/one)
    f/less = Less(f/mi, f/two)
    f/cond = LoopCond(f/less)
    f/sx = Switch(f/mx, f/cond)
    f/si = Switch(f/mi, f/cond)
    f/i1 = AddV2(f/si:1, f/one)
    f/ni = NextIteration(f/i1)
    f/nx = NextIteration(a/y)
    f/out = Exit(f/sx)
    y = Identity(f/out)
    zero = Const[value=int32{0}]
    one = Const[value=int32{1}]
    two = Const[value=int32{2}]
  )";
  // In the loop the branches take the state; the first iteration has q, the second one has not.
  std::string body = branches, outer = inputs;
  const auto replace = [](std::string* s, const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = s->find(from, at)) != std::string::npos; at += to.size()) s->replace(at, from.size(), to);
  };
  replace(&body, "(x,", "(f/sx:1,");
  replace(&body, ", x,", ", f/sx:1,");
  replace(&body, "Switch(q, q)", "Switch(f/q, f/q)");
  replace(&outer, "w = ", "outer/w = ");
  replace(&outer, "    p = ", "    outer/p = ");
  for (const bool looped : {false, true}) {
    const auto graph = ParseGraphText(looped ? outer + loop + body : inputs + branches + "y = Identity(a/y)");
    BOOST_REQUIRE_MESSAGE(graph.ok(), graph.status().ToString());
    const std::string w = looped ? "outer/w" : "w";
    std::vector<NodeOut> grads;
    const absl::Status s = AddGradients(graph->get(), {{(*graph)->Find("y"), 0}},
                                        {{(*graph)->Find("x"), 0}, {(*graph)->Find(w), 0}}, {}, {}, &grads);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
    for (const bool p : {false, true}) {
      for (const bool q : {false, true}) {
        const double x = 0.7, v = 1.3;
        const std::vector<Tensor> out = RunGraph(**graph,
                                                 {{"x", Tensor::Scalar(x)},
                                                  {w, Tensor::Scalar(v)},
                                                  {looped ? "outer/p" : "p", Tensor::Scalar(p)},
                                                  {"q", Tensor::Scalar(q)}},
                                                 {grads[0].ToString(), grads[1].ToString()});
        double dx = p ? q ? 2 * x : std::cos(x) : v, dw = p ? 0 : x;
        if (looped) {  // sin(x * x), or x * w * w
          dx = p ? 2 * x * std::cos(x * x) : v * v;
          dw = p ? 0 : 2 * x * v;
        }
        BOOST_TEST_CONTEXT("loop " << looped << ", p " << p << ", q " << q) {
          BOOST_TEST(std::abs(out[0].scalar<double>() - dx) < 1e-12, out[0].scalar<double>() << ", not " << dx);
          BOOST_TEST(std::abs(out[1].scalar<double>() - dw) < 1e-12, out[1].scalar<double>() << ", not " << dw);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(loop_in_conditional) {
  Net t;
  const Output y = Cond(
      t.s, t.p,
      [&](const Scope& s) {
        return Repeat(s, t.n, t.x, [&](const Scope& b, const Output&, const Output& a) { return a * t.w; });
      },
      [&](const Scope& s) { return t.x * 3.0; });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (bool p : {true, false}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.6, 0.9, 4, p), g);
}

BOOST_AUTO_TEST_CASE(variables_and_matrices_in_loops) {
  Scope s = Scope::NewRootScope();
  const Variable w(s.WithOpName("w"), Const(s, {{0.5, -1.0}, {0.25, 0.75}}));
  const Output x = Source(s, "x", {1, 2}), n = Source(s, "n", TensorShape(), DType::kInt32);
  // The handle itself is read in every iteration.
  const Output y = Repeat(s, n, x, [&](const Scope& b, const Output&, const Output& a) {
    return Op(b, "Tanh", {Op(b, "MatMul", {a, Op(b, "ReadVariableOp", {w.handle()}, {{"dtype", DType::kDouble}})})});
  });
  const Output z = Repeat(s, n, x, [&](const Scope& b, const Output&, const Output& a) {
    return Op(b, "Tanh", {Op(b, "MatMul", {a, w})});
  });
  const Output dy = Gradients(s, {y}, {w.handle()})[0], dz = Gradients(s, {z}, {w})[0];
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  const Operation init = GlobalVariablesInitializer(s);
  const std::vector<Tensor> out =
      RunGraph(*s.graph(), {{"x", Tensor::Of<double>({0.1, -0.2}, {1, 2})}, {"n", Tensor::Scalar<int32_t>(3)}},
               {dy.name(), dz.name()}, {init.name()});
  BOOST_TEST(out[0].DebugString() == out[1].DebugString());
  BOOST_TEST(out[0].data<double>()[0] != 0);
}

BOOST_AUTO_TEST_CASE(gradients_within_a_body) {
  Net t;
  // One step of Newton's method for a^3 = w in each iteration.
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) {
    const Output f = a * a * a - t.w;
    return a - f / Gradients(s, {f}, {a})[0];
  });
  BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
  const std::vector<Tensor> out = RunGraph(*t.s.graph(), t.Feed(2.0, 27.0, 12), {y.name()});
  BOOST_TEST(std::abs(out[0].scalar<double>() - 3.0) < 1e-9);
}

BOOST_AUTO_TEST_CASE(gradients_of_a_loop_within_a_body) {
  Net t;
  // dz/dc of z = c * w^3 is w^3, whatever iteration it is taken in; a outer tensor stands for its
  // captured value.
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) {
    const Output z =
        Repeat(s, Const(s, 3), a, [&](const Scope& s2, const Output&, const Output& b) { return b * t.w; });
    return a + Gradients(s, {z}, {t.w})[0];
  });
  BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
  // a' = a + 3 a w^2, twice.
  const std::vector<Tensor> out = RunGraph(*t.s.graph(), t.Feed(2.0, 0.5, 2), {y.name()});
  BOOST_TEST(std::abs(out[0].scalar<double>() - 2.0 * 1.75 * 1.75) < 1e-9);
}

// Nothing is pushed that no gradient needs: a * w needs w when a is a source, and a when w is one.
BOOST_AUTO_TEST_CASE(only_needed_values_are_saved) {
  const auto pushes = [](bool for_w) {
    Net t;
    const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) { return a * t.w; });
    Gradients(t.s, {y}, {for_w ? t.w : t.x});
    BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
    int count = 0;
    for (const Node* n : t.s.graph()->op_nodes()) count += n->op().name == "StackPushV2";
    return count;
  };
  BOOST_TEST(pushes(false) == 0);
  BOOST_TEST(pushes(true) == 1);
}

BOOST_AUTO_TEST_CASE(edges_of_loops_are_refused) {
  Net t;
  Output inside;
  Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) { return inside = a * t.w; });
  std::vector<NodeOut> grads;
  const absl::Status s = AddGradients(t.s.graph(), {inside.out()}, {t.x.out()}, {}, {}, &grads);
  BOOST_TEST(s.ToString().find("the gradient cannot be taken through the edge of a loop") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_loop_of_another_form_is_refused) {
  // The value changes before its Switch: a loop that computes before it asks.
  const Differentiated d = Differentiate(
      "x = Placeholder[dtype=float32]\nlimit = Placeholder[dtype=float32]\n"
      "e = Enter[frame_name=\"loop\"](x)\nl = Enter[frame_name=\"loop\", is_constant=true](limit)\n"
      "m = Merge(e, next)\nsquare = Mul(m, m)\nless = Less(square, l)\nc = LoopCond(less)\ns = Switch(square, c)\n"
      "next = NextIteration(s:1)\nexit = Exit(s)\n",
      {"exit"}, {"x"});
  BOOST_TEST(d.status.ToString().find("loop 'loop' is not of the form that gradients are made for") !=
             std::string::npos);
  BOOST_TEST(d.added == "");
}

}  // namespace control_flow_test
}  // namespace troupe::testing
