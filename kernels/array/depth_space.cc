// DepthToSpace and SpaceToDepth: blocks of depth become blocks of space, and back. Layouts NHWC,
// NCHW and NCHW_VECT_C (groups of four channels innermost).
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// Where a layout has its dimensions; `vect` is 4 for NCHW_VECT_C, whose channels are dimensions 1
// and 4.
struct Layout {
  int height, width, channel, rank;
  int64_t vect;
};
absl::StatusOr<Layout> LayoutOf(const std::string& format) {
  if (format == "NHWC") return Layout{1, 2, 3, 4, 1};
  if (format == "NCHW") return Layout{2, 3, 1, 4, 1};
  if (format == "NCHW_VECT_C") return Layout{2, 3, 1, 5, 4};
  return InvalidArgument("data_format must be NHWC, NCHW or NCHW_VECT_C, got '", format, "'");
}

absl::StatusOr<PartialTensorShape> Moved(PartialTensorShape in, const Layout& at, int64_t block, bool to_space) {
  if (in.rank() != at.rank) return InvalidArgument("input rank should be ", at.rank, " instead of ", in.rank());
  if (at.rank == 5 && in.dim(4) >= 0 && in.dim(4) != 4)
    return InvalidArgument("dimension 4 of NCHW_VECT_C must be 4, not ", in.dim(4));
  const int64_t area = MultiplyWithoutOverflow(block, block);
  const int64_t h = in.dim(at.height), w = in.dim(at.width), c = in.dim(at.channel);
  if (to_space) {
    if (c >= 0 && (area < 0 || c % area != 0))
      return InvalidArgument("input depth dimension ", c * at.vect, " should be divisible by: ", area);
    in.set_dim(at.height, MulDims(h, block));
    in.set_dim(at.width, MulDims(w, block));
    in.set_dim(at.channel, c < 0 ? -1 : c / area);
  } else {
    if ((h >= 0 && h % block != 0) || (w >= 0 && w % block != 0)) {
      return InvalidArgument("image width ", w, " and height ", h, " should be divisible by block_size: ", block);
    }
    in.set_dim(at.height, h < 0 ? -1 : h / block);
    in.set_dim(at.width, w < 0 ? -1 : w / block);
    in.set_dim(at.channel, c < 0 || area < 0 ? -1 : c * area);
  }
  return in;
}

absl::Status ShapeFor(InferenceContext& c, bool to_space) {
  TROUPE_ASSIGN_OR_RETURN(const std::string format, c.Attr<std::string>("data_format"));
  TROUPE_ASSIGN_OR_RETURN(const int64_t block, c.Attr<int64_t>("block_size"));
  TROUPE_ASSIGN_OR_RETURN(const Layout at, LayoutOf(format));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRank(0, at.rank));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, Moved(in, at, block, to_space));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}
absl::Status DepthToSpaceShape(InferenceContext& c) { return ShapeFor(c, true); }
absl::Status SpaceToDepthShape(InferenceContext& c) { return ShapeFor(c, false); }

template <bool kToSpace>
class DepthSpaceKernel {
 public:
  explicit DepthSpaceKernel(KernelInit& init) : block_(init.Attr<int64_t>("block_size")) {
    auto layout = LayoutOf(init.Attr<std::string>("data_format"));
    if (layout.ok())
      at_ = *layout;
    else
      init.Fail(layout.status());
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape moved, Moved(in.shape(), at_, block_, kToSpace));
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(moved.dims()));
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    const TensorShape space_shape = kToSpace ? shape : in.shape(), depth_shape = kToSpace ? in.shape() : shape;
    const Strides space = DenseStrides(space_shape.dims()), depth = DenseStrides(depth_shape.dims());
    const auto h = static_cast<size_t>(at_.height), w = static_cast<size_t>(at_.width),
               c = static_cast<size_t>(at_.channel);
    StridedCopy copy;
    auto add = [&](int64_t size, int64_t s, int64_t d) { kToSpace ? copy.Add(size, s, d) : copy.Add(size, d, s); };
    // The depth of the blocked side is (y in block, x in block, channel), channel innermost.
    const int64_t channels = space_shape.dim(at_.channel);
    add(space_shape.dim(0), space[0], depth[0]);
    add(depth_shape.dim(at_.height), space[h] * block_, depth[h]);
    add(block_, space[h], depth[c] * channels * block_);
    add(depth_shape.dim(at_.width), space[w] * block_, depth[w]);
    add(block_, space[w], depth[c] * channels);
    add(channels, space[c], depth[c]);
    if (at_.rank == 5) add(4, space[4], depth[4]);
    copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    return absl::OkStatus();
  }

 private:
  int64_t block_;
  Layout at_ = {};
};

absl::Status GradientBy(GradientContext& g, const char* op) {
  g.Set(0, g.Op(op, {g.Grad(0)},
                {{"block_size", g.Attr<int64_t>("block_size")}, {"data_format", g.Attr<std::string>("data_format")}}));
  return g.status();
}

TROUPE_OP("DepthToSpace")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape(DepthToSpaceShape)
    .Gradient([](GradientContext& g) { return GradientBy(g, "SpaceToDepth"); })
    .Doc("Blocks of block_size * block_size depth values become blocks of that many pixels.");
TROUPE_KERNEL("DepthToSpace").Device("CPU").Types("T", MovableTypes()).Class<DepthSpaceKernel<true>>();

TROUPE_OP("SpaceToDepth")
    .Input("input: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("block_size: int >= 2")
    .Attr("data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'")
    .Shape(SpaceToDepthShape)
    .Gradient([](GradientContext& g) { return GradientBy(g, "DepthToSpace"); })
    .Doc("Blocks of block_size * block_size pixels become that many times the depth.");
TROUPE_KERNEL("SpaceToDepth").Device("CPU").Types("T", MovableTypes()).Class<DepthSpaceKernel<false>>();

}  // namespace
}  // namespace troupe::array
