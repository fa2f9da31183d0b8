#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/isa.h"
#include "kernels/nn/layout.h"
#include "kernels/nn/pool.h"
#include "kernels/nn/pool_loops.h"

TROUPE_ISA_TABLE(PoolTable, kPools, PickPools)

namespace troupe {
namespace {

// The operands of one run, channels last: x (Max, Avg: the input; else the original input), g (what
// comes in), out.
struct Operands {
  int64_t images;
  PoolShape shape;
  const void *x, *g;
  void* out;
};

int64_t InputSize(const PoolShape& s) { return s.h * s.w * s.c; }
int64_t OutputSize(const PoolShape& s) { return s.oh * s.ow * s.c; }
double ImageCost(const PoolShape& s) { return 0.3 * static_cast<double>(OutputSize(s) * s.kh * s.kw) + 10; }

// f(shape, image, row) for all rows of all outputs, some rows of an image at a time: a window knows
// its place in the image by `top`, which is less than zero for rows further down.
template <class F>
void ForRows(ComputeThreads* threads, const Operands& o, const F& f) {
  const PoolShape& s = o.shape;
  const double cost = ImageCost(s) / static_cast<double>(s.oh) + 5;
  threads->ParallelFor(o.images * s.oh, cost, [&](int64_t b, int64_t e) {
    for (int64_t rows; b < e; b += rows) {
      const int64_t row = b % s.oh;
      rows = std::min(e - b, s.oh - row);
      PoolShape some = s;
      some.oh = rows;
      some.top -= row * s.stride_h;
      f(some, b / s.oh, row);
    }
  });
}

template <class T>
void RunMax(ComputeThreads* threads, const PoolLoops<T>& loops, PoolOp op, const Operands& o) {
  const PoolShape& s = o.shape;
  const T *x = static_cast<const T*>(o.x), *g = static_cast<const T*>(o.g);
  T* out = static_cast<T*>(o.out);
  if (op == PoolOp::kMax) {
    return ForRows(threads, o, [&](const PoolShape& some, int64_t i, int64_t row) {
      loops.max(some, x + i * InputSize(s), out + i * OutputSize(s) + row * s.ow * s.c);
    });
  }
  threads->ParallelFor(o.images, ImageCost(s), [&](int64_t b, int64_t e) {
    std::vector<int32_t> index(s.c);
    std::vector<T> best(s.c);
    for (int64_t i = b; i < e; ++i) {
      const T* image = x + i * InputSize(s);
      if (op == PoolOp::kMaxGrad) {
        std::memset(out + i * InputSize(s), 0, InputSize(s) * sizeof(T));
        loops.max_grad(s, image, g + i * OutputSize(s), out + i * InputSize(s), index.data(), best.data());
      } else {
        loops.max_grad_grad(s, image, g + i * InputSize(s), out + i * OutputSize(s), index.data(), best.data());
      }
    }
  });
}

template <class T>
void RunAvg(ComputeThreads* threads, const AvgPoolLoops<T>& loops, PoolOp op, const Operands& o) {
  const PoolShape& s = o.shape;
  T* out = static_cast<T*>(o.out);
  if (op == PoolOp::kAvg) {
    return ForRows(threads, o, [&](const PoolShape& some, int64_t i, int64_t row) {
      loops.avg(some, static_cast<const T*>(o.x) + i * InputSize(s), out + i * OutputSize(s) + row * s.ow * s.c);
    });
  }
  threads->ParallelFor(o.images, ImageCost(s), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) {
      std::memset(out + i * InputSize(s), 0, InputSize(s) * sizeof(T));
      loops.avg_grad(s, static_cast<const T*>(o.g) + i * OutputSize(s), out + i * InputSize(s));
    }
  });
}

void RunPool(ComputeThreads* threads, DType dtype, PoolOp op, const Operands& o) {
  const PoolTable& t = PickPools();
  if (op == PoolOp::kAvg || op == PoolOp::kAvgGrad) {
    if (dtype == DType::kDouble) return RunAvg(threads, t.avg_f64, op, o);
    return RunAvg(threads, t.avg_f32, op, o);
  }
  const auto run = [&]<class... T>(const PoolLoops<T>&... loops) {
    ((dtype == kDTypeOf<T> ? RunMax(threads, loops, op, o) : void()), ...);
  };
  run(t.f32, t.f64, t.i8, t.u8, t.i16, t.u16, t.i32, t.u32, t.i64, t.u64);
}

