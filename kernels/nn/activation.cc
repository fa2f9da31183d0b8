#include "kernels/nn/activation.h"

#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"

TROUPE_ISA_TABLE(ActivationTable, kActivations, PickActivations)

namespace troupe {
namespace {

int TypeIndex(DType t) {
  constexpr DType kOrder[kNumActivationTypes] = {DType::kFloat,  DType::kDouble, DType::kInt32, DType::kUint8,
                                                 DType::kInt16,  DType::kInt8,   DType::kInt64, DType::kUint16,
                                                 DType::kUint32, DType::kUint64};
  for (int i = 0; i < kNumActivationTypes; ++i) {
    if (kOrder[i] == ComputeType(t)) return i;
  }
  return 0;
}

// Nanoseconds an element, roughly.
double UnitCost(Activation f, DType t) {
  const double wide = static_cast<double>(SizeOf(ComputeType(t))) / 4;
  switch (f) {
    case Activation::kElu:
    case Activation::kSelu:
      return wide * 0.8;
    case Activation::kSoftplus:
      return wide * 1.5;
    default:
      return wide * 0.25;
  }
}

float AlphaOf(KernelInit& init, Activation f) { return f == Activation::kLeakyRelu ? init.Attr<float>("alpha") : 0; }

}  // namespace

ActivationKernel::ActivationKernel(KernelInit& init, Activation f)
    : f_(f), dtype_(init.input_type(0)), alpha_(AlphaOf(init, f)) {}

absl::Status ActivationKernel::Compute(KernelContext& ctx) {
  const int64_t n = ctx.input(0).num_elements();
  const size_t size = SizeOf(ComputeType(dtype_));
  auto run = PickActivations().forward[static_cast<int>(f_)][TypeIndex(dtype_)];
  auto all = [&](const void* x, void* y) {
    ctx.threads()->ParallelFor(n, UnitCost(f_, dtype_), [&](int64_t b, int64_t e) {
      run(static_cast<const char*>(x) + b * size, static_cast<char*>(y) + b * size, e - b, alpha_);
    });
  };
  if (IsSmallFloat(dtype_)) {
    Tensor x = Widened(ctx, ctx.input(0));
    all(x.raw(), x.raw());
    ctx.set_output(0, Narrowed(ctx, std::move(x), dtype_));
    return absl::OkStatus();
  }
  const void* x = ctx.input(0).raw();
  const TensorShape shape = ctx.input(0).shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.ForwardOrAllocate({0}, 0, shape));
  all(x, y->raw());
  return absl::OkStatus();
}

ActivationGradKernel::ActivationGradKernel(KernelInit& init, Activation f)
    : f_(f), dtype_(init.input_type(0)), alpha_(AlphaOf(init, f)) {}

absl::Status ActivationGradKernel::Compute(KernelContext& ctx) {
  if (!ctx.input(0).SameShape(ctx.input(1))) {
    return InvalidArgument("the gradient ", ctx.input(0).shape().DebugString(), " and the features ",
                           ctx.input(1).shape().DebugString(), " must have the same shape");
  }
  const TensorShape shape = ctx.input(0).shape();
  const int64_t n = shape.num_elements();
  const size_t size = SizeOf(ComputeType(dtype_));
  auto run = PickActivations().backward[static_cast<int>(f_)][TypeIndex(dtype_)];
  auto all = [&](const void* g, const void* x, void* y) {
    ctx.threads()->ParallelFor(n, UnitCost(f_, dtype_), [&](int64_t b, int64_t e) {
      run(static_cast<const char*>(g) + b * size, static_cast<const char*>(x) + b * size,
          static_cast<char*>(y) + b * size, e - b, alpha_);
    });
  };
  if (IsSmallFloat(dtype_)) {
    Tensor g = Widened(ctx, ctx.input(0));
    const Tensor x = Widened(ctx, ctx.input(1));
    all(g.raw(), x.raw(), g.raw());
    ctx.set_output(0, Narrowed(ctx, std::move(g), dtype_));
    return absl::OkStatus();
  }
  const void *g = ctx.input(0).raw(), *x = ctx.input(1).raw();
  TROUPE_ASSIGN_OR_RETURN(Tensor * dx, ctx.ForwardOrAllocate({0, 1}, 0, shape));
  all(g, x, dx->raw());
  return absl::OkStatus();
}

absl::Status PiecewiseLinearGradGradient(GradientContext& g) {
  g.Set(0, g.Op(g.node().op().name, {g.Grad(0), g.Input(1)}));
  return g.status();
}

absl::Status ExponentialGradGradient(GradientContext& g) {
  const NodeOut y = g.Input(1);
  g.Set(0, g.Op(g.node().op().name, {g.Grad(0), y}));
  const NodeOut negative = g.Op("Less", {y, g.ScalarLike(y, 0)});
  g.Set(1, g.Op("Select", {negative, g.Op("Mul", {g.Grad(0), g.Input(0)}), g.Op("ZerosLike", {y})}));
  return g.status();
}

}  // namespace troupe
