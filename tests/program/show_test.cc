// troupe ops and troupe graph.
#include <boost/test/unit_test.hpp>

#include "tests/program/program_test.h"

namespace troupe {
namespace show_test {

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

BOOST_AUTO_TEST_CASE(an_op_is_shown_with_all_there_is) {
  const Ended e = RunProgram({"ops", "MatMul"});
  BOOST_TEST(e.status == 0, e.err);
  BOOST_TEST(Has(e.out, "MatMul(a: T, b: T) -> (product: T)\n"), e.out);
  BOOST_TEST(Has(e.out, "  attr transpose_a: bool = false\n"), e.out);
  BOOST_TEST(Has(e.out, "  attr T: type in {"), e.out);
  BOOST_TEST(Has(e.out, "  CPU: T in {float32, "), e.out);
}

BOOST_AUTO_TEST_CASE(all_ops_are_listed_in_order) {
  const Ended names = RunProgram({"ops", "--names"});
  BOOST_TEST(names.status == 0);
  BOOST_TEST(Has(names.out, "\nConst\n"));
  BOOST_TEST(names.out.find("\nConst\n") < names.out.find("\nIdentity\n"));
  const Ended all = RunProgram({"ops"});
  BOOST_TEST(all.status == 0);
  BOOST_TEST(Has(all.out, "\nIdentity(input: T) -> (output: T)\n"));
}

BOOST_AUTO_TEST_CASE(an_op_that_does_not_exist_is_a_failure_that_helps) {
  const Ended e = RunProgram({"ops", "MatMull"});
  BOOST_TEST(e.status == 1);
  BOOST_TEST(e.err == "troupe: there is no op 'MatMull'; did you mean MatMul\n");
}

std::string Graph() {
  const std::string t = TypeAttrText("T", "DT_FLOAT");
  const std::string value = TypeAttrText("dtype", "DT_FLOAT") +
                            "attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2 } } } ";
  return PlaceholderText("x", "DT_FLOAT") + NodeDefText("two", "Const", {}, value) +
         NodeDefText("four", "Add", {"two", "two"}, t) + NodeDefText("a", "Add", {"x", "four"}, t) +
         NodeDefText("b", "Add", {"x", "four"}, t) + NodeDefText("c", "Mul", {"a", "b"}, t) +
         NodeDefText("aside", "Identity", {"x", "^two"}, t) + "versions { producer: 27 }";
}

BOOST_AUTO_TEST_CASE(a_graph_is_shown_before_and_after_passes) {
  const Folder folder;
  const std::string path = folder.Write("g.pbtxt", Graph());
  const Ended plain = RunProgram({"graph", path});
  BOOST_TEST(plain.status == 0, plain.err);
  BOOST_TEST(Has(plain.out, "c = Mul(a, b)\n"), plain.out);
  BOOST_TEST(Has(plain.out, "aside = Identity(x, ^two)\n"), plain.out);

  const Ended merged = RunProgram({"graph", path, "--after", "cse"});
  BOOST_TEST(merged.status == 0, merged.err);
  BOOST_TEST(Has(merged.out, "c = Mul(a, a)\n"), merged.out);

  const Ended folded =
      RunProgram({"graph", path, "--after", "prune", "--feed", "x", "--fetch", "c", "--after", "fold"});
  BOOST_TEST(folded.status == 0, folded.err);
  BOOST_TEST(!Has(folded.out, "aside"), folded.out);
  BOOST_TEST(!Has(folded.out, "Add(two, two)"), folded.out);
  BOOST_TEST(Has(folded.out, "float32{4}"), folded.out);

  const Ended dot = RunProgram({"graph", path, "--dot"});
  BOOST_TEST(dot.status == 0);
  BOOST_TEST(Has(dot.out, "digraph troupe {"), dot.out);
  BOOST_TEST(Has(dot.out, "\"two\" -> \"aside\" [style=dashed];"), dot.out);
  BOOST_TEST(Has(dot.out, "\"a\" -> \"c\" [label=\"0:0 float32\"];"), dot.out);

  BOOST_TEST(RunProgram({"graph", path, "--after", "prune"}).status == 2);
  BOOST_TEST(RunProgram({"graph", path, "--after", "magic"}).status == 2);
  BOOST_TEST(RunProgram({"graph", folder.Path("none")}).status == 1);
}

}  // namespace show_test
}  // namespace troupe
