// Pad and PadV2: a value with a border of zeros, or of a given value. MirrorPad: with a border that
// mirrors it; REFLECT leaves the edge out (2 1 | 0 1 2 | 1 0), SYMMETRIC repeats it (1 0 | 0 1 2 |
// 2 1). MirrorPadGrad adds what lies on the border to the elements it mirrors.
//
// Dimension after dimension: MirrorPad copies the value into the middle and then fills the border
// of one dimension at a time from inside that dimension; the gradient folds one dimension at a
// time. So every element is touched rank times at most and nothing depends on how paddings combine.
#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/common/int_args.h"
#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

// The paddings matrix [rank, 2]: how many elements are put before and behind each dimension.
struct Paddings {
  Ints before, after;
  TensorShape shape;  // of the padded value
  bool none = true;   // all are 0
};

// INVALID_ARGUMENT for a matrix that does not fit `in`, negative paddings, or a padded shape that
// is too big.
absl::StatusOr<Paddings> ReadPaddings(const Tensor& in, const Tensor& paddings) {
  if (paddings.rank() != 2 || paddings.dim(1) != 2 || paddings.dim(0) != in.rank()) {
    return InvalidArgument("paddings must be a matrix [", in.rank(), ",2] for an input of rank ", in.rank(),
                           ", got shape ", paddings.shape().DebugString());
  }
  Paddings p;
  Ints dims;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t before = IntAt(paddings, 2 * i), after = IntAt(paddings, 2 * i + 1);
    if (before < 0 || after < 0)
      return InvalidArgument("paddings must be non-negative: dimension ", i, " has ", before, " and ", after);
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
    if (before > kMost || after > kMost)
      return InvalidArgument("paddings of dimension ", i, " are too big: ", before, " and ", after);
    p.before.push_back(before);
    p.after.push_back(after);
    dims.push_back(before + in.dim(i) + after);
    p.none = p.none && before == 0 && after == 0;
  }
  TROUPE_ASSIGN_OR_RETURN(p.shape, TensorShape::Make(dims));
  return p;
}

