// ExtractImagePatches: the pixels that a sliding window sees, laid out in the channels of the
// output.
#include <algorithm>

#include "kernels/common/elements.h"
#include "kernels/common/types.h"
#include "kernels/nn/window.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::image {
namespace {

// The attrs are named otherwise than those of poolings.
absl::StatusOr<WindowAttrs> ReadAttrs(const Node& node) {
  WindowAttrs a;
  const std::pair<const char*, int64_t*> lists[] = {{"ksizes", a.ksize}, {"strides", a.stride}, {"rates", a.dilation}};
  for (const auto& [name, to] : lists) {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> list, node.Attr<std::vector<int64_t>>(name));
    if (list.size() != 4) return InvalidArgument(name, " must have 4 entries, not ", list.size());
    if (list[0] != 1 || list[3] != 1)
      return Unimplemented("Only support ", name, " across space: the first and the last entry must be 1");
    if (list[1] < 1 || list[2] < 1) return InvalidArgument(name, " must be positive: [", StrJoin(list, ","), "]");
    to[0] = list[1];
    to[1] = list[2];
  }
  TROUPE_ASSIGN_OR_RETURN(const std::string padding, node.Attr<std::string>("padding"));
  a.padding = padding == "SAME" ? Padding::kSame : Padding::kValid;
  return a;
}

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const WindowAttrs a, ReadAttrs(c.node()));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRank(0, 4));
  PartialTensorShape out = PartialTensorShape::OfRank(4);
  if (in.known_rank()) {
    out.set_dim(0, in.dim(0));
    out.set_dim(3, MulDims(in.dim(3), MulDims(a.ksize[0], a.ksize[1])));
    for (int i = 0; i < 2; ++i) {
      TROUPE_ASSIGN_OR_RETURN(const int64_t size, SlideWindowSize(a, i, in.dim(1 + i), a.ksize[i]));
      out.set_dim(1 + i, size);
    }
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

// The number of its source, from 1, goes through the same op; what arrives at a place is then added
// to the source of that place. Padding has the number 0.
absl::Status Gradient(GradientContext& g) {
  const auto number = [&g](int32_t v) { return g.Const(Tensor::Scalar<int32_t>(v)); };
  const auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
  const NodeOut shape = g.Op("Shape", {g.Input(0)});
  const auto part = [&](int32_t from, int32_t to) {
    return g.Op("StridedSlice", {shape, ints({from}), ints({to}), ints({1})});
  };
  const auto joined = [&](std::vector<NodeOut> list) {
    const auto n = static_cast<int64_t>(list.size());
    return g.Op("ConcatV2", {GradArg(std::move(list)), GradArg(number(0))}, {{"N", n}});
  };
  const NodeOut pixels = g.Op("Prod", {part(1, 4), ints({0})});
  const NodeOut numbers = g.Op("Reshape", {g.Op("Range", {number(1), g.Op("Add", {pixels, number(1)}), number(1)}),
                                           joined({ints({1}), part(1, 4)})});
  AttrMap attrs;
  for (const char* name : {"ksizes", "strides", "rates"}) attrs.Set(name, g.Attr<std::vector<int64_t>>(name));
  attrs.Set("padding", g.Attr<std::string>("padding"));
  const NodeOut sources = g.Op("Reshape", {g.Op("ExtractImagePatches", {numbers}, std::move(attrs)), ints({-1})});
  // [patches, batch], so that sources count along the first dimension.
  const NodeOut places = g.Op("ExpandDims", {g.Op("Size", {sources}), number(0)});
  const NodeOut arrived = g.Op("Transpose", {g.Op("Reshape", {g.Grad(0), joined({part(0, 1), places})}), ints({1, 0})});
  const NodeOut sums = g.Op("UnsortedSegmentSum", {arrived, g.Op("Sub", {sources, number(1)}), pixels});
  g.Set(0, g.Op("Reshape", {g.Op("Transpose", {sums, ints({1, 0})}), shape}));
  return g.status();
}

class ExtractImagePatches {
 public:
  explicit ExtractImagePatches(KernelInit& init) {
    absl::StatusOr<WindowAttrs> attrs = ReadAttrs(init.node());
    if (attrs.ok()) {
      attrs_ = *attrs;
    } else {
      init.Fail(attrs.status());
    }
  }

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 4) return InvalidArgument("images must be 4-dimensional, got shape ", in.shape().DebugString());
    TROUPE_ASSIGN_OR_RETURN(const WindowExtent rows, SlideWindow(attrs_, 0, in.dim(1), attrs_.ksize[0]));
    TROUPE_ASSIGN_OR_RETURN(const WindowExtent columns, SlideWindow(attrs_, 1, in.dim(2), attrs_.ksize[1]));
    const int64_t depth = in.dim(3), patch = MulDims(MulDims(attrs_.ksize[0], attrs_.ksize[1]), depth);
    const int64_t dims[] = {in.dim(0), rows.out, columns.out, patch};
    TROUPE_ASSIGN_OR_RETURN(const TensorShape shape, TensorShape::Make(dims));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    if (out->num_elements() == 0) return absl::OkStatus();
    array::VisitElement(in.dtype(), false, [&]<class E>() {
      const E* images = static_cast<const E*>(in.raw());
      ctx.threads()->ParallelFor(in.dim(0) * rows.out, 0.5 * static_cast<double>(columns.out * patch),
                                 [&](int64_t begin, int64_t end) {
                                   E* to = static_cast<E*>(out->raw()) + begin * columns.out * patch;
                                   for (int64_t row = begin; row < end; ++row) {
                                     const E* image = images + row / rows.out * rows.in * columns.in * depth;
                                     for (int64_t column = 0; column < columns.out; ++column) {
                                       to = Patch(image, rows, row % rows.out, columns, column, depth, to);
                                     }
                                   }
                                 });
      return true;
    });
    return absl::OkStatus();
  }

 private:
  template <class E>
  E* Patch(const E* image, const WindowExtent& rows, int64_t row, const WindowExtent& columns, int64_t column,
           int64_t depth, E* to) const {
    for (int64_t i = 0; i < attrs_.ksize[0]; ++i) {
      const int64_t y = row * attrs_.stride[0] - rows.before + i * attrs_.dilation[0];
      for (int64_t j = 0; j < attrs_.ksize[1]; ++j) {
        const int64_t x = column * attrs_.stride[1] - columns.before + j * attrs_.dilation[1];
        const bool inside = y >= 0 && y < rows.in && x >= 0 && x < columns.in;
        to = inside ? std::copy_n(image + (y * columns.in + x) * depth, depth, to) : std::fill_n(to, depth, E{});
      }
    }
    return to;
  }

  WindowAttrs attrs_;
};

TROUPE_OP("ExtractImagePatches")
    .Input("images: T")
    .Output("patches: T")
    .Attr("ksizes: list(int) >= 4")
    .Attr("strides: list(int) >= 4")
    .Attr("rates: list(int) >= 4")
    .Attr(
        "T: {bfloat16, half, float, double, int8, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, "
        "complex128, bool}")
    .Attr("padding: {'SAME', 'VALID'}")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc(
        "From images [batch, height, width, channels] the pixels of each place of a window of ksizes, which moves by "
        "strides and looks\n"
        "at every rates-th pixel: [batch, rows, columns, ksizes[1] * ksizes[2] * channels], zeros beyond the edges.");
TROUPE_KERNEL("ExtractImagePatches").Device("CPU").Types("T", kNumbers).Class<ExtractImagePatches>();
TROUPE_KERNEL("ExtractImagePatches").Device("CPU").Type<bool>("T").Class<ExtractImagePatches>();

}  // namespace
}  // namespace troupe::image
