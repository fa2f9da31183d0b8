#include "kernels/state/scatter_rows.h"

#include <algorithm>
#include <functional>

#include "kernels/state/handle_shapes.h"
#include "kernels/state/variable_access.h"

namespace troupe::state {
namespace {

// row op= update, for n elements; with `scalar`, update is one element.
using RowFn = void (*)(void* row, const void* update, int64_t n, bool scalar);

template <class T>
constexpr bool kOrdered = !std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>;

template <class T, ScatterOp kOp>
inline T Apply(T a, T b) {
  // Overflow of signed integers wraps, as everywhere.
  if constexpr (std::is_integral_v<T> && (kOp == ScatterOp::kAdd || kOp == ScatterOp::kSub || kOp == ScatterOp::kMul)) {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(kOp == ScatterOp::kAdd ? x + y : kOp == ScatterOp::kSub ? x - y : x * y);
  } else if constexpr (std::is_integral_v<T> && kOp == ScatterOp::kDiv) {
    return b == static_cast<T>(-1) && std::is_signed_v<T> ? static_cast<T>(uint64_t{0} - static_cast<uint64_t>(a))
                                                          : static_cast<T>(a / b);
  } else if constexpr (kOp == ScatterOp::kAdd) {
    return a + b;
  } else if constexpr (kOp == ScatterOp::kSub) {
    return a - b;
  } else if constexpr (kOp == ScatterOp::kMul) {
    return a * b;
  } else if constexpr (kOp == ScatterOp::kDiv) {
    return a / b;
  } else if constexpr (kOp == ScatterOp::kMin) {
    return b < a ? b : a;
  } else {
    return a < b ? b : a;
  }
}

template <class T, ScatterOp kOp>
void Row(void* row, const void* update, int64_t n, bool scalar) {
  T* __restrict__ r = static_cast<T*>(row);
  const T* __restrict__ u = static_cast<const T*>(update);
  if (scalar) {
    for (int64_t i = 0; i < n; ++i) r[i] = Apply<T, kOp>(r[i], *u);
  } else {
    for (int64_t i = 0; i < n; ++i) r[i] = Apply<T, kOp>(r[i], u[i]);
  }
}

template <class T>
void SetRow(void* row, const void* update, int64_t n, bool scalar) {
  T* r = static_cast<T*>(row);
  const T* u = static_cast<const T*>(update);
  if (scalar) {
    std::fill(r, r + n, *u);
  } else {
    std::copy(u, u + n, r);
  }
}

template <class F>
void CombineBools(void* row, const void* update, int64_t n, bool scalar) {
  bool* r = static_cast<bool*>(row);
  const bool* u = static_cast<const bool*>(update);
  for (int64_t i = 0; i < n; ++i) r[i] = F()(r[i], u[scalar ? 0 : i]);
}

struct Bytes16 {
  uint64_t part[2];
};

RowFn FindSet(DType dtype) {
  if (dtype == DType::kString) return &SetRow<std::string>;
  if (!IsPlainBytes(dtype)) return &SetRow<ResourceHandle>;
  switch (SizeOf(dtype)) {
    case 1:
      return &SetRow<uint8_t>;
    case 2:
      return &SetRow<uint16_t>;
    case 4:
      return &SetRow<uint32_t>;
    case 8:
      return &SetRow<uint64_t>;
    default:
      return &SetRow<Bytes16>;
  }
}

RowFn Find(DType dtype, ScatterOp op) {
  if (op == ScatterOp::kUpdate) return FindSet(dtype);
  return VisitNumeric<RowFn>(dtype, nullptr, [op]<class T>() -> RowFn {
    if constexpr (!std::is_same_v<T, bool>) {
      switch (op) {
        case ScatterOp::kAdd:
          return &Row<T, ScatterOp::kAdd>;
        case ScatterOp::kSub:
          return &Row<T, ScatterOp::kSub>;
        case ScatterOp::kMul:
          return &Row<T, ScatterOp::kMul>;
        case ScatterOp::kDiv:
          return &Row<T, ScatterOp::kDiv>;
        default:
          break;
      }
      if constexpr (kOrdered<T>) return op == ScatterOp::kMin ? &Row<T, ScatterOp::kMin> : &Row<T, ScatterOp::kMax>;
    } else {
      // Sums and differences of 0 and 1, as truth values: or, exclusive or.
      if (op == ScatterOp::kAdd) return &CombineBools<std::logical_or<>>;
      if (op == ScatterOp::kSub) return &CombineBools<std::not_equal_to<>>;
    }
    return nullptr;
  });
}

// True when an integer tensor holds a zero.
bool HasZero(const Tensor& t) {
  return VisitNumeric(t.dtype(), false, [&t]<class T>() -> bool {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const auto values = t.flat<T>();
      return std::find(values.begin(), values.end(), T{0}) != values.end();
    } else {
      return false;
    }
  });
}

// value, seen as rows of `row_elements`; rows[i] op= updates[i].
void Run(KernelContext& ctx, Tensor& value, int64_t num_rows, int64_t row_elements, const std::vector<int64_t>& rows,
         const Tensor& updates, bool scalar, RowFn fn) {
  const size_t row_bytes = static_cast<size_t>(row_elements) * SizeOf(value.dtype());
  char* const base = static_cast<char*>(value.raw());
  const char* const update = static_cast<const char*>(updates.raw());
  const size_t step = scalar ? 0 : row_bytes;
  const auto n = static_cast<int64_t>(rows.size());
  // Sharing out pays when rows are long.
  if (row_bytes < 64 || num_rows < 2) {
    for (int64_t i = 0; i < n; ++i) {
      if (rows[i] >= 0) fn(base + rows[i] * row_bytes, update + i * step, row_elements, scalar);
    }
    return;
  }
  ForEachRow(ctx, num_rows, rows, 5.0 + 0.1 * static_cast<double>(row_bytes),
             [&](int64_t i, int64_t row) { fn(base + row * row_bytes, update + i * step, row_elements, scalar); });
}

absl::Status Scatter(KernelContext& ctx, VariableSlot* slot, const Tensor& indices, const Tensor& updates, ScatterOp op,
                     bool nd, bool skip_bad) {
  const RowFn fn = Find(slot->dtype(), op);
  if (fn == nullptr) return Unimplemented("this update is not defined for ", Name(slot->dtype()));
  if (op == ScatterOp::kDiv && HasZero(updates))
    return InvalidArgument("integer division by zero in an update of variable '", slot->name(), "'");
  VariableUpdate update(ctx);
  TROUPE_RETURN_IF_ERROR(update.Begin(slot));
  TROUPE_RETURN_IF_ERROR(update.CheckReadable());
  Tensor& value = update.value();
  const TensorShape shape = value.shape();
  if (nd ? indices.rank() < 1 : shape.rank() < 1) {
    return InvalidArgument(nd ? "indices" : StrCat("variable '", slot->name(), "'"),
                           " must have at least one dimension, but has shape ",
                           (nd ? indices.shape() : shape).DebugString());
  }
  const int64_t depth = nd ? indices.dim(indices.rank() - 1) : 1;
  if (depth > shape.rank()) {
    return InvalidArgument("indices of length ", depth, " do not fit variable '", slot->name(), "' of shape ",
                           shape.DebugString());
  }
  TensorShape expected = indices.shape();
  if (nd) expected.RemoveDim(expected.rank() - 1);
  int64_t num_rows = 1, row_elements = 1;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d < depth) {
      num_rows *= shape.dim(d);
    } else {
      row_elements *= shape.dim(d);
      expected.AddDim(shape.dim(d));
    }
  }
  const bool scalar = !nd && updates.rank() == 0;
  if (!scalar && !updates.HasShape(expected)) {
    return InvalidArgument("updates have shape ", updates.shape().DebugString(), ", but must have shape ",
                           expected.DebugString(), " for indices ", indices.shape().DebugString(), " into variable '",
                           slot->name(), "' of shape ", shape.DebugString());
  }
  TROUPE_ASSIGN_OR_RETURN(const std::vector<int64_t> rows,
                          nd ? CheckedSlices(indices, shape, skip_bad) : CheckedRows(indices, shape.dim(0)));
  TROUPE_RETURN_IF_ERROR(update.Write());
  Run(ctx, value, num_rows, row_elements, rows, updates, scalar, fn);
  return update.Commit();
}