// Shape function: input 0 padded by input 1.
absl::Status PaddedShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape matrix, c.WithRank(1, 2));
  TROUPE_RETURN_IF_ERROR(MergeDims(matrix.dim(1), 2).status());
  PartialTensorShape out = c.input(0);
  if (!out.known_rank()) {
    if (matrix.dim(0) < 0) return shape_fn::Unknown(c);
    out = PartialTensorShape::OfRank(static_cast<int>(matrix.dim(0)));
  } else if (matrix.dim(0) >= 0 && matrix.dim(0) != out.rank()) {
    return InvalidArgument("paddings has ", matrix.dim(0), " rows for an input of rank ", out.rank());
  }
  const Tensor* paddings = c.input_tensor(1);
  for (int i = 0; i < out.rank(); ++i) {
    if (paddings == nullptr) {
      out.set_dim(i, -1);
      continue;
    }
    const int64_t before = IntAt(*paddings, 2 * i), after = IntAt(*paddings, 2 * i + 1);
    if (before < 0 || after < 0)
      return InvalidArgument("paddings must be non-negative: dimension ", i, " has ", before, " and ", after);
    if (out.dim(i) >= 0) out.set_dim(i, out.dim(i) + before + after);
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status PadGradient(GradientContext& g) {
  const NodeOut rank = g.Op("Rank", {g.Input(0)});
  const NodeOut column = g.Op("Pack", std::vector<GradArg>{std::vector<NodeOut>{rank, Int(g, 1)}});
  const NodeOut before = g.Op("Slice", {g.Input(1), IntVector(g, {0, 0}), column});
  const NodeOut begin = g.Op("Reshape", {before, IntVector(g, {-1})});
  g.Set(0, g.Op("Slice", {g.Grad(0), begin, ShapeOf(g, g.Input(0), g.input_type(1))}));
  return g.status();
}

// Fills `bytes` with elements of `size`; a null value is zeros.
void FillBytes(char* to, int64_t bytes, const void* value, int64_t size) {
  if (bytes == 0) return;
  if (value == nullptr) {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return;
  }
  std::memcpy(to, value, static_cast<size_t>(size));
  for (int64_t done = size; done < bytes; done *= 2) {
    std::memcpy(to + done, to, static_cast<size_t>(std::min(done, bytes - done)));
  }
}

// Long rows of plain bytes are written once, their border with them. A row is what the last padded
// dimension holds. False where rows are short, or too few to be shared among threads.
bool PadRows(ComputeThreads* threads, const Tensor& in, const Paddings& pad, const void* value, Tensor* out) {
  constexpr int64_t kShortRow = 256, kFewRows = 16;  // bytes, rows
  constexpr double kByteCost = 0.1;                  // nanoseconds
  if (!IsPlainBytes(in.dtype())) return false;
  const auto size = static_cast<int64_t>(SizeOf(in.dtype()));
  int last = in.rank() - 1;
  int64_t inner = size;
  while (last > 0 && pad.before[static_cast<size_t>(last)] == 0 && pad.after[static_cast<size_t>(last)] == 0) {
    inner *= in.dim(last--);
  }
  const int64_t middle = in.dim(last) * inner, before = pad.before[static_cast<size_t>(last)] * inner,
                row = pad.shape.dim(last) * inner;
  if (middle < kShortRow) return false;
  const int64_t rows = out->num_elements() * size / row;
  if (rows < kFewRows) return false;
  const auto* const from = static_cast<const char*>(in.raw());
  auto* const to = static_cast<char*>(out->raw());
  threads->ParallelFor(rows, kByteCost * static_cast<double>(row), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      int64_t rest = r, of_in = 0, stride = 1;
      bool inside = true;
      for (int i = last - 1; i >= 0; --i) {
        const int64_t at = rest % pad.shape.dim(i) - pad.before[static_cast<size_t>(i)];
        rest /= pad.shape.dim(i);
        inside &= at >= 0 && at < in.dim(i);
        of_in += at * stride;
        stride *= in.dim(i);
      }
      char* const here = to + r * row;
      if (!inside) {
        FillBytes(here, row, value, size);
        continue;
      }
      FillBytes(here, before, value, size);
      std::memcpy(here + before, from + of_in * middle, static_cast<size_t>(middle));
      FillBytes(here + before + middle, row - before - middle, value, size);
    }
  });
  return true;
}

absl::Status ComputePad(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const bool has_value = ctx.num_inputs() == 3;
  if (has_value && ctx.input(2).rank() != 0) {
    return InvalidArgument("constant_values must be a scalar, got shape ", ctx.input(2).shape().DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const Paddings pad, ReadPaddings(in, ctx.input(1)));
  if (pad.none) return PassOn(ctx);
  const TensorShape in_shape = in.shape();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, pad.shape));
  if (out->num_elements() == 0) return absl::OkStatus();
  if (PadRows(ctx.threads(), in, pad, has_value ? ctx.input(2).raw() : nullptr, out)) return absl::OkStatus();
  if (has_value) {
    FillElements(ctx.threads(), out->dtype(), out->raw(), ctx.input(2).raw(), out->num_elements());
  } else {
    ZeroElements(ctx.threads(), out->dtype(), out->raw(), out->num_elements());
  }
  const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(pad.shape.dims());
  StridedCopy copy;
  for (int i = 0; i < in_shape.rank(); ++i) {
    const auto k = static_cast<size_t>(i);
    copy.Add(in_shape.dim(i), to[k], from[k]);
    copy.dst_offset += pad.before[k] * to[k];
  }
  copy.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
  return absl::OkStatus();
}