absl::StatusOr<std::vector<int64_t>> IntList(const Tensor& t, const char* what) {
  if (t.rank() != 1 || t.dim(0) != 4)
    return InvalidArgument(what, " must be a vector of 4 numbers, but it is ", t.DebugString());
  return std::vector<int64_t>(t.data<int32_t>(), t.data<int32_t>() + 4);
}

}  // namespace

absl::Status PoolOutputShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(WindowAttrs a, ReadWindowAttrs(c.node()));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape x, c.WithRank(0, 4));
  TROUPE_ASSIGN_OR_RETURN(int64_t oh, SlideWindowSize(a, 0, x.dim(a.spatial_dim(0)), a.ksize[0]));
  TROUPE_ASSIGN_OR_RETURN(int64_t ow, SlideWindowSize(a, 1, x.dim(a.spatial_dim(1)), a.ksize[1]));
  c.set_output(0, ImageShape<PartialTensorShape>(a, x.dim(0), oh, ow, x.dim(a.channel_dim())));
  return absl::OkStatus();
}

AttrMap PoolAttrs(GradientContext& g) {
  AttrMap attrs;
  for (const char* name : {"ksize", "strides", "padding", "data_format"}) {
    if (const AttrValue* v = g.node().attrs().Find(name)) attrs.Set(name, *v);
  }
  return attrs;
}

PoolKernel::PoolKernel(KernelInit& init, PoolOp op, bool window_inputs)
    : op_(op), window_inputs_(window_inputs), dtype_(init.output_type(0)) {
  absl::StatusOr<WindowAttrs> attrs = ReadWindowAttrs(init.node());
  if (attrs.ok()) {
    attrs_ = *attrs;
  } else {
    init.Fail(attrs.status());
  }
}

absl::StatusOr<PoolKernel::Problem> PoolKernel::Read(const KernelContext& ctx) const {
  Problem p;
  p.attrs = attrs_;
  const WindowAttrs& a = p.attrs;
  if (window_inputs_) {
    const int at = ctx.num_inputs() - 2;
    TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> ksize, IntList(ctx.input(at), "ksize"));
    TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> strides, IntList(ctx.input(at + 1), "strides"));
    TROUPE_RETURN_IF_ERROR(SetWindow(ksize, strides, &p.attrs));
  }
  p.in = ctx.input(0).shape();
  if (op_ == PoolOp::kAvgGrad) {
    TROUPE_ASSIGN_OR_RETURN(std::vector<int64_t> sizes, IntList(ctx.input(0), "orig_input_shape"));
    TROUPE_ASSIGN_OR_RETURN(p.in, TensorShape::Make(sizes));
  }
  if (p.in.rank() != 4) return InvalidArgument("the pooled tensor must be 4-dimensional: ", p.in.DebugString());
  for (int i = 0; i < 2; ++i) {
    if (a.before[i] >= a.ksize[i] || a.after[i] >= a.ksize[i]) {
      return InvalidArgument("explicit paddings ", a.before[i], " and ", a.after[i],
                             " must be smaller than the window, ", a.ksize[i]);
    }
  }
  TROUPE_ASSIGN_OR_RETURN(p.y, SlideWindow(a, 0, p.in.dim(a.spatial_dim(0)), a.ksize[0]));
  TROUPE_ASSIGN_OR_RETURN(p.x, SlideWindow(a, 1, p.in.dim(a.spatial_dim(1)), a.ksize[1]));
  p.out = ImageShape<TensorShape>(a, p.in.dim(0), p.y.out, p.x.out, p.in.dim(a.channel_dim()));
  if (p.y.in * p.x.in > int64_t{1} << 31)
    return InvalidArgument("images of ", p.y.in, " x ", p.x.in, " pixels are too large to pool");
  return p;
}

