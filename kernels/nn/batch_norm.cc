#include "kernels/nn/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"
#include "kernels/nn/batch_norm_loops.h"
#include "kernels/nn/bias.h"
#include "kernels/nn/layout.h"

TROUPE_ISA_TABLE(BatchNormTable, kBatchNorm, PickBatchNorm)

namespace troupe {
namespace {

int ChannelDim(const Node& node, int rank) { return ChannelsFirst(node) ? 1 : rank - 1; }

// x with the channels last, in float32.
absl::StatusOr<Tensor> Rows(KernelContext& ctx, const Tensor& t, const ChannelView& v) {
  const Tensor wide = Widened(ctx, t);
  if (v.inner == 1) return wide;
  TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(DType::kFloat, t.shape()));
  SwapLastTwo(ctx.threads(), 4, v.outer, v.channels, v.inner, wide.raw(), out.raw());
  return out;
}
// The way back, in the output's type.
absl::StatusOr<Tensor> Restored(KernelContext& ctx, Tensor t, const ChannelView& v, DType dtype) {
  if (v.inner == 1) return Narrowed(ctx, std::move(t), dtype);
  TROUPE_ASSIGN_OR_RETURN(Tensor out, ctx.AllocateTemp(DType::kFloat, t.shape()));
  SwapLastTwo(ctx.threads(), 4, v.outer, v.inner, v.channels, t.raw(), out.raw());
  return Narrowed(ctx, std::move(out), dtype);
}

// Runs f(first row, rows, sums) over ranges of rows, each with `width` sums of its own, and adds
// these up in order.
template <class F>
std::vector<double> SumRows(ComputeThreads* threads, int64_t rows, int64_t channels, int64_t width, F f) {
  const int64_t ranges = std::max<int64_t>(1, threads->NumRanges(rows, 0.5 * static_cast<double>(channels)));
  std::vector<double> partial(ranges * width), sums(width);
  threads->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t limit) {
    for (int64_t r = first; r < limit; ++r) {
      int64_t b, e;
      ComputeThreads::Range(rows, ranges, r, &b, &e);
      f(b, e - b, partial.data() + r * width);
    }
  });
  for (int64_t i = 0; i < ranges * width; ++i) sums[i % width] += partial[i];
  return sums;
}

absl::Status CheckRank(const Tensor& x) {
  if (x.rank() == 4 || x.rank() == 5) return absl::OkStatus();
  return InvalidArgument("x must be 4- or 5-dimensional: ", x.shape().DebugString());
}
absl::Status CheckVector(const char* what, const Tensor& t, int64_t channels) {
  if (t.rank() == 1 && t.dim(0) == channels) return absl::OkStatus();
  return InvalidArgument(what, " must have one element for each of the ", channels, " channels, but its shape is ",
                         t.shape().DebugString());
}

// scale / sqrt(variance + epsilon) of each channel, from float32.
std::vector<float> Factors(const Tensor& scale, const float* variance, float epsilon) {
  std::vector<float> a(scale.num_elements());
  for (size_t c = 0; c < a.size(); ++c) a[c] = scale.data<float>()[c] / std::sqrt(variance[c] + epsilon);
  return a;
}

}  // namespace

absl::StatusOr<GivenNorm> ReadGivenNorm(const KernelContext& ctx, int first, int64_t channels, float epsilon) {
  static constexpr const char* kNames[] = {"scale", "offset", "mean", "variance"};
  for (int i = 0; i < 4; ++i) TROUPE_RETURN_IF_ERROR(CheckVector(kNames[i], ctx.input(first + i), channels));
  const Tensor scale = Widened(ctx, ctx.input(first)), variance = Widened(ctx, ctx.input(first + 3));
  return GivenNorm{Widened(ctx, ctx.input(first + 2)), Widened(ctx, ctx.input(first + 1)),
                   Factors(scale, variance.data<float>(), epsilon)};
}

absl::Status BatchNormShape(InferenceContext& c) {
  PartialTensorShape x = c.input(0);
  if (x.known_rank() && x.rank() != 4 && x.rank() != 5)
    return InvalidArgument("x must be 4- or 5-dimensional: ", x.DebugString());
  int64_t channels = x.known_rank() ? x.dim(ChannelDim(c.node(), x.rank())) : -1;
  for (int i = 1; i < 3; ++i) {
    TROUPE_ASSIGN_OR_RETURN(PartialTensorShape v, c.WithRank(i, 1));
    TROUPE_ASSIGN_OR_RETURN(channels, MergeDims(channels, v.dim(0)));
  }
  c.set_output(0, x);
  for (int i = 1; i < std::min(c.num_outputs(), 5); ++i) c.set_output(i, {channels});
  return absl::OkStatus();
}

absl::Status BatchNormGradShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.input(0).MergeWith(c.input(1)));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape scale, c.WithRank(2, 1));
  c.set_output(0, x);
  c.set_output(1, scale);
  c.set_output(2, scale);
  for (int i = 3; i < 5; ++i) c.set_output(i, {0});
  return absl::OkStatus();
}

