// The reader of recorded cases, and what counts as the same value.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/cases/same_value.h"
#include "troupe/import_export.h"

namespace troupe::test {
namespace case_file_test {

BOOST_AUTO_TEST_CASE(a_case_has_all_its_parts) {
  const Case c = ParseCase(
      "Op <2,1> n=3 t=float32 s=\"a b|;\\\"\" v={1,2} | float32[2]{1 -inf} ; none ; string[1]{\"x y\\011\"} "
      "| complex64[]{(1,-2)} ; bool[2]{1 0} | uint64[]{18446744073709551615}",
      "here");
  BOOST_TEST(c.op == "Op");
  BOOST_TEST(c.list_sizes == (std::vector<int>{2, 1}), boost::test_tools::per_element());
  BOOST_TEST(GetAttr<int64_t>(c.attrs, "n").value() == 3);
  BOOST_TEST((GetAttr<DType>(c.attrs, "t").value() == DType::kFloat));
  BOOST_TEST(GetAttr<std::string>(c.attrs, "s").value() == "a b|;\"");
  BOOST_TEST(GetAttr<std::vector<int64_t>>(c.attrs, "v").value().size() == 2u);
  BOOST_TEST_REQUIRE(c.inputs.size() == 3u);
  BOOST_TEST(c.inputs[0].data<float>()[1] == -std::numeric_limits<float>::infinity());
  BOOST_TEST(!c.inputs[1].valid());
  BOOST_TEST(c.inputs[2].data<std::string>()[0] == "x y\t");
  BOOST_TEST((c.outputs[0].scalar<std::complex<float>>() == std::complex<float>(1, -2)));
  BOOST_TEST(c.outputs[1].data<bool>()[0]);
  BOOST_TEST(c.grads[0].scalar<uint64_t>() == std::numeric_limits<uint64_t>::max());
  const Tensor made_up = ParseTensor("float32[2,2]{*}");
  BOOST_TEST(made_up.num_elements() == 4);
  BOOST_TEST(made_up.data<float>()[0] != made_up.data<float>()[1]);
  BOOST_TEST(ParseCase("Op | int32[]{1} | \"must be; a|b\"").error == "must be; a|b");
}

BOOST_AUTO_TEST_CASE(a_node_has_all_its_words) {
  const proto::NodeDef n =
      ParseNode("a/b AddV2 x y:1 ^c @/device:CPU:1 T=float32 v=float32[2]{1,2.5} _class={\"loc:@v\"}");
  BOOST_TEST(n.name() == "a/b");
  BOOST_TEST(n.op() == "AddV2");
  BOOST_TEST(n.input_size() == 3);
  BOOST_TEST(n.device() == "/device:CPU:1");
  BOOST_TEST(n.attr().at("_class").list().s(0) == "loc:@v");
  const auto v = AttrFromProto(n.attr().at("v"));
  BOOST_TEST_REQUIRE(v.ok());
  BOOST_TEST(v->As<Tensor>()->DebugString() == "float32 [2] [1 2.5]");
}

BOOST_AUTO_TEST_CASE(what_has_another_form_is_refused) {
  const auto refused = [](const char* text, const char* what) {
    BOOST_CHECK_EXCEPTION(ParseCase(text, "file:3"), std::runtime_error, [&](const std::exception& e) {
      BOOST_TEST(std::string(e.what()).find("file:3: ") == 0u, e.what());
      BOOST_TEST(std::string(e.what()).find(what) != std::string::npos, e.what());
      return true;
    });
  };
  refused("Op | float32[2]{1}", "no number");
  refused("Op | float32[2]{1 2 3}", "more elements");
  refused("Op | float32[2]{1 x}", "no number");
  refused("Op | int32[1]{}", "no integer");
  refused("Op | string[2]{\"a\"}", "too few strings");
  refused("Op | string[1]{\"a", "no tensor");
  refused("Op | 3", "no tensor");
  refused("Op | | | | ", "too many parts");
  refused("Op word | int32[]{1}", "neither <sizes> nor an attr");
  refused("Op a=[ | int32[]{1}", "is no number");
  BOOST_CHECK_THROW(ReadLines("values/nothing.txt"), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(a_wrong_value_is_told) {
  const Tensor one = Tensor::Vector<float>({1, 1000}), near = Tensor::Vector<float>({1.000001f, 1000}),
               off = Tensor::Vector<float>({1, 1000.01f});
  BOOST_TEST(WrongOutput("Op", one, one) == "");
  BOOST_TEST(WrongOutput("Op", near, one) == "");
  BOOST_TEST(WrongOutput("Op", near, one, 0) != "");
  BOOST_TEST(WrongOutput("Op", off, one).find("element 1") == 0u);
  BOOST_TEST(WrongOutput("Op", off, one, 1e-4) == "");
  BOOST_TEST(WrongOutput("Op", Tensor::Scalar(1.0f), one) != "");
  BOOST_TEST(WrongOutput("Op", Tensor::Vector<double>({1, 1000}), one) != "");
  BOOST_TEST(WrongOutput("Op", Tensor(), one) == "no value");
  BOOST_TEST(WrongOutput("Op", one, Tensor()) == "");
  BOOST_TEST(WrongOutput("Op", Tensor::Scalar<int32_t>(1), Tensor::Scalar<int32_t>(2), 10) != "");
  BOOST_TEST(WrongOutput("Op", Tensor::Scalar<std::string>("a"), Tensor::Scalar<std::string>("b")) != "");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST(WrongOutput("Op", Tensor::Scalar(nan), Tensor::Scalar(nan)) == "");
  BOOST_TEST(WrongOutput("Op", Tensor::Scalar(0.0f), Tensor::Scalar(nan)) != "");
  Case c;
  c.outputs = {one, one};
  BOOST_TEST(WrongOutputs(c, std::vector<Tensor>{one}) == "1 outputs instead of 2");
  BOOST_TEST(WrongOutputs(c, std::vector<Tensor>{one, off}).find("output 1: element 1") == 0u);
}

}  // namespace case_file_test
}  // namespace troupe::test
