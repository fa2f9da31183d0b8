// Gradients of gradients through loops, against finite differences of the first gradients.
#include <regex>
#include <functional>

#include "tests/autodiff/numeric.h"
#include "tests/autodiff/test_ops.h"
#include "troupe/functional.h"

namespace troupe::testing {
namespace second_order_test {

struct Net {
  Scope s = Scope::NewRootScope();
  Output x = Source(s, "x"), w = Source(s, "w"), n = Source(s, "n", TensorShape(), DType::kInt32),
         p = Source(s, "p", TensorShape(), DType::kBool);
  Feeds Feed(double xv, double wv, int nv, bool pv) const {
    return {{"x", Tensor::Scalar(xv)},
            {"w", Tensor::Scalar(wv)},
            {"n", Tensor::Scalar<int32_t>(nv)},
            {"p", Tensor::Scalar(pv)}};
  }
};

using Step = std::function<Output(const Scope&, const Output& i, const Output& a)>;

Output Repeat(const Scope& s, const Output& n, const Output& start, const Step& f) {
  return While(
      s, {0, start}, [&](const Scope&, const OutputList& v) { return v[0] < n; },
      [&](const Scope& b, const OutputList& v) -> OutputList {
        return {v[0] + 1, f(b, v[0], v[1])};
      })[1];
}
Output Sin(const Scope& s, const Output& a) { return Op(s, "Sin", {a}); }
Output Pack(const Scope& s, const OutputList& rows) { return EmitLists(s, "Pack", {InputList(rows)}).output(0); }

struct Body {
  const char* name;
  std::function<Output(Net&)> build;
};

const std::vector<Body>& Bodies() {
  static const std::vector<Body> list = {
      {"power",
       [](Net& t) { return Repeat(t.s, t.n, Const(t.s, 1.0), [&](auto&, auto&, auto& a) { return a * t.x; }); }},
      {"linear", [](Net& t) { return Repeat(t.s, t.n, t.x * t.x, [&](auto&, auto&, auto& a) { return a * 1.5; }); }},
      {"sine", [](Net& t) { return Repeat(t.s, t.n, t.x, [&](auto& s, auto&, auto& a) { return Sin(s, a); }); }},
      {"square", [](Net& t) { return Repeat(t.s, t.n, t.x, [&](auto&, auto&, auto& a) { return a * a * 0.9; }); }},
      {"times_a_loop",
       [](Net& t) { return t.x * Repeat(t.s, t.n, t.x, [&](auto& s, auto&, auto& a) { return Sin(s, a) * t.w; }); }},
      {"invariant",
       [](Net& t) {
         const Output square = t.x * t.x;
         return Repeat(t.s, t.n, t.w, [&](auto&, auto&, auto& a) { return a + square * t.w; });
       }},
      {"both",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto&, auto& a) { return Op(s, "Tanh", {a * t.w}) + a * t.x; });
       }},
      {"counter",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto& i, auto& a) {
           return a * t.w + Op(s, "Cast", {i}, {{"SrcT", DType::kInt32}, {"DstT", DType::kDouble}}) * Sin(s, a);
         });
       }},
      {"several_variables",
       [](Net& t) {
         const OutputList r = While(
             t.s, {0, t.x, t.w, 1.0}, [&](const Scope&, const OutputList& v) { return v[0] < t.n; },
             [&](const Scope& s, const OutputList& v) -> OutputList {
               return {v[0] + 1, v[1] * v[2], v[2] + Sin(s, v[1]), v[3] * v[1]};
             });
         return r[1] + r[2] * r[3];
       }},
      {"one_after_the_other",
       [](Net& t) {
         const Output a = Repeat(t.s, t.n, t.x, [&](auto& s, auto&, auto& v) { return Sin(s, v * t.w); });
         return Repeat(t.s, t.n, a, [&](auto&, auto&, auto& v) { return v * v + a * t.x; });
       }},
      {"nested",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto& i, auto& a) {
           return Repeat(s, i, a * t.x, [&](auto& s2, auto&, auto& b) { return Sin(s2, b * t.w + a); }) + a;
         });
       }},
      {"nested_fixed",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto&, auto& a) {
           return Repeat(s, Const(s, 2), a, [&](auto&, auto&, auto& b) { return b * b * t.w; });
         });
       }},
      {"conditional_in_loop",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto& i, auto& a) {
           return Cond(
               s, i < 2, [&](const Scope& c) { return a * a * t.w + t.x; }, [&](const Scope& c) { return Sin(c, a); });
         });
       }},
      {"a_side_that_uses_nothing",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto& i, auto& a) {
           return Cond(
                      s, i < 1, [&](const Scope& c) { return Const(c, 2.0) + 0.5; },
                      [&](const Scope&) { return a * t.x * t.w; }) *
                  a;
         });
       }},
      {"loop_in_conditional",
       [](Net& t) {
         return Cond(
             t.s, t.p,
             [&](const Scope& s) {
               return Repeat(s, t.n, t.x, [&](auto& b, auto&, auto& a) { return Sin(b, a) * t.w; });
             },
             [&](const Scope&) { return t.x * t.x * 3.0; });
       }},
      {"loop_in_conditional_in_loop",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](auto& s, auto& i, auto& a) {
           return Cond(
               s, i < 1,
               [&](const Scope& c) {
                 return Repeat(c, Const(c, 2), a, [&](auto&, auto&, auto& b) { return b * b * t.w; });
               },
               [&](const Scope& c) { return Sin(c, a * t.x); });
         });
       }},
      {"rows_of_an_array",
       [](Net& t) {
         const Output rows = Pack(t.s, {t.x, t.x * t.w, Sin(t.s, t.w)});
         const Output product = Fold(t.s, rows, Const(t.s, 1.0), [&](const Scope& s, const Output& a, const Output& r) {
           return Sin(s, a * r) + r * t.x;
         });
         return product * SumAll(t.s, Map(t.s, rows, [&](const Scope& s, const Output& r) { return Sin(s, r) * r; }));
       }},
      {"array_in_a_loop",
       [](Net& t) {
         return Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) {
           const Output rows = Pack(s, {a, a * t.w});
           const Output steps =
               Scan(s, rows, t.x, [](const Scope& s2, const Output& b, const Output& r) { return Sin(s2, b * r) + r; });
           return Fold(s, steps, a, [](const Scope& s2, const Output& b, const Output& r) { return b + Sin(s2, r); });
         });
       }},
      {"trips_that_depend_on_data",
       [](Net& t) {
         return While(
             t.s, t.x, [&](const Scope&, const Output& a) { return a < 50.0; },
             [&](const Scope&, const Output& a) { return a * a * t.w + 1.0; });
       }},
  };
  return list;
}

