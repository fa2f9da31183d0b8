// DecodePng, DecodeJpeg, DecodeAndCropJpeg, DecodeGif, DecodeBmp and DecodeImage; ExtractJpegShape.
//
// The ops differ in their attrs and in the shape of what they give, not in what they read: each but
// DecodeBmp and DecodeAndCropJpeg takes any form of file, as TensorFlow's do.
#include <cmath>

#include "kernels/common/op_file.h"
#include "kernels/common/types.h"
#include "kernels/image/codecs.h"

namespace troupe::image {
namespace {

constexpr char kInputIsText[] = "its input is text";

// [height, width, channels], with attr "channels" when it is not 0.
absl::Status PictureShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  TROUPE_ASSIGN_OR_RETURN(const int64_t channels, c.Attr<int64_t>("channels"));
  if (channels < 0) return InvalidArgument("channels must not be negative, but is ", channels);
  c.set_output(0, PartialTensorShape{-1, -1, channels == 0 ? -1 : channels});
  return absl::OkStatus();
}

TROUPE_OP("DecodePng")
    .Input("contents: string")
    .Output("image: dtype")
    .Attr("channels: int = 0")
    .Attr("dtype: {uint8, uint16} = DT_UINT8")
    .Shape(PictureShape)
    .NotDifferentiable(kInputIsText)
    .Doc(
        "The pixels of a PNG (or another picture), [height, width, channels]. channels: 0 for those of the file, 1 for "
        "grey, 2 for grey and alpha, 3 for colours, 4 for colours and alpha.");

TROUPE_OP("DecodeJpeg")
    .Input("contents: string")
    .Output("image: uint8")
    .Attr("channels: int = 0")
    .Attr("ratio: int = 1")
    .Attr("fancy_upscaling: bool = true")
    .Attr("try_recover_truncated: bool = false")
    .Attr("acceptable_fraction: float = 1")
    .Attr("dct_method: string = ''")
    .Shape(PictureShape)
    .NotDifferentiable(kInputIsText)
    .Doc(
        "The pixels of a JPEG (or another picture), [height, width, channels]. ratio (1, 2, 4, 8) divides the size; "
        "try_recover_truncated fills missing rows when acceptable_fraction of all are there; dct_method: "
        "\"INTEGER_ACCURATE\" or \"INTEGER_FAST\".");

TROUPE_OP("DecodeAndCropJpeg")
    .Input("contents: string")
    .Input("crop_window: int32")
    .Output("image: uint8")
    .Attr("channels: int = 0")
    .Attr("ratio: int = 1")
    .Attr("fancy_upscaling: bool = true")
    .Attr("try_recover_truncated: bool = false")
    .Attr("acceptable_fraction: float = 1")
    .Attr("dct_method: string = ''")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(PictureShape(c));
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape window_shape, c.WithRank(1, 1));
      if (window_shape.dim(0) >= 0 && window_shape.dim(0) != 4) {
        return InvalidArgument("crop_window must have 4 elements, but has shape ", window_shape.DebugString());
      }
      PartialTensorShape shape = c.output(0);
      if (const Tensor* window = c.input_tensor(1)) {
        const auto w = window->flat<int32_t>();
        if (w.size() == 4 && w[2] > 0 && w[3] > 0) shape = PartialTensorShape{w[2], w[3], shape.dim(2)};
      }
      c.set_output(0, shape);
      return absl::OkStatus();
    })
    .NotDifferentiable(kInputIsText)
    .Doc(
        "A window [row, column, height, width] of a JPEG's pixels, [height, width, channels], without the rest being "
        "computed. The attrs are those of DecodeJpeg; the window is counted after the division by ratio.");

TROUPE_OP("DecodeGif")
    .Input("contents: string")
    .Output("image: uint8")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      c.set_output(0, PartialTensorShape{-1, -1, -1, 3});
      return absl::OkStatus();
    })
    .NotDifferentiable(kInputIsText)
    .Doc("The frames of a GIF, [frames, height, width, 3]; of another picture, one frame.");

TROUPE_OP("DecodeBmp")
    .Input("contents: string")
    .Output("image: uint8")
    .Attr("channels: int = 0")
    .Shape(PictureShape)
    .NotDifferentiable(kInputIsText)
    .Doc(
        "The pixels of a BMP without compression, of 8, 24 or 32 bits: [height, width, channels]. channels: 0 for "
        "those of the file, 3 or 4.");

TROUPE_OP("DecodeImage")
    .Input("contents: string")
    .Output("image: dtype")
    .Attr("channels: int = 0")
    .Attr("dtype: {uint8, uint16, float} = DT_UINT8")
    .Attr("expand_animations: bool = true")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      TROUPE_ASSIGN_OR_RETURN(const bool expand, c.Attr<bool>("expand_animations"));
      return expand ? shape_fn::Unknown(c) : PictureShape(c);
    })
    .NotDifferentiable(kInputIsText)
    .Doc(
        "The pixels of a picture of any known form, [height, width, channels]; of a GIF [frames, height, width, 3], or "
        "its first frame without expand_animations. Floats are of [0, 1].");