absl::Status BatchNormGradient(GradientContext& g, const char* grad_op) {
  const bool training = g.Attr<bool>("is_training"), v3 = g.num_outputs() > 5;
  std::vector<GradArg> in = {g.Grad(0), g.Input(0), g.Input(1), training ? g.Output(3) : g.Input(3),
                             training ? g.Output(4) : g.Input(4)};
  if (v3) in.push_back(g.Output(5));
  const NodeOut dx = g.Op(grad_op, in,
                          {{"epsilon", g.Attr<float>("epsilon")},
                           {"data_format", g.Attr<std::string>("data_format")},
                           {"is_training", training}});
  if (!dx.valid()) return g.status();
  for (int i = 0; i < 3; ++i) g.Set(i, NodeOut{dx.node, i});
  return g.status();
}

BatchNormKernel::BatchNormKernel(KernelInit& init)
    : epsilon_(init.Attr<float>("epsilon")),
      factor_(init.Attr<float>("exponential_avg_factor")),
      channels_first_(ChannelsFirst(init.node())),
      training_(init.Attr<bool>("is_training")) {}

absl::Status BatchNormKernel::Compute(KernelContext& ctx) {
  const Tensor& x_in = ctx.input(0);
  TROUPE_RETURN_IF_ERROR(CheckRank(x_in));
  const ChannelView view = ViewChannels(x_in, channels_first_);
  const int64_t channels = view.channels, rows = view.outer * view.inner;
  TROUPE_RETURN_IF_ERROR(CheckVector("scale", ctx.input(1), channels));
  TROUPE_RETURN_IF_ERROR(CheckVector("offset", ctx.input(2), channels));
  if (!training_ || factor_ != 1) {
    TROUPE_RETURN_IF_ERROR(CheckVector("mean", ctx.input(3), channels));
    TROUPE_RETURN_IF_ERROR(CheckVector("variance", ctx.input(4), channels));
  }
  const DType u = ctx.output_type(1);
  const TensorShape vector({channels});
  const Tensor scale = Widened(ctx, ctx.input(1)), offset = Widened(ctx, ctx.input(2)),
               old_mean = Widened(ctx, ctx.input(3)), old_variance = Widened(ctx, ctx.input(4));
  TROUPE_ASSIGN_OR_RETURN(Tensor mean, ctx.AllocateTemp(DType::kFloat, vector));
  TROUPE_ASSIGN_OR_RETURN(Tensor variance, ctx.AllocateTemp(DType::kFloat, vector));
  TROUPE_ASSIGN_OR_RETURN(Tensor keep_mean, ctx.AllocateTemp(DType::kFloat, vector));
  TROUPE_ASSIGN_OR_RETURN(Tensor keep_variance, ctx.AllocateTemp(DType::kFloat, vector));
  float *m = mean.data<float>(), *v = variance.data<float>(), *km = keep_mean.data<float>(),
        *kv = keep_variance.data<float>();
  TROUPE_ASSIGN_OR_RETURN(const Tensor x, Rows(ctx, x_in, view));
  const float* xp = x.data<float>();
  const BatchNormTable& loops = PickBatchNorm();
  if (!training_) {
    std::memcpy(m, old_mean.raw(), channels * sizeof(float));
    std::memcpy(v, old_variance.raw(), channels * sizeof(float));
    std::memcpy(km, m, channels * sizeof(float));
    std::memcpy(kv, v, channels * sizeof(float));
  } else if (rows == 0) {
    std::memset(m, 0, channels * sizeof(float));
    std::memset(v, 0, channels * sizeof(float));
    std::fill_n(km, channels, std::nanf(""));
    std::fill_n(kv, channels, std::nanf(""));
  } else {
    const double n = static_cast<double>(rows);
    std::vector<double> sums =
        SumRows(ctx.threads(), rows, channels, channels,
                [&](int64_t b, int64_t count, double* s) { loops.sum(xp + b * channels, s, count, channels); });
    for (int64_t c = 0; c < channels; ++c) m[c] = static_cast<float>(sums[c] / n);
    sums = SumRows(ctx.threads(), rows, channels, channels, [&](int64_t b, int64_t count, double* s) {
      loops.sum_squares(xp + b * channels, m, s, count, channels);
    });
    for (int64_t c = 0; c < channels; ++c) {
      v[c] = static_cast<float>(sums[c] / n);
      km[c] = m[c];
      kv[c] = static_cast<float>(sums[c] / std::max(n - 1, 1.0));
      if (factor_ != 1) {
        km[c] = (1 - factor_) * old_mean.data<float>()[c] + factor_ * km[c];
        kv[c] = (1 - factor_) * old_variance.data<float>()[c] + factor_ * kv[c];
      }
    }
  }
  const std::vector<float> a = Factors(scale, v, epsilon_);
  TROUPE_ASSIGN_OR_RETURN(Tensor y, ctx.AllocateTemp(DType::kFloat, x_in.shape()));
  ctx.threads()->ParallelFor(rows, 0.3 * static_cast<double>(channels), [&](int64_t b, int64_t e) {
    loops.scale(xp + b * channels, m, a.data(), offset.data<float>(), y.data<float>() + b * channels, e - b, channels);
  });
  TROUPE_ASSIGN_OR_RETURN(y, Restored(ctx, std::move(y), view, x_in.dtype()));
  ctx.set_output(0, std::move(y));
  ctx.set_output(1, Narrowed(ctx, std::move(keep_mean), u));
  ctx.set_output(2, Narrowed(ctx, std::move(keep_variance), u));
  ctx.set_output(3, Narrowed(ctx, std::move(mean), u));
  ctx.set_output(4, Narrowed(ctx, std::move(variance), u));
  if (ctx.num_outputs() > 5) ctx.set_output(5, Narrowed(ctx, Tensor::Scalar<float>(0), u));
  return absl::OkStatus();
}

