// Variables as nodes of the graph: by handle and by reference, their options, finding them by name.
#include "troupe/variable.h"

#include <boost/test/unit_test.hpp>

#include "tests/api/graph_text.h"
#include "troupe/const.h"
#include "troupe/operators.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace variable_test {

using test::GraphText;
using test::NodeText;

BOOST_AUTO_TEST_SUITE(variables)

BOOST_AUTO_TEST_CASE(a_resource_variable) {
  Scope root = Scope::NewRootScope();
  const Scope fc = root.NewSubScope("fc");
  const Variable w(fc.WithOpName("w"), Const(fc.WithOpName("zeros"), 0.0f, TensorShape({2, 3})));
  BOOST_TEST(root.status().ToString() == "OK");
  BOOST_TEST(GraphText(*root.graph()) ==
             "fc/zeros = Const()\n"
             "fc/w = VarHandleOp()\n"
             "fc/w/Assign = AssignVariableOp(fc/w, fc/zeros)\n"
             "fc/w/Read = ReadVariableOp(fc/w)\n");
  BOOST_TEST(w.name() == "fc/w/Read:0");
  BOOST_TEST(w.shape().DebugString() == "[2,3]");
  BOOST_TEST((w.dtype() == DType::kFloat));
  BOOST_TEST(*w.handle().node()->Attr<std::string>("shared_name") == "fc/w");
  BOOST_TEST((root.graph()->collection("variables") == std::vector<std::string>{"fc/w"}));
  BOOST_TEST((root.graph()->collection("trainable_variables") == std::vector<std::string>{"fc/w"}));
  const Output next = w.AssignAdd(root.WithOpName("grow"), {{1, 2, 3}, {4, 5, 6}});
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status().ToString());
  BOOST_TEST(NodeText(*next.node()) == "grow/Read = ReadVariableOp(fc/w, ^grow)");
  BOOST_TEST(NodeText(*root.graph()->Find("grow")) == "grow = AssignAddVariableOp(fc/w, grow/value)");
  BOOST_TEST(NodeText(*w.Read(root.WithControlDependencies(next)).node()) ==
             "ReadVariableOp = ReadVariableOp(fc/w, ^grow/Read)");
  BOOST_TEST(NodeText(*GlobalVariablesInitializer(root).node()) == "init = NoOp(^fc/w/Assign)");
  BOOST_TEST(NodeText(*LocalVariablesInitializer(root).node()) == "init_1 = NoOp()");
  BOOST_TEST(root.status().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(a_reference_variable) {
  Scope root = Scope::NewRootScope();
  const Variable v(root, {1.0, 2.0},
                   {.name = "v", .trainable = false, .collections = {kLocalVariables}, .use_resource = false});
  BOOST_TEST(root.status().ToString() == "OK");
  BOOST_TEST(GraphText(*root.graph()) ==
             "v = VariableV2()\n"
             "v/initial_value = Const()\n"
             "v/Assign = Assign(v, v/initial_value)\n"
             "v/Read = Identity(v)\n");
  BOOST_TEST((v.handle().dtype() == MakeRef(DType::kDouble)));
  BOOST_TEST((v.dtype() == DType::kDouble));
  BOOST_TEST(NodeText(*v.Assign(root, {3, 4}).node()) == "Assign = Assign(v, Assign/value)");
  BOOST_TEST(NodeText(*v.AssignSub(root, Const(root.WithOpName("d"), {1.0, 1.0})).node()) ==
             "AssignSub = AssignSub(v, d)");
  BOOST_TEST(NodeText(*v.IsInitialized(root).node()) == "IsVariableInitialized = IsVariableInitialized(v)");
  BOOST_TEST(NodeText(*LocalVariablesInitializer(root).node()) == "init = NoOp(^v/Assign)");
  BOOST_TEST(root.graph()->collection("trainable_variables").empty());
  BOOST_TEST(root.status().ToString() == "OK");
}

// In the graph's wire form the initializer of the foreign one would be that of the variable of the
// same name.
// A graph that is imported may have a variable of the name that comes next.
BOOST_AUTO_TEST_CASE(variables_of_a_taken_name_are_numbered_as_their_shared_names) {
  for (const bool resource : {true, false}) {
    Scope root = Scope::NewRootScope();
    const Scope fc = root.NewSubScope("fc");
    VariableOptions options;
    options.use_resource = resource;
    for (const char* const name : {"fc/w", "fc/w_1", "fc/w_2"}) {
      const Variable v(fc.WithOpName("w"), 1.0f, options);
      BOOST_TEST(v.handle().node()->name() == name);
      BOOST_TEST(v.variable_name() == name);
      if (resource) BOOST_TEST(*v.handle().node()->Attr<std::string>("shared_name") == name);
    }
    const Variable unnamed(root, 1.0f, options), another(root, 1.0f, options);
    BOOST_TEST(unnamed.variable_name() == unnamed.handle().node()->name());
    BOOST_TEST(another.variable_name() == another.handle().node()->name());
    BOOST_TEST(root.status().ToString() == "OK");
  }
}

BOOST_AUTO_TEST_CASE(variables_of_another_graph_are_not_initialized) {
  const Scope root = Scope::NewRootScope(), other = Scope::NewRootScope();
  const Variable mine(root.WithOpName("v"), 1.0f), theirs(other.WithOpName("v"), 2.0f);
  const int nodes = root.graph()->num_nodes(), line = __LINE__ + 1;
  BOOST_TEST(!VariablesInitializer(root, {mine, theirs}).valid());
  const std::string message(root.status().message());
  BOOST_TEST(message.find("variable 'v' belongs to another graph") != std::string::npos, message);
  BOOST_TEST(message.find(StrCat("variable_test.cc:", line)) != std::string::npos, message);
  BOOST_TEST(root.graph()->num_nodes() == nodes);
  BOOST_TEST(other.ok());
}

BOOST_AUTO_TEST_CASE(options_override_type_shape_and_container) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithContainer("box").WithOpName("v"), 1,
                   {.dtype = DType::kFloat, .shape = PartialTensorShape(TensorShape()), .shared_name = "shared"});
  BOOST_TEST((v.dtype() == DType::kFloat));
  BOOST_TEST(*v.handle().node()->Attr<std::string>("container") == "box");
  BOOST_TEST(*v.handle().node()->Attr<std::string>("shared_name") == "shared");
  const Variable w(root.WithContainer("box"), 1, {.name = "w", .container = "own"});
  BOOST_TEST(*w.handle().node()->Attr<std::string>("container") == "own");
  BOOST_TEST((w.dtype() == DType::kInt32));
  BOOST_TEST(root.status().ToString() == "OK");
}

