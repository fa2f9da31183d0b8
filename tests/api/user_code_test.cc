// What user code does wrong while a graph is built is the scope's error: exceptions, values that
// leave their loop, empty handles, types that do not fit.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <stdexcept>

#include "troupe/emit.h"
#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/registration.h"
#include "troupe/shape_inference.h"
#include "troupe/train/optimizer.h"
#include "troupe/troupe.h"

namespace troupe {
namespace {

TROUPE_OP("UserCodeThrows")
    .Input("x: float")
    .Output("y: float")
    .Shape([](InferenceContext& c) -> absl::Status {
      if (c.input(0).known_rank()) throw std::runtime_error("no shape today");
      return absl::OkStatus();
    })
    .Gradient([](GradientContext&) -> absl::Status { throw 7; })
    .Doc("Throws.");

void Has(const absl::Status& status, const std::string& part) {
  BOOST_TEST(status.ToString().find(part) != std::string::npos, status.ToString() << " should have: " << part);
}

Output Feed(const Scope& s, const std::string& name, DType dtype = DType::kFloat,
            const PartialTensorShape& shape = TensorShape()) {
  return EmitOp(s.WithOpName(name), "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}).output(0);
}

BOOST_AUTO_TEST_SUITE(user_code)

// --- Exceptions ---

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

// --- Values that leave their loop ---

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

// --- Types and shapes ---

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

// --- Empty handles ---

BOOST_AUTO_TEST_CASE(empty_handles_are_errors) {
  using Build = std::function<void(const Scope&)>;
  const auto less = [](const Scope&, const Output& v) { return v < 1.0f; };
  const auto same = [](const Scope&, const Output& v) { return v; };
  const auto nothing = [](const Scope&, const Output&) { return Output(); };
  const std::vector<Build> builds = {
      [](const Scope& s) { EmitOp(s, "Square", {Output()}); },
      [](const Scope& s) { Output r = Feed(s, "x") + Output(); },
      [](const Scope& s) { Output r = Output() + Feed(s, "x"); },
      [](const Scope& s) { Gradients(s, {Output()}, {Feed(s, "x")}); },
      [](const Scope& s) { Gradients(s, {Feed(s, "x")}, {Output()}); },
      [](const Scope& s) { Gradients(s, {Feed(s, "x")}, {Variable()}); },
      [](const Scope& s) { Variable v(s, Output()); },
      [](const Scope& s) { Variable().Read(s); },
      [](const Scope& s) { Variable().Assign(s, 1.0f); },
      [](const Scope& s) { Variable().AssignAdd(s, 1.0f); },
      [](const Scope& s) { Variable().IsInitialized(s); },
      [](const Scope& s) { VariablesInitializer(s, {Variable()}); },
      [](const Scope& s) { ReportUninitializedVariables(s, {Variable()}); },
      [](const Scope& s) { s.ColocateWith(Operation()); },
      [](const Scope& s) { s.SetShape(Output(), {2}); },
      [](const Scope& s) { Const(s, Tensor()); },
      [](const Scope& s) { EmitOp(s, "Square", {Tensor()}); },
      [&](const Scope& s) { While(s, Output(), less, same); },
      [&](const Scope& s) { While(s, Feed(s, "x"), nothing, same); },
      [&](const Scope& s) { While(s, Feed(s, "x"), less, nothing); },
      [](const Scope& s) {
        Cond(
            s, Output(), [&](auto& b) { return Const(b, 1); }, [&](auto& b) { return Const(b, 2); });
      },
      [](const Scope& s) {
        Cond(
            s, Const(s, true), [&](auto&) { return Output(); }, [&](auto& b) { return Const(b, 2); });
      },
      [&](const Scope& s) { Map(s, Output(), same); },
      [](const Scope& s) { train::GradientDescent(0.1).Minimize(s, Output(), {Variable()}); },
      [](const Scope& s) {
        train::GradientDescent(0.1).ApplyGradients(s, {{Feed(s, "x"), Variable()}});
      },
      [](const Scope& s) { layers::Dense(s, Output(), 3); },
      [](const Scope& s) { ops::Square(s, Output()); },
  };
  for (size_t i = 0; i < builds.size(); ++i) {
    BOOST_TEST_CONTEXT("build " << i) {
      const Scope s = Scope::NewRootScope();
      builds[i](s);
      BOOST_TEST(!s.ok());
    }
  }
  // Questions have answers.
  const Output none;
  BOOST_TEST(none.name() == "");
  BOOST_TEST((none.dtype() == DType::kInvalid));
  BOOST_TEST(!none.shape().known_rank());
  BOOST_TEST(!(none + none).valid());
  BOOST_TEST(!(-none).valid());
  BOOST_TEST(Operation().name() == "");
  BOOST_TEST(!Operation().output(0).valid());
  BOOST_TEST(Variable().variable_name() == "");
  BOOST_TEST(!Variable().is_resource());
}

BOOST_AUTO_TEST_CASE(null_functions_are_errors) {
  Output (*const no_branch)(const Scope&) = nullptr;
  Operation (*const no_operation)(const Scope&) = nullptr;
  Output (*const no_cond)(const Scope&, const Output&) = nullptr;
  OutputList (*const no_body)(const Scope&, const OutputList&) = nullptr;
  OutputList (*const no_case)(const Scope&) = nullptr;
  OutputList (*const no_fold)(const Scope&, const OutputList&, const OutputList&) = nullptr;
  const auto one = [](const Scope& b) { return Const(b, 1); };
  const std::vector<std::pair<const char*, std::function<void(const Scope&)>>> builds = {
      {"Cond: the true branch has no function", [&](const Scope& s) { Cond(s, Const(s, true), no_branch, one); }},
      {"Cond: the false branch has no function", [&](const Scope& s) { Cond(s, Const(s, true), one, no_branch); }},
      {"Cond: the true branch has no function",
       [&](const Scope& s) { Cond(s, Const(s, true), no_operation, no_operation); }},
      {"Cond: the false branch has no function",
       [&](const Scope& s) { Cond(s, Const(s, true), one, std::function<Output(const Scope&)>()); }},
      {"While: the condition has no function", [&](const Scope& s) { While(s, Feed(s, "x"), no_cond, no_cond); }},
      {"While: the body has no function",
       [&](const Scope& s) {
         While(
             s, {0}, [](const Scope&, const OutputList& v) { return v[0] < 3; }, no_body);
       }},
      {"Case: branch 0 has no function",
       [&](const Scope& s) {
         Case(s, {{Const(s, true), no_case}}, no_case);
       }},
      {"there is no function for the rows",
       [&](const Scope& s) { Map(s, OutputList{Feed(s, "x", DType::kFloat, {4})}, no_body); }},
      {"there is no function for the rows",
       [&](const Scope& s) { Fold(s, OutputList{Feed(s, "x", DType::kFloat, {4})}, {0}, no_fold); }},
      {"there is no function for the rows",
       [&](const Scope& s) { Scan(s, OutputList{Feed(s, "x", DType::kFloat, {4})}, {0}, no_fold); }},
  };
  for (const auto& [says, build] : builds) {
    const Scope s = Scope::NewRootScope();
    build(s);
    BOOST_TEST((s.status().code() == absl::StatusCode::kInvalidArgument), s.status());
    Has(s.status(), says);
  }
}

BOOST_AUTO_TEST_CASE(a_scope_that_was_moved_from_is_a_scope) {
  Scope first = Scope::NewRootScope();
  const Scope second = std::move(first);
  const Output x = Feed(first, "x");  // NOLINT: the case
  BOOST_TEST(x.valid());
  first = std::move(second);
  BOOST_TEST(EmitOp(first, "Square", {x}).valid());
  BOOST_TEST(first.ok());
  Output a = x;
  const Output b = std::move(a);
  BOOST_TEST(b.valid());
  BOOST_CHECK_NO_THROW(a + a);  // NOLINT
}

BOOST_AUTO_TEST_CASE(devices_are_nested_without_end) {
  Scope s = Scope::NewRootScope();
  const Scope root = s;
  for (int i = 0; i < 200000; ++i) s = s.WithDevice("/device:CPU:0");
  BOOST_TEST(EmitOp(s, "NoOp", {}).valid());
  BOOST_TEST(s.ok());
  s = root;  // they go
}

// --- Tensors without value, or of another type ---

BOOST_AUTO_TEST_CASE(a_tensor_without_value_throws_and_does_not_crash) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  const Tensor none;
  BOOST_TEST(none.DebugString() == "<no value>");
  BOOST_TEST(none.TypeAndShape() == "<no value>");
  BOOST_TEST(none.num_elements() == 1);
  BOOST_TEST(none.rank() == 0);
  BOOST_TEST(none.bytes() == 0u);
  BOOST_TEST(!none.valid());
  BOOST_TEST(!none.BufferUnique());
  BOOST_TEST(!none.Clone().valid());
  BOOST_TEST(!none.Reshaped({1}).valid());
  BOOST_TEST(message([&] { none.data<float>(); }) == "a tensor without a value was read as float32");
  BOOST_TEST(message([&] { none.scalar<double>(); }) == "a tensor without a value was read as float64");
  BOOST_TEST(message([&] { none.flat<int32_t>(); }) == "a tensor without a value was read as int32");
  const Tensor two = Tensor::Vector<float>({1, 2});
  BOOST_TEST(message([&] { two.data<double>(); }) == "a tensor float32 [2] was read as float64");
  BOOST_TEST(two.scalar<float>() == 1.0f);
  BOOST_TEST(message([&] { Tensor(DType::kFloat, {0}).scalar<float>(); }) ==
             "a tensor float32 [0] has no element to be read as a scalar");
  BOOST_TEST(message([&] { Tensor::Of<float>({1, 2, 3}, {2}); }) == "a tensor float32 [2] was to be made of 3 values");
  BOOST_TEST(message([&] { Tensor::Of<float>({1}, {2}); }) == "a tensor float32 [2] was to be made of 1 values");
  const Literal literal(none);
  BOOST_TEST(!literal.error().ok());
}

BOOST_AUTO_TEST_CASE(what_a_tensor_does_not_have_cannot_be_had) {
  const auto message = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  Tensor none;
  BOOST_TEST(message([&] { none.raw(); }) == "the bytes of a tensor without a value were asked for");
  BOOST_TEST(message([&] { std::as_const(none).raw(); }) == "the bytes of a tensor without a value were asked for");
  BOOST_TEST(message([&] { none.Slice(0, 0); }) == "a tensor <no value> has no rows 0 to 0");
  BOOST_TEST(!Tensor(none).ReshapedMove({1}).valid());
  BOOST_TEST(!none.WithType(DType::kInt32, {1}).valid());

  const Tensor three = Tensor::Vector<float>({1, 2, 3}), one = Tensor::Scalar(1.f);
  BOOST_TEST(message([&] { three.Slice(2, 9); }) == "a tensor float32 [3] has no rows 2 to 9");
  BOOST_TEST(message([&] { three.Slice(2, 1); }) == "a tensor float32 [3] has no rows 2 to 1");
  BOOST_TEST(message([&] { three.Slice(-1, 1); }) == "a tensor float32 [3] has no rows -1 to 1");
  BOOST_TEST(message([&] { one.Slice(0, 1); }) == "a tensor float32 [] has no rows 0 to 1");
  BOOST_TEST(three.Slice(3, 3).num_elements() == 0);
  BOOST_TEST(three.Slice(1, 3).DebugString() == "float32 [2] [2 3]");
  BOOST_TEST(Tensor(DType::kFloat, {0, 2}).Slice(0, 0).DebugString() == "float32 [0,2] []");

  BOOST_TEST(message([&] { one.Reshaped({1000000000}); }) ==
             "the bytes of a tensor float32 [] cannot be seen as float32 [1000000000]");
  BOOST_TEST(message([&] { Tensor(one).ReshapedMove({1000000000}); }) ==
             "the bytes of a tensor float32 [] cannot be seen as float32 [1000000000]");
  BOOST_TEST(message([&] { three.Reshaped({-1, -3}); }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(message([&] {
               three.Reshaped({int64_t{1} << 40, int64_t{1} << 40});
             }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(message([&] { three.Slice(1, 3).Reshaped({1000}); }).find("cannot be seen as") != std::string::npos);
  BOOST_TEST(three.Reshaped({3, 1}).DebugString() == "float32 [3,1] [1 2 3]");
  BOOST_TEST(three.WithType(DType::kInt16, {6}).num_elements() == 6);
  // Objects are no bytes.
  const Tensor text = Tensor::Scalar("text");
  BOOST_TEST(message([&] { text.WithType(DType::kUint8, {8}); }) ==
             "the bytes of a tensor string [] cannot be seen as uint8 [8]");
  BOOST_TEST(message([&] { Tensor(DType::kUint8, {64}).WithType(DType::kString, {1}); }).find("cannot be seen as") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_output_that_is_not_there_has_no_name_and_no_type) {
  const NodeOut none;
  BOOST_TEST(none.ToString() == "");
  BOOST_TEST((none.dtype() == DType::kInvalid));
  const Scope root = Scope::NewRootScope();
  const Output x = Feed(root, "x");
  for (const int index : {-1, 1, 1000}) {
    BOOST_TEST((NodeOut{x.node(), index}.dtype() == DType::kInvalid));
    const Output other(NodeOut{x.node(), index}, x.scope_state());
    BOOST_TEST((other.dtype() == DType::kInvalid));
    BOOST_TEST(!other.shape().known_rank());
    const Scope s = Scope::NewRootScope();
    s.SetShape(Output(NodeOut{Feed(s, "y").node(), index}), TensorShape());
    Has(s.status(), "does not exist");
    BOOST_TEST(!Group(s, {}).valid());
  }
  BOOST_TEST(!EmitOp(root, "Neg", {Output(NodeOut{x.node(), 3})}).valid());
  Has(root.status(), "'x:3' does not exist");
}

BOOST_AUTO_TEST_CASE(a_scope_without_a_graph_has_an_error) {
  for (const Scope& s :
       {Scope::NewRootScope(std::shared_ptr<Graph>()), Scope::NewRootScope(static_cast<Graph*>(nullptr)),
        Scope(std::shared_ptr<const internal::ScopeState>())}) {
    Has(s.status(), "NewRootScope was given no graph");
    BOOST_TEST(s.graph() != nullptr);
    BOOST_TEST(!Const(s.NewSubScope("a").WithDevice("/cpu:0"), 1.f).valid());
    BOOST_TEST(!Group(s, {}).valid());
    BOOST_TEST(s.graph()->num_nodes() == 2);
  }
}

// What an import returns has no scope of its own: the graph's is taken.
BOOST_AUTO_TEST_CASE(operators_build_on_what_an_import_returned) {
  proto::GraphDef def;
  {
    const Scope model = Scope::NewRootScope();
    ops::Neg(model.WithOpName("y"), Feed(model, "x"));
    BOOST_REQUIRE(model.ToGraphDef(&def).ok());
  }
  const Scope root = Scope::NewRootScope();
  const auto imported = ImportGraphDef(def, {.return_outputs = {"y:0"}}, root.graph());
  BOOST_REQUIRE_MESSAGE(imported.ok(), imported.status());
  const Output y = imported->return_outputs[0];
  const Output z = 1.0f - y * 2.0f;
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  BOOST_TEST(z.name() == "sub:0");
  const OutputList grown = While(
      root, {y}, [&](const Scope&, const OutputList& v) { return v[0] < 10.0f; },
      [&](const Scope&, const OutputList& v) -> OutputList { return {v[0] - y}; });
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  const absl::Status s = session->Run({{"x", Tensor::Scalar(3.0f)}}, {z, grown[0]}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  BOOST_TEST(out[0].scalar<float>() == 7.0f);
  BOOST_TEST(out[1].scalar<float>() == 12.0f);
  // What is wrong with them is that scope's error, with the line.
  const int line = __LINE__ + 1;
  BOOST_TEST(!(y + Literal(true)).valid());
  Has(root.status(), StrCat("user_code_test.cc:", line));
}

BOOST_AUTO_TEST_CASE(of_several_root_scopes_operators_build_in_the_first) {
  auto graph = std::make_shared<Graph>();
  const Output bare(NodeOut{*graph->AddNode("c", "Placeholder", {{"dtype", DType::kFloat}}), 0});
  auto first = std::make_unique<Scope>(Scope::NewRootScope(graph));
  const Scope second = Scope::NewRootScope(graph);
  BOOST_TEST((bare + bare).valid());
  BOOST_TEST(!(bare + Literal(true)).valid());
  BOOST_TEST(!first->ok());
  BOOST_TEST(second.ok());
  first = nullptr;
  BOOST_TEST(!(bare + bare).valid());
  BOOST_TEST(second.ok());
}

// There is no scope to build in, and none to have the error: the one that the result is used in has
// it.
BOOST_AUTO_TEST_CASE(operators_on_outputs_without_a_scope_are_an_error_where_the_result_is_used) {
  const Scope root = Scope::NewRootScope();
  Graph graph;
  const Output x = Feed(root, "x"), bare(NodeOut{*graph.AddNode("c", "Placeholder", {{"dtype", DType::kFloat}}), 0});
  const Output twice = bare + bare, more = -(twice * 2.f);
  BOOST_TEST(!twice.valid());
  BOOST_TEST(!more.valid());
  BOOST_TEST(root.ok());
  BOOST_TEST(!(x + more).valid());
  Has(root.status(), "is an empty Output: it is the result of an operator that had no scope to build in");
  Has(root.status(), "user_code_test.cc");
  const Scope other = Scope::NewRootScope();
  BOOST_TEST(!Variable(other, more).valid());
  Has(other.status(), "is an empty Output");
}

BOOST_AUTO_TEST_CASE(a_gradient_of_nothing_says_so) {
  const Scope root = Scope::NewRootScope();
  Gradients(root, {}, {Feed(root, "x")});
  Has(root.status(), "there are no ys, so that nothing depends on 'x:0'");
}

BOOST_AUTO_TEST_CASE(a_shape_with_too_many_elements_makes_no_tensor) {
  constexpr int64_t kMany = int64_t{1} << 40;
  BOOST_TEST(!Tensor(DType::kFloat, {kMany, kMany}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {kMany, kMany, 0}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {int64_t{1} << 62}).valid());
  BOOST_TEST(!Tensor(DType::kFloat, {-1}).valid());
  BOOST_TEST(Tensor(DType::kFloat, {kMany, 0}).valid());
}

// --- Ops that are registered badly ---

BOOST_AUTO_TEST_CASE(an_op_that_is_defined_twice_keeps_its_first_definition) {
  const auto define = [](const char* input) {
    const OpRegistrar again = OpBuilder("UserCodeTwice").Input(input).Output("y: float").NotDifferentiable("a test");
    (void)again;
  };
  const size_t before = RegistrationErrors().size();
  define("x: float");
  BOOST_TEST(RegistrationErrors().size() == before);
  define("x: int32");
  define("x: int32");  // a third copy says the same
  BOOST_REQUIRE(RegistrationErrors().size() == before + 1);
  BOOST_TEST(RegistrationErrors().back() == "op 'UserCodeTwice' is defined twice; the first definition holds");
  Scope s = Scope::NewRootScope();
  BOOST_TEST(EmitOp(s, "UserCodeTwice", {Feed(s, "x")}).valid());
  // An attr that only the second definition could have.
  EmitOp(s, "UserCodeTwice", {Feed(s, "x2")}, {{"scale", 2}});
  Has(s.status(), "op 'UserCodeTwice' has no attr 'scale' (op 'UserCodeTwice' is defined twice");
}

BOOST_AUTO_TEST_CASE(an_op_whose_definition_is_wrong_says_why_it_is_not_there) {
  {
    const OpRegistrar wrong = OpBuilder("UserCodeWrong").Input("x float").NotDifferentiable("a test");
    (void)wrong;
  }
  BOOST_TEST(RegistrationErrorsOf("UserCodeWrong") != "");
  BOOST_TEST(RegistrationErrorsOf("UserCodeWron") == "");
  const Scope s = Scope::NewRootScope();
  EmitOp(s, "UserCodeWrong", {Feed(s, "x")});
  Has(s.status(), "there is no op 'UserCodeWrong', since it could not be registered: ");
  proto::GraphDef def;
  def.add_node()->set_name("n");
  def.mutable_node(0)->set_op("UserCodeWrong");
  Graph graph;
  Has(ImportGraphDef(def, {.keep_unknown_ops = false}, &graph).status(), RegistrationErrorsOf("UserCodeWrong"));
}

BOOST_AUTO_TEST_CASE(a_trait_that_speaks_of_an_input_needs_one) {
  for (const OpTrait trait : {OpTrait::kForwardsInput, OpTrait::kRank, OpTrait::kShape, OpTrait::kReadsVariable}) {
    const auto op = OpBuilder("UserCodeTrait").Output("y: int32").Trait(trait).NotDifferentiable("a test").Finish();
    Has(op.status(), "definition of op 'UserCodeTrait': it has a trait that speaks of an input and an output");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace troupe
