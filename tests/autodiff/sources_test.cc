// What an x of Gradients means: a variable whichever way it is read, a tensor as it is; and what is
// said of an x on which nothing depends.
#include <functional>

#include "tests/autodiff/numeric.h"
#include "tests/autodiff/test_ops.h"
#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/kernel.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/shape_inference.h"
#include "troupe/train/gradient_descent.h"

namespace troupe::testing {
namespace sources_test {

// As Identity, of a user's own.
TROUPE_OP("SourcesTestHandsOn")
    .Input("x: double")
    .Output("y: double")
    .Trait(OpTrait::kForwardsInput)
    .Trait(OpTrait::kPassesGradient)
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Grad(0));
      return g.status();
    });
absl::Status HandOn(KernelContext& ctx) {
  ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}
TROUPE_KERNEL("SourcesTestHandsOn").Device("CPU").Function<HandOn>();

struct Way {
  const char* name;
  std::function<Output(const Scope&, const Variable&)> read;
};

const std::vector<Way>& Ways() {
  static const std::vector<Way> list = {
      {"the variable itself", [](const Scope&, const Variable& v) { return Output(v); }},
      {"a read of its own", [](const Scope& s, const Variable& v) { return v.Read(s); }},
      {"another node",
       [](const Scope& s, const Variable& v) {
         return v.is_resource() ? Op(s, "ReadVariableOp", {v.handle()}, {{"dtype", DType::kDouble}})
                                : Op(s, "Identity", {v.handle()});
       }},
      {"a chain of identities",
       [](const Scope& s, const Variable& v) { return Op(s, "Identity", {Op(s, "Identity", {v.Read(s)})}); }},
      {"the handle handed on",
       [](const Scope& s, const Variable& v) {
         const Output handle = Op(s, "Identity", {v.handle()});
         return v.is_resource() ? Op(s, "ReadVariableOp", {handle}, {{"dtype", DType::kDouble}}) : handle;
       }},
  };
  return list;
}

double RunAfterInit(const Scope& s, const Output& fetch) {
  const Operation init = GlobalVariablesInitializer(s);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  return RunGraph(*s.graph(), {}, {fetch.name()}, {init.name()})[0].scalar<double>();
}

VariableOptions Kind(bool resource) {
  VariableOptions options;
  options.use_resource = resource;
  return options;
}

// d(v^2)/dv = 4 at v = 2, for each pair of ways in which the two factors are read.
BOOST_AUTO_TEST_CASE(a_variable_is_meant_however_it_is_read) {
  for (const bool resource : {true, false}) {
    for (const Way& one : Ways()) {
      for (const Way& other : Ways()) {
        BOOST_TEST_CONTEXT((resource ? "resource, " : "reference, ") << one.name << ", " << other.name) {
          Scope s = Scope::NewRootScope();
          const Variable v(s.WithOpName("v"), 2.0, Kind(resource));
          const Output y = one.read(s, v) * other.read(s, v);
          const Output sliced = v;
          for (const Output& g :
               {Gradients(s, {y}, {v})[0], Gradients(s, {y}, {sliced})[0], Gradients(s, {y}, {v.handle()})[0]}) {
            BOOST_TEST(RunAfterInit(s, g) == 4.0);
          }
        }
      }
    }
  }
}

// As above, of a graph that was imported: Find makes a Variable of the parts.
BOOST_AUTO_TEST_CASE(an_imported_variable_is_meant_however_it_is_read) {
  for (const bool resource : {true, false}) {
    proto::GraphDef def;
    {
      Scope s = Scope::NewRootScope();
      const Variable v(s.WithOpName("v"), 2.0, Kind(resource));
      const Output a = Ways()[2].read(s.WithOpName("r"), v);
      Op(s.WithOpName("y"), "Mul", {a, Ways()[2].read(s, v)});
      BOOST_REQUIRE(s.ToGraphDef(&def).ok());
    }
    auto graph = std::make_shared<Graph>();
    BOOST_REQUIRE(ImportGraphDef(def, {}, graph.get()).ok());
    Scope s = Scope::NewRootScope(graph);
    const Variable v = Variable::Find(s, "v");
    const Output g = Gradients(s, {Output({graph->Find("y"), 0})}, {v})[0];
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    BOOST_TEST(RunGraph(*graph, {}, {g.name()}, {v.initializer().name()})[0].scalar<double>() == 4.0);
  }
}

