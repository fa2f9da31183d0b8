// EncodePng and EncodeJpeg.
#include "kernels/common/op_file.h"
#include "kernels/common/types.h"
#include "kernels/image/codecs.h"

namespace troupe::image {
namespace {

constexpr char kOutputIsText[] = "its output is text";

TROUPE_OP("EncodePng")
    .Input("image: T")
    .Output("contents: string")
    .Attr("compression: int = -1")
    .Attr("T: {uint8, uint16} = DT_UINT8")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape image, c.WithRankAtLeast(0, 3));
      c.set_output(0, image.known_rank() ? PartialTensorShape(image.dims().subspan(0, image.dims().size() - 3))
                                         : PartialTensorShape());
      return absl::OkStatus();
    })
    .NotDifferentiable(kOutputIsText)
    .Doc(
        "Pictures [height, width, channels] as PNGs: 1 channel for grey, 2 with alpha, 3 for colours, 4 with alpha. "
        "compression: 0 to 9, -1 for the default.");

// The size of picture `t`, whose last three dimensions it is.
absl::StatusOr<Size> SizeOfPicture(const Tensor& t) {
  const int r = t.rank();
  if (r < 3) return InvalidArgument("image must have three dimensions, but has shape ", t.shape().DebugString());
  if (t.dim(r - 3) == 0 || t.dim(r - 2) == 0 || t.dim(r - 3) > 0x7fffffff || t.dim(r - 2) > 0x7fffffff) {
    return InvalidArgument("a picture of shape ", t.shape().DebugString(), " cannot be written");
  }
  if (t.dim(r - 1) < 1 || t.dim(r - 1) > 4) {
    return InvalidArgument("a picture has 1 to 4 channels, but the shape is ", t.shape().DebugString());
  }
  return Size{t.dim(r - 3), t.dim(r - 2), static_cast<int>(t.dim(r - 1))};
}

class EncodePngKernel {
 public:
  explicit EncodePngKernel(KernelInit& init) : compression_(static_cast<int>(init.Attr<int64_t>("compression"))) {
    if (const auto level = init.Attr<int64_t>("compression"); level < -1 || level > 9) {
      init.Fail(InvalidArgument("compression must be in [-1, 9], but is ", level));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& image = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const Size size, SizeOfPicture(image));
    TensorShape shape;
    for (int d = 0; d + 3 < image.rank(); ++d) shape.AddDim(image.dim(d));
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const int bits = image.dtype() == DType::kUint16 ? 16 : 8;
    const size_t each = static_cast<size_t>(size.height * size.width) * static_cast<size_t>(size.channels * bits / 8);
    for (int64_t i = 0; i < out->num_elements(); ++i) {
      const char* const from = static_cast<const char*>(image.raw()) + static_cast<size_t>(i) * each;
      TROUPE_ASSIGN_OR_RETURN(out->data<std::string>()[i], WritePng(from, size, bits, compression_));
    }
    return absl::OkStatus();
  }

 private:
  const int compression_;
};
TROUPE_CPU_KERNEL("EncodePng").Class<EncodePngKernel>();

TROUPE_OP("EncodeJpeg")
    .Input("image: uint8")
    .Output("contents: string")
    .Attr("format: {'', 'grayscale', 'rgb'} = ''")
    .Attr("quality: int = 95")
    .Attr("progressive: bool = false")
    .Attr("optimize_size: bool = false")
    .Attr("chroma_downsampling: bool = true")
    .Attr("density_unit: {'in', 'cm'} = 'in'")
    .Attr("x_density: int = 300")
    .Attr("y_density: int = 300")
    .Attr("xmp_metadata: string = ''")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 3).status());
      return shape_fn::Scalar(c);
    })
    .NotDifferentiable(kOutputIsText)
    .Doc("A picture [height, width, 1 or 3] as a JPEG of a quality of 0 to 100. format: '' for that of the channels.");

class EncodeJpegKernel {
 public:
  explicit EncodeJpegKernel(KernelInit& init) : format_(init.Attr<std::string>("format")) {
    const auto quality = init.Attr<int64_t>("quality");
    const auto x = init.Attr<int64_t>("x_density"), y = init.Attr<int64_t>("y_density");
    if (quality < 0 || quality > 100) init.Fail(InvalidArgument("quality must be in [0, 100], but is ", quality));
    if (x < 0 || x > 65535 || y < 0 || y > 65535) init.Fail(InvalidArgument("densities must be in [0, 65535]"));
    options_.quality = static_cast<int>(quality);
    options_.progressive = init.Attr<bool>("progressive");
    options_.optimize_size = init.Attr<bool>("optimize_size");
    options_.chroma_downsampling = init.Attr<bool>("chroma_downsampling");
    options_.per_centimetre = init.Attr<std::string>("density_unit") == "cm";
    options_.x_density = static_cast<int>(x);
    options_.y_density = static_cast<int>(y);
    options_.xmp_metadata = init.Attr<std::string>("xmp_metadata");
  }
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 3) {
      return InvalidArgument("image must have three dimensions, but has shape ", ctx.input(0).shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(const Size size, SizeOfPicture(ctx.input(0)));
    if (size.width > 65500 || size.height > 65500) {
      return InvalidArgument("a JPEG has at most 65500 rows and columns, but the shape is ",
                             ctx.input(0).shape().DebugString());
    }
    const int want = format_ == "grayscale" ? 1 : format_ == "rgb" ? 3 : size.channels;
    if (size.channels != want || (want != 1 && want != 3)) {
      return InvalidArgument("a JPEG has ",
                             format_ == "grayscale" ? "1"
                             : format_ == "rgb"     ? "3"
                                                    : "1 or 3",
                             " channels, but the shape is ", ctx.input(0).shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(std::string bytes, WriteJpeg(ctx.input(0).data<uint8_t>(), size, options_));
    ctx.set_output(0, Tensor::Scalar(std::move(bytes)));
    return absl::OkStatus();
  }

 private:
  const std::string format_;
  JpegWriteOptions options_;
};
TROUPE_KERNEL("EncodeJpeg").Device("CPU").Class<EncodeJpegKernel>();

}  // namespace
}  // namespace troupe::image
