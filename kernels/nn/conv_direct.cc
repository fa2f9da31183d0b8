#include "troupe/kernels/nn/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "troupe/kernels/nn/conv_direct_loops.h"
#include "troupe/kernels/nn/isa_pick.h"

TROUPE_ISA_TABLE(ConvDirectTable, kConvDirect)

namespace troupe {
namespace {

// A padded image beyond this many floats leaves the second-level cache; the library's blocking is better then.
constexpr int64_t kMaxImage = 64 << 10;

// Copies an image [h][w][c] into rows of `row` floats at (top, left) pixels; what lies around it is zero already. Parts that fall outside are cut off.
void Place(const float* image, int64_t h, int64_t w, int64_t c, int64_t top, int64_t left, int64_t rows, int64_t row, float* to) {
  const int64_t width = std::min(w, row / c - left);
  for (int64_t y = 0; y < h && y + top < rows; ++y) std::memcpy(to + (y + top) * row + left * c, image + y * w * c, width * c * sizeof(float));
}

// The forward pass and the gradient of the filter read the same padded images.
struct Padded {
  Correlation c;
  int64_t rows;
  std::vector<float> image;
  explicit Padded(const ConvShape& s) {
    rows = (s.oh - 1) * s.stride_h + s.kh;
    c.rows = s.oh, c.columns = s.ow;
    c.taps = s.kh, c.run = s.kw * s.c;
    c.row = std::max((s.ow - 1) * s.stride_w + s.kw, s.left + 1) * s.c;
    c.row_step = s.stride_h, c.column_step = s.stride_w * s.c;
    c.out_row = s.ow * s.oc, c.out_column = s.oc, c.channels = s.oc;
    image.resize(rows * c.row);
  }
};

void Forward(const ConvDirectTable& table, const ConvShape& s, const float* x, const float* f, float* y) {
  Padded p(s);
  const int64_t lanes = table.lanes, taps = s.kh * s.kw * s.c;
  std::vector<float> weights(taps * lanes);
  for (int64_t k = 0; k < taps; ++k) std::copy_n(f + k * s.oc, s.oc, weights.data() + k * lanes);
  for (int64_t n = 0; n < s.n; ++n) {
    Place(x + n * s.h * s.w * s.c, s.h, s.w, s.c, s.top, s.left, p.rows, p.c.row, p.image.data());
    table.correlate(p.c, p.image.data(), weights.data(), y + n * s.oh * s.ow * s.oc);
  }
}

void BackwardFilter(const ConvDirectTable& table, const ConvShape& s, const float* x, const float* d, float* df) {
  Padded p(s);
  const int64_t lanes = table.lanes, taps = s.kh * s.kw * s.c, pixels = s.oh * s.ow;
  std::vector<float> weights(taps * lanes), wide(pixels * lanes);
  for (int64_t n = 0; n < s.n; ++n) {
    Place(x + n * s.h * s.w * s.c, s.h, s.w, s.c, s.top, s.left, p.rows, p.c.row, p.image.data());
    for (int64_t i = 0; i < pixels; ++i) std::copy_n(d + (n * pixels + i) * s.oc, s.oc, wide.data() + i * lanes);
    table.gather(p.c, p.image.data(), wide.data(), weights.data());
  }
  for (int64_t k = 0; k < taps; ++k) std::copy_n(weights.data() + k * lanes, s.oc, df + k * s.oc);
}

// One dimension of one phase of the stride: input positions first, first + stride, ... get output positions base + i - (taps - 1) + t for t < taps; tap t is
// filter position kernel - t * stride counted from the last.
struct Phase {
  int64_t first, count, taps, base, last;
  Phase(int64_t p, int64_t size, int64_t stride, int64_t kernel, int64_t before) {
    first = p;
    count = p < size ? (size - p + stride - 1) / stride : 0;
    const int64_t k0 = (p + before) % stride;  // the smallest filter position that meets this phase
    taps = k0 < kernel ? (kernel - k0 + stride - 1) / stride : 0;
    base = (p + before - k0) / stride;         // the output position that meets input position `first` by k0
    last = k0 + (taps - 1) * stride;
  }
};

void BackwardInput(const ConvDirectTable& table, const ConvShape& s, const float* f, const float* d, float* dx) {
  const int64_t lanes = table.lanes;
  struct Part {
    Phase y, x;
    std::vector<float> weights;
  };
  std::vector<Part> parts;
  // The output's gradient is padded so that every phase finds zeros where there is no output.
  int64_t top = 0, left = 0, rows = s.oh, columns = s.ow;
  bool gaps = false;
  for (int64_t py = 0; py < s.stride_h; ++py) {
    for (int64_t px = 0; px < s.stride_w; ++px) {
      Part part{Phase(py, s.h, s.stride_h, s.kh, s.top), Phase(px, s.w, s.stride_w, s.kw, s.left), {}};
      const Phase &y = part.y, &x = part.x;
      if (y.count == 0 || x.count == 0) continue;
      if (y.taps == 0 || x.taps == 0) {
        gaps = true;
        continue;
      }
      top = std::max(top, y.taps - 1 - y.base), left = std::max(left, x.taps - 1 - x.base);
      rows = std::max(rows, y.base + y.count), columns = std::max(columns, x.base + x.count);
      part.weights.resize(y.taps * x.taps * s.oc * lanes);
      float* w = part.weights.data();
      for (int64_t ty = 0; ty < y.taps; ++ty) {
        for (int64_t tx = 0; tx < x.taps; ++tx) {
          const float* from = f + ((y.last - ty * s.stride_h) * s.kw + x.last - tx * s.stride_w) * s.c * s.oc;
          for (int64_t o = 0; o < s.oc; ++o, w += lanes) {
            for (int64_t c = 0; c < s.c; ++c) w[c] = from[c * s.oc + o];
          }
        }
      }
      parts.push_back(std::move(part));
    }
  }
  const int64_t row = (left + columns) * s.oc;
  std::vector<float> image((top + rows) * row);
  if (gaps) std::fill_n(dx, s.input_size(), 0.0f);
  for (int64_t n = 0; n < s.n; ++n) {
    Place(d + n * s.oh * s.ow * s.oc, s.oh, s.ow, s.oc, top, left, top + rows, row, image.data());
    for (const Part& part : parts) {
      const Phase &y = part.y, &x = part.x;
      Correlation c;
      c.rows = y.count, c.columns = x.count;
      c.taps = y.taps, c.run = x.taps * s.oc;
      c.row = row, c.row_step = 1, c.column_step = s.oc;
      c.out_row = s.stride_h * s.w * s.c, c.out_column = s.stride_w * s.c, c.channels = s.c;
      table.correlate(c, image.data() + (top + y.base - (y.taps - 1)) * row + (left + x.base - (x.taps - 1)) * s.oc,
                             part.weights.data(), dx + ((n * s.h + y.first) * s.w + x.first) * s.c);
    }
  }
}

}  // namespace

bool DirectConv(ConvPass pass, const ConvShape& s, const float* a, const float* b, float* out, const ConvEpilogue<float>& e) {
  if (s.groups != 1 || s.dilation_h != 1 || s.dilation_w != 1) return false;
  const ConvDirectTable& table = PickkConvDirect();
  if ((pass == ConvPass::kBackwardInput ? s.c : s.oc) > table.lanes) return false;
  const int64_t image = ((s.oh - 1) * s.stride_h + s.kh) * ((s.ow - 1) * s.stride_w + s.kw) * s.c;
  const int64_t output = (s.oh + 2 * s.kh) * (s.ow + 2 * s.kw) * s.oc;
  if (image > kMaxImage || output > kMaxImage || s.kh * s.kw * s.c * s.oc > kMaxImage) return false;
  switch (pass) {
    case ConvPass::kForward:
      Forward(table, s, a, b, out);
      FinishForward(e, s.n * s.oh * s.ow, s.oc, out);
      break;
    case ConvPass::kBackwardInput:
      BackwardInput(table, s, a, b, out);
      FinishBackwardInput(e, s.input_size(), out);
      break;
    case ConvPass::kBackwardFilter:
      BackwardFilter(table, s, a, b, out);
      FinishBackwardFilter(e, b, s.n * s.oh * s.ow, s.oc);
      break;
  }
  return true;
}

}  // namespace troupe
