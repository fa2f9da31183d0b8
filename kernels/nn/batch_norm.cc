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

// Runs f(first row, rows, sums, scratch) over ranges of rows, each with 2 * channels sums of its
// own, which it gives back one behind the other.
struct RangeSums {
  int64_t ranges;
  std::vector<double> sums;
};
template <class F>
RangeSums SumRanges(ComputeThreads* threads, int64_t rows, int64_t channels, F f) {
  const int64_t ranges = std::max<int64_t>(1, threads->NumRanges(rows, 0.5 * static_cast<double>(channels)));
  RangeSums r{ranges, std::vector<double>(ranges * 2 * channels)};
  threads->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t limit) {
    std::vector<float> scratch(kNormScratch * channels);
    for (int64_t i = first; i < limit; ++i) {
      int64_t b, e;
      ComputeThreads::Range(rows, ranges, i, &b, &e);
      f(b, e - b, r.sums.data() + i * 2 * channels, scratch.data());
    }
  });
  return r;
}

// The mean of each channel, and then the sum of the squares of the differences from it.
std::vector<double> Moments(ComputeThreads* threads, const float* x, int64_t rows, int64_t channels) {
  const BatchNormTable& loops = PickBatchNorm();
  const RangeSums of = SumRanges(threads, rows, channels, [&](int64_t b, int64_t count, double* s, float* scratch) {
    if (count > 0) loops.moments(x + b * channels, s, s + channels, scratch, count, channels);
  });
  std::vector<double> all(of.sums.begin(), of.sums.begin() + 2 * channels);
  int64_t before, first;
  ComputeThreads::Range(rows, of.ranges, 0, &first, &before);
  for (int64_t i = 1; i < of.ranges; ++i) {
    int64_t b, e;
    ComputeThreads::Range(rows, of.ranges, i, &b, &e);
    if (e == b) continue;
    const double n = static_cast<double>(e - b), sum = static_cast<double>(e);
    const double* const part = of.sums.data() + i * 2 * channels;
    for (int64_t c = 0; c < channels; ++c) {
      const double away = part[c] - all[c];
      all[c] = (all[c] * static_cast<double>(b) + part[c] * n) / sum;
      all[channels + c] += part[channels + c] + away * away * n * static_cast<double>(b) / sum;
    }
  }
  return all;
}

