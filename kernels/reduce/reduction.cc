#include "kernels/reduce/reduction.h"

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/hot_table.h"

namespace troupe::math {
namespace {

constexpr int64_t kChunk = 512;      // columns, or outputs, that are accumulated at a time
constexpr int64_t kWideBlock = 512;  // 16-bit floats that are widened at a time
constexpr int kMaxAcc = 16;

struct Dim {
  int64_t size, stride;
};
using Dims = absl::InlinedVector<Dim, 4>;

// The collapsed input: dimensions of more than one element, innermost first, neighbours of one kind
// merged.
struct Layout {
  Dims kept, reduced;
  bool inner_reduced = false;
  int64_t outputs = 1;  // elements of the output
  int64_t count = 1;    // elements that each is made of

  Layout(const Tensor& x, const std::vector<bool>& is_reduced) {
    int64_t stride = 1;
    bool any = false, last = false;
    for (int i = x.rank() - 1; i >= 0; --i) {
      const int64_t d = x.dim(i);
      (is_reduced[i] ? count : outputs) *= d;
      if (d == 1) continue;
      Dims& dims = is_reduced[i] ? reduced : kept;
      if (any && last == is_reduced[i]) {
        dims.back().size *= d;
      } else {
        dims.push_back({d, stride});
      }
      if (!any) inner_reduced = is_reduced[i];
      any = true;
      last = is_reduced[i];
      stride *= d;
    }
  }
};

int64_t Product(const Dims& dims, size_t from) {
  int64_t n = 1;
  for (size_t i = from; i < dims.size(); ++i) n *= dims[i].size;
  return n;
}
// The offset of index `i` of the dimensions [from, ...).
int64_t OffsetOf(const Dims& dims, size_t from, int64_t i) {
  int64_t offset = 0;
  for (size_t d = from; d < dims.size(); ++d) {
    offset += (i % dims[d].size) * dims[d].stride;
    i /= dims[d].size;
  }
  return offset;
}

struct State {
  Reducer r;
  SmallFloatLoops small;
  int in_size = 0;
  bool keep_dims = false, one_is_itself = true;

  void Row(const char* x, int64_t n, void* acc) const {
    if (small.widen == nullptr) {
      r.loops.row(x, n, acc);
      return;
    }
    float wide[kWideBlock];
    for (int64_t i = 0; i < n; i += kWideBlock) {
      const int64_t m = std::min(kWideBlock, n - i);
      small.widen(x + i * in_size, wide, m);
      r.loops.row(wide, m, acc);
    }
  }
  // REQUIRES: n <= kChunk.
  void Rows(const char* x, int64_t rows, int64_t stride, int64_t n, void* acc) const {
    if (small.widen == nullptr) {
      r.loops.rows(x, rows, stride, n, acc);
      return;
    }
    float wide[kChunk];
    for (int64_t i = 0; i < rows; ++i) {
      small.widen(x + i * stride * in_size, wide, n);
      r.loops.rows(wide, 1, 0, n, acc);
    }
  }
  // REQUIRES: n <= kChunk.
  void Finish(const void* acc, int64_t count, char* out, int64_t n) const {
    if (small.narrow == nullptr) {
      r.finish(acc, count, out, n);
      return;
    }
    float wide[kChunk];
    r.finish(acc, count, wide, n);
    small.narrow(wide, out, n);
  }
};

// Work on [begin, end) of the rows of one output, or of one chunk of columns, folded by several
// threads: partial results are merged in order.
template <class F>
void Fold(ComputeThreads* threads, const State& s, int64_t n, double unit_cost, int64_t width, char* acc, F&& f) {
  const int64_t ranges = threads->NumRanges(n, unit_cost);
  s.r.init(acc, width);
  if (ranges <= 1) {
    f(int64_t{0}, n, acc);
    return;
  }
  const int64_t bytes = width * s.r.acc_size;
  std::vector<std::array<char, kMaxAcc>> parts((ranges * bytes + kMaxAcc - 1) / kMaxAcc);
  char* part = parts.front().data();
  threads->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      int64_t begin, end;
      ComputeThreads::Range(n, ranges, i, &begin, &end);
      s.r.init(part + i * bytes, width);
      f(begin, end, part + i * bytes);
    }
  });
  for (int64_t i = 0; i < ranges; ++i) s.r.merge(acc, part + i * bytes, width);
}

// The innermost dimension is reduced: every output is a fold of runs.
void ReduceRuns(ComputeThreads* threads, const State& s, const Layout& l, const char* x, char* out) {
  const int64_t run = l.reduced[0].size, runs = l.count / run;
  const int64_t step = s.in_size;
  alignas(64) char acc[kChunk * kMaxAcc];
  if (l.outputs < threads->num_threads() * 2) {
    for (int64_t o = 0; o < l.outputs; ++o) {
      const char* base = x + OffsetOf(l.kept, 0, o) * step;
      if (runs == 1) {
        Fold(threads, s, run, s.r.cost, 1, acc,
             [&](int64_t b, int64_t e, char* a) { s.Row(base + b * step, e - b, a); });
      } else {
        Fold(threads, s, runs, s.r.cost * static_cast<double>(run), 1, acc, [&](int64_t b, int64_t e, char* a) {
          for (int64_t i = b; i < e; ++i) s.Row(base + OffsetOf(l.reduced, 1, i) * step, run, a);
        });
      }
      s.Finish(acc, l.count, out + o * step, 1);
    }
    return;
  }
  threads->ParallelFor(l.outputs, s.r.cost * static_cast<double>(l.count) + 5, [&](int64_t begin, int64_t end) {
    alignas(64) char accs[kChunk * kMaxAcc];
    for (int64_t first = begin; first < end; first += kChunk) {
      const int64_t m = std::min(kChunk, end - first);
      s.r.init(accs, m);
      for (int64_t j = 0; j < m; ++j) {
        const char* base = x + OffsetOf(l.kept, 0, first + j) * step;
        for (int64_t i = 0; i < runs; ++i) s.Row(base + OffsetOf(l.reduced, 1, i) * step, run, accs + j * s.r.acc_size);
      }
      s.Finish(accs, l.count, out + first * step, m);
    }
  });
}

