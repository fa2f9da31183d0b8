// Versions 2 and 3 of MatrixDiag, MatrixDiagPart and MatrixSetDiag: bands of diagonals, packed as
// rows.
//
// Diagonal d of a matrix holds the elements with column - row = d. The band k = [lower, upper] is
// packed with its uppermost diagonal first, in rows as long as the longest of them; a shorter
// diagonal stands at the left or the right end of its row (attr "align": superdiagonals first, then
// subdiagonals; version 2 has LEFT_LEFT), and the rest of the row is padding. A band of one
// diagonal is packed as a vector.
#include <algorithm>
#include <string_view>
#include <vector>

#include "kernels/common/op_file.h"
#include "kernels/common/strided_copy.h"

namespace troupe::array {
namespace {

struct Band {
  int64_t lower = 0, upper = 0, rows = 0, columns = 0;
  bool superdiagonals_left = true, subdiagonals_left = true;

  // Of a node with attr "align", or without (version 2).
  void SetAlign(std::string_view align);
  // Reads input `k`: a scalar, or a vector of one or two numbers. INVALID_ARGUMENT when lower >
  // upper.
  absl::Status SetBounds(const Tensor& k);
  // INVALID_ARGUMENT when a bound lies outside of a matrix of this size.
  absl::Status SetSize(int64_t rows, int64_t columns);

  bool single() const { return lower == upper; }
  int64_t count() const { return upper - lower + 1; }
  // Of diagonal d, and of the longest of the band.
  int64_t Length(int64_t d) const {
    return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
  }
  int64_t Longest() const {
    return std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0));
  }
  // Where diagonal d begins in its row.
  int64_t Offset(int64_t d) const {
    const bool left = (d >= 0 && superdiagonals_left) || (d <= 0 && subdiagonals_left);
    return left ? 0 : Longest() - Length(d);
  }
  // `batch` with the dimensions of the packed band behind it.
  template <class Shape>
  Shape Packed(Shape batch) const {
    if (!single()) batch.AddDim(count());
    batch.AddDim(Longest());
    return batch;
  }
};

// The three ops on inputs as in version 3, and what they share: the alignment that the node names
// (a node of version 2 names none).
class BandKernel {
 protected:
  explicit BandKernel(KernelInit& init);
  Band band_;
};
struct MatrixDiagKernel : BandKernel {
  explicit MatrixDiagKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};
struct MatrixDiagPartKernel : BandKernel {
  explicit MatrixDiagPartKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};
struct MatrixSetDiagKernel : BandKernel {
  explicit MatrixSetDiagKernel(KernelInit& init) : BandKernel(init) {}
  absl::Status Compute(KernelContext& ctx);
};

constexpr char kAlignAttr[] = "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";

std::string AlignOf(const Node& node) {
  if (!node.attrs().Has("align")) return "LEFT_LEFT";
  const auto align = node.Attr<std::string>("align");
  return align.ok() ? *align : "RIGHT_LEFT";
}
TensorShape Front(const TensorShape& s, int without) { return TensorShape(s.dims().subspan(0, s.rank() - without)); }

absl::StatusOr<Tensor> PaddingOf(const Tensor& t) {
  if (t.num_elements() != 1)
    return InvalidArgument("padding_value must be a scalar, got shape ", t.shape().DebugString());
  return t;
}

// Rows and columns of a matrix of which the band is packed in rows of `longest`; -1 where a number
// is not given.
absl::Status CompleteSize(const Band& band, int64_t longest, int64_t* rows, int64_t* columns) {
  const int64_t least_rows = longest - std::min<int64_t>(band.upper, 0),
                least_columns = longest + std::max<int64_t>(band.lower, 0);
  if (*rows == -1 && *columns == -1) {
    *rows = *columns = std::max(least_rows, least_columns);
  } else if (*rows == -1) {
    *rows = least_rows;
  } else if (*columns == -1) {
    *columns = least_columns;
  }
  if (*rows < least_rows) return InvalidArgument("The number of rows is too small: ", *rows, " < ", least_rows);
  if (*columns < least_columns)
    return InvalidArgument("The number of columns is too small: ", *columns, " < ", least_columns);
  if (*rows != least_rows && *columns != least_columns) {
    return InvalidArgument(
        "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal: ", *rows,
        " x ", *columns, " instead of ", least_rows, " rows or ", least_columns, " columns");
  }
  return absl::OkStatus();
}

