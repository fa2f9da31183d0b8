#include "kernels/nn/window.h"

#include <algorithm>
#include <vector>

namespace troupe {
namespace {

// The entries of a 4-entry list for height and width; the others must be 1.
absl::Status Spatial(std::string_view what, absl::Span<const int64_t> list, const WindowAttrs& attrs, int64_t* to) {
  if (list.size() != 4) {
    return InvalidArgument(what, " must specify 4 dimensions, not ", list.size(), ": [", StrJoin(list, ","), "]");
  }
  if (list[0] != 1 || list[attrs.channel_dim()] != 1) {
    return InvalidArgument(what, " in the batch and depth dimensions must be 1: [", StrJoin(list, ","), "]");
  }
  for (int i = 0; i < 2; ++i) {
    to[i] = list[attrs.spatial_dim(i)];
    if (to[i] < 1) return InvalidArgument(what, " must be positive: [", StrJoin(list, ","), "]");
  }
  return absl::OkStatus();
}

absl::Status ReadList(const Node& node, std::string_view name, const WindowAttrs& attrs, int64_t* to) {
  if (!node.attrs().Has(name)) return absl::OkStatus();
  TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> list, node.Attr<std::vector<int64_t>>(name));
  return Spatial(name, list, attrs, to);
}

}  // namespace

absl::Status SetWindow(absl::Span<const int64_t> ksize, absl::Span<const int64_t> strides, WindowAttrs* attrs) {
  TROUPE_RETURN_IF_ERROR(Spatial("ksize", ksize, *attrs, attrs->ksize));
  return Spatial("strides", strides, *attrs, attrs->stride);
}

absl::StatusOr<WindowAttrs> ReadWindowAttrs(const Node& node) {
  WindowAttrs a;
  if (const auto format = node.Attr<std::string>("data_format"); format.ok()) {
    if (*format != "NHWC" && *format != "NCHW")
      return InvalidArgument("data_format ", *format, " has no kernel on CPU");
    a.channels_first = *format == "NCHW";
  }
  TROUPE_RETURN_IF_ERROR(ReadList(node, "strides", a, a.stride));
  TROUPE_RETURN_IF_ERROR(ReadList(node, "ksize", a, a.ksize));
  TROUPE_RETURN_IF_ERROR(ReadList(node, "dilations", a, a.dilation));
  TROUPE_ASSIGN_OR_RETURN(std::string padding, node.Attr<std::string>("padding"));
  a.padding = padding == "SAME" ? Padding::kSame : padding == "EXPLICIT" ? Padding::kExplicit : Padding::kValid;
  std::vector<int64_t> pads;
  if (node.attrs().Has("explicit_paddings")) {
    TROUPE_ASSIGN_OR_RETURN(pads, node.Attr<std::vector<int64_t>>("explicit_paddings"));
  }
  if (a.padding != Padding::kExplicit) {
    if (!pads.empty()) return InvalidArgument("explicit_paddings must be empty when padding is ", padding);
    return a;
  }
  if (pads.size() != 8)
    return InvalidArgument("explicit_paddings must have 8 entries for padding EXPLICIT, not ", pads.size());
  for (int d = 0; d < 4; ++d) {
    if (pads[2 * d] < 0 || pads[2 * d + 1] < 0)
      return InvalidArgument("explicit_paddings must not be negative: [", StrJoin(pads, ","), "]");
    if ((d == 0 || d == a.channel_dim()) && (pads[2 * d] != 0 || pads[2 * d + 1] != 0)) {
      return InvalidArgument("explicit_paddings in the batch and depth dimensions must be 0: [", StrJoin(pads, ","),
                             "]");
    }
  }
  for (int i = 0; i < 2; ++i) {
    a.before[i] = pads[2 * a.spatial_dim(i)];
    a.after[i] = pads[2 * a.spatial_dim(i) + 1];
  }
  return a;
}

absl::StatusOr<WindowExtent> SlideWindow(const WindowAttrs& a, int which, int64_t in, int64_t window) {
  if (window < 1)
    return InvalidArgument("the window must have a positive ", which == 0 ? "height" : "width", ", not ", window);
  const int64_t stride = a.stride[which], reach = MultiplyWithoutOverflow(window - 1, a.dilation[which]);
  WindowExtent e;
  e.in = in;
  if (reach < 0 || reach >= (int64_t{1} << 40) || in >= (int64_t{1} << 40) || stride >= (int64_t{1} << 40) ||
      std::max(a.before[which], a.after[which]) >= (int64_t{1} << 40)) {
    return InvalidArgument("a window of ", window, " with dilation ", a.dilation[which], ", stride ", stride, " on ",
                           in, " is out of range");
  }
  const int64_t effective = reach + 1;
  if (a.padding == Padding::kSame) {
    e.out = (in + stride - 1) / stride;
    const int64_t needed = std::max<int64_t>(0, (e.out - 1) * stride + effective - in);
    e.before = needed / 2;
    e.after = needed - e.before;
    return e;
  }
  if (a.padding == Padding::kExplicit) {
    e.before = a.before[which];
    e.after = a.after[which];
  }
  // Rounded towards zero, as TensorFlow's kernels do it: an image that the window exceeds by less
  // than two strides has no output.
  e.out = (in + e.before + e.after - effective + stride) / stride;
  if (e.out < 0) {
    return InvalidArgument("Computed output size would be negative: ", e.out, " [input_size: ", in + e.before + e.after,
                           ", effective_filter_size: ", effective, ", stride: ", stride, "]");
  }
  return e;
}

absl::StatusOr<int64_t> SlideWindowSize(const WindowAttrs& a, int which, int64_t in, int64_t window) {
  if (in < 0 || window < 0) return -1;
  TROUPE_ASSIGN_OR_RETURN(WindowExtent e, SlideWindow(a, which, in, window));
  const int64_t padded = in + e.before + e.after, effective = (window - 1) * a.dilation[which] + 1;
  if (a.padding != Padding::kSame && padded < effective) {
    return InvalidArgument("a window of ", effective, " does not fit into ", padded, which == 0 ? " rows" : " columns",
                           a.padding == Padding::kExplicit ? " with their padding" : "", ": nothing would come out");
  }
  return e.out;
}

}  // namespace troupe
