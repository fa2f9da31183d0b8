// The naive truth of a convolution in double precision, and shapes to try.
#ifndef TROUPE_TESTS_NN_CONV_ORACLE_H_
#define TROUPE_TESTS_NN_CONV_ORACLE_H_

#include <algorithm>
#include <vector>

#include "kernels/nn/conv_epilogue.h"
#include "kernels/nn/conv_shape.h"
#include "tests/nn/nn_test_util.h"

namespace troupe {

// SAME padding for an image [n, h, w, c], `oc` outputs and square strides and dilations; VALID when
// `valid`.
inline ConvShape MakeConvShape(int64_t n, int64_t h, int64_t w, int64_t c, int64_t kh, int64_t kw, int64_t oc,
                               int64_t stride, int64_t dilation = 1, bool valid = false) {
  ConvShape s;
  s.n = n, s.h = h, s.w = w, s.c = c, s.kh = kh, s.kw = kw, s.oc = oc;
  s.stride_h = s.stride_w = stride, s.dilation_h = s.dilation_w = dilation;
  auto side = [&](int64_t in, int64_t k, int64_t* out, int64_t* before, int64_t* after) {
    const int64_t window = (k - 1) * dilation + 1;
    *out = valid ? (in - window) / stride + 1 : (in + stride - 1) / stride;
    const int64_t pad = valid ? 0 : std::max<int64_t>(0, (*out - 1) * stride + window - in);
    *before = pad / 2, *after = pad - pad / 2;
  };
  side(h, kh, &s.oh, &s.top, &s.bottom);
  side(w, kw, &s.ow, &s.left, &s.right);
  return s;
}

// The sums of one convolution over all its products, without an epilogue.
struct ConvTruth {
  std::vector<double> y, dx, df, db;
  ConvTruth(const ConvShape& s, const std::vector<double>& x, const std::vector<double>& f,
            const std::vector<double>& d)
      : y(s.output_size()), dx(s.input_size()), df(s.filter_size()), db(s.oc) {
    for (int64_t n = 0; n < s.n; ++n)
      for (int64_t i = 0; i < s.oh; ++i)
        for (int64_t j = 0; j < s.ow; ++j) {
          const int64_t out = ((n * s.oh + i) * s.ow + j) * s.oc;
          for (int64_t o = 0; o < s.oc; ++o) db[o] += d[out + o];
          for (int64_t a = 0; a < s.kh; ++a)
            for (int64_t b = 0; b < s.kw; ++b) {
              const int64_t r = i * s.stride_h + a * s.dilation_h - s.top,
                            q = j * s.stride_w + b * s.dilation_w - s.left;
              if (r < 0 || q < 0 || r >= s.h || q >= s.w) continue;
              for (int64_t c = 0; c < s.c; ++c) {
                const int64_t in = ((n * s.h + r) * s.w + q) * s.c + c, w = ((a * s.kw + b) * s.c + c) * s.oc;
                for (int64_t o = 0; o < s.oc; ++o) {
                  y[out + o] += x[in] * f[w + o];
                  dx[in] += d[out + o] * f[w + o];
                  df[w + o] += d[out + o] * x[in];
                }
              }
            }
        }
  }
};

inline std::vector<float> Floats(const std::vector<double>& v) { return std::vector<float>(v.begin(), v.end()); }

// Operands of one convolution and the truth about it. `y_before` makes relu_output: the sign
// pattern that masks d input.
struct ConvProblem {
  ConvShape s;
  std::vector<double> x, f, d, bias, y_before;
  ConvTruth truth;
  explicit ConvProblem(const ConvShape& shape, uint32_t seed = 71)
      : s(shape),
        x(RandomValues(s.input_size(), seed)),
        f(RandomValues(s.filter_size(), seed + 1)),
        d(RandomValues(s.output_size(), seed + 2)),
        bias(RandomValues(s.oc, seed + 3)),
        y_before(RandomValues(s.input_size(), seed + 4)),
        truth(s, x, f, d) {}
};

inline double Activated(ConvActivation a, double v) {
  switch (a) {
    case ConvActivation::kNone:
      return v;
    case ConvActivation::kRelu:
      return std::max(v, 0.0);
    case ConvActivation::kRelu6:
      return std::min(std::max(v, 0.0), 6.0);
    case ConvActivation::kElu:
      return v < 0 ? std::expm1(v) : v;
    case ConvActivation::kSwish:
      return v / (1 + std::exp(-v));
  }
  return v;
}

inline void CheckFloats(const std::vector<float>& got, const std::vector<double>& want, const std::string& what) {
  Tensor t(DType::kFloat, TensorShape({static_cast<int64_t>(got.size())}));
  std::copy(got.begin(), got.end(), t.data<float>());
  CheckClose(t, want, what, 2);
}

inline std::string Text(const ConvShape& s) {
  return StrCat(s.n, "x", s.h, "x", s.w, "x", s.c, " k", s.kh, "x", s.kw, " oc", s.oc, " s", s.stride_h, " d",
                s.dilation_h, " pad ", s.top, ",", s.bottom, ",", s.left, ",", s.right);
}

// Checks every pass of run(pass, shape, a, b, out, epilogue), which may decline by returning false;
// returns how many passes it took. `plain`: without epilogues.
template <class Run>
int CheckConvolution(const ConvProblem& p, bool plain, Run run, const std::string& who) {
  const ConvShape& s = p.s;
  const std::vector<float> x = Floats(p.x), f = Floats(p.f), d = Floats(p.d), bias = Floats(p.bias),
                           mask = Floats(p.y_before);
  int taken = 0;
  for (ConvActivation act :
       {ConvActivation::kNone, ConvActivation::kRelu, ConvActivation::kRelu6, ConvActivation::kElu}) {
    for (bool with_bias : {false, true}) {
      if (plain && (with_bias || act != ConvActivation::kNone)) continue;
      // Padding beyond the end shows what writes there.
      std::vector<float> y(s.output_size() + 16, 77.0f);
      ConvEpilogue<float> e;
      e.bias = with_bias ? bias.data() : nullptr;
      e.activation = act;
      if (!run(ConvPass::kForward, s, x.data(), f.data(), y.data(), e)) continue;
      ++taken;
      std::vector<double> want = p.truth.y;
      for (size_t i = 0; i < want.size(); ++i) want[i] = Activated(act, want[i] + (with_bias ? p.bias[i % s.oc] : 0));
      for (int i = 0; i < 16; ++i) BOOST_CHECK_EQUAL(y[s.output_size() + i], 77.0f);
      y.resize(s.output_size());
      CheckFloats(y, want,
                  StrCat(who, " forward ", Text(s), with_bias ? " bias" : "", " activation ", static_cast<int>(act)));
    }
  }
  for (bool masked : {false, true}) {
    if (plain && masked) continue;
    std::vector<float> dx(s.input_size() + 16, 77.0f);
    ConvEpilogue<float> e;
    e.relu_output = masked ? mask.data() : nullptr;
    if (run(ConvPass::kBackwardInput, s, f.data(), d.data(), dx.data(), e)) {
      ++taken;
      std::vector<double> want = p.truth.dx;
      for (size_t i = 0; i < want.size(); ++i) want[i] = masked && !(p.y_before[i] > 0) ? 0 : want[i];
      for (int i = 0; i < 16; ++i) BOOST_CHECK_EQUAL(dx[s.input_size() + i], 77.0f);
      dx.resize(s.input_size());
      CheckFloats(dx, want, StrCat(who, " backward input ", Text(s), masked ? " masked" : ""));
    }
    std::vector<float> df(s.filter_size() + 16, 77.0f), db(s.oc + 16, 77.0f);
    e = {};
    e.bias_gradient = masked ? db.data() : nullptr;
    if (run(ConvPass::kBackwardFilter, s, x.data(), d.data(), df.data(), e)) {
      ++taken;
      for (int i = 0; i < 16; ++i) BOOST_CHECK_EQUAL(df[s.filter_size() + i], 77.0f);
      for (int i = 0; i < 16; ++i) BOOST_CHECK_EQUAL(db[s.oc + i], 77.0f);
      df.resize(s.filter_size());
      db.resize(s.oc);
      CheckFloats(df, p.truth.df, StrCat(who, " backward filter ", Text(s)));
      if (masked) CheckFloats(db, p.truth.db, StrCat(who, " bias gradient ", Text(s)));
    }
  }
  return taken;
}

}  // namespace troupe

#endif  // TROUPE_TESTS_NN_CONV_ORACLE_H_
