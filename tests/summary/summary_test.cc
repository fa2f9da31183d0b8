// Summary ops beside their recorded cases (tests/cases/values/summary.txt): what they refuse, names
// of nodes, images pixel by pixel, and a merge in a session.
#include <boost/test/unit_test.hpp>

#include <png.h>

#include "tests/cases/case_file.h"
#include "troupe/evaluate.h"
#include "troupe/proto/summary.pb.h"
#include "troupe/proto/tensor.pb.h"
#include "troupe/troupe.h"

namespace troupe {
namespace summary_test {

proto::Summary Parse(const Tensor& t) {
  BOOST_REQUIRE(t.dtype() == DType::kString);
  BOOST_REQUIRE(t.rank() == 0);
  proto::Summary summary;
  BOOST_REQUIRE(summary.ParseFromString(t.scalar<std::string>()));
  return summary;
}

std::vector<uint8_t> Decode(const std::string& png, const TensorShape& shape) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  BOOST_REQUIRE(png_image_begin_read_from_memory(&image, png.data(), png.size()) != 0);
  BOOST_TEST(image.height == static_cast<uint32_t>(shape.dim(0)));
  BOOST_TEST(image.width == static_cast<uint32_t>(shape.dim(1)));
  // The channels that are in the file.
  const uint32_t format = image.format & (PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA);
  BOOST_TEST(PNG_IMAGE_PIXEL_CHANNELS(format) == static_cast<uint32_t>(shape.dim(2)));
  image.format = format;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  BOOST_REQUIRE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr) != 0);
  return pixels;
}

BOOST_AUTO_TEST_CASE(images_have_the_pixels_that_tensorflow_gives_them) {
  int cases = 0, images = 0;
  for (const test::Case& c : test::ReadCases("images/summaries.txt")) {
    const auto out = EvaluateOp("ImageSummary", c.inputs, c.attrs);
    BOOST_REQUIRE_MESSAGE(out.ok(), c.where << ": " << out.status());
    const proto::Summary summary = Parse((*out)[0]);
    const Tensor& tags = c.outputs[0];
    BOOST_REQUIRE_EQUAL(summary.value_size(), tags.num_elements());
    for (int i = 0; i < summary.value_size(); ++i) {
      const proto::Summary::Value& value = summary.value(i);
      const Tensor& want = c.outputs[static_cast<size_t>(i + 1)];
      BOOST_TEST(value.tag() == tags.data<std::string>()[i], c.where);
      BOOST_TEST(value.image().height() == want.dim(0));
      BOOST_TEST(value.image().width() == want.dim(1));
      BOOST_TEST(value.image().colorspace() == want.dim(2));
      const std::vector<uint8_t> pixels = Decode(value.image().encoded_image_string(), want.shape());
      BOOST_TEST_CONTEXT(c.where << ", image " << i) {
        BOOST_CHECK_EQUAL_COLLECTIONS(pixels.begin(), pixels.end(), want.data<uint8_t>(),
                                      want.data<uint8_t>() + want.num_elements());
      }
      ++images;
    }
    ++cases;
  }
  BOOST_TEST(cases > 20);
  BOOST_TEST(images > 40);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_summarized_is_refused) {
  const Tensor tag = Tensor::Scalar("a/tag"), tags = Tensor::Vector<std::string>({"a", "b"});
  const auto refused = [](const char* op, const std::vector<Tensor>& inputs, const char* why, AttrMap attrs = {},
                          std::vector<int> list_sizes = {}) {
    const auto out = EvaluateOp(op, inputs, std::move(attrs), std::move(list_sizes));
    BOOST_TEST(absl::IsInvalidArgument(out.status()), op << ": " << out.status());
    BOOST_TEST(out.status().ToString().find(why) != std::string::npos, out.status());
  };
  refused("ScalarSummary", {tag, Tensor::Vector<float>({1, 2})}, "(tag 'a/tag')");
  refused("ScalarSummary", {tags, Tensor::Vector<float>({1})}, "not the same shape");
  refused("HistogramSummary", {tags, Tensor::Vector<float>({1})}, "tag must be a scalar");
  refused("HistogramSummary", {tag, Tensor::Vector<float>({1, NAN})}, "NaN in the histogram 'a/tag', at element 1");
  refused("HistogramSummary", {tag, Tensor::Scalar(-INFINITY)}, "Infinity in the histogram");
  refused("ImageSummary", {tag, Tensor(DType::kFloat, {1, 2, 2, 2})}, "1, 3 or 4 channels");
  refused("ImageSummary", {tag, Tensor(DType::kFloat, {2, 2, 3})}, "must have 4 dimensions");
  refused("ImageSummary", {tag, Tensor(DType::kFloat, {1, 0, 2, 3})}, "cannot be written as PNG");
  refused("ImageSummary", {tag, Tensor(DType::kUint8, {1, 1, 1, 3})}, "bad_color has 1 values for 3 channels",
          {{"bad_color", Tensor::Vector<uint8_t>({1})}});
  refused("ImageSummary", {tag, Tensor(DType::kUint8, {1, 1, 1, 3})}, "bad_color must be a vector of uint8",
          {{"bad_color", Tensor::Vector<float>({1})}});
  const Tensor rate = Tensor::Scalar(8000.0f), sound(DType::kFloat, {1, 4, 2});
  refused("AudioSummaryV2", {tag, Tensor::Vector<float>({1}), rate}, "2 or 3 dimensions");
  refused("AudioSummaryV2", {tag, sound, Tensor::Scalar(0.0f)}, "sample_rate must be above 0");
  refused("AudioSummaryV2", {tag, sound, Tensor::Scalar(NAN)}, "sample_rate must be above 0");
  refused("AudioSummaryV2", {tag, sound, Tensor::Vector<float>({1, 2})}, "sample_rate must be a scalar");
  refused("AudioSummaryV2", {tag, Tensor(DType::kFloat, {1, 0, 2}), rate}, "no samples");
  refused("AudioSummaryV2", {tag, Tensor(DType::kFloat, {1, 1, 40000}), rate}, "do not fit into WAV");
  refused("TensorSummaryV2", {tag, rate, Tensor::Scalar("\xff\xff")}, "no SummaryMetadata");
  refused("TensorSummaryV2", {tags, rate, Tensor::Scalar("")}, "tag must be a scalar");
  refused("MergeSummary", {Tensor::Scalar("\xff\xff")}, "input 0 is no Summary", {}, {1});
  const Tensor one = (*EvaluateOp("ScalarSummary", {tag, rate}))[0];
  refused("MergeSummary", {one, one}, "the tag 'a/tag' is twice", {}, {2});
}

