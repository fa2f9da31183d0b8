#include "kernels/nn/conv_generic.h"

#include <algorithm>
#include <vector>

#include "kernels/product/gemm.h"

namespace troupe {
namespace {

// Bytes of unrolled patches at a time: they should stay in the second-level cache.
constexpr int64_t kPatchBytes = 256 << 10;

// One image and one group: output pixels [first, limit) as rows of patches [pixel, kh, kw, c /
// groups].
template <class T, class F>
void EachTap(const ConvShape& s, int64_t first, int64_t limit, F f) {
  const int64_t channels = s.c / s.groups, row = s.kh * s.kw * channels;
  for (int64_t p = first; p < limit; ++p) {
    const int64_t y0 = p / s.ow * s.stride_h - s.top, x0 = p % s.ow * s.stride_w - s.left;
    for (int64_t ky = 0; ky < s.kh; ++ky) {
      const int64_t y = y0 + ky * s.dilation_h;
      for (int64_t kx = 0; kx < s.kw; ++kx) {
        const int64_t x = x0 + kx * s.dilation_w;
        const bool inside = y >= 0 && y < s.h && x >= 0 && x < s.w;
        f((p - first) * row + (ky * s.kw + kx) * channels, inside ? (y * s.w + x) * s.c : -1, channels);
      }
    }
  }
}

template <class T>
void Unroll(const ConvShape& s, const T* image, int64_t first, int64_t limit, T* patches) {
  EachTap<T>(s, first, limit, [&](int64_t to, int64_t from, int64_t n) {
    if (from < 0) {
      std::fill_n(patches + to, n, T(0));
    } else {
      std::copy_n(image + from, n, patches + to);
    }
  });
}

template <class T>
void AddBack(const ConvShape& s, const T* patches, int64_t first, int64_t limit, T* image) {
  EachTap<T>(s, first, limit, [&](int64_t from, int64_t to, int64_t n) {
    if (to < 0) return;
    for (int64_t i = 0; i < n; ++i) image[to + i] += patches[from + i];
  });
}

}  // namespace

template <class T>
void GenericConv(ConvPass pass, const ConvShape& s, const T* a, const T* b, T* out) {
  const int64_t channels = s.c / s.groups, outputs = s.oc / s.groups, row = s.kh * s.kw * channels,
                pixels = s.oh * s.ow;
  const int64_t step = std::clamp<int64_t>(kPatchBytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(1, row), 1,
                                           std::max<int64_t>(1, pixels));
  std::vector<T> patches(step * row);
  if (pass == ConvPass::kBackwardInput) std::fill_n(out, s.input_size(), T(0));
  if (pass == ConvPass::kBackwardFilter) std::fill_n(out, s.filter_size(), T(0));
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t g = 0; g < s.groups; ++g) {
      // Offsets of this image and group in an input, an output and the filter.
      const int64_t in = n * s.h * s.w * s.c + g * channels, to = n * pixels * s.oc + g * outputs,
                    weights = g * outputs;
      for (int64_t p = 0; p < pixels; p += step) {
        const int64_t limit = std::min(p + step, pixels);
        GemmShape m;
        switch (pass) {
          case ConvPass::kForward:
            Unroll(s, a + in, p, limit, patches.data());
            m.m = limit - p, m.n = outputs, m.k = row;
            GemmStrided(m, patches.data(), row, b + weights, s.oc, out + to + p * s.oc, s.oc, false);
            break;
          case ConvPass::kBackwardInput:
            m.m = limit - p, m.n = row, m.k = outputs, m.transpose_b = true;
            GemmStrided(m, b + to + p * s.oc, s.oc, a + weights, s.oc, patches.data(), row, false);
            AddBack(s, patches.data(), p, limit, out + in);
            break;
          case ConvPass::kBackwardFilter:
            Unroll(s, a + in, p, limit, patches.data());
            m.m = row, m.n = outputs, m.k = limit - p, m.transpose_a = true;
            GemmStrided(m, patches.data(), row, b + to + p * s.oc, s.oc, out + weights, s.oc, true);
            break;
        }
      }
    }
  }
}

template void GenericConv<float>(ConvPass, const ConvShape&, const float*, const float*, float*);
template void GenericConv<double>(ConvPass, const ConvShape&, const double*, const double*, double*);
template void GenericConv<uint32_t>(ConvPass, const ConvShape&, const uint32_t*, const uint32_t*, uint32_t*);

}  // namespace troupe