TROUPE_OP("Pad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PaddedShape)
    .Gradient(PadGradient)
    .Doc("`input` with `paddings[i, 0]` zeros before and `paddings[i, 1]` behind it in every dimension i.");
TROUPE_KERNEL("Pad").Device("CPU").Types("T", MovableTypes()).HostMemory("paddings").Function<ComputePad>();

TROUPE_OP("PadV2")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Input("constant_values: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Shape(PaddedShape)
    .Gradient(PadGradient)
    .Doc("As Pad, with the scalar `constant_values` in place of zeros.");
TROUPE_KERNEL("PadV2").Device("CPU").Types("T", MovableTypes()).HostMemory("paddings").Function<ComputePad>();

absl::StatusOr<int> EdgeOffset(const std::string& mode) {
  if (mode == "REFLECT") return 1;
  if (mode == "SYMMETRIC") return 0;
  return InvalidArgument("mode must be REFLECT or SYMMETRIC, got '", mode, "'");
}

absl::Status CheckBorder(int i, int64_t before, int64_t after, int64_t dim, int offset) {
  if (before > dim - offset || after > dim - offset) {
    return InvalidArgument("paddings must be ", offset ? "less than" : "no greater than",
                           " the dimension size: dimension ", i, " has ", before, ", ", after, " for size ", dim);
  }
  return absl::OkStatus();
}

class MirrorKernel {
 public:
  explicit MirrorKernel(KernelInit& init) {
    auto offset = EdgeOffset(init.Attr<std::string>("mode"));
    if (offset.ok())
      offset_ = *offset;
    else
      init.Fail(offset.status());
  }

 protected:
  int offset_ = 0;
};

class MirrorPadKernel : public MirrorKernel {
 public:
  using MirrorKernel::MirrorKernel;
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const Paddings pad, ReadPaddings(in, ctx.input(1)));
    const int rank = in.rank();
    for (int i = 0; i < rank; ++i) {
      const auto k = static_cast<size_t>(i);
      TROUPE_RETURN_IF_ERROR(CheckBorder(i, pad.before[k], pad.after[k], in.dim(i), offset_));
    }
    if (pad.none) return PassOn(ctx);
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, pad.shape));
    const TensorShape in_shape = in.shape();
    const Strides from = DenseStrides(in_shape.dims()), to = DenseStrides(pad.shape.dims());
    StridedCopy middle;
    for (int i = 0; i < rank; ++i) {
      const auto k = static_cast<size_t>(i);
      middle.Add(in.dim(i), to[k], from[k]);
      middle.dst_offset += pad.before[k] * to[k];
    }
    middle.Run(ctx.threads(), in.dtype(), out->raw(), in.raw());
    // When dimension d is done, dimensions >= d are whole and those before still lack their
    // borders.
    for (int d = rank - 1; d >= 0; --d) {
      const auto k = static_cast<size_t>(d);
      StridedCopy border;
      for (int i = 0; i < rank; ++i) {
        const auto j = static_cast<size_t>(i);
        if (i == d) continue;
        border.Add(i < d ? in_shape.dim(i) : pad.shape.dim(i), to[j], to[j]);
        if (i < d) border.src_offset += pad.before[j] * to[j];
      }
      const int64_t start = border.src_offset, first = pad.before[k], last = first + in_shape.dim(d) - 1;
      border.axes.insert(border.axes.begin() + d, CopyAxis{pad.before[k], to[k], -to[k]});
      border.dst_offset = start;
      border.src_offset = start + (2 * first - 1 + offset_) * to[k];
      border.Run(ctx.threads(), in.dtype(), out->raw(), out->raw());
      border.axes[k].size = pad.after[k];
      border.dst_offset = start + (last + 1) * to[k];
      border.src_offset = start + (last - offset_) * to[k];
      border.Run(ctx.threads(), in.dtype(), out->raw(), out->raw());
    }
    return absl::OkStatus();
  }
};

// x is [outer, size, inner] and becomes [outer, size - before - after, inner], the borders added to
// what they mirror.
template <class T>
void Fold(const T* x, int64_t outer, int64_t size, int64_t inner, int64_t before, int64_t after, int offset, T* y) {
  const int64_t kept = size - before - after;
  for (int64_t o = 0; o < outer; ++o, x += size * inner, y += kept * inner) {
    std::copy(x + before * inner, x + (before + kept) * inner, y);
    auto add = [&](int64_t from, int64_t to) {
      for (int64_t i = 0; i < inner; ++i) y[to * inner + i] = static_cast<T>(y[to * inner + i] + x[from * inner + i]);
    };
    for (int64_t b = 0; b < before; ++b) add(before - 1 - b, b + offset);
    for (int64_t a = 0; a < after; ++a) add(before + kept + a, kept - 1 - offset - a);
  }
}