BOOST_AUTO_TEST_CASE(variables_are_found_by_name) {
  Scope root = Scope::NewRootScope();
  const Variable a(root.WithOpName("a"), 1.0f),
      b(root.WithOpName("b"), 2.0f, {.trainable = false, .use_resource = false});
  const std::vector<Variable> all = VariablesIn(root, kGlobalVariables);
  BOOST_REQUIRE(all.size() == 2u);
  BOOST_TEST(all[0].name() == a.name());
  BOOST_TEST(all[1].name() == b.name());
  BOOST_TEST(all[1].initializer().name() == "b/Assign");
  BOOST_TEST(all[1].initial_value().name() == "b/initial_value:0");
  BOOST_TEST(VariablesIn(root, kTrainableVariables).size() == 1u);
  BOOST_TEST(root.ok());
  BOOST_TEST(!Variable::Find(root, "c").valid());
  BOOST_TEST(std::string(root.status().message()).find("no variable 'c'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(errors_are_the_scopes) {
  Scope root = Scope::NewRootScope();
  const Variable v(root.WithOpName("v"), Output());
  BOOST_TEST(!v.valid());
  BOOST_TEST(std::string(root.status().message()).find("initial value of variable 'v'") != std::string::npos);
  BOOST_TEST(!v.AssignAdd(root, 1).valid());
  BOOST_TEST(root.graph()->collection("variables").empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace variable_test
}  // namespace troupe