// Copies packed bands into (out of) `batch` matrices.
void CopyBand(KernelContext& ctx, const Band& band, int64_t batch, DType t, void* to, const void* from, bool into) {
  const int64_t matrix = band.rows * band.columns, packed = band.count() * band.Longest(), step = band.columns + 1;
  for (int64_t d = band.upper; d >= band.lower; --d) {
    const int64_t n = band.Length(d), at = d >= 0 ? d : -d * band.columns,
                  row = (band.upper - d) * band.Longest() + band.Offset(d);
    if (n <= 0 || batch == 0) continue;
    StridedCopy copy;
    if (into) {
      copy.Add(batch, matrix, packed);
      copy.Add(n, step, 1);
    } else {
      copy.Add(batch, packed, matrix);
      copy.Add(n, 1, step);
    }
    copy.Run(ctx.threads(), t, ElementAt(t, to, into ? at : row), ElementAt(t, from, into ? row : at));
  }
}

void Band::SetAlign(std::string_view align) {
  superdiagonals_left = align.starts_with("LEFT");
  subdiagonals_left = align.ends_with("LEFT");
}

absl::Status Band::SetBounds(const Tensor& k) {
  if (k.rank() > 1 || k.num_elements() < 1 || k.num_elements() > 2) {
    return InvalidArgument("diag_index must be a scalar or vector with one or two elements, received shape: ",
                           k.shape().DebugString());
  }
  lower = IntAt(k, 0);
  upper = IntAt(k, k.num_elements() - 1);
  if (lower > upper)
    return InvalidArgument("lower_diag_index must not be larger than upper_diag_index: ", lower, " > ", upper);
  return absl::OkStatus();
}

absl::Status Band::SetSize(int64_t r, int64_t c) {
  rows = r;
  columns = c;
  for (const int64_t d : {lower, upper}) {
    if (d != 0 && (d <= -rows || d >= columns)) {
      return InvalidArgument(d == lower ? "lower" : "upper", "_diag_index is out of bound: ", d, " is not between ",
                             -rows, " and ", columns);
    }
  }
  return absl::OkStatus();
}

BandKernel::BandKernel(KernelInit& init) { band_.SetAlign(AlignOf(init.node())); }

absl::Status MatrixDiagKernel::Compute(KernelContext& ctx) {
  const Tensor& packed = ctx.input(0);
  Band band = band_;
  TROUPE_RETURN_IF_ERROR(band.SetBounds(ctx.input(1)));
  TROUPE_ASSIGN_OR_RETURN(int64_t rows, ReadScalar(ctx.input(2), "num_rows"));
  TROUPE_ASSIGN_OR_RETURN(int64_t columns, ReadScalar(ctx.input(3), "num_cols"));
  TROUPE_ASSIGN_OR_RETURN(const Tensor padding, PaddingOf(ctx.input(4)));
  const int behind = band.single() ? 1 : 2;
  if (packed.rank() < behind)
    return InvalidArgument("diagonal must be at least ", behind,
                           "-dim, received shape: ", packed.shape().DebugString());
  if (!band.single() && packed.dim(packed.rank() - 2) != band.count()) {
    return InvalidArgument(
        "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index "
        "range: ",
        packed.dim(packed.rank() - 2), " instead of ", band.count());
  }
  TROUPE_RETURN_IF_ERROR(CompleteSize(band, packed.dim(packed.rank() - 1), &rows, &columns));
  // Diagonals that lie outside of a square matrix are left out.
  band.rows = rows;
  band.columns = columns;
  TensorShape shape = Front(packed.shape(), behind);
  const int64_t batch = shape.num_elements();
  shape.AddDim(rows);
  shape.AddDim(columns);
  TROUPE_RETURN_IF_ERROR(TensorShape::Make(shape.dims()).status());
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  FillElements(ctx.threads(), out->dtype(), out->raw(), padding.raw(), out->num_elements());
  CopyBand(ctx, band, batch, out->dtype(), out->raw(), packed.raw(), true);
  return absl::OkStatus();
}

absl::Status MatrixDiagPartKernel::Compute(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  Band band = band_;
  TROUPE_RETURN_IF_ERROR(band.SetBounds(ctx.input(1)));
  TROUPE_ASSIGN_OR_RETURN(const Tensor padding, PaddingOf(ctx.input(2)));
  if (in.rank() < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", in.shape().DebugString());
  TROUPE_RETURN_IF_ERROR(band.SetSize(in.dim(in.rank() - 2), in.dim(in.rank() - 1)));
  const TensorShape front = Front(in.shape(), 2);
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, band.Packed(front)));
  FillElements(ctx.threads(), out->dtype(), out->raw(), padding.raw(), out->num_elements());
  CopyBand(ctx, band, front.num_elements(), out->dtype(), out->raw(), in.raw(), false);
  return absl::OkStatus();
}

