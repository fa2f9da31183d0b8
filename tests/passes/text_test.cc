// Graphs as text: printing, reading, and the line that an error names.
#include "troupe/text.h"

#include <boost/test/unit_test.hpp>

#include "tests/passes/graphs.h"

namespace troupe {
namespace text_test {

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(what_is_printed_reads_back_equal) {
  const char* kText = R"(
    a = TestFeed[dtype=float32, shape=[2,?]] @/cpu:0
    b/c.d-e = TestFeed[dtype=int64] @/job:a @=/job:a/replica:0/task:0/device:CPU:0
    n = TestNone(^a, ^b/c.d-e)
    sum = TestAdd(a, neg)
    neg = TestNeg[T=float32, scale=2.5](a)
    two = TestSplit(sum)
    many = TestAddN(sum, two, two:1, ^n)
    l = TestList[Tout={float32, resource}](a, b/c.d-e)
    none = TestList[Tout={}]
    attrs = TestAttrs[s="a \"b\"\n", i=-7, f=0.1, b=true, t=complex64, sh=[], ls={"x", ""}, li={1, 2}, lf={1.0, 2.5}, lt={bool}, lsh={[1], <unknown>}, _x=&f[k=1, v=$T], _y=int32[2,2]{1, 2, 3, 4}]
  )";
  auto graph = MustParse(kText);
  const std::string printed = GraphText(*graph);
  BOOST_TEST(GraphText(*MustParse(printed)) == printed);
  // What the inputs determine is not repeated; everything else is as it was written.
  std::string expected = SortedLines(kText);
  expected.replace(expected.find("T=float32, "), 11, "");
  BOOST_TEST(SortedLines(printed) == expected);
  const Node* many = graph->Find("many");
  BOOST_TEST(*many->Attr<int64_t>("N") == 3);
  BOOST_TEST((*many->Attr<DType>("T") == DType::kFloat));
  BOOST_TEST((*graph->Find("l")->Attr<std::vector<DType>>("Tin") == std::vector<DType>{DType::kFloat, DType::kInt64}));
}

BOOST_AUTO_TEST_CASE(tensors_of_every_type) {
  for (const char* text :
       {"float32{1.5}", "float64[2]{0.1, -2}", "float16{0.5}", "bfloat16{-2}", "int8{-8}", "uint8[3]{1, 2, 255}",
        "int16{1}", "uint16{1}", "int32[2,2]{1, 2, 3, 4}", "uint32{4294967295}", "int64{-5}",
        "uint64{18446744073709551615}", "bool[2]{true, false}", "complex64{(1,-2)}", "complex128{(0.5,0)}",
        "string[2]{\"a\", \"b\\n\"}", "float32[0]{}", "float32{inf}", "float32[100,2]{7}"}) {
    auto value = ParseAttrText(text);
    BOOST_REQUIRE_MESSAGE(value.ok(), text << ": " << value.status().ToString());
    BOOST_TEST(AttrText(*value) == text);
  }
  const auto filled = ParseAttrText("int32[3]{9}");
  BOOST_REQUIRE(filled.ok());
  BOOST_TEST(filled->As<Tensor>()->data<int32_t>()[2] == 9);
}

BOOST_AUTO_TEST_CASE(errors_say_the_line) {
  const struct {
    const char *text, *message;
  } kCases[] = {
      {"\n a", "line 2: expected '='"},
      {"a = ", "line 1: expected an op's name"},
      {"a = NoSuchOp", "line 1: there is no op 'NoSuchOp'"},
      {"a = TestNone\na = TestNone", "line 2: there is already a node named 'a'"},
      {"a = TestNone(^b)", "line 1: there is no node 'b'"},
      {"a = TestNone x", "line 1: expected the end of the line"},
      {"a = TestFeed[dtype=float32, dtype=bool]", "line 1: attr 'dtype' is given twice"},
      {"a = TestFeed[dtype=float32]\nb = TestAdd(a)", "line 2: op TestAdd takes 2 inputs, not 1"},
      {"a = TestFeed[dtype=float32]\nb = TestNeg(a:1)", "line 2"},
      {"a = TestAttrs[s=\"x]", "a string does not end"},
      {"a = TestAttrs[_t=int32[3]{1, 2}]", "has 2 values"},
      {"a = TestAttrs[_t=int32{x}]", "'x' is no number"},
      {"a = TestAttrs[_l={1, \"a\"}]", "values of several kinds"},
  };
  for (const auto& c : kCases) {
    auto graph = ParseGraphText(c.text);
    BOOST_REQUIRE_MESSAGE(!graph.ok(), c.text);
    const std::string message(graph.status().message());
    BOOST_TEST(message.find(c.message) != std::string::npos, c.text << ": " << message);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace text_test
}  // namespace troupe
