// Every encoding of TensorProto, in both directions.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include <google/protobuf/text_format.h>

#include "troupe/import_export.h"
#include "troupe/proto/tensor.pb.h"
#include "troupe/resource.h"

namespace troupe {
namespace tensor_proto_test {

proto::TensorProto Parse(const std::string& text) {
  proto::TensorProto p;
  BOOST_REQUIRE_MESSAGE(google::protobuf::TextFormat::ParseFromString(text, &p), text);
  return p;
}

// What TensorFromProto makes of a proto in text form, printed; or the message of its error.
std::string Read(const std::string& text) {
  const absl::StatusOr<Tensor> t = TensorFromProto(Parse(text));
  return t.ok() ? t->DebugString(100) : std::string(t.status().message());
}

std::string Shape(const std::string& dims) {
  std::string s = " tensor_shape {";
  for (const std::string& d : StrSplit(dims, ',')) {
    if (!d.empty()) StrAppend(&s, " dim { size: ", d, " }");
  }
  return s + " } ";
}

struct Case {
  std::string text, shown;
};
const std::vector<Case> kCases = {
    // One list for each type.
    {"dtype: DT_FLOAT" + Shape("3") + "float_val: [1, 2.5, -3]", "float32 [3] [1 2.5 -3]"},
    {"dtype: DT_DOUBLE" + Shape("2") + "double_val: [1e300, -0.1]", "float64 [2] [1e+300 -0.1]"},
    {"dtype: DT_INT32" + Shape("2,2") + "int_val: [1, 2, 3, -4]", "int32 [2,2] [1 2 3 -4]"},
    {"dtype: DT_INT16" + Shape("2") + "int_val: [-32768, 32767]", "int16 [2] [-32768 32767]"},
    {"dtype: DT_INT8" + Shape("2") + "int_val: [-128, 127]", "int8 [2] [-128 127]"},
    {"dtype: DT_UINT8" + Shape("2") + "int_val: [0, 255]", "uint8 [2] [0 255]"},
    {"dtype: DT_UINT16" + Shape("2") + "int_val: [0, 65535]", "uint16 [2] [0 65535]"},
    {"dtype: DT_UINT32" + Shape("2") + "uint32_val: [0, 4294967295]", "uint32 [2] [0 4294967295]"},
    {"dtype: DT_UINT64" + Shape("1") + "uint64_val: 18446744073709551615", "uint64 [1] [18446744073709551615]"},
    {"dtype: DT_INT64" + Shape("2") + "int64_val: [-9223372036854775808, 5]", "int64 [2] [-9223372036854775808 5]"},
    {"dtype: DT_BOOL" + Shape("2") + "bool_val: [true, false]", "bool [2] [true false]"},
    {"dtype: DT_STRING" + Shape("2") + "string_val: ['ab', '\\001']", "string [2] [\"ab\" \"\\001\"]"},
    {"dtype: DT_COMPLEX64" + Shape("2") + "scomplex_val: [1, 2, 3, -4]", "complex64 [2] [(1,2) (3,-4)]"},
    {"dtype: DT_COMPLEX128" + Shape("1") + "dcomplex_val: [1, 0.5]", "complex128 [1] [(1,0.5)]"},
    {"dtype: DT_HALF" + Shape("3") + "half_val: [15360, 49152, 31744]", "float16 [3] [1 -2 inf]"},
    {"dtype: DT_BFLOAT16" + Shape("2") + "half_val: [16256, 49152]", "bfloat16 [2] [1 -2]"},
    {"dtype: DT_QUINT8" + Shape("2") + "int_val: [0, 255]", "quint8 [2] [? ?]"},
    {"dtype: DT_RESOURCE" + Shape("1") + "resource_handle_val { device: 'd' container: 'c' name: 'v' }",
     "resource [1] [v]"},
    // Scalars, no elements, shapes.
    {"dtype: DT_FLOAT float_val: 7", "float32 [] [7]"},
    {"dtype: DT_FLOAT" + Shape("0"), "float32 [0] []"},
    {"dtype: DT_STRING" + Shape("3,0"), "string [3,0] []"},
    {"dtype: DT_VARIANT" + Shape("0"), "variant [0] []"},
    {"dtype: DT_INT32" + Shape("1,1,1,1,1,1,2") + "int_val: [4, 5]", "int32 [1,1,1,1,1,1,2] [4 5]"},
    // Repetition of the last value; none at all means zeros.
    {"dtype: DT_INT32" + Shape("5") + "int_val: [1, 2]", "int32 [5] [1 2 2 2 2]"},
    {"dtype: DT_FLOAT" + Shape("2,2") + "float_val: 3", "float32 [2,2] [3 3 3 3]"},
    {"dtype: DT_FLOAT" + Shape("2"), "float32 [2] [0 0]"},
    {"dtype: DT_COMPLEX64" + Shape("3") + "scomplex_val: [1, 2]", "complex64 [3] [(1,2) (1,2) (1,2)]"},
    {"dtype: DT_STRING" + Shape("3") + "string_val: ['a', 'b']", "string [3] [\"a\" \"b\" \"b\"]"},
    {"dtype: DT_STRING" + Shape("2"), "string [2] [\"\" \"\"]"},
    {"dtype: DT_HALF" + Shape("2") + "half_val: 15360", "float16 [2] [1 1]"},
    {"dtype: DT_BOOL" + Shape("3") + "bool_val: true", "bool [3] [true true true]"},
    // Bytes.
    {"dtype: DT_INT32" + Shape("2") + "tensor_content: '\\001\\000\\000\\000\\377\\377\\377\\377'", "int32 [2] [1 -1]"},
    {"dtype: DT_HALF" + Shape("1") + "tensor_content: '\\000\\074'", "float16 [1] [1]"},
    {"dtype: DT_BOOL" + Shape("3") + "tensor_content: '\\000\\001\\377'", "bool [3] [false true true]"},
    {"dtype: DT_STRING" + Shape("3") + "tensor_content: '\\002\\000\\001abc'", "string [3] [\"ab\" \"\" \"c\"]"},
    {"dtype: DT_COMPLEX64 tensor_content: '\\000\\000\\200\\077\\000\\000\\000\\000'", "complex64 [] [(1,0)]"},
    // What must be refused.
    {"", "a tensor cannot be of type DT_INVALID"},
    {"dtype: DT_FLOAT_REF", "a tensor cannot be of type DT_FLOAT_REF"},
    {"dtype: DT_INT4", "a tensor cannot be of type DT_INT4"},
    {"dtype: DT_FLOAT tensor_shape { unknown_rank: true }", "the tensor's shape <unknown> is not fully known"},
    {"dtype: DT_FLOAT tensor_shape { unknown_rank: true dim { size: 1 } }", "a shape of unknown rank has 1 dimensions"},
    {"dtype: DT_FLOAT" + Shape("2,-1"), "the tensor's shape [2,?] is not fully known"},
    {"dtype: DT_FLOAT" + Shape("-2"), "dimension -2 is negative"},
    {"dtype: DT_FLOAT" + Shape("4294967296,4294967296,4294967296"), "the number of elements does not fit into 64 bits"},
    {"dtype: DT_FLOAT" + Shape("4611686018427387904,4,0"), "the number of elements does not fit into 64 bits"},
    {"dtype: DT_FLOAT" + Shape("2") + "float_val: [1, 2, 3]",
     "float_val has 3 values, more than the 2 elements of float32 [2]"},
    {"dtype: DT_COMPLEX64" + Shape("2") + "scomplex_val: [1, 2, 3]",
     "scomplex_val has 3 numbers, but a complex64 element takes 2"},
    {"dtype: DT_FLOAT" + Shape("2") + "int_val: [1, 2]",
     "the values of float32 [2] must stand in float_val, but it is empty and another list is not"},
    {"dtype: DT_FLOAT" + Shape("2") + "tensor_content: 'abc'", "tensor_content has 3 bytes, but float32 [2] takes 8"},
    {"dtype: DT_COMPLEX128" + Shape("1152921504606846976") + "tensor_content: 'abc'",
     "tensor_content has 3 bytes, but complex128 [1152921504606846976] takes more than can be counted"},
    {"dtype: DT_RESOURCE tensor_content: 'abc'", "a resource tensor cannot be read from tensor_content"},
    {"dtype: DT_VARIANT variant_val { type_name: 'x' }", "values of type variant cannot be read from a tensor"},
    {"dtype: DT_STRING" + Shape("9") + "tensor_content: 'abc'", "tensor_content of 3 bytes cannot hold 9 strings"},
    {"dtype: DT_STRING" + Shape("2") + "tensor_content: '\\001\\005a'", "string 1 goes past the end of tensor_content"},
    {"dtype: DT_STRING" + Shape("1") + "tensor_content: '\\200\\200\\200'",
     "tensor_content has a damaged length of string 0"},
    {"dtype: DT_STRING" + Shape("1") + "tensor_content: '\\001abc'",
     "tensor_content has 4 bytes, but its strings take 2"},
    // A few bytes must not ask for gigabytes.
    {"dtype: DT_FLOAT" + Shape("1000000000000") + "float_val: 1",
     "float_val has 1 values for float32 [1000000000000]: repeating the last one would take more than 2^31 bytes"},
    {"dtype: DT_FLOAT" + Shape("536870913"),
     "float_val has 0 values for float32 [536870913]: repeating the last one would take more than 2^31 bytes"},
    {"dtype: DT_STRING" + Shape("1000000000") + "string_val: ''",
     "string_val has 1 values for string [1000000000]: repeating the last one would take more than 2^31 bytes"},
};

BOOST_AUTO_TEST_CASE(every_encoding_is_read_or_refused_with_a_sentence) {
  for (const Case& c : kCases)
    BOOST_TEST(Read(c.text) == c.shown, c.text << "\n gives " << Read(c.text) << "\n not   " << c.shown);
}

Tensor RoundTrip(const Tensor& t) {
  proto::TensorProto p;
  TensorToProto(t, &p);
  proto::TensorProto binary, text;
  BOOST_REQUIRE(binary.ParseFromString(p.SerializeAsString()));
  std::string printed;
  BOOST_REQUIRE(google::protobuf::TextFormat::PrintToString(p, &printed));
  BOOST_REQUIRE(google::protobuf::TextFormat::ParseFromString(printed, &text));
  BOOST_TEST(binary.SerializeAsString() == p.SerializeAsString());
  // Text form knows only one NaN.
  if (printed.find("nan") == std::string::npos) BOOST_TEST(text.SerializeAsString() == p.SerializeAsString());
  absl::StatusOr<Tensor> back = TensorFromProto(binary);
  BOOST_REQUIRE_MESSAGE(back.ok(), t.TypeAndShape() << ": " << back.status().message());
  return *back;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.SameShape(b) && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

BOOST_AUTO_TEST_CASE(plain_tensors_come_back_bit_by_bit) {
  for (int d = 1; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (!IsPlainBytes(dtype)) continue;
    for (const TensorShape& shape : {TensorShape(), TensorShape({0}), TensorShape({1}), TensorShape({2, 3}),
                                     TensorShape({2, 0, 3}), TensorShape({1, 1, 2, 1, 1, 1, 9}), TensorShape({1000})}) {
      for (int variant = 0; variant < 3; ++variant) {
        Tensor t(dtype, shape);
        auto* bytes = static_cast<uint8_t*>(t.raw());
        // All bits in turn; all equal; equal after a few.
        for (size_t i = 0; i < t.bytes(); ++i) {
          const size_t element = i / SizeOf(dtype);
          const uint8_t b = variant == 0 ? i * 37 + 11 : variant == 1 ? 0xbd : element < 3 ? i * 5 + 1 : 7;
          bytes[i] = dtype == DType::kBool ? b & 1 : b;
        }
        BOOST_TEST(SameBytes(RoundTrip(t), t), t.TypeAndShape() << " " << variant);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(negative_zero_and_nan_keep_their_bits) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor t = Tensor::Vector<float>({0.0f, -0.0f, nan, -nan, 0.0f, -0.0f});
  BOOST_TEST(SameBytes(RoundTrip(t), t));
  const Tensor h = Tensor::Of<Half>({Half::FromBits(0x8000), Half::FromBits(0x0000), Half::FromBits(0x7e01)}, {3});
  BOOST_TEST(SameBytes(RoundTrip(h), h));
}

BOOST_AUTO_TEST_CASE(strings_of_any_bytes_come_back) {
  Tensor t(DType::kString, TensorShape({2, 2}));
  t.data<std::string>()[0] = std::string("\0\xff zero", 7);
  t.data<std::string>()[1] = "";
  t.data<std::string>()[2] = std::string(100000, 'x');
  t.data<std::string>()[3] = "last";
  const Tensor back = RoundTrip(t);
  BOOST_TEST((back.dtype() == DType::kString));
  for (int i = 0; i < 4; ++i) BOOST_TEST((back.data<std::string>()[i] == t.data<std::string>()[i]), i);
}

BOOST_AUTO_TEST_CASE(few_values_are_written_as_a_list_and_many_as_bytes) {
  proto::TensorProto p;
  TensorToProto(Tensor::Vector<float>({1, 2, 3}), &p);
  BOOST_TEST(p.float_val_size() == 3);
  Tensor ones(DType::kFloat, TensorShape({1000}));
  std::fill_n(ones.data<float>(), 1000, 1.0f);
  TensorToProto(ones, &p);
  BOOST_TEST(p.float_val_size() == 1);
  BOOST_TEST(p.tensor_content().empty());
  for (int i = 0; i < 1000; ++i) ones.data<float>()[i] = static_cast<float>(i);
  TensorToProto(ones, &p);
  BOOST_TEST(p.float_val_size() == 0);
  BOOST_TEST(p.tensor_content().size() == 4000u);
}

BOOST_AUTO_TEST_CASE(a_handle_keeps_its_name_and_loses_its_object) {
  Tensor t(DType::kResource, TensorShape());
  *t.data<ResourceHandle>() = ResourceHandle("/device:CPU:0", "box", "w", nullptr);
  const Tensor back = RoundTrip(t);
  BOOST_TEST(back.scalar<ResourceHandle>().name() == "w");
  BOOST_TEST(back.scalar<ResourceHandle>().container() == "box");
  BOOST_TEST(back.scalar<ResourceHandle>().device() == "/device:CPU:0");
  BOOST_TEST((back.scalar<ResourceHandle>().object() == nullptr));
}

}  // namespace tensor_proto_test
}  // namespace troupe