BOOST_AUTO_TEST_CASE(the_first_form_of_audio_gives_the_same) {
  const Tensor sound = Tensor::Of<float>({0, 0.5f, -0.5f, 1, -1, 0.25f}, {1, 3, 2}), tag = Tensor::Scalar("s");
  const auto first = EvaluateOp("AudioSummary", {tag, sound}, {{"sample_rate", 8000.0f}, {"max_outputs", int64_t{1}}});
  const auto second =
      EvaluateOp("AudioSummaryV2", {tag, sound, Tensor::Scalar(8000.0f)}, {{"max_outputs", int64_t{1}}});
  BOOST_REQUIRE_MESSAGE(first.ok(), first.status());
  BOOST_REQUIRE_MESSAGE(second.ok(), second.status());
  BOOST_TEST((*first)[0].scalar<std::string>() == (*second)[0].scalar<std::string>());
  BOOST_TEST(Parse((*first)[0]).value(0).tag() == "s/audio");
}

BOOST_AUTO_TEST_CASE(summaries_of_a_step_are_merged) {
  const Scope root = Scope::NewRootScope();
  const Output x = ops::Placeholder(root.WithOpName("x"), DType::kFloat, {.shape = {-1}});
  const Output loss = ops::ScalarSummary(root, "loss", ops::Mean(root, x));
  const Output spread = ops::HistogramSummary(root, "spread", x);
  const Output whole = ops::TensorSummary(root.WithOpName("layer/whole"), x);
  const Output note = ops::TensorSummaryV2(root, "note", Const(root, "a **note**"), [] {
    proto::SummaryMetadata m;
    m.mutable_plugin_data()->set_plugin_name("text");
    return m.SerializeAsString();
  }());
  const Output all = ops::MergeSummary(root, {loss, spread, whole, note});
  BOOST_REQUIRE_MESSAGE(root.ok(), root.status());
  const auto session = *Session::Create();
  BOOST_REQUIRE(session->Extend(*root.graph()).ok());
  std::vector<Tensor> out;
  const absl::Status s = session->Run({{x, Tensor::Vector<float>({1, 2, 6})}}, {all}, {}, &out);
  BOOST_REQUIRE_MESSAGE(s.ok(), s);
  const proto::Summary summary = Parse(out[0]);
  BOOST_REQUIRE_EQUAL(summary.value_size(), 4);
  BOOST_TEST(summary.value(0).simple_value() == 3.0f);
  BOOST_TEST(summary.value(1).histo().num() == 3);
  BOOST_TEST(summary.value(1).histo().sum() == 9);
  BOOST_TEST(summary.value(1).histo().bucket_size() == summary.value(1).histo().bucket_limit_size());
  BOOST_TEST(summary.value(2).tag().empty());
  BOOST_TEST(summary.value(2).node_name() == "layer/whole");
  BOOST_TEST(summary.value(2).tensor().tensor_content().size() == 12u);
  BOOST_TEST(summary.value(3).tensor().string_val(0) == "a **note**");
  BOOST_TEST(summary.value(3).metadata().plugin_data().plugin_name() == "text");
}

}  // namespace summary_test
}  // namespace troupe
