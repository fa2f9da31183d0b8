// Handles that are empty, or name what is not there, are errors where they are used: outputs,
// scopes, functions, variables.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>

#include "tests/api/wrong_code.h"
#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/shape_inference.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace empty_handles_test {

BOOST_AUTO_TEST_SUITE(empty_handles)

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
  Has(root.status(), StrCat("empty_handles_test.cc:", line));
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
  Has(root.status(), "empty_handles_test.cc");
  const Scope other = Scope::NewRootScope();
  BOOST_TEST(!Variable(other, more).valid());
  Has(other.status(), "is an empty Output");
}

BOOST_AUTO_TEST_CASE(a_gradient_of_nothing_says_so) {
  const Scope root = Scope::NewRootScope();
  Gradients(root, {}, {Feed(root, "x")});
  Has(root.status(), "there are no ys, so that nothing depends on 'x:0'");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace empty_handles_test
}  // namespace troupe
