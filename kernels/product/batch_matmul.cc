// BatchMatMul and BatchMatMulV2: matrix products over leading batch dimensions.
//
// x: [..., r_x, c_x], y: [..., r_y, c_y]; with adj_x (adj_y) the matrices of x (y) are conjugated
// and transposed first. V2's batch dimensions broadcast; V1's must be equal.
#include <algorithm>

#include "kernels/common/types.h"
#include "kernels/product/gemm.h"
#include "kernels/tune/tuning.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

class BatchMatMulKernel {
 public:
  BatchMatMulKernel(KernelInit& init, bool broadcast)
      : dtype_(init.input_type(0)),
        adj_x_(init.Attr<bool>("adj_x")),
        adj_y_(init.Attr<bool>("adj_y")),
        broadcast_(broadcast) {}
  absl::Status Compute(KernelContext& ctx);

 private:
  const DType dtype_;
  const bool adj_x_, adj_y_, broadcast_;
};

PartialTensorShape Batch(const PartialTensorShape& s) { return PartialTensorShape(s.dims().subspan(0, s.rank() - 2)); }

// The flat index of the batch of an operand of shape `from` that batch `i` of the broadcast shape
// `to` reads.
int64_t SourceBatch(const TensorShape& to, const TensorShape& from, int64_t i) {
  int64_t at = 0, scale = 1;
  for (int d = to.rank() - 1; d >= 0; --d) {
    const int64_t index = i % to.dim(d);
    i /= to.dim(d);
    const int f = d - (to.rank() - from.rank());
    if (f < 0) break;
    if (from.dim(f) != 1) at += index * scale;
    scale *= from.dim(f);
  }
  return at;
}

// x: [..., r_x, c_x], y: [..., r_y, c_y]; with adj_x (adj_y) the matrices of x (y) are conjugated
// and transposed first. V2's batch dimensions broadcast; V1's must be equal.
absl::Status BatchMatMulShape(InferenceContext& c, bool broadcast) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRankAtLeast(0, 2));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape y, c.WithRankAtLeast(1, 2));
  TROUPE_ASSIGN_OR_RETURN(bool ax, c.Attr<bool>("adj_x"));
  TROUPE_ASSIGN_OR_RETURN(bool ay, c.Attr<bool>("adj_y"));
  if (!x.known_rank() || !y.known_rank()) return absl::OkStatus();
  const int rx = x.rank(), ry = y.rank();
  if (!MergeDims(x.dim(ax ? rx - 2 : rx - 1), y.dim(ay ? ry - 1 : ry - 2)).ok()) {
    return InvalidArgument("inner dimensions differ: ", x.DebugString(), ax ? " (adjoint)" : "", " x ", y.DebugString(),
                           ay ? " (adjoint)" : "");
  }
  PartialTensorShape out;
  if (broadcast) {
    TROUPE_ASSIGN_OR_RETURN(out, BroadcastPartialShapes(Batch(x), Batch(y)));
  } else {
    TROUPE_ASSIGN_OR_RETURN(out, Batch(x).MergeWith(Batch(y)));
  }
  if (!out.known_rank()) return absl::OkStatus();
  out.AddDim(x.dim(ax ? rx - 1 : rx - 2));
  out.AddDim(y.dim(ay ? ry - 2 : ry - 1));
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status BatchMatMulGradient(GradientContext& g, const char* op, bool broadcast) {
  const bool ax = g.Attr<bool>("adj_x"), ay = g.Attr<bool>("adj_y");
  const NodeOut x = g.Input(0), y = g.Input(1), d = g.Grad(0);
  auto product = [&](NodeOut a, NodeOut b, bool adj_a, bool adj_b, const char* which) {
    return g.Op(op, {a, b}, {{"adj_x", adj_a}, {"adj_y", adj_b}, {which, true}});
  };
  NodeOut dx = ax ? product(y, d, ay, true, "grad_y") : product(d, y, false, !ay, "grad_y");
  NodeOut dy = ay ? product(d, x, true, ax, "grad_x") : product(x, d, !ax, false, "grad_x");
  if (broadcast) {
    const PartialTensorShape sx = g.InputShape(0), sy = g.InputShape(1);
    const bool same = sx.known_rank() && sy.known_rank() && sx.rank() >= 2 && sy.rank() >= 2 &&
                      Batch(sx).IsFullyDefined() && Batch(sx) == Batch(sy);
    if (!same) {
      // Batch dimensions along which an input was repeated: its gradient is the sum over them.
      auto ints = [&g](std::initializer_list<int32_t> v) { return g.Const(Tensor::Vector<int32_t>(v)); };
      const NodeOut shape_x = g.Op("Shape", {x}, {{"out_type", DType::kInt32}});
      const NodeOut shape_y = g.Op("Shape", {y}, {{"out_type", DType::kInt32}});
      auto batch = [&](NodeOut shape) {
        return g.Op("StridedSlice", {shape, ints({0}), ints({-2}), ints({1})}, {{"begin_mask", int64_t{1}}});
      };
      const NodeOut axes = g.Op("BroadcastGradientArgs", {batch(shape_x), batch(shape_y)});
      if (!axes.valid()) return g.status();
      auto summed = [&](NodeOut grad, int which, NodeOut shape) {
        return g.Op("Reshape", {g.Op("Sum", {grad, NodeOut{axes.node, which}}, {{"keep_dims", false}}), shape});
      };
      dx = summed(dx, 0, shape_x);
      dy = summed(dy, 1, shape_y);
    }
  }
  g.Set(0, dx);
  g.Set(1, dy);
  return g.status();
}

