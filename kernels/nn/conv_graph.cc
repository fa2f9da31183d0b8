// What the definitions of the convolution ops share: attrs and shape functions.
#include "kernels/nn/conv.h"

namespace troupe {

absl::Status ConvOutputShape(InferenceContext& c, bool depthwise) {
  TROUPE_ASSIGN_OR_RETURN(WindowAttrs a, ReadWindowAttrs(c.node()));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape f, c.WithRank(1, 4));
  const int64_t channels = x.dim(a.channel_dim()), depth = f.dim(2);
  int64_t outputs = f.dim(3);
  if (depthwise) {
    if (!MergeDims(channels, depth).ok()) {
      return InvalidArgument("input and filter must have the same depth: ", x.DebugString(), " and ", f.DebugString());
    }
    outputs = MulDims(channels >= 0 ? channels : depth, outputs);
  } else if (channels >= 0 && depth > 0 && channels % depth != 0) {
    return InvalidArgument("input depth must be evenly divisible by filter depth: ", x.DebugString(), " and ",
                           f.DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(int64_t oh, SlideWindowSize(a, 0, x.dim(a.spatial_dim(0)), f.dim(0)));
  TROUPE_ASSIGN_OR_RETURN(int64_t ow, SlideWindowSize(a, 1, x.dim(a.spatial_dim(1)), f.dim(1)));
  c.set_output(0, ImageShape<PartialTensorShape>(a, x.dim(0), oh, ow, outputs));
  return absl::OkStatus();
}

absl::Status ConvBackpropInputShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape sizes, c.InputAsShape(0));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, sizes.MergeWith(PartialTensorShape::OfRank(4)));
  c.set_output(0, shape);
  return absl::OkStatus();
}

absl::Status ConvBackpropFilterShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape sizes, c.InputAsShape(1));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, sizes.MergeWith(PartialTensorShape::OfRank(4)));
  c.set_output(0, shape);
  return absl::OkStatus();
}

OpBuilder ConvOp(std::string_view name, std::initializer_list<std::string_view> inputs, bool depthwise,
                 std::string_view types) {
  OpBuilder op(name);
  for (std::string_view input : inputs) op.Input(input);
  op.Output("output: T").Attr(StrCat("T: ", types)).Attr("strides: list(int)");
  if (!depthwise) op.Attr("use_cudnn_on_gpu: bool = true");
  return op.Attr("padding: {'SAME', 'VALID', 'EXPLICIT'}")
      .Attr("explicit_paddings: list(int) = []")
      .Attr("data_format: {'NHWC', 'NCHW'} = 'NHWC'")
      .Attr("dilations: list(int) = [1, 1, 1, 1]");
}

AttrMap ConvAttrs(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"}) {
    if (const AttrValue* v = g.node().attrs().Find(name)) attrs.Set(name, *v);
  }
  return attrs;
}

}  // namespace troupe
