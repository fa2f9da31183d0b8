// What user code does wrong while a graph is built is the scope's error: exceptions, values that
// leave their loop, types that do not fit.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "tests/api/wrong_code.h"
#include "troupe/emit.h"
#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/train/optimizer.h"
#include "troupe/troupe.h"

namespace troupe {
namespace user_code_test {

TROUPE_OP("UserCodeThrows")
    .Input("x: float")
    .Output("y: float")
    .Shape([](InferenceContext& c) -> absl::Status {
      if (c.input(0).known_rank()) throw std::runtime_error("no shape today");
      return absl::OkStatus();
    })
    .Gradient([](GradientContext&) -> absl::Status { throw 7; })
    .Doc("Throws.");

BOOST_AUTO_TEST_SUITE(user_code)

BOOST_AUTO_TEST_CASE(a_function_that_throws_is_the_scopes_error) {
  struct Case {
    const char* what;
    std::function<void(const Scope&, const Output&)> build;
  };
  const auto boom = [](const Scope&, auto&&...) -> Output { throw std::runtime_error("boom"); };
  const auto less = [](const Scope&, const Output& v) { return v < 3.0f; };
  const auto next = [](const Scope&, const Output& v) { return v + 1.0f; };
  const std::vector<Case> cases = {
      {"the body of loop 'while' threw an exception: boom",
       [&](const Scope& s, const Output& x) { While(s, x, less, boom); }},
      {"the condition of loop 'while' threw an exception: boom",
       [&](const Scope& s, const Output& x) { While(s, x, boom, next); }},
      {"the body of loop 'while' threw an exception: boom",
       [&](const Scope& s, const Output& x) { While(s, x, less, boom, {.maximum_iterations = 3}); }},
      {"the true branch of 'cond' threw an exception: boom",
       [&](const Scope& s, const Output& x) {
         Cond(
             s, x < 1.0f, [&](const Scope& b) { return boom(b); }, [&](const Scope&) { return x * 2.0f; });
       }},
      {"the false branch of 'cond' threw an exception: boom",
       [&](const Scope& s, const Output& x) {
         Cond(
             s, x < 1.0f, [&](const Scope&) { return x * 2.0f; }, [&](const Scope& b) { return boom(b); });
       }},
      {"threw an exception: boom",
       [&](const Scope& s, const Output&) { Map(s, Feed(s, "rows", DType::kFloat, {3}), boom); }},
      {"threw an exception: boom",
       [&](const Scope& s, const Output& x) { Scan(s, Feed(s, "rows", DType::kFloat, {3}), x, boom); }},
      {"the scope's device function threw an exception: boom",
       [&](const Scope& s, const Output& x) {
         EmitOp(s.WithDeviceFunction([](const Node&) -> std::string { throw std::runtime_error("boom"); }), "Square",
                {x});
       }},
      {"node 'UserCodeThrows' (UserCodeThrows): the op's shape function threw an exception: no shape today",
       [&](const Scope& s, const Output& x) { EmitOp(s, "UserCodeThrows", {x}); }},
      {"the op's gradient function threw an object that is not a std::exception",
       [&](const Scope& s, const Output&) {
         const Output v = Feed(s, "any", DType::kFloat, PartialTensorShape());
         Gradients(s, {EmitOp(s, "UserCodeThrows", {v}).output(0)}, {v});
       }},
  };
  for (const Case& c : cases) {
    const Scope s = Scope::NewRootScope();
    const Output x = Feed(s, "x");
    BOOST_CHECK_NO_THROW(c.build(s, x));
    Has(s.status(), c.what);
    Has(s.status(), "user_code_test.cc:");
    // Nothing is built any more, neither inside of the loop nor outside.
    BOOST_TEST(!(x * 2.0f).valid());
  }
}

class Throws : public train::Optimizer {
 public:
  Throws() : Optimizer("Throws") {}