// f's gradient with respect to x and w, differentiated again: `terms` weighs the two so that mixed
// derivatives matter.
BOOST_AUTO_TEST_CASE(of_a_table_of_loops) {
  for (const Body& body : Bodies()) {
    BOOST_TEST_CONTEXT(body.name) {
      Net t;
      const Output y = body.build(t);
      const std::vector<Output> first = GradientsOrZeros(t.s, y, {t.x, t.w});
      BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
      const Output both = first[0] * 1.25 + first[1] * t.x;
      const std::vector<Output> second = GradientsOrZeros(t.s, both, {t.x, t.w});
      for (const int n : {0, 1, 2, 4}) {
        for (const bool p : {true, false}) {
          BOOST_TEST_CONTEXT("n = " << n << ", p = " << p)
          CheckGradients(t.s, both, {t.x, t.w}, t.Feed(0.7, 1.1, n, p), second);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(of_the_third_order) {
  for (const char* name :
       {"power", "sine", "nested_fixed", "conditional_in_loop", "several_variables", "rows_of_an_array"}) {
    for (const Body& body : Bodies()) {
      if (std::string_view(body.name) != name) continue;
      BOOST_TEST_CONTEXT(name) {
        Net t;
        const Output y = body.build(t);
        const Output second = Gradients(t.s, {Gradients(t.s, {y}, {t.x})[0]}, {t.x})[0];
        const std::vector<Output> third = GradientsOrZeros(t.s, second, {t.x, t.w});
        CheckGradients(t.s, second, {t.x, t.w}, t.Feed(0.7, 1.1, 3, true), third, 1e-4);
      }
    }
  }
}

// What stands under the first gradient's name, and what does not, is one array's gradient; two
// calls, whatever they are called, have an array each.
BOOST_AUTO_TEST_CASE(through_an_array_from_an_element_on) {
  Net t;
  const auto array = EmitOp(
      t.s, "TensorArrayV3", {2},
      {{"dtype", DType::kDouble}, {"element_shape", PartialTensorShape(TensorShape())}, {"clear_after_read", false}});
  const Output rows = Pack(t.s, {t.x, t.x * t.w});
  const Output flow = Op(t.s, "TensorArrayScatterV3", {array.output(0), Const(t.s, {0, 1}), rows, array.output(1)});
  const auto read = [&](int i) {
    return Op(t.s, "TensorArrayReadV3", {array.output(0), i, flow}, {{"dtype", DType::kDouble}});
  };
  const Output r = read(1), y = r * r * r * read(0);
  GradientOptions called;
  called.name = "slope";
  const Output first = Gradients(t.s, {y}, {r}, {}, called)[0];  // 3 r^2 x, with r = w x
  const std::vector<Output> second = Gradients(t.s, {first}, {t.x, t.w}, {}, called);
  const std::vector<Output> other = Gradients(t.s, {first}, {t.x, t.w}, {}, called);
  const Output sum = second[0] + other[0];
  CheckGradients(t.s, first, {t.x, t.w}, t.Feed(0.7, 1.1, 0, true), second);
  const double want = RunGraph(*t.s.graph(), t.Feed(0.7, 1.1, 0, true), {sum.name()})[0].scalar<double>();
  BOOST_TEST(std::abs(want - 2 * 9 * 1.1 * 1.1 * 0.7 * 0.7) < 1e-12);
}

// Shapes that only a run knows: what is pushed may have another shape in each step.
BOOST_AUTO_TEST_CASE(of_matrices_and_broadcasts) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x", PartialTensorShape({-1, 2})), w = Source(s, "w", {2, 2}), b = Source(s, "b", {2}),
               n = Source(s, "n", TensorShape(), DType::kInt32);
  const Output y = Repeat(s, n, x, [&](const Scope& in, const Output&, const Output& a) {
    return Op(in, "Tanh", {Op(in, "MatMul", {a, w}) + b}) * a;
  });
  const std::vector<Output> first = Gradients(s, {y}, {x, w, b});
  const Output sum = SumAll(s, first[0] * x) + SumAll(s, first[1] * w) + SumAll(s, first[2] * first[2]);
  const std::vector<Output> second = Gradients(s, {sum}, {x, w, b});
  for (const int64_t rows : {1, 3}) {
    std::vector<double> v(2 * rows);
    for (size_t i = 0; i < v.size(); ++i) v[i] = 0.3 * static_cast<double>(i) - 0.5;
    CheckGradients(s, sum, {x, w, b},
                   {{"x", Tensor::Of<double>(absl::MakeConstSpan(v), {rows, 2})},
                    {"w", Tensor::Of<double>({0.5, -1.0, 0.25, 0.75}, {2, 2})},
                    {"b", Tensor::Of<double>({0.1, -0.3}, {2})},
                    {"n", Tensor::Scalar<int32_t>(3)}},
                   second);
  }
}

// With respect to variables: the handle, or the reference, is read in the body.
BOOST_AUTO_TEST_CASE(second_gradients_of_variables_that_a_loop_reads) {
  for (const bool resource : {true, false}) {
    Scope s = Scope::NewRootScope();
    VariableOptions options;
    options.use_resource = resource;
    const Variable v(s.WithOpName("v"), 0.7, options);
    const Output n = Const(s, 3);
    const Output y =
        Repeat(s, n, Const(s, 1.0), [&](const Scope& b, const Output&, const Output& a) { return a * v.Read(b); });
    const Output first = Gradients(s, {y}, {v})[0];  // 3 v^2
    const Output second = Gradients(s, {first}, {v})[0], third = Gradients(s, {second}, {v})[0];
    const Operation init = GlobalVariablesInitializer(s);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    const std::vector<Tensor> out =
        RunGraph(*s.graph(), {}, {first.name(), second.name(), third.name()}, {init.name()});
    BOOST_TEST(std::abs(out[0].scalar<double>() - 3 * 0.49) < 1e-12);
    BOOST_TEST(std::abs(out[1].scalar<double>() - 6 * 0.7) < 1e-12);
    BOOST_TEST(std::abs(out[2].scalar<double>() - 6) < 1e-12);
  }
}

// Loops that are spread over devices keep their order.
BOOST_AUTO_TEST_CASE(over_several_devices) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output& i, const Output& a) {
    const Output inner = Repeat(
        s.WithDevice("/device:CPU:1"), i, a,
        [&](const Scope& s2, const Output&, const Output& b) { return Sin(s2.WithDevice("/device:CPU:1"), b * t.w); });
    return inner * a;
  });
  GradientOptions colocated;
  colocated.colocate_gradients_with_ops = true;
  const Output second = Gradients(t.s, {Gradients(t.s, {y}, {t.x}, {}, colocated)[0]}, {t.w}, {}, colocated)[0];
  BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
  std::vector<double> got;
  for (const int devices : {2, 3}) {
    SessionOptions options;
    options.runtime_options.cpu_devices = devices;
    auto session = Session::Create(options);
    BOOST_REQUIRE(session.ok() && (*session)->Extend(*t.s.graph()).ok());
    RunOptions run;
    run.timeout_ms = 20000;
    for (int i = 0; i < 3; ++i) {
      std::vector<Tensor> out;
      const absl::Status s = (*session)->Run(run, t.Feed(0.7, 1.1, 4, true), {second.name()}, {}, &out, nullptr);
      BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
      got.push_back(out[0].scalar<double>());
    }
  }
  Net plain;
  const Output z = Repeat(plain.s, plain.n, plain.x, [&](const Scope& s, const Output& i, const Output& a) {
    return Repeat(s, i, a, [&](const Scope& s2, const Output&, const Output& b) { return Sin(s2, b * plain.w); }) * a;
  });
  const Output want = Gradients(plain.s, {Gradients(plain.s, {z}, {plain.x})[0]}, {plain.w})[0];
  const double expected = RunGraph(*plain.s.graph(), plain.Feed(0.7, 1.1, 4, true), {want.name()})[0].scalar<double>();
  for (const double g : got) BOOST_TEST(std::abs(g - expected) <= 1e-12 * std::max(1.0, std::abs(expected)));
}

// The first gradient is taken in the body of a loop, of a loop in there; the second one outside of
// all.
BOOST_AUTO_TEST_CASE(of_gradients_within_a_body) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output&, const Output& a) {
    const Output z = Repeat(s, Const(s, 3), a,
                            [&](const Scope& s2, const Output&, const Output& b) { return Sin(s2, b * t.w) + b; });
    return a * 0.5 + Gradients(s, {z}, {a})[0];
  });
  const std::vector<Output> g = Gradients(t.s, {y}, {t.x, t.w});
  for (const int n : {0, 1, 3}) CheckGradients(t.s, y, {t.x, t.w}, t.Feed(0.7, 0.4, n, true), g);
}

