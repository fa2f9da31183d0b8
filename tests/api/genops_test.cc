// The builder generator on sample ops, and what it made of the real ones.
#include <boost/test/unit_test.hpp>

#include "tests/api/graph_text.h"
#include "tools/genops/builders.h"
#include "troupe/ops.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace genops_test {

OpDef Def(const OpBuilder& b) {
  absl::StatusOr<OpDef> def = OpBuilder(b).NotDifferentiable("sample").Finish();
  BOOST_REQUIRE_MESSAGE(def.ok(), def.status().ToString());
  return *std::move(def);
}

BOOST_AUTO_TEST_SUITE(builders)

BOOST_AUTO_TEST_CASE(inferred_and_optional_attrs) {
  const OpDef op = Def(OpBuilder("Product")
                           .Input("a: T")
                           .Input("b: T")
                           .Output("product: T")
                           .Attr("T: {float, double}")
                           .Attr("transpose_a: bool = false")
                           .Attr("mode: {'FAST', 'EXACT'} = 'FAST'")
                           .Attr("scale: float = 0.5")
                           .Doc("The product of two matrices."));
  BOOST_TEST(genops::Declaration(op) ==
             "struct ProductAttrs {\n"
             "  bool transpose_a = false;\n"
             "  std::string mode = \"FAST\";  // one of: FAST, EXACT\n"
             "  float scale = 0.5f;\n"
             "};\n"
             "// The product of two matrices.\n"
             "// (a: T, b: T) -> (product: T)\n"
             "Output Product(const ScopeAt& scope, const Input& a, const Input& b, const ProductAttrs& attrs = {});\n");
  BOOST_TEST(genops::Definition(op) ==
             "Output Product(const ScopeAt& scope, const Input& a, const Input& b, const ProductAttrs& attrs) {\n"
             "  return Emit(scope, \"Product\", {a, b}, {{\"transpose_a\", attrs.transpose_a}, {\"mode\", attrs.mode}, "
             "{\"scale\", attrs.scale}})"
             ".output(0);\n}\n");
}

BOOST_AUTO_TEST_CASE(required_attrs_lists_and_keywords) {
  const OpDef op = Def(OpBuilder("Sort")
                           .Input("values: N * T")
                           .Input("default: Tlist")
                           .Output("index: int32")
                           .Output("rest: N * T")
                           .Output("scope: float")
                           .Attr("N: int >= 1")
                           .Attr("T: type")
                           .Attr("Tlist: list(type)")
                           .Attr("dtype: type")
                           .Attr("shape: shape")
                           .Attr("sizes: list(int) = [1, -2]")
                           .Attr("none: list(string) = []")
                           .Attr("any: shape = { unknown_rank: true }"));
  const std::string text = genops::Declaration(op);
  BOOST_TEST(
      text.find(
          "SortOutputs Sort(const ScopeAt& scope, const InputList& values, const InputList& default_, DType dtype, "
          "const PartialTensorShape& shape, const SortAttrs& attrs = {});") != std::string::npos,
      text);
  BOOST_TEST(text.find("std::vector<int64_t> sizes = {1, -2};") != std::string::npos, text);
  BOOST_TEST(text.find("std::vector<std::string> none = {};") != std::string::npos, text);
  BOOST_TEST(text.find("PartialTensorShape any = PartialTensorShape();") != std::string::npos, text);
  BOOST_TEST(
      text.find(
          "struct SortOutputs {\n  Output index;\n  OutputList rest;\n  Output scope_;\n  Operation operation;\n};") !=
          std::string::npos,
      text);
  const std::string source = genops::Definition(op);
  BOOST_TEST(
      source.find("return {op.output(0), OutputsOf(op, \"rest\"), OutputOf(op, \"scope\"), op};") != std::string::npos,
      source);
}

BOOST_AUTO_TEST_CASE(an_attr_may_be_called_as_an_input) {
  const OpDef op = Def(OpBuilder("Same").Input("shape: int32").Attr("shape: shape"));
  const std::string text = genops::Declaration(op);
  BOOST_TEST(
      text.find("Operation Same(const ScopeAt& scope, const Input& shape, const PartialTensorShape& shape_attr);") !=
          std::string::npos,
      text);
}

BOOST_AUTO_TEST_CASE(builders_have_names_that_cpp_allows) {
  BOOST_TEST(genops::Identifier("default") == "default_");
  BOOST_TEST(genops::Identifier("scope") == "scope_");
  BOOST_TEST(genops::Identifier("x") == "x");
  BOOST_TEST(!genops::HasBuilder(Def(OpBuilder("_Send").Input("x: float"))));
  BOOST_TEST(!genops::HasBuilder(Def(OpBuilder("Const").Output("x: float"))));
  BOOST_TEST(genops::HasBuilder(Def(OpBuilder("Send").Input("x: float"))));
}

BOOST_AUTO_TEST_CASE(long_docs_are_wrapped_and_cannot_continue_a_line) {
  std::string doc;
  for (int i = 0; i < 60; ++i) doc += "word ";
  const std::string text = genops::Declaration(Def(OpBuilder("Words").Output("y: float").Doc(doc + "\\\nnext")));
  for (const std::string& line : StrSplit(text, '\n')) {
    BOOST_TEST((line.size() <= 100 && !line.ends_with('\\')), line);
  }
}

BOOST_AUTO_TEST_CASE(builders_of_real_ops) {
  Scope root = Scope::NewRootScope();
  const Output a = ops::Placeholder(root.WithOpName("a"), DType::kFloat, {.shape = PartialTensorShape({2, 3})});
  const Output p = ops::MatMul(root.WithOpName("p"), a, Const(root.WithOpName("b"), 1.0f, TensorShape({2, 4})),
                               {.transpose_a = true});
  BOOST_TEST(root.status().ToString() == "OK");
  BOOST_TEST(test::NodeText(*p.node()) == "p = MatMul(a, b)");
  BOOST_TEST(*p.node()->Attr<bool>("transpose_a"));
  BOOST_TEST(!*p.node()->Attr<bool>("transpose_b"));
  BOOST_TEST(p.shape().DebugString() == "[3,4]");
  const auto s = ops::Switch(root.WithOpName("s"), p, true);
  BOOST_TEST(s.output_true.name() == "s:1");
  BOOST_TEST(s.operation.name() == "s");
  const OutputList list = ops::IdentityN(root.WithOpName("n"), {a, p, 1});
  BOOST_REQUIRE(list.size() == 3u);
  BOOST_TEST(list[2].name() == "n:2");
  BOOST_TEST((list[2].dtype() == DType::kInt32));
  BOOST_TEST(ops::NoOp(root.WithControlDependencies(a)).name() == "NoOp");
  BOOST_TEST(root.status().ToString() == "OK");
  BOOST_TEST(ops::IdentityN(root, {a, Output()}).empty());
  BOOST_TEST(!root.ok());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace genops_test
}  // namespace troupe