absl::StatusOr<Tensor> PoolKernel::Incoming(const KernelContext& ctx, const Problem& p) const {
  auto expect = [&](int i, const char* what, const TensorShape& shape) {
    if (ctx.input(i).HasShape(shape)) return absl::OkStatus();
    return InvalidArgument(what, " has shape ", ctx.input(i).shape().DebugString(), ", but pooling ",
                           p.in.DebugString(), " needs ", shape.DebugString());
  };
  switch (op_) {
    case PoolOp::kMax:
    case PoolOp::kAvg:
      break;
    case PoolOp::kMaxGrad:
    case PoolOp::kMaxGradGrad:
      TROUPE_RETURN_IF_ERROR(expect(1, "orig_output", p.out));
      TROUPE_RETURN_IF_ERROR(expect(2, "grad", op_ == PoolOp::kMaxGrad ? p.out : p.in));
      return ctx.input(2);
    case PoolOp::kAvgGrad:
      TROUPE_RETURN_IF_ERROR(expect(1, "grad", p.out));
      return ctx.input(1);
  }
  return Tensor();
}

absl::Status PoolKernel::Compute(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const Problem p, Read(ctx));
  TROUPE_ASSIGN_OR_RETURN(Tensor incoming, Incoming(ctx, p));
  const WindowAttrs& a = p.attrs;
  const TensorShape& shape = op_ == PoolOp::kMaxGrad || op_ == PoolOp::kAvgGrad ? p.in : p.out;
  Operands o;
  o.images = p.in.dim(0);
  o.shape.h = p.y.in, o.shape.w = p.x.in, o.shape.c = p.in.dim(a.channel_dim());
  o.shape.oh = p.y.out, o.shape.ow = p.x.out, o.shape.top = p.y.before, o.shape.left = p.x.before;
  o.shape.kh = a.ksize[0], o.shape.kw = a.ksize[1], o.shape.stride_h = a.stride[0], o.shape.stride_w = a.stride[1];
  if (!a.channels_first && !IsSmallFloat(dtype_)) {
    TROUPE_ASSIGN_OR_RETURN(Tensor * result, ctx.AllocateOutput(0, shape));
    if (result->num_elements() == 0) return absl::OkStatus();
    o.x = ctx.input(0).raw();
    o.g = incoming.valid() ? incoming.raw() : nullptr;
    o.out = result->raw();
    RunPool(ctx.threads(), dtype_, op_, o);
    return absl::OkStatus();
  }
  auto image = [&](const Tensor& t) {
    const Tensor wide = Widened(ctx, t);
    return a.channels_first ? ChannelsLast(ctx, wide) : wide;
  };
  const Tensor pooled = op_ == PoolOp::kAvgGrad ? Tensor() : image(ctx.input(0));
  if (incoming.valid()) incoming = image(incoming);
  TensorShape last = shape;
  if (a.channels_first) last = TensorShape({shape.dim(0), shape.dim(2), shape.dim(3), shape.dim(1)});
  TROUPE_ASSIGN_OR_RETURN(Tensor result, ctx.AllocateTemp(ComputeType(dtype_), last));
  o.x = pooled.valid() ? pooled.raw() : nullptr;
  o.g = incoming.valid() ? incoming.raw() : nullptr;
  o.out = result.raw();
  if (result.num_elements() > 0) RunPool(ctx.threads(), ComputeType(dtype_), op_, o);
  // A maximum starts at the lowest finite number, and that of float32 would become -infinity.
  if (op_ == PoolOp::kMax && IsSmallFloat(dtype_)) {
    const float lowest = dtype_ == DType::kHalf ? static_cast<float>(std::numeric_limits<Half>::lowest())
                                                : static_cast<float>(std::numeric_limits<BFloat16>::lowest());
    for (float& v : result.flat<float>()) v = v < lowest ? lowest : v;
  }
  if (a.channels_first) result = ChannelsToFront(ctx, result);
  ctx.set_output(0, Narrowed(ctx, std::move(result), dtype_));
  return absl::OkStatus();
}

}  // namespace troupe
