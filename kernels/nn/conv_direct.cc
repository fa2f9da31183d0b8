#include "troupe/kernels/nn/conv_direct.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "troupe/kernels/nn/conv_direct_loops.h"
#include "troupe/kernels/nn/isa_pick.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

TROUPE_ISA_TABLE(ConvDirectTable, kConvDirect)

namespace troupe {
namespace {

constexpr int64_t kLine = 16;  // floats of a cache line
constexpr int64_t kFour = kConvTogether;
// Floats of one padded image and of the filter: four images and a filter written out four times stay in a second-level cache of 1 MB.
constexpr int64_t kMaxImage = 48 << 10, kMaxFilter = 40 << 10;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Memory of the calling thread that later calls find again: what a shape needs is bounded by the limits above.
enum Use { kImages, kWeights, kRow, kGradients, kSums, kUses };
float* Scratch(Use use, int64_t n) {
  struct Free {
    void operator()(float* p) const { ::operator delete(p, std::align_val_t(64)); }
  };
  struct Block {
    std::unique_ptr<float, Free> data;
    int64_t size = 0;
  };
  static thread_local Block blocks[kUses];
  Block& b = blocks[use];
  if (b.size < n) {
    const int64_t size = RoundUp(n + n / 4, kLine);
    b.size = 0;
    b.data.reset(static_cast<float*>(::operator new(size * sizeof(float), std::align_val_t(64))));
    b.size = size;
  }
  return b.data.get();
}

// A part of the channels that are written, as the loops take it.
struct Chunk {
  int64_t first, channels;  // the last lanes may have no channel
  int64_t units, lanes;
};

// Whether an instruction on 512-bit vectors takes as long as one on half of that. AMD's family 25 splits them.
bool WholeVectorsAreFree() {
#if defined(__x86_64__)
  unsigned a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx) return true;
  __get_cpuid(1, &a, &b, &c, &d);
  return ((a >> 8) & 15) + ((a >> 20) & 255) != 25;
#else
  return true;
#endif
}

std::vector<Chunk> Chunks(const ConvDirectTable& t, int64_t channels, int64_t together) {
  static const bool round_up = WholeVectorsAreFree();
  const auto& loops = t.row[together == kFour];
  int64_t most = ConvDirectTable::kMaxUnits;
  while (loops[most - 1][0] == nullptr) --most;
  int64_t left = (channels * together + t.unit - 1) / t.unit;
  if (round_up && most > 3) left += left % 2;  // units are halves there
  std::vector<Chunk> chunks;
  for (int64_t first = 0; left > 0;) {
    Chunk c;
    const int64_t chunks_left = (left + most - 1) / most;
    c.units = (left + chunks_left - 1) / chunks_left;
    while (loops[c.units - 1][0] == nullptr) --c.units;
    c.first = first;
    c.lanes = c.units * t.unit;
    c.channels = std::min(channels - first, c.lanes / together);
    first += c.channels;
    left -= c.units;
    chunks.push_back(c);
  }
  return chunks;
}

// Where the products of one output pixel lie in a padded image, in elements.
struct Taps {
  std::vector<int64_t> offset;
  int64_t run = 0;
};

// Packs the weights w[k * k_step + channel * channel_step] of a chunk for k < count, each `together` times; returns where it ended.
float* PackWeights(const Chunk& c, int64_t together, int64_t count, const float* w, int64_t k_step, int64_t channel_step, float* to) {
  w += c.first * channel_step;
  for (int64_t k = 0; k < count; ++k, w += k_step, to += c.lanes) {
    for (int64_t i = 0; i < c.channels; ++i) {
      const float v = w[i * channel_step];
      if (together == 1) {
        to[i] = v;
      } else {
        for (int64_t j = 0; j < kFour; ++j) to[i * kFour + j] = v;
      }
    }
    for (int64_t i = c.channels * together; i < c.lanes; ++i) to[i] = 0;
  }
  return to;
}

// The most pixels or taps at a time, such that little is computed twice at the end of a row of `columns`.
template <class Table>
int TileFor(const Table& tiles, int64_t columns) {
  int best = 0;
  int64_t cost = std::numeric_limits<int64_t>::max();
  for (int p = std::min<int64_t>(ConvDirectTable::kMaxTile, columns); p > 0; --p) {
    if (tiles[p - 1] == nullptr) continue;
    const int64_t computed = (columns + p - 1) / p * (p + 1);  // a tile costs about a pixel more than it has: the weights are loaded
    if (computed < cost) cost = computed, best = p;
  }
  return best;
}

// Part `i` of `parts` of n floats. They may lie beyond a tensor: they are asked for, not read.
ConvAhead Ahead(const float* p, int64_t n, int64_t i, int64_t parts) {
  const int64_t lines = (n + kLine - 1) / kLine, first = lines * i / parts;
  return {reinterpret_cast<const char*>(p) + first * 64, lines * (i + 1) / parts - first};
}

// Padded images in scratch memory, `together` at a time. Rows are placed as they are needed.
struct Images {
  const ConvDirectTable& table;
  const int64_t together, height, width, channels, top, left, rows, row;  // row: elements
  float* data;
  const float* from[4] = {};
  int64_t placed = 0;  // rows of the sources