BatchNormGradKernel::BatchNormGradKernel(KernelInit& init)
    : epsilon_(init.Attr<float>("epsilon")),
      channels_first_(ChannelsFirst(init.node())),
      training_(init.Attr<bool>("is_training")) {}

absl::Status BatchNormGradKernel::Compute(KernelContext& ctx) {
  const Tensor& x_in = ctx.input(1);
  TROUPE_RETURN_IF_ERROR(CheckRank(x_in));
  if (!ctx.input(0).SameShape(x_in)) {
    return InvalidArgument("y_backprop and x must have the same shape: ", ctx.input(0).shape().DebugString(), " and ",
                           x_in.shape().DebugString());
  }
  const ChannelView view = ViewChannels(x_in, channels_first_);
  const int64_t channels = view.channels, rows = view.outer * view.inner;
  TROUPE_RETURN_IF_ERROR(CheckVector("scale", ctx.input(2), channels));
  TROUPE_RETURN_IF_ERROR(CheckVector("reserve_space_1", ctx.input(3), channels));
  TROUPE_RETURN_IF_ERROR(CheckVector("reserve_space_2", ctx.input(4), channels));
  const DType u = ctx.output_type(1);
  TROUPE_ASSIGN_OR_RETURN(const Tensor dy, Rows(ctx, ctx.input(0), view));
  TROUPE_ASSIGN_OR_RETURN(const Tensor x, Rows(ctx, x_in, view));
  const Tensor scale = Widened(ctx, ctx.input(2)), mean = Widened(ctx, ctx.input(3)),
               variance = Widened(ctx, ctx.input(4));
  const float *dp = dy.data<float>(), *xp = x.data<float>(), *m = mean.data<float>();
  const BatchNormTable& loops = PickBatchNorm();
  const std::vector<double> sums =
      SumRows(ctx.threads(), rows, channels, 2 * channels, [&](int64_t b, int64_t count, double* s) {
        loops.sum_products(dp + b * channels, xp + b * channels, m, s, s + channels, count, channels);
      });
  const TensorShape vector({channels});
  TROUPE_ASSIGN_OR_RETURN(Tensor d_scale, ctx.AllocateTemp(DType::kFloat, vector));
  TROUPE_ASSIGN_OR_RETURN(Tensor d_offset, ctx.AllocateTemp(DType::kFloat, vector));
  std::vector<float> a(channels), b(channels), d(channels);
  const double n = static_cast<double>(std::max<int64_t>(rows, 1));
  for (int64_t c = 0; c < channels; ++c) {
    const double inverse = 1 / std::sqrt(static_cast<double>(variance.data<float>()[c]) + epsilon_),
                 s = scale.data<float>()[c] * inverse;
    d_offset.data<float>()[c] = static_cast<float>(sums[c]);
    d_scale.data<float>()[c] = static_cast<float>(sums[channels + c] * inverse);
    a[c] = static_cast<float>(s);
    // Where the mean and the variance are the batch's own, they carry gradient as well.
    b[c] = training_ ? static_cast<float>(-s * inverse * inverse * sums[channels + c] / n) : 0;
    d[c] = training_ ? static_cast<float>(-s * sums[c] / n) : 0;
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor dx, ctx.AllocateTemp(DType::kFloat, x_in.shape()));
  ctx.threads()->ParallelFor(rows, 0.4 * static_cast<double>(channels), [&](int64_t first, int64_t limit) {
    loops.combine(dp + first * channels, xp + first * channels, m, a.data(), b.data(), d.data(),
                  dx.data<float>() + first * channels, limit - first, channels);
  });
  TROUPE_ASSIGN_OR_RETURN(dx, Restored(ctx, std::move(dx), view, x_in.dtype()));
  ctx.set_output(0, std::move(dx));
  ctx.set_output(1, Narrowed(ctx, std::move(d_scale), u));
  ctx.set_output(2, Narrowed(ctx, std::move(d_offset), u));
  for (int i = 3; i < 5; ++i) {
    TROUPE_RETURN_IF_ERROR(ctx.AllocateOutput(i, TensorShape({0})).status());
  }
  return absl::OkStatus();
}

}  // namespace troupe