absl::Status MatrixSetDiagKernel::Compute(KernelContext& ctx) {
  Band band = band_;
  TROUPE_RETURN_IF_ERROR(band.SetBounds(ctx.input(2)));
  const TensorShape shape = ctx.input(0).shape();
  if (shape.rank() < 2) return InvalidArgument("input must be at least 2-dim, received shape: ", shape.DebugString());
  TROUPE_RETURN_IF_ERROR(band.SetSize(shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1)));
  const TensorShape front = Front(shape, 2), want = band.Packed(front);
  const Tensor packed = ctx.input(1);
  if (!packed.HasShape(want)) {
    return InvalidArgument("diagonal must have shape ", want.DebugString(),
                           " for this input and band, received shape: ", packed.shape().DebugString());
  }
  Tensor out = ctx.TakeInput(0);
  if (!out.BufferUnique()) out = out.Clone(ctx.allocator());
  if (!out.valid()) return ResourceExhausted("no memory for a copy of the input");
  CopyBand(ctx, band, front.num_elements(), out.dtype(), out.raw(), packed.raw(), true);
  ctx.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status MatrixDiagBandShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape packed, c.WithRankAtLeast(0, 1));
  const Tensor* k = c.input_tensor(1);
  if (k == nullptr || !packed.known_rank()) return shape_fn::Unknown(c);
  Band band;
  TROUPE_RETURN_IF_ERROR(band.SetBounds(*k));
  const int behind = band.single() ? 1 : 2;
  TROUPE_RETURN_IF_ERROR(c.WithRankAtLeast(0, behind).status());
  PartialTensorShape out(packed.dims().subspan(0, packed.rank() - behind));
  const int64_t longest = packed.dim(packed.rank() - 1);
  const Tensor *rows = c.input_tensor(2), *columns = c.input_tensor(3);
  int64_t r = -1, cs = -1;
  if (rows != nullptr && columns != nullptr && longest >= 0) {
    TROUPE_ASSIGN_OR_RETURN(r, ReadScalar(*rows, "num_rows"));
    TROUPE_ASSIGN_OR_RETURN(cs, ReadScalar(*columns, "num_cols"));
    TROUPE_RETURN_IF_ERROR(CompleteSize(band, longest, &r, &cs));
  }
  out.AddDim(r);
  out.AddDim(cs);
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status MatrixDiagPartBandShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape in, c.WithRankAtLeast(0, 2));
  const Tensor* k = c.input_tensor(1);
  if (k == nullptr || !in.known_rank()) return shape_fn::Unknown(c);
  Band band;
  TROUPE_RETURN_IF_ERROR(band.SetBounds(*k));
  PartialTensorShape out(in.dims().subspan(0, in.rank() - 2));
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  if (rows >= 0 && columns >= 0) {
    TROUPE_RETURN_IF_ERROR(band.SetSize(rows, columns));
    out = band.Packed(out);
  } else {
    if (!band.single()) out.AddDim(band.count());
    out.AddDim(-1);
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status MatrixSetDiagBandShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape in, c.WithRankAtLeast(0, 2));
  TROUPE_RETURN_IF_ERROR(c.WithRankAtLeast(1, 1).status());
  c.set_output(0, std::move(in));
  return absl::OkStatus();
}

absl::Status MatrixDiagBandGradient(GradientContext& g) {
  g.Set(0,
        g.Op("MatrixDiagPartV3", {g.Grad(0), g.Input(1), g.ScalarLike(g.Grad(0), 0)}, {{"align", AlignOf(g.node())}}));
  return g.status();
}

absl::Status MatrixDiagPartBandGradient(GradientContext& g) {
  const NodeOut zeros = g.Op("Fill", {ShapeOf(g, g.Input(0)), g.ScalarLike(g.Grad(0), 0)});
  g.Set(0, g.Op("MatrixSetDiagV3", {zeros, g.Grad(0), g.Input(1)}, {{"align", AlignOf(g.node())}}));
  return g.status();
}

