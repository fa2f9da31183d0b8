// Files of pictures and Examples that are cut off, or have a wrong bit: each is read, or refused
// with INVALID_ARGUMENT or DATA_LOSS. The good ones are the recorded cases.
#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/cases/case_file.h"
#include "troupe/evaluate.h"

namespace troupe::test {
namespace damage_test {

struct Tally {
  int read = 0, refused = 0;
};

void Check(const Case& c, const std::vector<Tensor>& inputs, const std::string& what, Tally* tally) {
  const auto got = EvaluateOp(c.op, inputs, c.attrs, c.list_sizes);
  if (got.ok()) {
    ++tally->read;
  } else if (absl::IsInvalidArgument(got.status()) || absl::IsDataLoss(got.status())) {
    ++tally->refused;
  } else {
    BOOST_TEST_MESSAGE(c.where << ", " << what);
    BOOST_TEST(got.status().ToString() == "");
  }
}

// Input 0 with text `i` replaced.
std::vector<Tensor> With(const Case& c, int64_t i, std::string text) {
  std::vector<Tensor> inputs = c.inputs;
  inputs[0] = inputs[0].Clone();
  inputs[0].data<std::string>()[i] = std::move(text);
  return inputs;
}

// The texts of input 0 of the cases of `file`, each op and text once.
template <class F>
void EachText(const std::string& file, const F& f) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Case& c : ReadCases(file)) {
    if (c.inputs.empty() || c.inputs[0].dtype() != DType::kString) continue;
    for (int64_t i = 0; i < c.inputs[0].num_elements(); ++i) {
      const std::string& text = c.inputs[0].data<std::string>()[i];
      if (!text.empty() && seen.emplace(c.op, text).second) f(c, i, text);
    }
  }
}

void CutOff(const std::string& file) {
  Tally tally;
  EachText(file, [&](const Case& c, int64_t i, const std::string& text) {
    const size_t step = std::max<size_t>(text.size() / 40, 1);
    for (size_t n = 0; n < text.size(); n += step)
      Check(c, With(c, i, text.substr(0, n)), StrCat("cut to ", n), &tally);
  });
  BOOST_TEST(tally.refused > 100);
}

void WrongBits(const std::string& file) {
  Tally tally;
  uint32_t bit = 0;
  EachText(file, [&](const Case& c, int64_t i, const std::string& text) {
    const size_t step = std::max<size_t>(text.size() / 60, 1);
    for (size_t n = 0; n < text.size(); n += step) {
      std::string wrong = text;
      bit = bit * 5 + 3;
      wrong[n] = static_cast<char>(wrong[n] ^ (1 << (bit >> 7 & 7)));
      Check(c, With(c, i, wrong), StrCat("bit of byte ", n), &tally);
    }
  });
  BOOST_TEST(tally.refused > 100);
  BOOST_TEST(tally.read > 0);
}

BOOST_AUTO_TEST_CASE(pictures_that_are_cut_off_are_refused) { CutOff("values/image_files.txt"); }
BOOST_AUTO_TEST_CASE(pictures_with_a_wrong_bit_are_read_or_refused) { WrongBits("values/image_files.txt"); }
BOOST_AUTO_TEST_CASE(examples_that_are_cut_off_are_refused) { CutOff("values/parse_examples.txt"); }
BOOST_AUTO_TEST_CASE(examples_with_a_wrong_bit_are_read_or_refused) { WrongBits("values/parse_examples.txt"); }

absl::Status Decode(const char* op, std::string bytes) {
  return EvaluateOp(op, {Tensor::Scalar(std::move(bytes))}).status();
}
bool Refuses(const absl::Status& s, const char* why) {
  return absl::IsInvalidArgument(s) && s.message().find(why) != std::string::npos;
}
std::string Little(uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i, v >>= 8) s += static_cast<char>(v);
  return s;
}

BOOST_AUTO_TEST_CASE(what_a_header_claims_is_not_allocated) {
  const std::string png(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x02\0\0\0\x17\xdd\x7d\x33\0\0\0\0IDAT", 41);
  const absl::Status huge = Decode("DecodePng", png);
  BOOST_TEST(absl::IsInvalidArgument(huge), huge);
  const std::string jpeg(
      "\xff\xd8\xff\xc0\0\x11\x08\xff\xdc\xff\xdc\x03\x01\x22\0\x02\x11\x01\x03\x11\x01\xff\xda\0\x0c\x03"
      "\x01\0\x02\x11\x03\x11\0\x3f\0",
      35);
  BOOST_TEST(Refuses(Decode("DecodeJpeg", jpeg), "claims"), Decode("DecodeJpeg", jpeg));
  const std::string gif = "GIF89a" + Little(0xffff, 2) + Little(0xffff, 2) +
                          std::string("\x80\0\0\0\0\0\xff\xff\xff", 9) + "\x2c" + Little(0, 4) + Little(0xffff, 2) +
                          Little(0xffff, 2) + std::string("\0\x02\x01\0\0\x3b", 6);
  BOOST_TEST(Refuses(Decode("DecodeGif", gif), "claims"), Decode("DecodeGif", gif));
  const std::string bmp = "BM" + Little(0, 8) + Little(54, 4) + Little(40, 4) + Little(0x7fffffff, 4) +
                          Little(0x80000000, 4) + Little(1, 2) + Little(24, 2) + std::string(24, '\0');
  BOOST_TEST(Refuses(Decode("DecodeBmp", bmp), "claims"), Decode("DecodeBmp", bmp));
}

BOOST_AUTO_TEST_CASE(an_error_in_an_example_names_example_feature_and_byte) {
  // Example {feature 'age': int64_list, whose values end in the middle of a number}
  const std::string list = "\x0a\x02\x81\x82", feature = "\x1a\x04" + list;
  const std::string entry =
      "\x0a\x03"
      "age"
      "\x12" +
      Little(feature.size(), 1) + feature;
  const std::string features = "\x0a" + Little(entry.size(), 1) + entry;
  const std::string bytes = "\x0a" + Little(features.size(), 1) + features;
  const AttrMap attrs = {{"sparse_types", std::vector<DType>{}},
                         {"dense_shapes", std::vector<PartialTensorShape>{PartialTensorShape(TensorShape())}}};
  const Tensor none(DType::kInt64, TensorShape({0}));
  const auto got = EvaluateOp(
      "ParseExample",
      {Tensor::Vector<std::string>({"", bytes}), Tensor::Vector<std::string>({"a", "b"}), Tensor::Scalar("age"), none},
      attrs, {0, 1, 1});
  BOOST_TEST(Refuses(got.status(), "Example 0 'a', feature 'age'"), got.status());
  const auto damaged = EvaluateOp(
      "ParseExample",
      {Tensor::Vector<std::string>({bytes}), Tensor(DType::kString, TensorShape({0})), Tensor::Scalar("age"), none},
      attrs, {0, 1, 1});
  BOOST_TEST(Refuses(damaged.status(), "feature 'age': the bytes are damaged at byte 15 of 17"), damaged.status());
}

}  // namespace damage_test
}  // namespace troupe::test