// The sums of the gradients, and then of their products with x - mean.
std::vector<double> GradientSums(ComputeThreads* threads, NormActivation activation, const float* dy, const float* x,
                                 const NormVectors& v, int64_t rows, int64_t channels) {
  const auto run = PickBatchNorm().sum_products[static_cast<int>(activation)];
  const RangeSums of = SumRanges(threads, rows, channels, [&](int64_t b, int64_t count, double* s, float* scratch) {
    if (count > 0) run(dy + b * channels, x + b * channels, v, s, s + channels, scratch, count, channels);
  });
  std::vector<double> all(2 * channels);
  for (size_t i = 0; i < of.sums.size(); ++i) all[i % all.size()] += of.sums[i];
  return all;
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

// An op without that attr does nothing behind the normalisation.
NormActivation ReadActivation(KernelInit& init) {
  const absl::StatusOr<std::string> mode = init.node().Attr<std::string>("activation_mode");
  if (!mode.ok() || *mode == "Identity") return NormActivation::kNone;
  if (*mode == "Relu") return NormActivation::kRelu;
  if (*mode == "Relu6") return NormActivation::kRelu6;
  init.Fail(Unimplemented("activation_mode '", *mode, "' is not known here"));
  return NormActivation::kNone;
}
// Of the ops that take a residual sum along.
void RefuseSideInputs(KernelInit& init) {
  const absl::StatusOr<int64_t> sides = init.node().Attr<int64_t>("num_side_inputs");
  if (sides.ok() && *sides != 0) init.Fail(Unimplemented("side inputs are not known here: ", *sides));
}

// `status` with the address of the normalisation among the nodes that a fused one replaces.
absl::Status AtNorm(const absl::Status& status, const ReplacedNodes& replaced, const KernelNode& node) {
  if (status.ok()) return status;
  for (const std::string& op : replaced.ops()) {
    if (op.starts_with("FusedBatchNorm")) return replaced.At(status, op, node);
  }
  return status;
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
      training_(init.Attr<bool>("is_training")),
      activation_(ReadActivation(init)),
      replaced_(init.node()) {
  RefuseSideInputs(init);
}

absl::Status BatchNormKernel::Compute(KernelContext& ctx) { return AtNorm(Normalise(ctx), replaced_, ctx.node()); }

absl::Status BatchNormKernel::Normalise(KernelContext& ctx) const {
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
    const std::vector<double> sums = Moments(ctx.threads(), xp, rows, channels);
    for (int64_t c = 0; c < channels; ++c) {
      const double squares = sums[channels + c];
      m[c] = km[c] = static_cast<float>(sums[c]);
      v[c] = static_cast<float>(squares / n);
      kv[c] = static_cast<float>(squares / std::max(n - 1, 1.0));
      if (factor_ != 1) {
        km[c] = (1 - factor_) * old_mean.data<float>()[c] + factor_ * km[c];
        kv[c] = (1 - factor_) * old_variance.data<float>()[c] + factor_ * kv[c];
      }
    }
  }
  const std::vector<float> a = Factors(scale, v, epsilon_);
  TROUPE_ASSIGN_OR_RETURN(Tensor y, ctx.AllocateTemp(DType::kFloat, x_in.shape()));
  const NormVectors vectors = {m, a.data(), offset.data<float>()};
  const auto run = PickBatchNorm().scale[static_cast<int>(activation_)];
  ctx.threads()->ParallelFor(rows, 0.3 * static_cast<double>(channels), [&](int64_t b, int64_t e) {
    run(xp + b * channels, vectors, y.data<float>() + b * channels, e - b, channels);
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
      training_(init.Attr<bool>("is_training")),
      activation_(ReadActivation(init)),
      replaced_(init.node()) {
  RefuseSideInputs(init);
}

absl::Status BatchNormGradKernel::Compute(KernelContext& ctx) {
  // y has the shape of x, so this is what the gradient of the activation would say.
  if (activation_ != NormActivation::kNone && !ctx.input(0).SameShape(ctx.input(7))) {
    const absl::Status s = InvalidArgument("the gradient ", ctx.input(0).shape().DebugString(), " and the features ",
                                           ctx.input(7).shape().DebugString(), " must have the same shape");
    return replaced_.At(s, activation_ == NormActivation::kRelu ? "ReluGrad" : "Relu6Grad", ctx.node());
  }
  return AtNorm(Differentiate(ctx), replaced_, ctx.node());
}

absl::Status BatchNormGradKernel::Differentiate(KernelContext& ctx) const {
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
  // As they are, dx may take the place of one of them.
  const bool as_they_are = view.inner == 1 && x_in.dtype() == DType::kFloat;
  Tensor dy, x;
  if (!as_they_are) {
    TROUPE_ASSIGN_OR_RETURN(dy, Rows(ctx, ctx.input(0), view));
    TROUPE_ASSIGN_OR_RETURN(x, Rows(ctx, x_in, view));
  }
  const Tensor scale = Widened(ctx, ctx.input(2)), mean = Widened(ctx, ctx.input(3)),
               variance = Widened(ctx, ctx.input(4));
  const float *dp = (as_they_are ? ctx.input(0) : dy).data<float>(), *xp = (as_they_are ? x_in : x).data<float>(),
              *m = mean.data<float>();
  NormVectors vectors = {m, nullptr, nullptr};
  std::vector<float> factors(channels);
  Tensor offset;
  if (activation_ != NormActivation::kNone) {
    TROUPE_RETURN_IF_ERROR(CheckVector("offset", ctx.input(6), channels));
    factors = Factors(scale, variance.data<float>(), epsilon_);
    offset = Widened(ctx, ctx.input(6));
    vectors = {m, factors.data(), offset.data<float>()};
  } else {
    vectors.a = vectors.b = factors.data();  // read, and not used
  }
  const std::vector<double> sums = GradientSums(ctx.threads(), activation_, dp, xp, vectors, rows, channels);
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
  const auto run = PickBatchNorm().combine[static_cast<int>(activation_)];
  const auto combine = [&](float* dx) {
    ctx.threads()->ParallelFor(rows, 0.4 * static_cast<double>(channels), [&](int64_t first, int64_t limit) {
      const int64_t at = first * channels;
      run(dp + at, xp + at, vectors, a.data(), b.data(), d.data(), dx + at, limit - first, channels);
    });
  };
  if (as_they_are) {
    // y is not read, and each element of dy and x before that of dx is written.
    const TensorShape shape = x_in.shape();
    TROUPE_ASSIGN_OR_RETURN(Tensor * dx, activation_ == NormActivation::kNone
                                             ? ctx.ForwardOrAllocate({0, 1}, 0, shape)
                                             : ctx.ForwardOrAllocate({0, 1, 7}, 0, shape));
    combine(dx->data<float>());
  } else {
    TROUPE_ASSIGN_OR_RETURN(Tensor dx, ctx.AllocateTemp(DType::kFloat, x_in.shape()));
    combine(dx.data<float>());
    TROUPE_ASSIGN_OR_RETURN(dx, Restored(ctx, std::move(dx), view, x_in.dtype()));
    ctx.set_output(0, std::move(dx));
  }
  ctx.set_output(1, Narrowed(ctx, std::move(d_scale), u));
  ctx.set_output(2, Narrowed(ctx, std::move(d_offset), u));
  for (int i = 3; i < 5; ++i) {
    TROUPE_RETURN_IF_ERROR(ctx.AllocateOutput(i, TensorShape({0})).status());
  }
  return absl::OkStatus();
}

}  // namespace troupe
