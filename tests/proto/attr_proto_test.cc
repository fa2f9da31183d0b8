// Attributes and shapes on the wire.
#include <boost/test/unit_test.hpp>

#include <google/protobuf/text_format.h>

#include "troupe/import_export.h"
#include "troupe/proto/attr_value.pb.h"
#include "troupe/proto/tensor_shape.pb.h"

namespace troupe {
namespace attr_proto_test {

absl::StatusOr<AttrValue> Read(const std::string& text) {
  proto::AttrValue p;
  BOOST_REQUIRE_MESSAGE(google::protobuf::TextFormat::ParseFromString(text, &p), text);
  return AttrFromProto(p);
}

BOOST_AUTO_TEST_CASE(every_kind_is_read_and_written_back) {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"s: 'abc'", "string"},
      {"s: ''", "string"},
      {"i: -5", "int"},
      {"i: 0", "int"},
      {"f: 1.5", "float"},
      {"b: false", "bool"},
      {"type: DT_FLOAT", "type"},
      {"type: DT_INT32_REF", "type"},
      {"shape { dim { size: 2 } dim { size: -1 } }", "shape"},
      {"shape { unknown_rank: true }", "shape"},
      {"shape { }", "shape"},
      {"tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: 1 int_val: 2 }", "tensor"},
      {"func { name: 'f' attr { key: 'T' value { type: DT_FLOAT } } attr { key: 'n' value { i: 3 } } }", "func"},
      {"func { name: 'f' attr { key: 'g' value { func { name: 'h' } } } }", "func"},
      {"placeholder: 'T'", "placeholder"},
      {"list { }", "list"},
      {"list { s: 'a' s: '' }", "list(string)"},
      {"list { i: 1 i: 2 }", "list(int)"},
      {"list { f: 0.5 }", "list(float)"},
      {"list { b: true b: false }", "list(bool)"},
      {"list { type: DT_FLOAT type: DT_STRING }", "list(type)"},
      {"list { shape { dim { size: 1 } } shape { unknown_rank: true } }", "list(shape)"},
      {"list { tensor { dtype: DT_INT32 tensor_shape { } int_val: 1 } }", "list(tensor)"},
      {"list { func { name: 'f' } func { name: 'g' } }", "list(func)"},
      {"", ""},
  };
  for (const auto& [text, kind] : kinds) {
    const absl::StatusOr<AttrValue> v = Read(text);
    BOOST_TEST_REQUIRE(v.ok(), text << ": " << v.status().message());
    BOOST_TEST(v->Kind() == kind, text);
    proto::AttrValue p, want;
    AttrToProto(*v, &p);
    google::protobuf::TextFormat::ParseFromString(text, &want);
    BOOST_TEST(p.DebugString() == want.DebugString(), text << " became " << p.ShortDebugString());
    BOOST_TEST((*AttrFromProto(p) == *v), text);
  }
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_said) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"type: DT_FLOAT8_E5M2", "element type DT_FLOAT8_E5M2 is not supported"},
      {"type: 77", "element type 77 is not supported"},
      {"type: -3", "element type -3 is not supported"},
      {"type: 100", "element type 100 is not supported"},
      {"type: 357", "element type 357 is not supported"},
      {"list { type: DT_FLOAT type: DT_INT4 }", "element type DT_INT4 is not supported"},
      {"list { i: 1 s: 'a' }", "the list has values of 2 kinds"},
      {"shape { dim { size: -2 } }", "dimension -2 is negative"},
      {"list { shape { dim { size: -7 } } }", "dimension -7 is negative"},
      {"tensor { }", "a tensor cannot be of type DT_INVALID"},
      {"func { name: 'f' attr { key: 'T' value { type: 77 } } }",
       "attr 'T' of function 'f': element type 77 is not supported"},
  };
  for (const auto& [text, message] : wrong) {
    proto::AttrValue p;
    google::protobuf::TextFormat::Parser parser;
    if (!parser.ParseFromString(text, &p)) {  // text form refuses unknown enum numbers that the binary form carries
      const size_t at = text.find("type: ");
      const int number = std::stoi(text.substr(at + 6));
      if (text.starts_with("func")) {
        (*p.mutable_func()->mutable_attr())["T"].set_type(static_cast<proto::DataType>(number));
        p.mutable_func()->set_name("f");
      } else {
        p.set_type(static_cast<proto::DataType>(number));
      }
    }
    const absl::StatusOr<AttrValue> v = AttrFromProto(p);
    BOOST_TEST_REQUIRE(!v.ok(), text);
    BOOST_TEST(v.status().message() == message, text << ": " << v.status().message());
    BOOST_TEST((v.status().code() == absl::StatusCode::kInvalidArgument));
  }
}

BOOST_AUTO_TEST_CASE(shapes_round_trip) {
  for (const PartialTensorShape& s : {PartialTensorShape(), PartialTensorShape({}), PartialTensorShape({0}),
                                      PartialTensorShape({-1, 3, -1}), PartialTensorShape({int64_t{1} << 40, 2})}) {
    proto::TensorShapeProto p;
    ShapeToProto(s, &p);
    const auto back = ShapeFromProto(p);
    BOOST_TEST_REQUIRE(back.ok());
    BOOST_TEST((*back == s), s.DebugString());
  }
}

BOOST_AUTO_TEST_CASE(a_shape_of_too_many_dimensions_is_refused) {
  proto::TensorShapeProto p;
  for (int i = 0; i < 255; ++i) p.add_dim()->set_size(1);
  BOOST_TEST(ShapeFromProto(p).status().message() == "a shape may have at most 254 dimensions, not 255");
}

}  // namespace attr_proto_test
}  // namespace troupe