enum class Which : uint8_t { kPng, kJpeg, kCropJpeg, kGif, kBmp, kImage };

template <Which kWhich>
class DecodeKernel {
 public:
  explicit DecodeKernel(KernelInit& init) : type_(init.output_type(0)) {
    if constexpr (kWhich != Which::kGif) {
      const auto channels = init.Attr<int64_t>("channels");
      channels_ = static_cast<int>(channels);
      if (channels < 0 || channels > 4 || (channels == 2 && kWhich != Which::kPng)) {
        init.Fail(InvalidArgument("channels must be 0, 1, 3 or 4, but is ", channels));
      }
    }
    if constexpr (kWhich == Which::kJpeg || kWhich == Which::kCropJpeg) {
      const auto ratio = init.Attr<int64_t>("ratio");
      jpeg_.ratio = static_cast<int>(ratio);
      if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
        init.Fail(InvalidArgument("ratio must be 1, 2, 4 or 8, but is ", ratio));
      }
      jpeg_.fancy_upscaling = init.Attr<bool>("fancy_upscaling");
      jpeg_.try_recover_truncated = init.Attr<bool>("try_recover_truncated");
      jpeg_.acceptable_fraction = init.Attr<float>("acceptable_fraction");
      const auto method = init.Attr<std::string>("dct_method");
      jpeg_.fast_dct = method != "INTEGER_ACCURATE";
      if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") {
        init.Fail(InvalidArgument("dct_method must be '', 'INTEGER_FAST' or 'INTEGER_ACCURATE'"));
      }
    }
    jpeg_.channels = channels_;
    if constexpr (kWhich == Which::kImage) expand_ = init.Attr<bool>("expand_animations");
  }

  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0) {
      return InvalidArgument("contents must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    }
    const std::string& bytes = ctx.input(0).scalar<std::string>();
    const FileForm form = FormOf(bytes);
    if (kWhich == Which::kBmp && form != FileForm::kBmp)
      return InvalidArgument("the ", bytes.size(), " bytes are no BMP");
    if constexpr (kWhich == Which::kCropJpeg) {
      if (form != FileForm::kJpeg) return InvalidArgument("the ", bytes.size(), " bytes are no JPEG");
      const Tensor& window = ctx.input(1);
      if (window.num_elements() != 4 || window.rank() != 1) {
        return InvalidArgument("crop_window must have 4 elements, but has shape ", window.shape().DebugString());
      }
      const int32_t* const w = window.data<int32_t>();
      JpegOptions options = jpeg_;
      options.crop = {w[0], w[1], w[2], w[3]};
      if (w[2] <= 0 || w[3] <= 0) {
        return InvalidArgument("crop_window must have a height and a width, but they are ", w[2], " and ", w[3]);
      }
      return Jpeg(ctx, bytes, options);
    }
    switch (form) {
      case FileForm::kPng:
        return Png(ctx, bytes);
      case FileForm::kJpeg:
        return Jpeg(ctx, bytes, jpeg_);
      case FileForm::kGif:
        return Gif(ctx, bytes);
      case FileForm::kBmp:
        return Bmp(ctx, bytes);
      default:
        return InvalidArgument("the ", bytes.size(), " bytes are neither JPEG nor PNG nor GIF nor BMP");
    }
  }

 private:
  // Room for one picture as bytes: the output itself when that is of bytes.
  absl::StatusOr<Tensor> Room(KernelContext& ctx, const Size& size, DType type, int64_t frames = -1) const {
    TensorShape shape({size.height, size.width, size.channels});
    if (frames >= 0) {
      shape.InsertDim(0, frames);
    } else if (kWhich == Which::kGif) {
      shape.InsertDim(0, 1);
    }
    return ctx.AllocateTemp(type, shape);
  }
  // Sets the output to `t`, whose numbers go up to 255 or 65535.
  absl::Status Give(KernelContext& ctx, Tensor t) const {
    if (t.dtype() == type_) {
      ctx.set_output(0, std::move(t));
      return absl::OkStatus();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, t.shape()));
    const int64_t n = t.num_elements();
    if (type_ == DType::kUint16) {
      const uint8_t* const from = t.data<uint8_t>();
      uint16_t* const to = out->data<uint16_t>();
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint16_t>(from[i] * 256);
    } else if (t.dtype() == DType::kUint8) {
      const uint8_t* const from = t.data<uint8_t>();
      float* const to = out->data<float>();
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * (1.0f / 255);
    } else {
      const uint16_t* const from = t.data<uint16_t>();
      float* const to = out->data<float>();
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * (1.0f / 65535);
    }
    return absl::OkStatus();
  }

  absl::Status Png(KernelContext& ctx, const std::string& bytes) const {
    const int bits = type_ == DType::kUint8 ? 8 : 16;
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<PngReader> reader, PngReader::Open(bytes, channels_, bits));
    if (kWhich == Which::kGif && reader->size().channels != 3) {
      return InvalidArgument("a frame has 3 channels, but the PNG has ", reader->size().channels);
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor room, Room(ctx, reader->size(), bits == 8 ? DType::kUint8 : DType::kUint16));
    TROUPE_RETURN_IF_ERROR(reader->Read(room.raw()));
    return Give(ctx, std::move(room));
  }
  absl::Status Jpeg(KernelContext& ctx, const std::string& bytes, const JpegOptions& options) const {
    if (channels_ == 4 || channels_ == 2) return InvalidArgument("a JPEG has no ", channels_, " channels");
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<JpegReader> reader, JpegReader::Open(bytes, options));
    if (kWhich == Which::kGif && reader->size().channels != 3) {
      return InvalidArgument("a frame has 3 channels, but the JPEG has ", reader->size().channels);
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor room, Room(ctx, reader->size(), DType::kUint8));
    TROUPE_RETURN_IF_ERROR(reader->Read(room.data<uint8_t>()));
    return Give(ctx, std::move(room));
  }
  absl::Status Gif(KernelContext& ctx, const std::string& bytes) const {
    if (channels_ != 0 && channels_ != 3) return InvalidArgument("a GIF has 3 channels, not ", channels_);
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<GifReader> reader, GifReader::Open(bytes));
    if ((kWhich == Which::kPng || kWhich == Which::kJpeg) && reader->frames() != 1) {
      return InvalidArgument("the GIF has ", reader->frames(), " frames: DecodeGif and DecodeImage read these");
    }
    const bool all = kWhich == Which::kGif || (kWhich == Which::kImage && expand_);
    const int64_t frames = all ? reader->frames() : 1;
    TROUPE_ASSIGN_OR_RETURN(Tensor room, Room(ctx, reader->size(), DType::kUint8, all ? frames : -1));
    TROUPE_RETURN_IF_ERROR(reader->Read(frames, room.data<uint8_t>()));
    return Give(ctx, std::move(room));
  }
  absl::Status Bmp(KernelContext& ctx, const std::string& bytes) const {
    if (kWhich != Which::kBmp && kWhich != Which::kImage) {
      return InvalidArgument("the file is a BMP: DecodeBmp and DecodeImage read these");
    }
    TROUPE_ASSIGN_OR_RETURN(const BmpReader reader, BmpReader::Open(bytes, channels_));
    TROUPE_ASSIGN_OR_RETURN(Tensor room, Room(ctx, reader.size(), DType::kUint8));
    reader.Read(room.data<uint8_t>());
    return Give(ctx, std::move(room));
  }

  const DType type_;
  int channels_ = 0;
  JpegOptions jpeg_;
  bool expand_ = true;
};
TROUPE_KERNEL("DecodePng").Device("CPU").Class<DecodeKernel<Which::kPng>>();
TROUPE_KERNEL("DecodeJpeg").Device("CPU").Class<DecodeKernel<Which::kJpeg>>();
TROUPE_KERNEL("DecodeAndCropJpeg").Device("CPU").Class<DecodeKernel<Which::kCropJpeg>>();
TROUPE_KERNEL("DecodeGif").Device("CPU").Class<DecodeKernel<Which::kGif>>();
TROUPE_KERNEL("DecodeBmp").Device("CPU").Class<DecodeKernel<Which::kBmp>>();
TROUPE_KERNEL("DecodeImage").Device("CPU").Class<DecodeKernel<Which::kImage>>();

TROUPE_OP("ExtractJpegShape")
    .Input("contents: string")
    .Output("image_shape: output_type")
    .Attr("output_type: {int32, int64} = DT_INT32")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      c.set_output(0, PartialTensorShape{3});
      return absl::OkStatus();
    })
    .NotDifferentiable(kInputIsText)
    .Doc("Height, width and channels of a JPEG, from its header alone.");

absl::Status ExtractShape(KernelContext& ctx) {
  if (ctx.input(0).rank() != 0) {
    return InvalidArgument("contents must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const auto reader, JpegReader::Open(ctx.input(0).scalar<std::string>(), {}));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({3})));
  const Size& size = reader->size();
  return array::WriteInts({size.height, size.width, reader->components()}, out);
}
TROUPE_KERNEL("ExtractJpegShape").Device("CPU").Function<ExtractShape>();

}  // namespace
}  // namespace troupe::image
