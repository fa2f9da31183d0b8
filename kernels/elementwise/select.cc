// Choosing between two tensors by a bool: Select and SelectV2.
#include <complex>
#include <cstring>
#include <string>

#include "kernels/common/broadcast.h"
#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/kernel.h"
#include "troupe/resource.h"
#include "troupe/shape_inference.h"

namespace troupe::math {
namespace {

// out[i] = c[i * c_step] ? t[i * t_step] : e[i * e_step] for n elements; steps are 0 or 1. `out`
// may be t or e where its step is 1.
using SelectLoop = void (*)(const bool* c, int c_step, const void* t, int t_step, const void* e, int e_step, void* out,
                            int64_t n);

struct Bytes16 {
  uint64_t a, b;
};

template <class T>
void Loop(const bool* c, int c_step, const void* t, int t_step, const void* e, int e_step, void* out, int64_t n) {
  const T* x = static_cast<const T*>(t);
  const T* y = static_cast<const T*>(e);
  T* z = static_cast<T*>(out);
  if (c_step == 0) {
    const T* from = *c ? x : y;
    const int step = *c ? t_step : e_step;
    if (from == z && step == 1) return;
    for (int64_t i = 0; i < n; ++i) z[i] = from[i * step];
  } else if (t_step == 1 && e_step == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i] : y[i];
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? x[i * t_step] : y[i * e_step];
  }
}

// Null for a type that has no elements.
SelectLoop SelectLoopOf(DType type) {
  if (type == DType::kString) return Loop<std::string>;
  if (!IsPlainBytes(type)) return type == DType::kInvalid ? nullptr : Loop<ResourceHandle>;
  switch (SizeOf(type)) {
    case 1:
      return Loop<uint8_t>;
    case 2:
      return Loop<uint16_t>;
    case 4:
      return Loop<uint32_t>;
    case 8:
      return Loop<uint64_t>;
    case 16:
      return Loop<Bytes16>;
    default:
      return nullptr;
  }
}

// Output 0 = condition ? input 1 : input 2, all broadcast to `shape`, which they must broadcast to.
// `condition` is input 0, maybe under another shape.
absl::Status SelectBroadcast(KernelContext& ctx, SelectLoop loop, const Tensor& condition, const TensorShape& shape) {
  const BroadcastWalk<3> walk(shape, {&condition, &ctx.input(1), &ctx.input(2)});
  const int64_t n = shape.num_elements();
  const int64_t size = static_cast<int64_t>(SizeOf(ctx.output_type(0)));
  const bool* c = condition.data<bool>();
  const char* t = static_cast<const char*>(ctx.input(1).raw());
  const char* e = static_cast<const char*>(ctx.input(2).raw());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({1, 2}, 0, shape));
  if (n == 0) return absl::OkStatus();
  char* z = static_cast<char*>(out->raw());
  const double cost = 0.5 + 4.0 / static_cast<double>(walk.run());
  ctx.threads()->ParallelFor(n, cost, [&](int64_t begin, int64_t end) {
    walk.ForRange(begin, end, [&](const std::array<int64_t, 3>& at, int64_t to, int64_t m) {
      loop(c + at[0], walk.advances(0), t + at[1] * size, walk.advances(1), e + at[2] * size, walk.advances(2),
           z + to * size, m);
    });
  });
  return absl::OkStatus();
}

// The types of TensorFlow's kernels.
std::vector<DType> SelectTypes() {
  std::vector<DType> types(kNumbers.begin(), kNumbers.end());
  for (DType t : {DType::kBool, DType::kString, DType::kResource}) types.push_back(t);
  return types;
}

