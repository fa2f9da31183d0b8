#include "kernels/nn/conv_direct_plan.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace troupe::conv {

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

namespace {

// Whether an instruction on 512-bit vectors takes as long as one on half of that. AMD's family 25
// splits them.
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

}  // namespace

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

std::vector<int64_t> Bytes(std::vector<int64_t> elements, int64_t together) {
  for (int64_t& e : elements) e *= together * static_cast<int64_t>(sizeof(float));
  return elements;
}

float* PackWeights(const Chunk& c, int64_t together, int64_t count, const float* w, int64_t k_step,
                   int64_t channel_step, float* to) {
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

int TileFor(const ConvRowLoops& tiles, int64_t columns) {
  int best = 0;
  int64_t cost = std::numeric_limits<int64_t>::max();
  for (int p = std::min<int64_t>(ConvDirectTable::kMaxTile, columns); p > 0; --p) {
    if (tiles[p - 1] == nullptr) continue;
    const int64_t computed =
        (columns + p - 1) / p * (p + 1);  // a tile costs about a pixel more than it has: the weights are loaded
    if (computed < cost) cost = computed, best = p;
  }
  return best;
}

ConvAhead Ahead(const float* p, int64_t n, int64_t i, int64_t parts) {
  const int64_t lines = (n + kLine - 1) / kLine, first = lines * i / parts;
  return {reinterpret_cast<const char*>(p) + first * 64, lines * (i + 1) / parts - first};
}

Images::Images(const ConvDirectTable& t, int64_t together, int64_t h, int64_t w, int64_t c, int64_t top, int64_t left,
               int64_t rows, int64_t columns)
    : table(t),
      together(together),
      height(h),
      width(std::clamp<int64_t>(columns - left, 0, w)),
      channels(c),
      top(top),
      left(left),
      rows(rows),
      row(columns * c),
      data(Scratch(kImages, rows * columns * c * together)),
      source_row_(w * c) {
  std::memset(data, 0, rows * row * together * sizeof(float));
}

void Images::Start(const float* images, int64_t count) {
  if (count < together) zeros_.resize(static_cast<size_t>(source_row_));
  for (int64_t i = 0; i < 4; ++i) from[i] = i < count ? images + i * height * source_row_ : zeros_.data();
  count_ = count;
  placed = 0;
}

void Images::Place(int64_t limit) {
  const int64_t n = width * channels;
  for (limit = std::min(limit, rows); placed < height && placed + top < limit; ++placed) {
    float* to = data + ((placed + top) * row + left * channels) * together;
    if (together == 1) {
      std::memcpy(to, from[0], n * sizeof(float));
    } else {
      table.interleave(from, n, to);
    }
    for (int64_t i = 0; i < count_; ++i) from[i] += source_row_;
  }
}

Finisher::Finisher(const std::vector<Chunk>& chunks, const ConvEpilogue<float>& e) {
  f.low = e.activation == ConvActivation::kRelu || e.activation == ConvActivation::kRelu6
              ? 0
              : -std::numeric_limits<float>::infinity();
  f.high = e.activation == ConvActivation::kRelu6 ? 6 : std::numeric_limits<float>::infinity();
  for (const Chunk& c : chunks) {
    for (int64_t b = 0; b < c.channels; b += 4) {
      for (int64_t at = b; at < b + 4; ++at)
        bias.push_back(e.bias != nullptr && at < c.channels ? e.bias[c.first + at] : -0.0f);
    }
  }
}

}  // namespace troupe::conv