  Images(const ConvDirectTable& t, int64_t together, int64_t h, int64_t w, int64_t c, int64_t top, int64_t left, int64_t rows, int64_t columns)
      : table(t), together(together), height(h), width(std::clamp<int64_t>(columns - left, 0, w)), channels(c), top(top), left(left), rows(rows), row(columns * c),
        data(Scratch(kImages, rows * columns * c * together)), source_row_(w * c) {
    std::memset(data, 0, rows * row * together * sizeof(float));
  }
  // Starts with `count` images at `images`; the rest of the four shows the first of them again.
  void Start(const float* images, int64_t count) {
    for (int64_t i = 0; i < 4; ++i) from[i] = images + (i < count ? i : 0) * height * source_row_;
    placed = 0;
  }
  // Makes the first `limit` rows of the padded images valid.
  void Place(int64_t limit) {
    const int64_t n = width * channels;
    for (limit = std::min(limit, rows); placed < height && placed + top < limit; ++placed) {
      float* to = data + ((placed + top) * row + left * channels) * together;
      if (together == 1) {
        std::memcpy(to, from[0], n * sizeof(float));
      } else {
        table.interleave(from, n, to);
      }
      for (const float*& f : from) f += source_row_;
    }
  }

 private:
  const int64_t source_row_;
};

// Everything of ConvFinish that is the same for all rows, and the bias of each chunk.
struct Finisher {
  ConvFinish f;
  std::vector<float> bias;
  Finisher(const std::vector<Chunk>& chunks, const ConvEpilogue<float>& e) {
    f.low = e.activation == ConvActivation::kRelu || e.activation == ConvActivation::kRelu6 ? 0 : -std::numeric_limits<float>::infinity();
    f.high = e.activation == ConvActivation::kRelu6 ? 6 : std::numeric_limits<float>::infinity();
    for (const Chunk& c : chunks) {
      for (int64_t b = 0; b < c.channels; b += 4) {
        for (int64_t at = b; at < b + 4; ++at) bias.push_back(e.bias != nullptr && at < c.channels ? e.bias[c.first + at] : -0.0f);
      }
    }
  }
};

// --- forward -------------------------------------------------------------------------------------------------------------------------------------

struct ForwardGeometry {
  int64_t rows, columns;  // of a padded image
  Taps taps;
  explicit ForwardGeometry(const ConvShape& s) {
    rows = (s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
    columns = (s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1;
    const bool joined = s.dilation_w == 1;
    taps.run = joined ? s.kw * s.c : s.c;
    for (int64_t y = 0; y < s.kh; ++y) {
      for (int64_t x = 0; x < (joined ? 1 : s.kw); ++x) taps.offset.push_back((y * s.dilation_h * columns + x * s.dilation_w) * s.c);
    }
  }
};

std::vector<int64_t> Bytes(std::vector<int64_t> elements, int64_t together) {
  for (int64_t& e : elements) e *= together * static_cast<int64_t>(sizeof(float));
  return elements;
}

void Forward(const ConvDirectTable& table, const ConvShape& s, int64_t together, const float* x, const float* f, float* y, const ConvEpilogue<float>& e) {
  const int64_t element = together * sizeof(float), is4 = together == kFour, products = s.kh * s.kw * s.c, pixels = s.oh * s.ow;
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
      for (int64_t r = 0; r < s.oh; ++r) {
        images.Place(r * s.stride_h + (s.kh - 1) * s.dilation_h + 1);
        row.image = images.data + r * s.stride_h * images.row * together;
        row.ahead = {};
        if (&c == &chunks[0] && n + together < s.n) row.ahead = Ahead(x + (n + together) * s.h * s.w * s.c, together * s.h * s.w * s.c, r, s.oh);
        run(row);
        for (int i = 0; i < finish.f.images; ++i) finish.f.out[i] = y + ((n + i) * pixels + r * s.ow) * s.oc + c.first;
        table.finish[is4](finish.f);
      }
      w += products * c.lanes;
      bias += RoundUp(c.channels, 4);
    }
  }
}

// --- gradient of the filter ------------------------------------------------------------------------------------------------------------------------

// Adds to df, and to the bias gradient.
void BackwardFilter(const ConvDirectTable& table, const ConvShape& s, int64_t together, const float* x, const float* d, float* df, float* db) {
  const int64_t element = together * sizeof(float), is4 = together == kFour, products = s.kh * s.kw * s.c, pixels = s.oh * s.ow;
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
        // The next images come while these are computed: inputs in the first half of the time, gradients in the second.
        gather.ahead = {};
        if (&c == &chunks[0] && n + together < s.n) {
          const int64_t half = (parts + 1) / 2, next = n + together, x_size = s.h * s.w * s.c, d_size = pixels * s.oc;
          gather.ahead = p < half ? Ahead(x + next * x_size, together * x_size, p, half) : Ahead(d + next * d_size, together * d_size, p - half, parts - half);
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

// --- gradient of the input -------------------------------------------------------------------------------------------------------------------------

// One dimension of one phase of the stride: the input positions first, first + stride, ...; the i-th of them meets filter position kernel[j] at output position i + shift[j].
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

void BackwardInput(const ConvDirectTable& table, const ConvShape& s, int64_t together, const float* f, const float* d, float* dx, const ConvEpilogue<float>& e) {
  const int64_t element = together * sizeof(float), is4 = together == kFour;
  std::vector<Phase> ys, xs;
  for (int64_t p = 0; p < std::min(s.stride_h, s.h); ++p) ys.emplace_back(p, s.h, s.stride_h, s.dilation_h, s.kh, s.top);
  for (int64_t p = 0; p < std::min(s.stride_w, s.w); ++p) xs.emplace_back(p, s.w, s.stride_w, s.dilation_w, s.kw, s.left);
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
  int64_t lanes = 0;
  for (const Chunk& c : chunks) lanes += c.lanes;
  // [chunk][y phase][x phase]
  struct Part {
    std::vector<int64_t> offset;
    int64_t run = 0, products = 0;
    float* weights = nullptr;
  };
  std::vector<Part> parts;
  float* weights = Scratch(kWeights, s.kh * s.kw * s.oc * lanes);
  for (const Chunk& c : chunks) {
    for (const Phase& y : ys) {
      for (const Phase& x : xs) {
        Part part;
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
  for (int64_t n = 0; n < s.n; n += together) {
    finish.f.images = static_cast<int>(std::min(together, s.n - n));
    images.Start(d + n * s.oh * s.ow * s.oc, finish.f.images);
    images.Place(rows);
    const Part* part = parts.data();
    const float* bias = finish.bias.data();
    for (const Chunk& c : chunks) {
      ConvRow row;
      row.step = s.oc * element;
      row.out_lanes = RoundUp(c.lanes, kLine);
      row.out = Scratch(kRow, (s.w / s.stride_w + 1) * row.out_lanes);
      finish.f.row = row.out, finish.f.lanes = row.out_lanes, finish.f.channels = c.channels, finish.f.bias = bias, finish.f.out_column = s.stride_w * s.c;
      for (int64_t r = 0; r < s.h; ++r) {
        const Part* of_row = part + r % s.stride_h * static_cast<int64_t>(xs.size());
        for (size_t j = 0; j < xs.size(); ++j) {
          const Part& p = of_row[j];
          row.offset = p.offset.data(), row.taps = p.products > 0 ? p.offset.size() : 0, row.run = p.run;
          row.columns = xs[j].count;
          row.image = images.data + r / s.stride_h * images.row * together;
          row.weights = p.weights;
          row.ahead = {};
          if (&c == &chunks[0] && n + together < s.n) {  // gradients while the first columns are computed, the mask with the last
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
  if (level > 0 && level < IsaLevelForTables()) return level >= 4 ? v4::kConvDirect : level == 3 ? v3::kConvDirect : v2::kConvDirect;
#endif
  return PickkConvDirect();
}

bool Supported(const ConvShape& s) {
  if (s.groups != 1) return false;
  const int64_t rows = std::max((s.oh - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1, s.h), columns = std::max((s.ow - 1) * s.stride_w + (s.kw - 1) * s.dilation_w + 1, s.w);
  const int64_t out_rows = s.oh + 2 * s.kh * s.dilation_h, out_columns = s.ow + 2 * s.kw * s.dilation_w;
  return rows * columns * s.c <= kMaxImage && out_rows * out_columns * s.oc <= kMaxImage && s.filter_size() <= kMaxFilter;
}

}  // namespace

bool DirectConv(ConvPass pass, const ConvShape& shape, const float* a, const float* b, float* out, const ConvEpilogue<float>& e, int level) {
  if (!Supported(shape)) return false;
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
    const int64_t together = last ? 1 : kFour, first = last ? shape.n - 1 : 0, in = first * s.h * s.w * s.c, to = first * s.oh * s.ow * s.oc;
    switch (pass) {
      case ConvPass::kForward: Forward(table, s, together, a + in, b, out + to, e); break;
      case ConvPass::kBackwardFilter: BackwardFilter(table, s, together, a + in, b + to, out, e.bias_gradient); break;
      case ConvPass::kBackwardInput: {
        ConvEpilogue<float> part = e;
        if (part.relu_output != nullptr) part.relu_output += in;
        BackwardInput(table, s, together, a, b + to, out + in, part);
        break;
      }
    }
  }
  if (pass == ConvPass::kForward && e.activation == ConvActivation::kElu) FinishForward<float>({nullptr, e.activation}, shape.n * shape.oh * shape.ow, shape.oc, out);
  return true;
}

bool PreferDirectConv(ConvPass pass, const ConvShape& s) {
  if (!Supported(s)) return false;
  const bool input = pass == ConvPass::kBackwardInput;
  // The library's vectors are filled by the channels that are written; products per result amortise our way into and out of the layout of four images.
  const double written = static_cast<double>(input ? s.c : s.oc), vector = static_cast<double>(std::max<int64_t>(4, 4 << (IsaLevelForTables() - 2)));
  const double products = static_cast<double>(s.kh * s.kw * (input ? s.oc : s.c)) / static_cast<double>(input ? s.stride_h * s.stride_w : 1);
  const double library = written / (std::ceil(written / vector) * vector);
  const double images = s.n == 1 ? 0.4 : static_cast<double>(s.n) / static_cast<double>(RoundUp(s.n - (s.n % kFour == 1), kFour));
  return 0.9 * std::min(1.0, images) * products / (products + 0.75 * vector) > library;
}

}  // namespace troupe