class SelectKernel {
 public:
  explicit SelectKernel(KernelInit& init) : loop_(SelectLoopOf(init.output_type(0))) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& c = ctx.input(0);
    const Tensor& t = ctx.input(1);
    const Tensor& e = ctx.input(2);
    if (!t.SameShape(e)) {
      return InvalidArgument("'then' and 'else' must have the same size.  but received: ", t.shape().DebugString(),
                             " vs. ", e.shape().DebugString());
    }
    if (c.rank() == 0) {
      ctx.set_output(0, ctx.TakeInput(*c.data<bool>() ? 1 : 2));
      return absl::OkStatus();
    }
    const TensorShape shape = t.shape();
    if (c.SameShape(t)) return SelectBroadcast(ctx, loop_, c, shape);
    // A vector chooses whole rows.
    if (c.rank() != 1) {
      return InvalidArgument("'cond' must be a vector, but saw shape: ", c.shape().DebugString());
    }
    if (t.rank() < 1 || t.dim(0) != c.dim(0)) {
      return InvalidArgument("Number of batches of 'then' must match size of 'cond', but saw: ",
                             t.rank() < 1 ? 0 : t.dim(0), " vs. ", c.dim(0));
    }
    TensorShape column({c.dim(0)});
    for (int i = 1; i < t.rank(); ++i) column.AddDim(1);
    return SelectBroadcast(ctx, loop_, c.Reshaped(column), shape);
  }

 private:
  SelectLoop loop_;
};

absl::Status SelectShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.input(1).MergeWith(c.input(2)));
  const PartialTensorShape& condition = c.input(0);
  if (condition.known_rank() && condition.rank() > 1) {
    TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(condition));
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

TROUPE_OP("Select")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SelectShape)
    .Gradient([](GradientContext& g) -> absl::Status {
      const Value dy = Grad(g), zero = Apply("ZerosLike", dy);
      g.Set(1, g.Op("Select", {g.Input(0), dy.out, zero.out}));
      g.Set(2, g.Op("Select", {g.Input(0), zero.out, dy.out}));
      return g.status();
    })
    .Doc(
        "Elements of t where condition is true, of e elsewhere. A condition that is a vector chooses rows of t and e, "
        "a scalar all of them.");

TROUPE_KERNEL("Select").Device("CPU").Types("T", SelectTypes()).Class<SelectKernel>();

class SelectV2Kernel {
 public:
  explicit SelectV2Kernel(KernelInit& init) : loop_(SelectLoopOf(init.output_type(0))) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& c = ctx.input(0);
    const Tensor& t = ctx.input(1);
    const Tensor& e = ctx.input(2);
    if (c.rank() == 0 && t.SameShape(e)) {
      ctx.set_output(0, ctx.TakeInput(*c.data<bool>() ? 1 : 2));
      return absl::OkStatus();
    }
    absl::StatusOr<TensorShape> shape = BroadcastShapes(t.shape(), e.shape());
    if (shape.ok()) shape = BroadcastShapes(*shape, c.shape());
    if (!shape.ok()) {
      return InvalidArgument("condition ", c.shape().DebugString(), ", then ", t.shape().DebugString(), ", and else ",
                             e.shape().DebugString(), " must be broadcastable");
    }
    return SelectBroadcast(ctx, loop_, c, *shape);
  }

 private:
  SelectLoop loop_;
};

absl::Status SelectV2Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape values, BroadcastPartialShapes(c.input(1), c.input(2)));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, BroadcastPartialShapes(values, c.input(0)));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status SelectV2Gradient(GradientContext& g) {
  const Value c = In(g, 0), dy = Grad(g), zero = Number(dy, 0);
  const Value whole = Apply("Shape", Out(g));
  for (int i : {1, 2}) {
    const Value part = i == 1 ? Where(c, dy, zero) : Where(c, zero, dy);
    if (g.InputShape(i).IsFullyDefined() && g.InputShape(i) == g.InputShape(0) &&
        g.InputShape(i) == g.InputShape(3 - i)) {
      g.Set(i, part.out);
      continue;
    }
    const Value shape = Apply("Shape", In(g, i));
    const Value axes = Apply("BroadcastGradientArgs", shape, whole);
    g.Set(i, Apply("Reshape", Apply("Sum", part, axes), shape).out);
  }
  return g.status();
}

TROUPE_OP("SelectV2")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(SelectV2Shape)
    .Gradient(SelectV2Gradient)
    .Doc("Elements of t where condition is true, of e elsewhere; all three broadcast.");

TROUPE_KERNEL("SelectV2").Device("CPU").Types("T", SelectTypes()).Class<SelectV2Kernel>();

}  // namespace
}  // namespace troupe::math
