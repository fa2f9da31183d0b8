// Ops that are registered badly: what they say where they are used.
#include <boost/test/unit_test.hpp>

#include "tests/api/wrong_code.h"
#include "troupe/import_export.h"
#include "troupe/proto/graph.pb.h"
#include "troupe/registration.h"

namespace troupe {
namespace wrong_definitions_test {

BOOST_AUTO_TEST_SUITE(wrong_definitions)

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

}  // namespace wrong_definitions_test
}  // namespace troupe