// Steps that overlap in one session, and iterations that do, keep their stacks apart.
BOOST_AUTO_TEST_CASE(when_every_token_is_a_message) {
  Net t;
  const Output y = Repeat(t.s, t.n, t.x, [&](const Scope& s, const Output& i, const Output& a) {
    return Repeat(s, i, a, [&](const Scope& s2, const Output&, const Output& b) { return Sin(s2, b * t.w); });
  });
  const Output second = Gradients(t.s, {Gradients(t.s, {y}, {t.x})[0]}, {t.w})[0];
  BOOST_REQUIRE_MESSAGE(t.s.ok(), t.s.status().ToString());
  const double want = RunGraph(*t.s.graph(), t.Feed(0.7, 1.1, 4, true), {second.name()})[0].scalar<double>();
  SessionOptions options;
  options.token_messages = true;
  auto session = Session::Create(options);
  BOOST_REQUIRE(session.ok() && (*session)->Extend(*t.s.graph()).ok());
  for (int i = 0; i < 3; ++i) {
    std::vector<Tensor> out;
    const absl::Status s = (*session)->Run(t.Feed(0.7, 1.1, 4, true), {second.name()}, {}, &out);
    BOOST_REQUIRE_MESSAGE(s.ok(), s.ToString());
    BOOST_TEST(out[0].scalar<double>() == want);
  }
}