absl::Status MatrixSetDiagBandGradient(GradientContext& g) {
  const AttrMap align = {{"align", AlignOf(g.node())}};
  const NodeOut zeros = g.Op("Fill", {ShapeOf(g, g.Input(1)), g.ScalarLike(g.Grad(0), 0)});
  g.Set(0, g.Op("MatrixSetDiagV3", {g.Grad(0), zeros, g.Input(2)}, align));
  g.Set(1, g.Op("MatrixDiagPartV3", {g.Grad(0), g.Input(2), g.ScalarLike(g.Grad(0), 0)}, align));
  return g.status();
}

// The definitions as version 2 has them, without doc; to those of version 3 kAlignAttr is added.
OpBuilder MatrixDiagBandOp(std::string_view name) {
  return OpBuilder(name)
      .Input("diagonal: T")
      .Input("k: int32")
      .Input("num_rows: int32")
      .Input("num_cols: int32")
      .Input("padding_value: T")
      .Output("output: T")
      .Attr("T: type")
      .Shape(MatrixDiagBandShape)
      .Gradient(MatrixDiagBandGradient);
}

OpBuilder MatrixDiagPartBandOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("k: int32")
      .Input("padding_value: T")
      .Output("diagonal: T")
      .Attr("T: type")
      .Shape(MatrixDiagPartBandShape)
      .Gradient(MatrixDiagPartBandGradient);
}

OpBuilder MatrixSetDiagBandOp(std::string_view name) {
  return OpBuilder(name)
      .Input("input: T")
      .Input("diagonal: T")
      .Input("k: int32")
      .Output("output: T")
      .Attr("T: type")
      .Shape(MatrixSetDiagBandShape)
      .Gradient(MatrixSetDiagBandGradient);
}

// The types of TensorFlow's kernels.
const std::vector<DType>& DiagonalTypes() {
  static const std::vector<DType> types = {DType::kHalf,      DType::kBfloat16,   DType::kFloat, DType::kDouble,
                                           DType::kComplex64, DType::kComplex128, DType::kInt8,  DType::kInt16,
                                           DType::kInt32,     DType::kInt64,      DType::kUint8, DType::kUint16,
                                           DType::kUint32,    DType::kUint64,     DType::kBool};
  return types;
}

const OpRegistrar matrix_diag_v2 = MatrixDiagBandOp("MatrixDiagV2").Doc("As MatrixDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .HostMemory("num_rows")
    .HostMemory("num_cols")
    .Class<MatrixDiagKernel>();

const OpRegistrar matrix_diag_v3 =
    MatrixDiagBandOp("MatrixDiagV3")
        .Attr(kAlignAttr)
        .Doc(
            "Matrices with the diagonals k[0] to k[1] (of a single k that one) from `diagonal` and padding_value "
            "elsewhere. The uppermost\n"
            "diagonal comes first, each in a row that is as long as the longest; `align` says at which end of its row "
            "a shorter\n"
            "superdiagonal, and a shorter subdiagonal, stands. Rows and columns that are -1 are as few as fit.");
TROUPE_KERNEL("MatrixDiagV3")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .HostMemory("num_rows")
    .HostMemory("num_cols")
    .Class<MatrixDiagKernel>();

const OpRegistrar matrix_diag_part_v2 =
    MatrixDiagPartBandOp("MatrixDiagPartV2").Doc("As MatrixDiagPartV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagPartV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .Class<MatrixDiagPartKernel>();

const OpRegistrar matrix_diag_part_v3 =
    MatrixDiagPartBandOp("MatrixDiagPartV3")
        .Attr(kAlignAttr)
        .Doc(
            "The diagonals k[0] to k[1] (of a single k that one) of the matrices in the last two dimensions, packed as "
            "MatrixDiagV3 reads\n"
            "them, with padding_value where a row is longer than its diagonal.");
TROUPE_KERNEL("MatrixDiagPartV3")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .Class<MatrixDiagPartKernel>();

const OpRegistrar matrix_set_diag_v2 =
    MatrixSetDiagBandOp("MatrixSetDiagV2").Doc("As MatrixSetDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixSetDiagV2").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

const OpRegistrar matrix_set_diag_v3 =
    MatrixSetDiagBandOp("MatrixSetDiagV3")
        .Attr(kAlignAttr)
        .Doc(
            "`input` with the diagonals k[0] to k[1] (of a single k that one) of its matrices replaced by `diagonal`, "
            "which is packed as\n"
            "MatrixDiagV3 reads it.");
TROUPE_KERNEL("MatrixSetDiagV3").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

}  // namespace
}  // namespace troupe::array