 protected:
  Operation Apply(const Scope&, const Output&, const Variable&) override { throw std::runtime_error("no update"); }
};

BOOST_AUTO_TEST_CASE(an_optimizer_that_throws_is_the_scopes_error) {
  const Scope s = Scope::NewRootScope();
  const Variable w(s.WithOpName("w"), 2.0f);
  Throws optimizer;
  BOOST_CHECK_NO_THROW(optimizer.Minimize(s, w * w));
  Has(s.status(), "optimizer 'Throws' threw an exception: no update");
}

BOOST_AUTO_TEST_CASE(a_value_of_a_loop_cannot_be_used_outside_of_it) {
  const std::vector<std::function<Output(const Scope&, const Output&, const Output&)>> uses = {
      [](const Scope&, const Output& leak, const Output&) { return leak * 2.0f; },
      [](const Scope&, const Output& leak, const Output&) { return 2.0f * leak; },
      [](const Scope&, const Output& leak, const Output&) { return leak - leak; },
      [](const Scope&, const Output& leak, const Output& x) { return leak + x; },
      [](const Scope&, const Output& leak, const Output& x) { return x / leak; },
      [](const Scope&, const Output& leak, const Output&) { return leak < 1.0f; },
      [](const Scope&, const Output& leak, const Output& x) { return x >= leak; },
      [](const Scope&, const Output& leak, const Output&) { return -leak; },
      [](const Scope& s, const Output& leak, const Output&) { return EmitOp(s, "Square", {leak}).output(0); },
      [](const Scope& s, const Output& leak, const Output& x) {  // in another loop
        return While(
            s, x, [](const Scope&, const Output& v) { return v < 3.0f; },
            [&](const Scope&, const Output& v) { return v + leak * 2.0f; });
      },
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    BOOST_TEST_CONTEXT("use " << i) {
      const Scope s = Scope::NewRootScope();
      const Output x = Feed(s, "x");
      Output leak;
      While(
          s, x, [](const Scope&, const Output& v) { return v < 3.0f; },
          [&](const Scope&, const Output& v) { return leak = v + 1.0f; });
      BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
      BOOST_TEST(!uses[i](s, leak, x).valid());
      Has(s.status(), "'while/add:0' belongs to the loop 'while' and cannot be used outside of it");
    }
  }
}

BOOST_AUTO_TEST_CASE(the_scope_of_a_body_ends_with_its_function) {
  for (const bool loop : {true, false}) {
    const Scope s = Scope::NewRootScope();
    const Output x = Feed(s, "x");
    Scope kept = s;
    if (loop) {
      While(
          s, x, [](const Scope&, const Output& v) { return v < 3.0f; },
          [&](const Scope& b, const Output& v) {
            kept = b;
            return v + 1.0f;
          });
    } else {
      const auto keep = [&](const Scope& b) {
        kept = b;
        return x * 2.0f;
      };
      Cond(s, x < 1.0f, keep, keep);
    }
    BOOST_REQUIRE_MESSAGE(s.ok(), s.status().ToString());
    EmitOp(kept, "Square", {x});
    Has(s.status(), "is used after its function has returned");
  }
}

BOOST_AUTO_TEST_CASE(parts_of_loops_need_a_frame) {
  for (const char* op : {"Exit", "NextIteration"}) {
    const Scope s = Scope::NewRootScope();
    EmitOp(s.WithOpName("alone"), op, {Feed(s, "x")});
    Has(s.status(), StrCat("node 'alone' (", op, ")"));
    Has(s.status(), "must be inside a loop's frame, but no Enter node leads to it");
  }
  // By hand, as an importer of another format may.
  const Scope s = Scope::NewRootScope();
  const Output enter = EmitOp(s, "Enter", {Feed(s, "x")}, {{"frame_name", "f"}}).output(0);
  const Output exit = EmitOp(s, "Exit", {EmitOp(s, "Square", {enter}).output(0)}).output(0);
  BOOST_TEST(s.ok(), s.status().ToString());
  EmitOp(s, "Exit", {exit});
  Has(s.status(), "must be inside a loop's frame");

  for (const char* op : {"Exit", "NextIteration", "RefExit", "RefNextIteration"}) {
    const bool ref = op[0] == 'R';
    proto::GraphDef def;
    Graph source;
    const auto x = ref ? source.AddNode("x", "VariableV2", {{"shape", TensorShape()}, {"dtype", DType::kFloat}})
                       : source.AddNode("x", "Placeholder", {{"dtype", DType::kFloat}});
    const auto n = source.AddNode("alone", op, {{"T", DType::kFloat}});
    BOOST_REQUIRE_MESSAGE(x.ok() && n.ok(), n.status().ToString());
    BOOST_REQUIRE(source.AddEdge({*x, 0}, *n, 0).ok());
    ExportGraphDef(source, &def);
    Graph graph;
    const auto imported = ImportGraphDef(def, {}, &graph);
    Has(imported.status(), StrCat("node 'alone' (", op, ")"));
    Has(imported.status(), "must be inside a loop's frame, but no Enter node leads to it");
    BOOST_TEST(graph.num_nodes() == 2);
  }
}

BOOST_AUTO_TEST_CASE(types_that_differ_are_told_as_they_are) {
  {
    const Scope s = Scope::NewRootScope();
    Output sum = Feed(s, "a") + Feed(s, "b", DType::kInt32);
    Has(s.status(), "input 'y' ('b:0') is int32, but attr T is float32 because of 'x' ('a:0')");
  }
  {
    const Scope s = Scope::NewRootScope();
    Output product = Const(s, 0.5) * Feed(s, "a");
    Has(s.status(),
        "input 'y' ('a:0') is float32, but attr T is float64 because of 'x' ('Const:0'); 'Const:0' is a constant of "
        "type "
        "float64: in C++ 0.5 is a double, 0.5f a float");
  }
  {
    const Scope s = Scope::NewRootScope();
    EmitOp(s, "Square", {Feed(s, "a")}, {{"T", DType::kDouble}});
    Has(s.status(), "input 'x' ('a:0') is float32, but attr 'T' is float64");
  }
  {
    const Scope s = Scope::NewRootScope();
    EmitOp(s, "Fill", {Feed(s, "dims", DType::kInt32, {1}), 1.0f}, {{"index_type", DType::kInt64}});
    Has(s.status(), "input 'dims' ('dims:0') is int32, but attr 'index_type' is int64");
  }
  {
    const Scope s = Scope::NewRootScope();
    EmitOp(s, "LogicalNot", {Feed(s, "a")});
    Has(s.status(), "input 'x' ('a:0') is float32, but must be bool");
  }
}

BOOST_AUTO_TEST_CASE(shapes_that_cannot_be_are_refused_when_they_are_built) {
  {
    const Scope s = Scope::NewRootScope();
    Feed(s, "x", DType::kFloat, {-7});
    Has(s.status(), "attr 'shape' is a shape with dimension -7, which is negative");
  }
  {
    const Scope s = Scope::NewRootScope();
    EmitOp(s, "Reshape", {Feed(s, "x", DType::kFloat, {4}), {2, -1, -1}});
    Has(s.status(), "only one size of a reshape may be -1, not several of int32 [3] [2 -1 -1]");
  }
}

BOOST_AUTO_TEST_CASE(devices_are_nested_without_end) {
  Scope s = Scope::NewRootScope();
  const Scope root = s;
  for (int i = 0; i < 200000; ++i) s = s.WithDevice("/device:CPU:0");
  BOOST_TEST(EmitOp(s, "NoOp", {}).valid());
  BOOST_TEST(s.ok());
  s = root;  // they go
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace user_code_test
}  // namespace troupe
