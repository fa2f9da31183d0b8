#include "kernels/nn/conv_direct.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/isa.h"
#include "kernels/nn/conv_direct_loops.h"
#include "kernels/nn/conv_direct_plan.h"

TROUPE_ISA_TABLE(ConvDirectTable, kConvDirect, PickConvDirect)

namespace troupe {
namespace {

using namespace conv;  // NOLINT: this file's own

// Floats of one padded image and of the filter: four images and a filter written out four times
// stay in a second-level cache of 1 MB.
constexpr int64_t kMaxImage = 48 << 10, kMaxFilter = 40 << 10;

// --- forward
// -------------------------------------------------------------------------------------------------------------------------------------

struct ForwardGeometry {
  int64_t rows, columns;  // of a padded image
  Taps taps;
  explicit ForwardGeometry(const ConvShape& s) {
    rows = (s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
    columns = (s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
    const bool joined = s.dilation_w == 1;
    taps.run = joined ? s.kw * s.c : s.c;
    for (int64_t y = 0; y < s.kh; ++y) {
      for (int64_t x = 0; x < (joined ? 1 : s.kw); ++x)
        taps.offset.push_back((y * s.dilation_h * columns + x * s.dilation_w) * s.c);
    }
  }
};

void Forward(const ConvDirectTable& table, const ConvShape& s, ConvRows rows, int64_t together, const float* x,
             const float* f, float* y, const ConvEpilogue<float>& e) {
  const int64_t element = together * sizeof(float), is4 = together == kFour, products = s.kh * s.kw * s.c,
                pixels = s.oh * s.ow;
  const ForwardGeometry g(s);
  const std::vector<int64_t> offsets = Bytes(g.taps.offset, together);
  const std::vector<Chunk> chunks = Chunks(table, s.oc, together);
  Finisher finish(chunks, e);
  Images images(table, together, s.h, s.w, s.c, s.top, s.left, g.rows, g.columns);
  int64_t lanes = 0;
  for (const Chunk& c : chunks) lanes += c.lanes;
  float* weights = Scratch(kWeights, products * lanes);
  for (float* w = weights; const Chunk& c : chunks) w = PackWeights(c, together, products, f, s.oc, 1, w);
  ConvRow row;
  row.offset = offsets.data(), row.taps = offsets.size(), row.run = g.taps.run;
  row.step = s.stride_w * s.c * element, row.columns = s.ow;
  for (int64_t n = 0; n < s.n; n += together) {
    finish.f.images = static_cast<int>(std::min(together, s.n - n));
    images.Start(x + n * s.h * s.w * s.c, finish.f.images);
    const float *w = weights, *bias = finish.bias.data();
    for (const Chunk& c : chunks) {
      row.weights = w;
      row.out_lanes = RoundUp(c.lanes, kLine);
      row.out = Scratch(kRow, s.ow * row.out_lanes);
      const auto run = table.row[is4][c.units - 1][TileFor(table.row[is4][c.units - 1], s.ow) - 1];
      finish.f.row = row.out, finish.f.lanes = row.out_lanes, finish.f.columns = s.ow, finish.f.channels = c.channels;
      finish.f.bias = bias, finish.f.out_column = s.oc;
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        images.Place(r * s.stride_h + (s.kh - 1) * s.dilation_h + 1);
        row.image = images.data + r * s.stride_h * images.row * together;
        row.ahead = {};
        if (&c == &chunks[0] && n + together < s.n)
          row.ahead = Ahead(x + (n + together) * s.h * s.w * s.c, together * s.h * s.w * s.c, r, s.oh);
        run(row);
        for (int i = 0; i < finish.f.images; ++i) finish.f.out[i] = y + ((n + i) * pixels + r * s.ow) * s.oc + c.first;
        table.finish[is4](finish.f);
      }
      w += products * c.lanes;
      bias += RoundUp(c.channels, 4);
    }
  }
}

// --- gradient of the filter
// ------------------------------------------------------------------------------------------------------------------------

// Adds to df, and to the bias gradient.
void BackwardFilter(const ConvDirectTable& table, const ConvShape& s, int64_t together, const float* x, const float* d,
                    float* df, float* db) {
  const int64_t element = together * sizeof(float), is4 = together == kFour, products = s.kh * s.kw * s.c,
                pixels = s.oh * s.ow;
  const ForwardGeometry g(s);
  std::vector<int64_t> offsets;
  for (int64_t o : g.taps.offset) {
    for (int64_t k = 0; k < g.taps.run; ++k) offsets.push_back(o + k);
  }
  offsets = Bytes(std::move(offsets), together);
  const std::vector<Chunk> chunks = Chunks(table, s.oc, together);
  Images images(table, together, s.h, s.w, s.c, s.top, s.left, g.rows, g.columns);
  int64_t lanes = 0;
  for (const Chunk& c : chunks) lanes += c.lanes;
  const int64_t d_lanes = s.oc * together, bias_lanes = RoundUp(d_lanes, kLine);
  float* sums = Scratch(kSums, products * lanes + bias_lanes);
  std::memset(sums, 0, (products * lanes + bias_lanes) * sizeof(float));
  // What lies beyond the last pixel is read into lanes that are never stored.
  float* gradients = Scratch(kGradients, pixels * d_lanes + 4 * kLine);
  std::memset(gradients + pixels * d_lanes, 0, 4 * kLine * sizeof(float));
  std::vector<float> zeros(s.n % together != 0 ? pixels * s.oc : 0);
  ConvGather gather;
  gather.rows = s.oh, gather.columns = s.ow;
  gather.row_step = s.stride_h * images.row * element, gather.step = s.stride_w * s.c * element;
  gather.image = images.data, gather.d_lanes = d_lanes;
  for (int64_t n = 0; n < s.n; n += together) {
    const int64_t count = std::min(together, s.n - n);
    images.Start(x + n * s.h * s.w * s.c, count);
    images.Place(g.rows);
    const float* from[4];
    for (int64_t i = 0; i < 4; ++i) from[i] = i < count ? d + (n + i) * pixels * s.oc : zeros.data();
    if (together == 1) {
      std::memcpy(gradients, from[0], pixels * d_lanes * sizeof(float));
    } else {
      table.interleave(from, pixels * s.oc, gradients);
    }
    float* to = sums;
    for (const Chunk& c : chunks) {
      const auto& tiles = table.gather[is4][c.units - 1];
      int most = ConvDirectTable::kMaxTile;
      while (tiles[most - 1] == nullptr) --most;
      gather.d = gradients + c.first * together;
      const int64_t parts = (products + most - 1) / most;
      for (int64_t p = 0, k = 0; p < parts; ++p) {
        const int64_t size = products / parts + (p < products % parts ? 1 : 0);
        gather.offset = offsets.data() + k, gather.sums = to + k * c.lanes;
        // The next images come while these are computed: inputs in the first half of the time,
        // gradients in the second.
        gather.ahead = {};
        if (&c == &chunks[0] && n + together < s.n) {
          const int64_t half = (parts + 1) / 2, next = n + together, x_size = s.h * s.w * s.c, d_size = pixels * s.oc;
          gather.ahead = p < half ? Ahead(x + next * x_size, together * x_size, p, half)
                                  : Ahead(d + next * d_size, together * d_size, p - half, parts - half);
        }
        tiles[size - 1](gather);
        k += size;
      }
      to += products * c.lanes;
    }
    if (db != nullptr) table.add_pixels(gradients, pixels, d_lanes, to);
  }
  const auto total = [&](const float* v) { return together == 1 ? v[0] : (v[0] + v[1]) + (v[2] + v[3]); };
  const float* from = sums;
  for (const Chunk& c : chunks) {
    for (int64_t k = 0; k < products; ++k) {
      for (int64_t o = 0; o < c.channels; ++o) df[k * s.oc + c.first + o] += total(from + k * c.lanes + o * together);
    }
    from += products * c.lanes;
  }
  for (int64_t o = 0; o < s.oc && db != nullptr; ++o) db[o] += total(from + o * together);
}

// --- gradient of the input
// -------------------------------------------------------------------------------------------------------------------------

// One dimension of one phase of the stride: the input positions first, first + stride, ...; the
// i-th of them meets filter position kernel[j] at output position i + shift[j].
struct Phase {
  int64_t first, count;
  std::vector<int64_t> kernel, shift;  // by ascending shift
  Phase(int64_t phase, int64_t size, int64_t stride, int64_t dilation, int64_t kernel_size, int64_t before) {
    first = phase;
    count = phase < size ? (size - phase + stride - 1) / stride : 0;
    for (int64_t k = kernel_size - 1; k >= 0; --k) {
      const int64_t at = phase + before - k * dilation;  // in units of the input
      if (at % stride == 0) kernel.push_back(k), shift.push_back(at / stride);
    }
  }
  bool neighbours() const {
    for (size_t i = 1; i < shift.size(); ++i) {
      if (shift[i] != shift[i - 1] + 1) return false;
    }
    return true;
  }
};

std::vector<Phase> PhasesOf(int64_t size, int64_t stride, int64_t dilation, int64_t kernel, int64_t before) {
  std::vector<Phase> phases;
  for (int64_t p = 0; p < std::min(stride, size); ++p) phases.emplace_back(p, size, stride, dilation, kernel, before);
  return phases;
}

// What a row of the input's gradient is computed of, for one chunk of channels and one phase each
// way.
struct PhasePart {
  std::vector<int64_t> offset;
  int64_t run = 0, products = 0;
  float* weights = nullptr;
};

// [chunk][y phase][x phase]. The output's gradient is padded by `top` rows and `left` columns, to
// `columns` of them.
std::vector<PhasePart> PackPhases(const std::vector<Chunk>& chunks, const std::vector<Phase>& ys,
                                  const std::vector<Phase>& xs, const ConvShape& s, int64_t together, int64_t top,
                                  int64_t left, int64_t columns, const float* f) {
  int64_t lanes = 0;
  for (const Chunk& c : chunks) lanes += c.lanes;
  std::vector<PhasePart> parts;
  float* weights = Scratch(kWeights, s.kh * s.kw * s.oc * lanes);
  for (const Chunk& c : chunks) {
    for (const Phase& y : ys) {
      for (const Phase& x : xs) {
        PhasePart part;
        const bool joined = x.neighbours();
        std::vector<const float*> from;  // the filter's [channels][outputs] of each tap
        for (size_t i = 0; i < y.shift.size(); ++i) {
          for (size_t j = 0; j < x.shift.size(); ++j) {
            if (j == 0 || !joined) part.offset.push_back(((y.shift[i] + top) * columns + x.shift[j] + left) * s.oc);
            from.push_back(f + (y.kernel[i] * s.kw + x.kernel[j]) * s.c * s.oc);
          }
        }
        part.offset = Bytes(std::move(part.offset), together);
        part.run = joined ? static_cast<int64_t>(x.shift.size()) * s.oc : s.oc;
        part.products = static_cast<int64_t>(from.size()) * s.oc;
        part.weights = weights;
        for (const float* tap : from) weights = PackWeights(c, together, s.oc, tap, 1, s.oc, weights);
        parts.push_back(std::move(part));
      }
    }
  }
  return parts;
}

void BackwardInput(const ConvDirectTable& table, const ConvShape& s, ConvRows written, int64_t together, const float* f,
                   const float* d, float* dx, const ConvEpilogue<float>& e) {
  const int64_t element = together * sizeof(float), is4 = together == kFour;
  const std::vector<Phase> ys = PhasesOf(s.h, s.stride_h, s.dilation_h, s.kh, s.top);
  const std::vector<Phase> xs = PhasesOf(s.w, s.stride_w, s.dilation_w, s.kw, s.left);
  // The output's gradient is padded so that every phase finds zeros where there is no output.
  int64_t top = 0, left = 0, rows = s.oh, columns = s.ow;
  for (const Phase& y : ys) {
    if (y.shift.empty()) continue;
    top = std::max(top, -y.shift.front()), rows = std::max(rows, y.count + y.shift.back());
  }
  for (const Phase& x : xs) {
    if (x.shift.empty()) continue;
    left = std::max(left, -x.shift.front()), columns = std::max(columns, x.count + x.shift.back());
  }
  rows += top, columns += left;
  Images images(table, together, s.oh, s.ow, s.oc, top, left, rows, columns);
  const std::vector<Chunk> chunks = Chunks(table, s.c, together);
  Finisher finish(chunks, {});
  const std::vector<PhasePart> parts = PackPhases(chunks, ys, xs, s, together, top, left, columns, f);
  for (int64_t n = 0; n < s.n; n += together) {
    finish.f.images = static_cast<int>(std::min(together, s.n - n));
    images.Start(d + n * s.oh * s.ow * s.oc, finish.f.images);
    images.Place(rows);
    const PhasePart* part = parts.data();
    const float* bias = finish.bias.data();
    for (const Chunk& c : chunks) {
      ConvRow row;
      row.step = s.oc * element;
      row.out_lanes = RoundUp(c.lanes, kLine);
      row.out = Scratch(kRow, (s.w / s.stride_w + 1) * row.out_lanes);
      finish.f.row = row.out, finish.f.lanes = row.out_lanes, finish.f.channels = c.channels, finish.f.bias = bias,
      finish.f.out_column = s.stride_w * s.c;
      for (int64_t r = written.begin; r < written.end; ++r) {
        const PhasePart* of_row = part + r % s.stride_h * static_cast<int64_t>(xs.size());
        for (size_t j = 0; j < xs.size(); ++j) {
          const PhasePart& p = of_row[j];
          row.offset = p.offset.data(), row.taps = p.products > 0 ? p.offset.size() : 0, row.run = p.run;
          row.columns = xs[j].count;
          row.image = images.data + r / s.stride_h * images.row * together;
          row.weights = p.weights;
          row.ahead = {};
          if (&c == &chunks[0] &&
              n + together < s.n) {  // gradients while the first columns are computed, the mask with the last
            const int64_t d_size = s.oh * s.ow * s.oc, x_size = s.h * s.w * s.c, next = n + together;
            if (j == 0) {
              row.ahead = Ahead(d + next * d_size, together * d_size, r, s.h);
            } else if (j + 1 == xs.size() && e.relu_output != nullptr) {
              row.ahead = Ahead(e.relu_output + next * x_size, together * x_size, r, s.h);
            }
          }
          table.row[is4][c.units - 1][TileFor(table.row[is4][c.units - 1], row.columns) - 1](row);
          finish.f.columns = row.columns;
          for (int i = 0; i < finish.f.images; ++i) {
            const int64_t at = (((n + i) * s.h + r) * s.w + xs[j].first) * s.c + c.first;
            finish.f.out[i] = dx + at;
            finish.f.relu[i] = e.relu_output != nullptr ? e.relu_output + at : nullptr;
          }
          table.finish[is4](finish.f);
        }
      }
      part += ys.size() * xs.size();
      bias += RoundUp(c.channels, 4);
    }
  }
}

const ConvDirectTable& TableOf(int level) {
#if defined(__x86_64__)
  if (level > 0 && level < IsaLevel())
    return level >= 4 ? v4::kConvDirect : level == 3 ? v3::kConvDirect : v2::kConvDirect;
#endif
  return PickConvDirect();
}

}  // namespace

bool TakesDirectConv(const ConvShape& s) {
  if (s.groups != 1) return false;
  const int64_t rows = std::max((s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1, s.h),
                columns = std::max((s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1, s.w);
  const int64_t out_rows = s.oh + 2 * s.kh * s.dilation_h, out_columns = s.ow + 2 * s.kw * s.dilation_w;
  return rows * columns * s.c <= kMaxImage && out_rows * out_columns * s.oc <= kMaxImage &&
         s.filter_size() <= kMaxFilter;
}

bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out,
                const ConvEpilogue<float>& e, int level) {
  return DirectConv(pass, shape, a, b, out, e, {0, pass == ConvPass::kBackwardInput ? shape.h : shape.oh}, level);
}

bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out,
                const ConvEpilogue<float>& e, ConvRows rows, int level) {
  if (!TakesDirectConv(shape)) return false;
  const ConvDirectTable& table = TableOf(level);
  const bool filter = pass == ConvPass::kBackwardFilter;
  if (filter) {
    std::memset(out, 0, shape.filter_size() * sizeof(float));
    if (e.bias_gradient != nullptr) std::memset(e.bias_gradient, 0, shape.oc * sizeof(float));
  }
  // Images by fours; two or three at the end are computed as four, a single one alone.
  const int64_t alone = shape.n % kFour == 1 ? 1 : 0;
  for (const bool last : {false, true}) {
    ConvShape s = shape;
    s.n = last ? alone : shape.n - alone;
    if (s.n == 0) continue;
    const int64_t together = last ? 1 : kFour, first = last ? shape.n - 1 : 0, in = first * s.h * s.w * s.c,
                  to = first * s.oh * s.ow * s.oc;
    switch (pass) {
      case ConvPass::kForward:
        Forward(table, s, rows, together, a + in, b, out + to, e);
        break;
      case ConvPass::kBackwardFilter:
        BackwardFilter(table, s, together, a + in, b + to, out, e.bias_gradient);
        break;
      case ConvPass::kBackwardInput: {
        ConvEpilogue<float> part = e;
        if (part.relu_output != nullptr) part.relu_output += in;
        BackwardInput(table, s, rows, together, a, b + to, out + in, part);
        break;
      }
    }
  }
  if (pass == ConvPass::kForward && e.activation == ConvActivation::kElu) {
    for (int64_t n = 0, row = shape.ow * shape.oc; n < shape.n; ++n)
      FinishForward<float>({nullptr, e.activation}, (rows.end - rows.begin) * shape.ow, shape.oc,
                           out + (n * shape.oh + rows.begin) * row);
  }
  return true;
}

bool PreferDirectConv(ConvPass pass, const ConvShape& s) {
  if (!TakesDirectConv(s)) return false;
  const bool input = pass == ConvPass::kBackwardInput;
  // The library's vectors are filled by the channels that are written; products per result amortise
  // our way into and out of the layout of four images.
  const double written = static_cast<double>(input ? s.c : s.oc),
               vector = static_cast<double>(std::max<int64_t>(4, 4 << (IsaLevel() - 2)));
  const double products = static_cast<double>(s.kh * s.kw * (input ? s.oc : s.c)) /
                          static_cast<double>(input ? s.stride_h * s.stride_w : 1);
  const double library = written / (std::ceil(written / vector) * vector);
  const double images =
      s.n == 1 ? 0.4 : static_cast<double>(s.n) / static_cast<double>(RoundUp(s.n - (s.n % kFour == 1), kFour));
  return 0.9 * std::min(1.0, images) * products / (products + 0.75 * vector) > library;
}

}  // namespace troupe
