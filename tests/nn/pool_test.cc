// Pooling and batch normalisation against naive loops.
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/nn/nn_test_util.h"

namespace troupe {
namespace pool_test {

struct PoolCase {
  int64_t n, h, w, c, kh, kw, sh, sw;
  std::string padding;
  std::vector<int64_t> pads = {};  // top, bottom, left, right
};

const PoolCase kPoolCases[] = {{2, 4, 4, 3, 2, 2, 2, 2, "VALID"},
                               {2, 5, 7, 1, 2, 3, 2, 1, "SAME"},
                               {3, 9, 9, 17, 3, 3, 2, 2, "SAME"},
                               {1, 6, 6, 40, 3, 2, 1, 2, "VALID"},
                               {2, 5, 5, 71, 3, 2, 2, 1, "SAME"},
                               {2, 3, 3, 5, 1, 1, 2, 2, "SAME"},
                               {1, 2, 2, 4, 5, 5, 1, 1, "SAME"},
                               {0, 4, 4, 2, 2, 2, 2, 2, "SAME"},
                               {1, 5, 5, 2, 3, 3, 2, 2, "EXPLICIT", {1, 0, 2, 1}},
                               {4, 28, 28, 8, 2, 2, 2, 2, "SAME"}};

struct Windows {
  int64_t oh, ow, top, left;
};
Windows Lay(const PoolCase& c) {
  if (c.padding == "SAME") {
    const int64_t oh = (c.h + c.sh - 1) / c.sh, ow = (c.w + c.sw - 1) / c.sw;
    return {oh, ow, std::max<int64_t>(0, (oh - 1) * c.sh + c.kh - c.h) / 2,
            std::max<int64_t>(0, (ow - 1) * c.sw + c.kw - c.w) / 2};
  }
  const std::vector<int64_t> p = c.pads.empty() ? std::vector<int64_t>(4) : c.pads;
  return {(c.h + p[0] + p[1] - c.kh) / c.sh + 1, (c.w + p[2] + p[3] - c.kw) / c.sw + 1, p[0], p[2]};
}

// Calls f(output index, the input indices under its window).
template <class F>
void EachWindow(const PoolCase& c, F f) {
  const Windows l = Lay(c);
  for (int64_t o = 0; o < c.n * l.oh * l.ow * c.c; ++o) {
    const int64_t k = o % c.c, j = o / c.c % l.ow, i = o / c.c / l.ow % l.oh, n = o / c.c / l.ow / l.oh;
    std::vector<int64_t> under;
    for (int64_t y = i * c.sh - l.top; y < i * c.sh - l.top + c.kh; ++y) {
      for (int64_t x = j * c.sw - l.left; x < j * c.sw - l.left + c.kw; ++x) {
        if (y >= 0 && x >= 0 && y < c.h && x < c.w) under.push_back(((n * c.h + y) * c.w + x) * c.c + k);
      }
    }
    f(o, under);
  }
}

Tensor Nchw(const Tensor& t) {
  std::vector<double> v = ToDoubles(t), out(v.size());
  const int64_t pixels = t.dim(1) * t.dim(2), c = t.dim(3);
  for (size_t i = 0; i < v.size(); ++i) out[(i / (pixels * c) * c + i % c) * pixels + i / c % pixels] = v[i];
  return MakeTensor(t.dtype(), TensorShape({t.dim(0), c, t.dim(1), t.dim(2)}), out);
}

BOOST_AUTO_TEST_CASE(pooling_of_every_type_and_format) {
  for (const PoolCase& c : kPoolCases) {
    const Windows l = Lay(c);
    const TensorShape in({c.n, c.h, c.w, c.c}), out({c.n, l.oh, l.ow, c.c});
    for (DType t : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16, DType::kInt32, DType::kInt64,
                    DType::kUint8, DType::kInt8, DType::kInt16, DType::kUint16}) {
      const Tensor x = RandomTensor(t, in, 71), g = RandomTensor(t, out, 72), h = RandomTensor(t, in, 73);
      const std::vector<double> xv = ToDoubles(x), gv = ToDoubles(g), hv = ToDoubles(h);
      std::vector<double> max(gv.size()), avg(gv.size()), max_grad(xv.size()), avg_grad(xv.size()),
          grad_grad(gv.size());
      EachWindow(c, [&](int64_t o, const std::vector<int64_t>& under) {
        int64_t best = under[0];
        for (int64_t i : under) {
          if (xv[i] > xv[best]) best = i;
          avg[o] += xv[i] / static_cast<double>(under.size());
          avg_grad[i] += gv[o] / static_cast<double>(under.size());
        }
        max[o] = xv[best];
        max_grad[best] += gv[o];
        grad_grad[o] = hv[best];
      });
      for (bool nchw : {false, true}) {
        auto four = [&](int64_t a, int64_t b) {
          return nchw ? std::vector<int64_t>{1, 1, a, b} : std::vector<int64_t>{1, a, b, 1};
        };
        AttrMap a = {{"ksize", four(c.kh, c.kw)},
                     {"strides", four(c.sh, c.sw)},
                     {"padding", c.padding},
                     {"data_format", nchw ? "NCHW" : "NHWC"}};
        AttrMap max_attrs = a;
        if (!c.pads.empty()) {
          std::vector<int64_t> p(8);
          for (int i = 0; i < 4; ++i) p[(nchw ? 4 : 2) + i] = c.pads[i];
          max_attrs.Set("explicit_paddings", p);
        }
        auto image = [&](const Tensor& v) { return nchw ? Nchw(v) : v; };
        auto want = [&](const std::vector<double>& v, const TensorShape& s) {
          return nchw ? ToDoubles(Nchw(MakeTensor(DType::kDouble, s, v))) : v;
        };
        for (int threads : {1, 2}) {
          const std::string what = StrCat(" ", x.TypeAndShape(), " ", c.padding, nchw ? " NCHW" : "");
          const Tensor xi = image(x), gi = image(g), y = Run("MaxPool", {xi}, max_attrs, threads)[0];
          CheckClose(y, want(max, out), "MaxPool" + what);
          CheckClose(Run("MaxPoolGrad", {xi, y, gi}, max_attrs, threads)[0], want(max_grad, in), "MaxPoolGrad" + what);
          if (!c.pads.empty()) continue;
          CheckClose(Run("MaxPoolGradGrad", {xi, y, image(h)}, a, threads)[0], want(grad_grad, out),
                     "MaxPoolGradGrad" + what);
          AttrMap v2 = {{"padding", c.padding}, {"data_format", nchw ? "NCHW" : "NHWC"}};
          auto ints = [](const std::vector<int64_t>& v) {
            return MakeTensor(DType::kInt32, TensorShape({4}), std::vector<double>(v.begin(), v.end()));
          };
          const Tensor k = ints(four(c.kh, c.kw)), s = ints(four(c.sh, c.sw));
          BOOST_CHECK(SameBytes(Run("MaxPoolV2", {xi, k, s}, v2, threads)[0], y));
          CheckClose(Run("MaxPoolGradV2", {xi, y, gi, k, s}, v2, threads)[0], want(max_grad, in),
                     "MaxPoolGradV2" + what);
          if (!IsFloating(t)) continue;
          CheckClose(Run("AvgPool", {xi}, a, threads)[0], want(avg, out), "AvgPool" + what);
          const Tensor shape = MakeTensor(DType::kInt32, TensorShape({4}), [&] {
            std::vector<double> d;
            for (int i = 0; i < 4; ++i) d.push_back(static_cast<double>(xi.dim(i)));
            return d;
          }());
          CheckClose(Run("AvgPoolGrad", {shape, gi}, a, threads)[0], want(avg_grad, in), "AvgPoolGrad" + what);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(pooling_refusals) {
  const DType f = DType::kFloat;
  auto attrs = [](std::vector<int64_t> k, std::vector<int64_t> s, std::string padding) {
    return AttrMap{{"ksize", k}, {"strides", s}, {"padding", padding}};
  };
  const Tensor x(f, TensorShape({1, 4, 4, 2})), y(f, TensorShape({1, 2, 2, 2}));
  const AttrMap a = attrs({1, 2, 2, 1}, {1, 2, 2, 1}, "VALID");
  CheckRefused("MaxPool", {Tensor(f, TensorShape({4, 4, 2}))}, a, "must be 4-dimensional");
  CheckRefused("MaxPool", {x}, attrs({1, 6, 6, 1}, {1, 1, 1, 1}, "VALID"), "Computed output size would be negative");
  CheckRefused("MaxPool", {x}, attrs({2, 2, 2, 1}, {1, 1, 1, 1}, "VALID"),
               "ksize in the batch and depth dimensions must be 1");
  CheckRefused("AvgPool", {x}, attrs({1, 0, 2, 1}, {1, 1, 1, 1}, "VALID"), "ksize must be positive");
  CheckRefused("MaxPoolGrad", {x, y, x}, a, "grad has shape [1,4,4,2], but pooling [1,4,4,2] needs [1,2,2,2]");
  CheckRefused("MaxPoolGrad", {x, x, y}, a, "orig_output has shape");
  CheckRefused("AvgPoolGrad", {Tensor::Vector<int32_t>({1, 4, 4}), y}, a,
               "orig_input_shape must be a vector of 4 numbers");
  CheckRefused("AvgPoolGrad", {Tensor::Vector<int32_t>({1, 4, 4, 3}), y}, a, "grad has shape");
  AttrMap pads = attrs({1, 1, 1, 1}, {1, 1, 1, 1}, "EXPLICIT");
  pads.Set("explicit_paddings", std::vector<int64_t>{0, 0, 1, 1, 1, 1, 0, 0});
  CheckRefused("MaxPool", {x}, pads, "must be smaller than the window");
}

BOOST_AUTO_TEST_CASE(max_pool_passes_over_nan) {
  const AttrMap a = {
      {"ksize", std::vector<int64_t>{1, 2, 2, 1}}, {"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "VALID"}};
  const Tensor x = Tensor::Of<float>({std::nanf(""), 1, 3, 2}, TensorShape({1, 2, 2, 1}));
  CheckClose(Run("MaxPool", {x}, a)[0], {3}, "NaN first");
}

BOOST_AUTO_TEST_CASE(batch_normalisation) {
  for (auto& [shape, format] : {std::pair<TensorShape, std::string>{{3, 4, 5, 6}, "NHWC"},
                                {{3, 6, 4, 5}, "NCHW"},
                                {{2, 3, 2, 4, 3}, "NDHWC"},
                                {{2, 3, 2, 4, 3}, "NCDHW"},
                                {{40, 9, 9, 33}, "NHWC"}}) {
    const bool first = format[1] == 'C';
    const int64_t channels = shape.dim(first ? 1 : shape.rank() - 1);
    int64_t inner = 1;
    for (int i = 2; first && i < shape.rank(); ++i) inner *= shape.dim(i);
    const int64_t total = shape.num_elements(), n = total / channels;
    for (DType t : {DType::kFloat, DType::kHalf, DType::kBfloat16}) {
      const TensorShape v({channels});
      const Tensor x = RandomTensor(t, shape, 81), dy = RandomTensor(t, shape, 82);
      const Tensor scale = RandomTensor(DType::kFloat, v, 83), offset = RandomTensor(DType::kFloat, v, 84),
                   old_mean = RandomTensor(DType::kFloat, v, 85);
      std::vector<double> ov = RandomValues(channels, 86);
      for (double& o : ov) o = std::abs(o) + 0.5;
      const Tensor old_variance = MakeTensor(DType::kFloat, v, ov);
      const std::vector<double> xv = ToDoubles(x), dv = ToDoubles(dy), sv = ToDoubles(scale), bv = ToDoubles(offset),
                                om = ToDoubles(old_mean);
      auto channel = [&](int64_t i) { return i / inner % channels; };
      for (bool training : {true, false}) {
        for (float factor : {1.0f, 0.25f}) {
          std::vector<double> mean(channels), variance(channels);
          for (int64_t i = 0; i < total; ++i) mean[channel(i)] += xv[i] / n;
          for (int64_t i = 0; i < total; ++i)
            variance[channel(i)] += (xv[i] - mean[channel(i)]) * (xv[i] - mean[channel(i)]) / n;
          std::vector<double> keep_mean = mean, keep_variance = variance;
          for (int64_t c = 0; c < channels; ++c) {
            keep_mean[c] = (1 - factor) * om[c] + factor * mean[c];
            keep_variance[c] = (1 - factor) * ov[c] + factor * variance[c] * n / (n - 1);
          }
          if (!training) mean = keep_mean = om, variance = keep_variance = ov;
          std::vector<double> y(total), dx(total), ds(channels), db(channels), dot(channels);
          for (int64_t i = 0; i < total; ++i) {
            const int64_t c = channel(i);
            const double inverse = 1 / std::sqrt(variance[c] + 0.001);
            y[i] = (xv[i] - mean[c]) * inverse * sv[c] + bv[c];
            ds[c] += dv[i] * (xv[i] - mean[c]) * inverse;
            db[c] += dv[i];
            dot[c] += dv[i] * (xv[i] - mean[c]);
          }
          for (int64_t i = 0; i < total; ++i) {
            const int64_t c = channel(i);
            const double inverse = 1 / std::sqrt(variance[c] + 0.001);
            dx[i] = sv[c] * inverse *
                    (training ? dv[i] - db[c] / n - (xv[i] - mean[c]) * inverse * inverse * dot[c] / n : dv[i]);
          }
          for (std::string version : {"", "V2", "V3"}) {
            if ((version.empty() && t != DType::kFloat) || (version != "V3" && shape.rank() == 5)) continue;
            const std::string what =
                StrCat("FusedBatchNorm", version, " ", x.TypeAndShape(), " ", format, training ? " training" : "");
            AttrMap a = {{"epsilon", 0.001f}, {"data_format", format}, {"is_training", training}};
            AttrMap forward = a;
            forward.Set("exponential_avg_factor", factor);
            const std::vector<Tensor> out =
                Run("FusedBatchNorm" + version, {x, scale, offset, old_mean, old_variance}, forward, 2);
            CheckClose(out[0], y, what, 4);
            CheckClose(out[1], keep_mean, what + " mean", 4);
            CheckClose(out[2], keep_variance, what + " variance", 4);
            CheckClose(out[3], mean, what + " batch mean", 4);
            CheckClose(out[4], variance, what + " batch variance", 4);
            std::vector<Tensor> in = {dy, x, scale, out[3], out[4]};
            if (version == "V3") in.push_back(out[5]);
            const std::vector<Tensor> back = Run("FusedBatchNormGrad" + version, in, a, 2);
            CheckClose(back[0], dx, what + " dx", 4);
            CheckClose(back[1], ds, what + " dscale", 8);
            CheckClose(back[2], db, what + " doffset", 4);
          }
        }
      }
    }
  }
  const DType f = DType::kFloat;
  const Tensor x(f, TensorShape({1, 2, 2, 3})), v(f, TensorShape({3})), none(f, TensorShape({0}));
  CheckRefused("FusedBatchNormV3", {x, Tensor(f, TensorShape({2})), v, none, none}, {},
               "scale must have one element for each of the 3 channels");
  CheckRefused("FusedBatchNormV3", {x, v, v, none, v}, {{"is_training", false}}, "mean must have one element");
  CheckRefused("FusedBatchNormV3", {v, v, v, none, none}, {}, "x must be 4- or 5-dimensional");
  const std::vector<Tensor> empty = Run("FusedBatchNormV3", {Tensor(f, TensorShape({0, 2, 2, 3})), v, v, none, none});
  BOOST_CHECK(std::isnan(empty[1].data<float>()[0]) && empty[3].data<float>()[0] == 0);
}

}  // namespace pool_test
}  // namespace troupe
