// AudioSummary, AudioSummaryV2: the first sounds of a batch as WAV.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/summary/summary.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

constexpr char kDoc[] =
    "A Summary message with at most `max_outputs` sounds of `tensor` [batch, frames, channels] or [batch, frames] as "
    "WAV of 16 bits; -1 to 1 is the range of a sample.";

TROUPE_OP("AudioSummaryV2")
    .Input("tag: string")
    .Input("tensor: float")
    .Input("sample_rate: float")
    .Output("summary: string")
    .Attr("max_outputs: int >= 1 = 3")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc(kDoc);

TROUPE_OP("AudioSummary")
    .Input("tag: string")
    .Input("tensor: float")
    .Output("summary: string")
    .Attr("sample_rate: float")
    .Attr("max_outputs: int >= 1 = 3")
    .Shape(shape_fn::Scalar)
    .Deprecated(15, "Use AudioSummaryV2.")
    .NotDifferentiable(kWhyNoGradient)
    .Doc(kDoc);

void PutInteger(uint32_t v, int bytes, std::string* to) {
  for (int i = 0; i < bytes; ++i) to->push_back(static_cast<char>(v >> (8 * i) & 0xff));
}

// RIFF: a head of 44 bytes, then the samples, frame by frame.
std::string EncodeWav(const float* samples, int64_t frames, int64_t channels, uint32_t rate) {
  constexpr int kBytes = 2;
  const auto data = static_cast<uint32_t>(frames * channels * kBytes);
  const auto frame = static_cast<uint32_t>(channels * kBytes);
  std::string wav;
  wav.reserve(44 + data);
  wav += "RIFF";
  PutInteger(36 + data, 4, &wav);
  wav += "WAVEfmt ";
  PutInteger(16, 4, &wav);  // bytes of this part
  PutInteger(1, 2, &wav);   // plain samples
  PutInteger(static_cast<uint32_t>(channels), 2, &wav);
  PutInteger(rate, 4, &wav);
  PutInteger(rate * frame, 4, &wav);
  PutInteger(frame, 2, &wav);
  PutInteger(8 * kBytes, 2, &wav);
  wav += "data";
  PutInteger(data, 4, &wav);
  for (int64_t i = 0; i < frames * channels; ++i) {
    const float scaled = std::round(samples[i] * 32768.0f);
    const float sample = std::isnan(scaled) ? 0.0f : std::clamp(scaled, -32768.0f, 32767.0f);
    PutInteger(static_cast<uint32_t>(static_cast<int32_t>(sample)), kBytes, &wav);
  }
  return wav;
}

class AudioSummaryKernel {
 public:
  explicit AudioSummaryKernel(KernelInit& init) : most_(init.Attr<int64_t>("max_outputs")) {
    if (init.num_inputs() == 2) rate_ = init.Attr<float>("sample_rate");
  }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string tag, ScalarString(ctx, 0, "tag"));
    const Tensor& t = ctx.input(1);
    if (t.rank() != 2 && t.rank() != 3) {
      return InvalidArgument("tensor must have 2 or 3 dimensions, but has shape ", t.shape().DebugString());
    }
    float rate = rate_;
    if (ctx.num_inputs() == 3) {
      const Tensor& given = ctx.input(2);
      if (given.num_elements() != 1) {
        return InvalidArgument("sample_rate must be a scalar, but has shape ", given.shape().DebugString());
      }
      rate = given.data<float>()[0];
    }
    constexpr float kMostRate = 4294967040.0f;  // the greatest float32 below 2^32
    if (!(rate > 0) || rate > kMostRate) return InvalidArgument("sample_rate must be above 0, but is ", rate);
    const int64_t frames = t.dim(1), channels = t.rank() == 2 ? 1 : t.dim(2);
    if (t.dim(0) > 0 && (frames < 1 || channels < 1)) {
      return InvalidArgument("sounds of shape ", t.shape().DebugString(), " have no samples");
    }
    constexpr int64_t kMostBytes = std::numeric_limits<int32_t>::max() - 64;
    if (t.dim(0) > 0 && (channels > 32767 || frames > kMostBytes / (2 * channels))) {
      return InvalidArgument("sounds of shape ", t.shape().DebugString(), " do not fit into WAV files");
    }
    proto::Summary summary;
    for (int64_t i = 0; i < std::min(most_, t.dim(0)); ++i) {
      proto::Summary::Value* const value = summary.add_value();
      value->set_tag(NumberedTag(tag, "audio", i, most_));
      proto::Summary::Audio* const audio = value->mutable_audio();
      audio->set_sample_rate(rate);
      audio->set_num_channels(channels);
      audio->set_length_frames(frames);
      audio->set_content_type("audio/wav");
      audio->set_encoded_audio_string(
          EncodeWav(t.data<float>() + i * frames * channels, frames, channels, static_cast<uint32_t>(rate)));
    }
    return SetSummary(ctx, summary);
  }

 private:
  const int64_t most_;
  float rate_ = 0;
};
TROUPE_KERNEL("AudioSummaryV2").Device("CPU").Class<AudioSummaryKernel>();
TROUPE_KERNEL("AudioSummary").Device("CPU").Class<AudioSummaryKernel>();

}  // namespace
}  // namespace troupe::summary