// Stacks of another name, which are known by their traits.
TROUPE_OP("TestStack")
    .Input("max_size: int32")
    .Output("handle: resource")
    .Attr("elem_type: type")
    .Stateful()
    .Trait(OpTrait::kStackHandle)
    .NotDifferentiable("its value is a handle");
TROUPE_OP("TestStackPush")
    .Input("handle: resource")
    .Input("elem: T")
    .Output("output: T")
    .Attr("T: type")
    .Stateful()
    .Trait(OpTrait::kStackPush)
    .NotDifferentiable("it is a stack's");
TROUPE_OP("TestStackPop")
    .Input("handle: resource")
    .Output("elem: elem_type")
    .Attr("elem_type: type")
    .Stateful()
    .Trait(OpTrait::kStackPop)
    .NotDifferentiable("it is a stack's");

// Where the gradient through a stack cannot be built it is refused, and never left out.
BOOST_AUTO_TEST_CASE(through_stacks_of_another_form_is_refused) {
  const std::string loops =
      "x = Placeholder[dtype=float32, shape=[]]\nzero = Const[value=int32{0}]\none = Const[value=int32{1}]\n"
      "three = Const[value=int32{3}]\nmax = Const[value=int32{-1}]\nstack = StackV2[elem_type=float32](max)\n"
      "i0 = Enter[frame_name=\"f\"](zero)\nx0 = Enter[frame_name=\"f\"](x)\n"
      "n = Enter[frame_name=\"f\", is_constant=true](three)\nd = Enter[frame_name=\"f\", is_constant=true](one)\n"
      "h = Enter[frame_name=\"f\", is_constant=true](stack)\n"
      "im = Merge(i0, in)\nxm = Merge(x0, xn)\nless = Less(im, n)\nc = LoopCond(less)\n"
      "is = Switch(im, c)\nxs = Switch(xm, c)\nadd = AddV2(is:1, d)\nsquare = Mul(xs:1, xs:1)\n"
      "push = StackPushV2(h, square)\nin = NextIteration(add, ^push)\nxn = NextIteration(square)\n"
      "ie = Exit(is)\nxe = Exit(xs)\n";
  const auto refused = [&](const std::string& rest, const std::string& y, const std::string& why) {
    const std::string text = loops + rest;
    const std::string users = std::regex_replace(text, std::regex("= Stack(|Push|Pop)V2"), "= TestStack$1");
    for (const std::string& each : {text, users}) {
      const Differentiated d = Differentiate(each, {y}, {"x"});
      BOOST_TEST(d.status.ToString().find(why) != std::string::npos, d.status.ToString());
      BOOST_TEST(d.added == "");
    }
  };
  // Popped outside of all loops.
  refused("pop = StackPopV2[elem_type=float32](stack, ^ie)\ny = Mul(pop, pop)\n", "y",
          "takes values from a stack that loop 'f' has filled ('push'), and the gradient through it cannot be built");
  refused(
      "pop = StackPopV2[elem_type=float32](stack, ^ie)\npop2 = StackPopV2[elem_type=float32](stack, ^pop)\n"
      "y = Mul(pop, pop2)\n",
      "y", "in more than one place");
}

}  // namespace second_order_test
}  // namespace troupe::testing