// In the body of a loop a variable is what its reads inside and those brought in from outside give
// together, also those that an op of a user's own handed on.
BOOST_AUTO_TEST_CASE(a_variable_is_meant_in_bodies_and_branches) {
  for (const auto& [resource, own] : {std::pair(true, false), {false, false}, {true, true}, {false, true}}) {
    BOOST_TEST_CONTEXT("resource " << resource << ", own " << own) {
      Scope s = Scope::NewRootScope();
      const Variable v(s.WithOpName("v"), 3.0, Kind(resource));
      const Output early = own ? Op(s, "SourcesTestHandsOn", {v.Read(s)}) : v.Read(s);
      const OutputList loop = While(
          s, {0, 0.0}, [&](const Scope&, const OutputList& l) { return l[0] < 2; },
          [&](const Scope& b, const OutputList& l) -> OutputList {
            const Output y = v * early * v.Read(b);  // 3 v^2 = 27
            return {l[0] + 1, l[1] + Gradients(b, {y}, {v})[0]};
          });
      BOOST_TEST(RunAfterInit(s, loop[1]) == 54.0);
      const Output in_branch = Cond(
          s, Const(s, true),
          [&](const Scope& b) {
            const Output y = v * early * v.Read(b);
            return Gradients(b, {y}, {v})[0];
          },
          [&](const Scope& b) { return Const(b, 0.0); });
      BOOST_TEST(RunAfterInit(s, in_branch) == 27.0);
    }
  }
}

BOOST_AUTO_TEST_CASE(optimizers_take_the_variable) {
  Scope s = Scope::NewRootScope();
  const Variable v(s.WithOpName("v"), 2.0);
  train::GradientDescent descent(0.25);
  const Operation step = descent.Minimize(s, v.Read(s) * v.Read(s), {v});
  const Operation init = GlobalVariablesInitializer(s);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  auto session = Session::Create();
  BOOST_REQUIRE(session.ok() && (*session)->Extend(*s.graph()).ok());
  BOOST_REQUIRE((*session)->Run({}, {}, {init.name()}, nullptr).ok());
  BOOST_REQUIRE((*session)->Run({}, {}, {step.name()}, nullptr).ok());
  std::vector<Tensor> out;
  BOOST_REQUIRE((*session)->Run({}, {v.name()}, {}, &out).ok());
  BOOST_TEST(out[0].scalar<double>() == 1.0);
}

// By default an x without gradient is an error that says what was likely meant.
BOOST_AUTO_TEST_CASE(what_is_not_connected_is_an_error) {
  const auto message = [](const std::function<void(const Scope&)>& build) {
    Scope s = Scope::NewRootScope();
    build(s);
    BOOST_TEST(!s.ok());
    return s.status().ToString();
  };
  const auto has = [](const std::string& text, const std::string& part) {
    BOOST_TEST(text.find(part) != std::string::npos, text);
  };
  for (const bool resource : {true, false}) {
    const std::string text = message([&](const Scope& s) {
      const Variable w(s.WithOpName("w"), 2.0, Kind(resource));
      const Output mine = w.Read(s.WithOpName("mine")), v = w.Read(s);
      Gradients(s, {Op(s.WithOpName("y"), "Mul", {v, v})}, {mine});
    });
    has(text, "'y:0' does not depend on 'mine:0'; it does on the variable 'w': pass the Variable or its handle()");
    has(text, "sources_test.cc:");
  }
  has(message([](const Scope& s) {
        const Output x = Source(s, "x"), other = Source(s, "other");
        Gradients(s, {Op(s.WithOpName("y"), "Square", {x})}, {x, other});
      }),
      "'y:0' does not depend on 'other:0'; GradientOptions::unconnected asks for zeros, or for no gradient, instead");
  has(message([](const Scope& s) {
        const Variable w(s.WithOpName("w"), 2.0);
        const Output x = Source(s, "x");
        Gradients(s, {x * x, x + 1.0}, {w});
      }),
      "none of 2 ys depends on 'w:0'");
  has(message([](const Scope& s) {
        const Output x = Source(s, "x");
        Gradients(s, {x}, {Op(s.WithOpName("loss"), "Square", {x})});
      }),
      "'x:0' does not depend on 'loss:0'; 'loss:0' depends on 'x:0': are ys and xs in each other's place?");
  has(message([](const Scope& s) {
        const Output x = Source(s, "x"), z = Source(s, "z");
        Gradients(s, {z * Op(s.WithOpName("stop"), "StopGradient", {x})}, {x});
      }),
      "'mul:0' depends on 'x:0' only through values that carry no gradient: node 'stop' (StopGradient) hands none on");
}

BOOST_AUTO_TEST_CASE(what_is_not_connected_is_zeros_or_nothing_on_request) {
  Scope s = Scope::NewRootScope();
  const Variable w(s.WithOpName("w"), Const(s, {2.0, 3.0}));
  const Output x = Source(s, "x");
  GradientOptions options;
  options.unconnected = Unconnected::kNone;
  BOOST_TEST(!Gradients(s, {x * x}, {w}, {}, options)[0].valid());
  options.unconnected = Unconnected::kZeros;
  const Output zeros = Gradients(s, {x * x}, {w}, {}, options)[0];
  const Operation init = GlobalVariablesInitializer(s);
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(RunGraph(*s.graph(), {}, {zeros.name()}, {init.name()})[0].DebugString() == "float64 [2] [0 0]");
}