int64_t IndexAt(const Tensor& indices, int64_t i) {
  return indices.dtype() == DType::kInt64 ? indices.data<int64_t>()[i] : indices.data<int32_t>()[i];
}

// "[1,3]": the multi-dimensional position `i` in `shape`.
std::string Position(const TensorShape& shape, int64_t i) {
  std::vector<int64_t> at(shape.rank());
  for (int d = shape.rank() - 1; d >= 0; --d) {
    at[d] = i % shape.dim(d);
    i /= shape.dim(d);
  }
  return shape.rank() == 0 ? "" : StrCat("[", StrJoin(at, ","), "]");
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> CheckedRows(const Tensor& indices, int64_t limit) {
  std::vector<int64_t> rows(indices.num_elements());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = IndexAt(indices, static_cast<int64_t>(i));
    if (rows[i] < 0 || rows[i] >= limit) {
      return InvalidArgument("indices", Position(indices.shape(), static_cast<int64_t>(i)), " = ", rows[i],
                             " is not in [0, ", limit, ")");
    }
  }
  return rows;
}

absl::StatusOr<std::vector<int64_t>> CheckedSlices(const Tensor& indices, const TensorShape& shape, bool skip_bad) {
  TensorShape outer = indices.shape();
  const int64_t depth = outer.dim(outer.rank() - 1);
  outer.RemoveDim(outer.rank() - 1);
  std::vector<int64_t> rows(outer.num_elements());
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t row = 0;
    for (int64_t d = 0; d < depth; ++d) {
      const int64_t index = IndexAt(indices, static_cast<int64_t>(i) * depth + d);
      if (index < 0 || index >= shape.dim(static_cast<int>(d))) {
        if (skip_bad) {
          row = -1;
          break;
        }
        std::vector<int64_t> all(depth);
        for (int64_t k = 0; k < depth; ++k) all[k] = IndexAt(indices, static_cast<int64_t>(i) * depth + k);
        return InvalidArgument("indices", Position(outer, static_cast<int64_t>(i)), " = [", StrJoin(all, ", "),
                               "] does not index into shape ", shape.DebugString());
      }
      row = row * shape.dim(static_cast<int>(d)) + index;
    }
    rows[i] = row;
  }
  return rows;
}

