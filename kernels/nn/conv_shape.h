// One convolution: every size that a kernel needs, in one value that can be compared.
//
// Thread rule: a plain value.
#ifndef TROUPE_KERNELS_NN_CONV_SHAPE_H_
#define TROUPE_KERNELS_NN_CONV_SHAPE_H_

#include <algorithm>
#include <cstdint>

namespace troupe {

enum class ConvPass : uint8_t {
  kForward,         // (input, filter) -> output
  kBackwardInput,   // (filter, d output) -> d input
  kBackwardFilter,  // (input, d output) -> d filter
};

// input [n, h, w, c], filter [kh, kw, c / groups, oc], output [n, oh, ow, oc]; group g reads
// channels [g c / groups, (g + 1) c / groups) and writes the like of oc.
struct ConvShape {
  int64_t n = 0, h = 0, w = 0, c = 0;
  int64_t kh = 0, kw = 0, oc = 0, groups = 1;
  int64_t oh = 0, ow = 0;
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t top = 0, bottom = 0, left = 0, right = 0;

  int64_t input_size() const { return n * h * w * c; }
  int64_t filter_size() const { return kh * kw * (c / groups) * oc; }
  int64_t output_size() const { return n * oh * ow * oc; }
  // Multiplications.
  double work() const { return static_cast<double>(output_size()) * static_cast<double>(kh * kw * (c / groups)); }
  // The convolution that gives the output's rows [begin, limit) alone. It reads the input's rows
  // from *first on, as many as its h says: 0 when the rows see nothing but padding.
  ConvShape Rows(int64_t begin, int64_t limit, int64_t* first) const {
    const int64_t from = begin * stride_h - top, to = (limit - 1) * stride_h - top + (kh - 1) * dilation_h + 1;
    ConvShape some = *this;
    *first = std::clamp<int64_t>(from, 0, h);
    some.h = std::max<int64_t>(0, std::min(to, h) - *first);
    some.oh = limit - begin;
    some.top = *first - from;
    some.bottom = to - from - some.top - some.h;
    return some;
  }
  // The convolution whose input's gradient is the rows [begin, limit) of this one's alone. It reads
  // the gradient of the output from row *first on, as many rows as its oh says. Its oh is 0 when no
  // convolution is like that: windows that leave rows out between them, or at the end.
  ConvShape InputRows(int64_t begin, int64_t limit, int64_t* first) const {
    const int64_t reach = (kh - 1) * dilation_h, above = begin + top - reach;
    ConvShape some = *this;
    *first = std::min(oh, above <= 0 ? 0 : (above + stride_h - 1) / stride_h);
    some.h = limit - begin;
    some.oh = std::min(oh, (limit - 1 + top) / stride_h + 1) - *first;
    some.top = top + begin - *first * stride_h;
    some.bottom = (some.oh - 1) * stride_h + reach + 1 - some.h - some.top;
    if (some.oh < 0 || some.top < 0 || some.bottom < 0) some.oh = 0;
    return some;
  }
  // Each image as one column of its pixels. REQUIRES: windows of one pixel, stride 1, no padding.
  ConvShape AsColumn() const {
    ConvShape column = *this;
    column.h = column.oh = h * w;
    column.w = column.ow = 1;
    return column;
  }
  // The rows that the pass writes.
  int64_t rows(ConvPass pass) const { return pass == ConvPass::kBackwardInput ? h : oh; }
  friend bool operator==(const ConvShape&, const ConvShape&) = default;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_NN_CONV_SHAPE_H_