// The innermost dimension is kept: rows are folded into a row of accumulators.
void ReduceColumns(ComputeThreads* threads, const State& s, const Layout& l, const char* x, char* out) {
  const int64_t columns = l.kept.empty() ? 1 : l.kept[0].size;
  const int64_t rows = l.reduced.empty() ? 1 : l.reduced[0].size, stride = l.reduced.empty() ? 0 : l.reduced[0].stride;
  const int64_t groups = Product(l.reduced, 1), blocks = l.outputs / columns;
  const int64_t chunks = (columns + kChunk - 1) / kChunk, units = blocks * chunks;
  const int64_t step = s.in_size;
  const double row_cost = s.r.cost * static_cast<double>(std::min(columns, kChunk)) + 2;
  if (units < threads->num_threads() * 2) {
    for (int64_t u = 0; u < units; ++u) {
      alignas(64) char acc[kChunk * kMaxAcc];
      const int64_t block = u / chunks, c = u % chunks * kChunk, n = std::min(kChunk, columns - c);
      const char* base = x + (OffsetOf(l.kept, 1, block) + c) * step;
      Fold(threads, s, rows, row_cost * static_cast<double>(groups), n, acc, [&](int64_t b, int64_t e, char* a) {
        for (int64_t i = 0; i < groups; ++i)
          s.Rows(base + (OffsetOf(l.reduced, 1, i) + b * stride) * step, e - b, stride, n, a);
      });
      s.Finish(acc, l.count, out + (block * columns + c) * step, n);
    }
    return;
  }
  threads->ParallelFor(units, row_cost * static_cast<double>(rows * groups), [&](int64_t begin, int64_t end) {
    alignas(64) char acc[kChunk * kMaxAcc];
    for (int64_t u = begin; u < end; ++u) {
      const int64_t block = u / chunks, c = u % chunks * kChunk, n = std::min(kChunk, columns - c);
      const char* base = x + (OffsetOf(l.kept, 1, block) + c) * step;
      s.r.init(acc, n);
      for (int64_t i = 0; i < groups; ++i) s.Rows(base + OffsetOf(l.reduced, 1, i) * step, rows, stride, n, acc);
      s.Finish(acc, l.count, out + (block * columns + c) * step, n);
    }
  });
}

absl::Status Compute(KernelContext& ctx) {
  const State& s = *static_cast<const State*>(ctx.state());
  const Tensor& x = ctx.input(0);
  TROUPE_ASSIGN_OR_RETURN(const std::vector<bool> is_reduced, ReducedDims(ctx.input(1), x.rank()));
  TensorShape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (!is_reduced[i]) {
      shape.AddDim(x.dim(i));
    } else if (s.keep_dims) {
      shape.AddDim(1);
    }
  }
  const Layout l(x, is_reduced);
  if (l.count == 1 && s.one_is_itself) {
    ctx.set_output(0, ctx.TakeInput(0).Reshaped(shape));
    return absl::OkStatus();
  }
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
  if (l.outputs == 0) return absl::OkStatus();
  char* z = static_cast<char*>(out->raw());
  if (l.count == 0) {
    alignas(64) char acc[kChunk * kMaxAcc];
    s.r.init(acc, kChunk);
    for (int64_t i = 0; i < l.outputs; i += kChunk)
      s.Finish(acc, 0, z + i * s.in_size, std::min(kChunk, l.outputs - i));
    return absl::OkStatus();
  }
  const char* px = static_cast<const char*>(x.raw());
  if (l.inner_reduced) {
    ReduceRuns(ctx.threads(), s, l, px, z);
  } else {
    ReduceColumns(ctx.threads(), s, l, px, z);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<bool>> ReducedDims(const Tensor& axes, int rank) {
  std::vector<bool> reduced(rank, false);
  const int64_t n = axes.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t axis = axes.dtype() == DType::kInt32 ? axes.data<int32_t>()[i] : axes.data<int64_t>()[i];
    if (axis < -rank || axis >= rank) {
      return InvalidArgument("Invalid reduction dimension (", axis, " for input with ", rank, " dimension(s)");
    }
    const int64_t d = axis < 0 ? axis + rank : axis;
    if (reduced[d]) return InvalidArgument("Invalid reduction arguments: Axes contains duplicate dimension: ", d);
    reduced[d] = true;
  }
  return reduced;
}

const ReduceLoops& HotReduceLoops(HotReduce op, int index) { return Hot().reduce[static_cast<int>(op)][index]; }

absl::StatusOr<PreparedKernel> MakeReduction(KernelInit& init, const ReduceTable& table) {
  State s;
  const DType type = init.input_type(0);
  s.small = SmallFloat(type);
  s.in_size = static_cast<int>(SizeOf(type));
  s.r = table[s.small.widen != nullptr ? DType::kFloat : type];
  s.one_is_itself = table.one_is_itself;
  s.keep_dims = init.Attr<bool>("keep_dims");
  if (s.r.finish == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(type));
  PreparedKernel k;
  k.compute = Compute;
  k.state = std::make_shared<State>(s);
  return k;
}

}  // namespace troupe::math