// An x that is stopped keeps a gradient of its own, as in TensorFlow: 2 w v.
BOOST_AUTO_TEST_CASE(a_stopped_handle_is_a_source_still) {
  Scope s = Scope::NewRootScope();
  const Variable w(s.WithOpName("w"), 2.0), v(s.WithOpName("v"), 3.0);
  GradientOptions options;
  options.stop_gradients = {v.handle()};
  options.unconnected = Unconnected::kNone;
  const OutputList g = Gradients(s, {w * v * v.Read(s)}, {w, v}, {}, options);
  BOOST_REQUIRE(g[0].valid() && g[1].valid());
  BOOST_TEST(RunAfterInit(s, g[1]) == 12.0);
  BOOST_TEST(RunAfterInit(s, g[0]) == 9.0);
}

// A failure leaves the graph as it was, also when nodes had been added by then.
BOOST_AUTO_TEST_CASE(an_unconnected_source_leaves_no_nodes) {
  const Differentiated d = Differentiate(
      "x = Placeholder[dtype=float32]\nz = Placeholder[dtype=float32]\na = Square(x)\n", {"a"}, {"x", "z"});
  BOOST_TEST(!d.status.ok());
  BOOST_TEST(d.added == "");
}

// What a body only hands on is followed without a stack, whatever its length.
BOOST_AUTO_TEST_CASE(a_chain_of_100000_identities_in_a_body) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x");
  const Output y = While(
      s, {0, x}, [&](const Scope&, const OutputList& v) { return v[0] < 2; },
      [&](const Scope& b, const OutputList& v) -> OutputList {
        Output a = v[1];
        for (int i = 0; i < 100000; ++i) a = Op(b, "Identity", {a});
        return {v[0] + 1, Op(b, "Square", {a})};
      })[1];
  const Output g = Gradients(s, {y}, {x})[0];
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(g.valid());
}

BOOST_AUTO_TEST_CASE(a_chain_of_100000_nodes) {
  Scope s = Scope::NewRootScope();
  const Output x = Source(s, "x");
  Output y = x;
  for (int i = 0; i < 100000; ++i) y = Op(s, "Identity", {y});
  const Output g = Gradients(s, {y * y}, {x})[0];
  BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
  BOOST_TEST(g.valid());
}

// Conditionals that are nested deeper than a stack is are refused.
BOOST_AUTO_TEST_CASE(conditionals_that_are_nested_too_deep_are_refused) {
  std::string text = "x = Placeholder[dtype=float32, shape=[]]\ns0 = Identity(x)\n";
  for (int i = 0; i < 3000; ++i) {
    text += StrCat("p", i, " = Placeholder[dtype=bool, shape=[]]\ns", i + 1, " = Switch(",
                   i == 0 ? "s0" : StrCat("s", i, ":1"), ", p", i, ")\n");
  }
  const Differentiated d = Differentiate(text + "y = Square(s3000:1)\n", {"y"}, {"x"});
  BOOST_TEST(d.status.ToString().find("nested more than 500 deep have no gradient") != std::string::npos,
             d.status.ToString());
}

// Steps have no slope where they have a gradient at all: the product's other factor is what is
// left.
BOOST_AUTO_TEST_CASE(steps_pass_no_gradient_on) {
  for (const char* name : {"Floor", "Ceil", "Round", "Rint", "FloorDiv", "TruncateDiv"}) {
    BOOST_TEST_CONTEXT(name) {
      const Scope s = Scope::NewRootScope();
      const bool divides = std::string_view(name).ends_with("Div");
      const Output x = Source(s, "x"), y = Source(s, "y");
      const Output step = divides ? Op(s, name, {x, y}) : Op(s, name, {x});
      const std::vector<Output> got = Gradients(s, {x * step * y}, {x, y});
      const std::vector<Output> none = Gradients(s, {step}, {x, y}, {}, {.unconnected = Unconnected::kNone});
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status());
      BOOST_TEST(!none[0].valid());
      BOOST_TEST(!none[1].valid());
      const std::vector<Tensor> values =
          RunGraph(*s.graph(), {{"x", Tensor::Scalar(-7.25)}, {"y", Tensor::Scalar(2.0)}},
                   {got[0].name(), got[1].name(), step.name()});
      BOOST_TEST(values[0].scalar<double>() == 2.0 * values[2].scalar<double>());
      BOOST_TEST(values[1].scalar<double>() == -7.25 * values[2].scalar<double>());
    }
  }
}

}  // namespace sources_test
}  // namespace troupe::testing