absl::Status BatchMatMulKernel::Compute(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &y = ctx.input(1);
  const TensorShape xs = x.shape(), ys = y.shape();
  for (int i = 0; i < 2; ++i) {
    if (ctx.input(i).rank() < 2) {
      return InvalidArgument("In[", i, "] must have rank 2 or more, but its shape is ",
                             ctx.input(i).shape().DebugString());
    }
  }
  const int rx = x.rank(), ry = y.rank();
  GemmShape s;
  s.transpose_a = s.conj_a = adj_x_;
  s.transpose_b = s.conj_b = adj_y_;
  s.m = xs.dim(adj_x_ ? rx - 1 : rx - 2);
  s.k = xs.dim(adj_x_ ? rx - 2 : rx - 1);
  s.n = ys.dim(adj_y_ ? ry - 2 : ry - 1);
  if (s.k != ys.dim(adj_y_ ? ry - 1 : ry - 2)) {
    return InvalidArgument("Matrix size-incompatible: In[0]: ", xs.DebugString(), adj_x_ ? " (adjoint)" : "",
                           ", In[1]: ", ys.DebugString(), adj_y_ ? " (adjoint)" : "", ": inner dimensions differ");
  }
  const TensorShape bx(xs.dims().subspan(0, rx - 2)), by(ys.dims().subspan(0, ry - 2));
  absl::StatusOr<TensorShape> broadcast = BroadcastShapes(bx, by);
  if (!broadcast.ok() || (!broadcast_ && bx != by)) {
    return InvalidArgument("In[0] and In[1] must have ", broadcast_ ? "compatible" : "equal",
                           " batch dimensions: ", xs.DebugString(), " vs. ", ys.DebugString());
  }
  const TensorShape batch = *broadcast;
  TensorShape out_shape = batch;
  out_shape.AddDim(s.m);
  out_shape.AddDim(s.n);
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(out_shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, out_shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  const int64_t batches = batch.num_elements();
  const tune::AtNode here(ctx.node().name, ctx.node().op);
  // One matrix y for all batches of plain x: the rows of x make one tall matrix.
  if (by.num_elements() == 1 && !adj_x_ && bx == batch) {
    s.m *= batches;
    Gemm(ctx.threads(), dtype_, s, x.raw(), y.raw(), out->raw());
    return absl::OkStatus();
  }
  const size_t size = SizeOf(dtype_);
  const size_t x_step = s.m * s.k * size, y_step = s.k * s.n * size, out_step = s.m * s.n * size;
  const char *xp = static_cast<const char*>(x.raw()), *yp = static_cast<const char*>(y.raw());
  char* op = static_cast<char*>(out->raw());
  auto one = [&](ComputeThreads* threads, int64_t i) {
    Gemm(threads, dtype_, s, xp + SourceBatch(batch, bx, i) * x_step, yp + SourceBatch(batch, by, i) * y_step,
         op + i * out_step);
  };
  // Many batches are split among the threads; few are computed one after the other, each on all
  // threads.
  if (batches >= 2 * ctx.threads()->num_threads()) {
    const double cost = 20 + 0.02 * static_cast<double>(s.m) * s.n * s.k;
    ctx.threads()->ParallelFor(batches, cost, [&](int64_t first, int64_t limit) {
      for (int64_t i = first; i < limit; ++i) one(nullptr, i);
    });
  } else {
    for (int64_t i = 0; i < batches; ++i) one(ctx.threads(), i);
  }
  return absl::OkStatus();
}

TROUPE_OP("BatchMatMul")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr("T: {bfloat16, half, float, double, int32, int64, complex64, complex128}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Shape([](InferenceContext& c) { return BatchMatMulShape(c, false); })
    .Gradient([](GradientContext& g) { return BatchMatMulGradient(g, "BatchMatMul", false); })
    .Doc(
        "For each index of the leading (batch) dimensions, the matrix of x times the matrix of y; adj_x and adj_y take "
        "the adjoint (conjugate transpose) first. The batch dimensions must be equal.");

struct BatchMatmulKernel : BatchMatMulKernel {
  explicit BatchMatmulKernel(KernelInit& init) : BatchMatMulKernel(init, false) {}
};
TROUPE_CPU_KERNEL("BatchMatMul").Class<BatchMatmulKernel>();

TROUPE_OP("BatchMatMulV2")
    .Input("x: T")
    .Input("y: T")
    .Output("output: T")
    .Attr(
        "T: {bfloat16, half, float, double, int16, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}")
    .Attr("adj_x: bool = false")
    .Attr("adj_y: bool = false")
    .Attr("grad_x: bool = false")
    .Attr("grad_y: bool = false")
    .Shape([](InferenceContext& c) { return BatchMatMulShape(c, true); })
    .Gradient([](GradientContext& g) { return BatchMatMulGradient(g, "BatchMatMulV2", true); })
    .Doc("As BatchMatMul, but the batch dimensions of x and y are broadcast to each other.");

struct BatchMatmulV2Kernel : BatchMatMulKernel {
  explicit BatchMatmulV2Kernel(KernelInit& init) : BatchMatMulKernel(init, true) {}
};
TROUPE_CPU_KERNEL("BatchMatMulV2").Class<BatchMatmulV2Kernel>();

}  // namespace
}  // namespace troupe