absl::Status GatherRows(KernelContext& ctx, const Tensor& value, const std::vector<int64_t>& rows, int64_t row_elements,
                        const TensorShape& shape) {
  TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
  const RowFn copy = FindSet(value.dtype());
  const size_t row_bytes = static_cast<size_t>(row_elements) * SizeOf(value.dtype());
  const char* const from = static_cast<const char*>(value.raw());
  char* const to = static_cast<char*>(out->raw());
  ctx.threads()->ParallelFor(static_cast<int64_t>(rows.size()), 5.0 + 0.1 * static_cast<double>(row_bytes),
                             [&](int64_t begin, int64_t end) {
                               for (int64_t i = begin; i < end; ++i)
                                 copy(to + i * row_bytes, from + rows[i] * row_bytes, row_elements, /*scalar=*/false);
                             });
  return absl::OkStatus();
}

absl::Status ScatterRows(KernelContext& ctx, VariableSlot* slot, const Tensor& indices, const Tensor& updates,
                         ScatterOp op) {
  return Scatter(ctx, slot, indices, updates, op, /*nd=*/false, /*skip_bad=*/false);
}
absl::Status ScatterSlices(KernelContext& ctx, VariableSlot* slot, const Tensor& indices, const Tensor& updates,
                           ScatterOp op, bool skip_bad) {
  return Scatter(ctx, slot, indices, updates, op, /*nd=*/true, skip_bad);
}

template <ScatterOp kOp>
absl::Status ComputeScatter(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(VariableSlot* const slot, Slot(ctx, 0, ctx.input(2).dtype()));
  TROUPE_RETURN_IF_ERROR(ScatterRows(ctx, slot, ctx.input(1), ctx.input(2), kOp));
  if (ctx.num_outputs() > 0) ctx.set_output(0, ctx.TakeInput(0));
  return absl::OkStatus();
}

template absl::Status ComputeScatter<ScatterOp::kUpdate>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kAdd>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kSub>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kMul>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kDiv>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kMin>(KernelContext&);
template absl::Status ComputeScatter<ScatterOp::kMax>(KernelContext&);

absl::Status ScatterShape(InferenceContext& c) {
  const PartialTensorShape var = NamedShape(c), &indices = c.input(1), &updates = c.input(2);
  if (var.known_rank() && var.rank() < 1) return InvalidArgument("the variable must have at least one dimension");
  // A scalar update stands for every element.
  if (var.known_rank() && indices.known_rank() && updates.known_rank() && updates.rank() != 0) {
    PartialTensorShape expected = indices;
    for (int d = 1; d < var.rank(); ++d) expected.AddDim(var.dim(d));
    TROUPE_RETURN_IF_ERROR(expected.MergeWith(updates).status());
  }
  if (c.num_outputs() > 0) c.set_output(0, var);
  return absl::OkStatus();
}

absl::Status ScatterNdShape(InferenceContext& c) {
  const PartialTensorShape var = NamedShape(c), &indices = c.input(1), &updates = c.input(2);
  if (var.known_rank() && indices.known_rank() && indices.rank() > 0 && indices.dim(indices.rank() - 1) >= 0) {
    const int64_t depth = indices.dim(indices.rank() - 1);
    if (depth > var.rank()) {
      return InvalidArgument("indices of length ", depth, " do not fit a variable of shape ", var.DebugString());
    }
    PartialTensorShape expected(indices.dims().subspan(0, indices.rank() - 1));
    for (int d = static_cast<int>(depth); d < var.rank(); ++d) expected.AddDim(var.dim(d));
    TROUPE_RETURN_IF_ERROR(expected.MergeWith(updates).status());
  }
  if (c.num_outputs() > 0) c.set_output(0, var);
  return absl::OkStatus();
}

}  // namespace troupe::state
