// Shape functions and gradients of the convolution ops.
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

AttrMap ConvAttrs(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"strides", "padding", "explicit_paddings", "data_format", "dilations", "use_cudnn_on_gpu"}) {
    if (const AttrValue* v = g.node().attrs().Find(name)) attrs.Set(name, *v);
  }
  return attrs;
}

}  // namespace troupe