class MirrorPadGradKernel : public MirrorKernel {
 public:
  using MirrorKernel::MirrorKernel;
  absl::Status Compute(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(const Paddings pad, ReadPaddings(in, ctx.input(1)));
    TensorShape shape = in.shape();
    for (int i = 0; i < in.rank(); ++i) {
      const auto k = static_cast<size_t>(i);
      const int64_t kept = in.dim(i) - pad.before[k] - pad.after[k];
      if (kept < 0)
        return InvalidArgument("paddings of dimension ", i, " exceed its size: ", pad.before[k], " + ", pad.after[k],
                               " > ", in.dim(i));
      TROUPE_RETURN_IF_ERROR(CheckBorder(i, pad.before[k], pad.after[k], kept, offset_));
    }
    Tensor now = in;
    for (int i = 0; i < in.rank(); ++i) {
      const auto k = static_cast<size_t>(i);
      if (pad.before[k] == 0 && pad.after[k] == 0) continue;
      int64_t outer = 1, inner = 1;
      for (int j = 0; j < i; ++j) outer *= shape.dim(j);
      for (int j = i + 1; j < shape.rank(); ++j) inner *= shape.dim(j);
      const int64_t size = shape.dim(i);
      shape.set_dim(i, size - pad.before[k] - pad.after[k]);
      TROUPE_ASSIGN_OR_RETURN(Tensor next, ctx.AllocateTemp(in.dtype(), shape));
      VisitNumeric(in.dtype(), false, [&]<class T>() {
        Fold(now.data<T>(), outer, size, inner, pad.before[k], pad.after[k], offset_, next.data<T>());
        return true;
      });
      now = std::move(next);
    }
    ctx.set_output(0, std::move(now));
    return absl::OkStatus();
  }
};

absl::Status UnpaddedShape(InferenceContext& c) {
  PartialTensorShape out = c.input(0);
  const Tensor* paddings = c.input_tensor(1);
  if (!out.known_rank()) return shape_fn::Unknown(c);
  if (paddings != nullptr && paddings->num_elements() != 2 * out.rank()) {
    return InvalidArgument("paddings has shape ", paddings->shape().DebugString(), " for an input of rank ",
                           out.rank());
  }
  for (int i = 0; i < out.rank(); ++i) {
    if (paddings == nullptr || out.dim(i) < 0) {
      out.set_dim(i, -1);
      continue;
    }
    const int64_t kept = out.dim(i) - IntAt(*paddings, 2 * i) - IntAt(*paddings, 2 * i + 1);
    if (kept < 0) return InvalidArgument("paddings of dimension ", i, " exceed its size ", out.dim(i));
    out.set_dim(i, kept);
  }
  c.set_output(0, out);
  return absl::OkStatus();
}

absl::Status MirrorPadGradient(GradientContext& g) {
  g.Set(0, g.Op("MirrorPadGrad", {g.Grad(0), g.Input(1)}, {{"mode", g.Attr<std::string>("mode")}}));
  return g.status();
}
absl::Status MirrorPadGradGradient(GradientContext& g) {
  g.Set(0, g.Op("MirrorPad", {g.Grad(0), g.Input(1)}, {{"mode", g.Attr<std::string>("mode")}}));
  return g.status();
}

TROUPE_OP("MirrorPad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .Shape(PaddedShape)
    .Gradient(MirrorPadGradient)
    .Doc(
        "`input` with a border of `paddings` elements in every dimension that mirrors it, without (REFLECT) or with "
        "(SYMMETRIC) the edge itself.");
TROUPE_KERNEL("MirrorPad").Device("CPU").Types("T", MovableTypes()).HostMemory("paddings").Class<MirrorPadKernel>();

TROUPE_OP("MirrorPadGrad")
    .Input("input: T")
    .Input("paddings: Tpaddings")
    .Output("output: T")
    .Attr("T: type")
    .Attr("Tpaddings: {int32, int64} = DT_INT32")
    .Attr("mode: {'REFLECT', 'SYMMETRIC'}")
    .Shape(UnpaddedShape)
    .Gradient(MirrorPadGradGradient)
    .Doc("The gradient of MirrorPad: the border is cut off and added to the elements that it mirrors.");
TROUPE_KERNEL("MirrorPadGrad")
    .Device("CPU")
    .Types("T", NumberTypes())
    .HostMemory("paddings")
    .Class<MirrorPadGradKernel>();

}  // namespace
}  // namespace troupe::array
