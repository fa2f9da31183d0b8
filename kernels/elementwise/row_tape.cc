#include "kernels/elementwise/row_tape.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace troupe::math {
namespace {

using Dims = RowPlan::Dims;
constexpr int kLast = RowPlan::kRank - 1;
constexpr int64_t kPiece = 1024;    // elements at most, without folds
constexpr int64_t kShortRun = 64;   // pieces of fewer elements cost more than they save
constexpr int64_t kFewRepeats = 8;  // copies of a vector that is used no more often do not pay
// Registers of rows so long that they are not in the first-level cache anyway.
constexpr int64_t kMostRegisterBytes = 1 << 20;

bool ReadDims(const TensorShape& s, Dims* dims) {
  if (s.rank() > RowPlan::kRank) return false;
  dims->rank = s.rank();
  for (int i = 0; i < s.rank(); ++i) dims->d[RowPlan::kRank - s.rank() + i] = s.dim(i);
  return true;
}

bool Broadcast(const Dims& a, const Dims& b, Dims* out) {
  out->rank = std::max(a.rank, b.rank);
  for (int i = 0; i < RowPlan::kRank; ++i) {
    if (a.d[i] != b.d[i] && a.d[i] != 1 && b.d[i] != 1) return false;
    out->d[i] = a.d[i] == 1 ? b.d[i] : a.d[i];
  }
  return true;
}

bool SameOuter(const Dims& a, const Dims& b) { return std::equal(a.d.begin(), a.d.begin() + kLast, b.d.begin()); }

}  // namespace

int64_t RowPlan::Dims::elements() const {
  int64_t n = 1;
  for (int64_t size : d) {
    n = MultiplyWithoutOverflow(n, size);
    if (n < 0) return std::numeric_limits<int64_t>::max();
  }
  return n;
}

class RowTape::Planner {
 public:
  Planner(const TapeOps& tape, const Tensor* args, RowPlan* plan) : tape_(tape), args_(args), plan_(*plan) {}

  bool Make(const ComputeThreads& threads) {
    if (!FindShapes()) return false;
    const int64_t full = full_.elements();
    if (full == 0 || full == std::numeric_limits<int64_t>::max()) return false;
    // A larger value may broadcast to nothing.
    if (shapes_[tape_.ops.size() - 1].elements() == 0) return false;
    MarkEarly(full);
    if (plan_.Early(tape_.ops.size() - 1)) return false;
    if (tape_.has_fold ? !HasRows(threads) : InLoop() < 2) return false;
    if (!FindExternals()) return false;
    FindDims();
    FindRepeated();
    if (plan_.row == 0 && plan_.dims[0].size < std::min(kShortRun, full)) return false;
    plan_.total = full;
    return SetResult() && SetPiece();
  }

 private:
  // The shapes of all values, and the largest of them, full_.
  bool FindShapes() {
    for (size_t i = 0; i < tape_.ops.size(); ++i) {
      const TapeOp& op = tape_.ops[i];
      Dims in[2];
      for (int k = 0; k < op.num_inputs; ++k) {
        const TapeOp::Operand& o = op.in[k];
        if (!o.is_arg) {
          in[k] = shapes_[o.index];
        } else if (!ReadDims(args_[o.index].shape(), &in[k])) {
          return false;
        }
      }
      if (op.fold != nullptr) {
        if (in[0].rank == 0 || !FoldsRows(args_[op.axes.index], in[0].rank)) return false;
        folded_[i] = shapes_[i] = in[0];
        shapes_[i].d[kLast] = 1;
      } else if (op.num_inputs == 1) {
        shapes_[i] = in[0];
      } else if (op.same_shape ? in[0] != in[1] : !Broadcast(in[0], in[1], &shapes_[i])) {
        return false;
      } else if (op.same_shape) {
        shapes_[i] = in[0];
      }
      const Dims& passed = op.fold != nullptr ? folded_[i] : shapes_[i];
      if (i == 0 || passed.elements() > full_.elements()) full_ = passed;
    }
    return true;
  }

  // Whether these are the last dimension alone. What the graph knew of the rank may be wrong.
  static bool FoldsRows(const Tensor& axes, int64_t rank) {
    if (axes.num_elements() != 1) return false;
    const int64_t axis = axes.dtype() == DType::kInt32 ? axes.data<int32_t>()[0] : axes.data<int64_t>()[0];
    return axis == -1 || axis == rank - 1;
  }

  void MarkEarly(int64_t full) {
    for (size_t i = 0; i < tape_.ops.size(); ++i) {
      const TapeOp& op = tape_.ops[i];
      bool early = (op.fold != nullptr ? folded_[i] : shapes_[i]).elements() < full;
      for (int k = 0; k < op.num_inputs; ++k) early &= op.in[k].is_arg || plan_.Early(op.in[k].index);
      if (early) plan_.early |= 1u << i;
    }
  }

  // One op alone has nothing to share a pass with.
  int InLoop() const {
    int ops = 0;
    for (size_t i = 0; i < tape_.ops.size(); ++i) ops += !plan_.Early(i);
    return ops;
  }

  // With folds: whether every value of the loop has a row's elements or one.
  bool HasRows(const ComputeThreads& threads) {
    const int64_t n = full_.d[kLast], rows = full_.elements() / n;
    if (n == 1) return false;
    // Few long rows would be folded by several threads each.
    if (rows < 2 * threads.num_threads() && threads.NumRanges(n, 0.3) > 1) return false;
    for (size_t i = 0; i < tape_.ops.size(); ++i) {
      if (plan_.Early(i)) continue;
      if (!SameOuter(shapes_[i], full_) || (shapes_[i].d[kLast] != n && shapes_[i].d[kLast] != 1)) return false;
      if (tape_.ops[i].fold != nullptr && folded_[i].d[kLast] != n) return false;
      if (shapes_[i].d[kLast] == 1) plan_.single |= 1u << i;
    }
    plan_.row = n;
    return true;
  }

  bool FindExternals() {
    for (size_t i = 0; i < tape_.ops.size(); ++i) {
      const TapeOp& op = tape_.ops[i];
      for (int k = 0; k < op.num_inputs && !plan_.Early(i); ++k) {
        const TapeOp::Operand& o = op.in[k];
        int8_t& index = plan_.external_of[i][k];
        index = -1;
        if (!o.is_arg && !plan_.Early(o.index)) continue;
        const auto same = [&](const RowPlan::External& e) {
          return e.from.is_arg == o.is_arg && e.from.index == o.index;
        };
        auto at = std::find_if(plan_.externals.begin(), plan_.externals.end(), same);
        if (at == plan_.externals.end()) {
          RowPlan::External e{o, op.in_size[k], {}};
          if (o.is_arg ? !ReadDims(args_[o.index].shape(), &e.dims) : (e.dims = shapes_[o.index], false)) return false;
          at = plan_.externals.insert(at, e);
        }
        index = static_cast<int8_t>(at - plan_.externals.begin());
      }
    }
    return true;
  }

  // Dimensions in which the externals behave alike become one, but for a row.
  void FindDims() {
    const size_t num = plan_.externals.size();
    absl::InlinedVector<int64_t, 8> size(num, 1);
    uint64_t previous = 0;
    for (int i = kLast; i >= 0; --i) {
      const int64_t d = full_.d[i];
      if (d == 1) continue;
      uint64_t advances = 0;
      for (size_t k = 0; k < num; ++k) {
        if (plan_.externals[k].dims.d[i] != 1) advances |= uint64_t{1} << k;
      }
      const bool behind_row = plan_.row != 0 && plan_.dims.size() == 1;
      if (!plan_.dims.empty() && advances == previous && !behind_row) {
        plan_.dims.back().size *= d;
      } else {
        RowPlan::Dim dim{d, {}};
        for (size_t k = 0; k < num; ++k) dim.stride.push_back((advances >> k & 1) != 0 ? size[k] : 0);
        plan_.dims.push_back(std::move(dim));
        previous = advances;
      }
      for (size_t k = 0; k < num; ++k) {
        if ((advances >> k & 1) != 0) size[k] *= d;
      }
    }
    if (plan_.dims.empty()) plan_.dims.push_back({1, absl::InlinedVector<int64_t, 8>(num, 0)});
  }

  // The two innermost dimensions become one where the externals that stand still in the outer one
  // are the only ones that hinder it.
  void FindRepeated() {
    if (plan_.row != 0 || plan_.dims.size() < 2 || plan_.dims[1].size < kFewRepeats ||
        2 * plan_.dims[0].size > tape_.Block(kPiece) || full_.elements() < kPiece) {
      return;
    }
    const RowPlan::Dim inner = plan_.dims[0];
    RowPlan::Dim both = plan_.dims[1];
    for (size_t k = 0; k < plan_.externals.size(); ++k) {
      if (inner.stride[k] == 1 && both.stride[k] == 0) {
        plan_.repeated |= uint64_t{1} << k;
      } else if (inner.stride[k] == 1 && both.stride[k] == inner.size) {
        both.stride[k] = 1;
      } else if (inner.stride[k] != 0 || both.stride[k] != 0) {
        plan_.repeated = 0;
        return;
      }
    }
    both.size *= inner.size;
    plan_.period = inner.size;
    plan_.dims.erase(plan_.dims.begin());
    plan_.dims[0] = both;
  }

  bool SetResult() {
    const Dims& last = shapes_[tape_.ops.size() - 1];
    plan_.shape = TensorShape(absl::MakeConstSpan(last.d).subspan(RowPlan::kRank - last.rank));
    return true;
  }

  bool SetPiece() {
    plan_.piece = plan_.row == 0 ? tape_.Block(kPiece) : (plan_.row + 63) / 64 * 64;
    return plan_.piece * static_cast<int64_t>(tape_.widest) * tape_.num_registers <= kMostRegisterBytes;
  }

  const TapeOps& tape_;
  const Tensor* args_;
  RowPlan& plan_;
  std::array<Dims, kMaxTapeOps> shapes_, folded_;
  Dims full_;
};

bool RowTape::Plan(const Tensor* args, const ComputeThreads& threads, RowPlan* plan) const {
  return Planner(tape_, args, plan).Make(threads);
}

// Where the externals are while the elements pass.
class RowTape::Walk {
 public:
  Walk(const RowPlan& plan, const Tensor* args, const Tensor* early, int64_t begin) : plan_(plan) {
    if (plan.repeated != 0) copies_.resize(plan.externals.size());
    for (const RowPlan::External& e : plan.externals) {
      const Tensor& t = e.from.is_arg ? args[e.from.index] : early[e.from.index];
      base_.push_back(static_cast<const char*>(t.raw()));
    }
    piece_ = base_;
    moves_ = plan.repeated == 0 ? piece_.data() : base_.data();
    int64_t rest = begin;
    for (size_t i = 0; i < plan.dims.size(); ++i) {
      for (size_t k = 0; k < base_.size(); ++k) bytes_.push_back(plan.dims[i].stride[k] * plan.externals[k].size);
      index_.push_back(rest % plan.dims[i].size);
      rest /= plan.dims[i].size;
      Move(i, index_.back());
    }
  }
  Walk(const Walk&) = delete;
  // Elements of this run that are left.
  int64_t left() const { return plan_.dims[0].size - index_[0]; }
  bool fixed(int k) const { return plan_.dims[0].stride[k] == 0 && !plan_.Repeated(k); }
  // By external, where a piece from here on begins, or the one element, once FindPieces has been
  // called here. The array stays in its place.
  const char* const* pieces() const { return piece_.data(); }
  void FindPieces() {
    if (plan_.repeated == 0) return;
    for (size_t k = 0; k < base_.size(); ++k) {
      const int64_t size = plan_.externals[k].size;
      piece_[k] = base_[k];
      if (plan_.Repeated(static_cast<int>(k))) {
        piece_[k] = CopiesOf(base_[k], size, &copies_[k]) + index_[0] % plan_.period * size;
      }
    }
  }
  // REQUIRES: n <= left().
  void Advance(int64_t n) {
    index_[0] += n;
    Move(0, n);
    for (size_t i = 0; i + 1 < plan_.dims.size() && index_[i] == plan_.dims[i].size; ++i) {
      Move(i, -plan_.dims[i].size);
      index_[i] = 0;
      ++index_[i + 1];
      Move(i + 1, 1);
    }
  }

 private:
  void Move(size_t dim, int64_t n) {
    const int64_t* const bytes = bytes_.data() + dim * base_.size();
    for (size_t k = 0, num = base_.size(); k < num; ++k) moves_[k] += n * bytes[k];
  }
  // One period more than a piece, which may begin anywhere.
  struct Copies {
    const char* of = nullptr;
    std::vector<char> bytes;
  };
  const char* CopiesOf(const char* from, int64_t size, Copies* copies) const {
    if (copies->of != from) {
      const int64_t longest = std::min(plan_.piece, plan_.dims[0].size);
      const auto once = static_cast<size_t>(plan_.period * size), all = static_cast<size_t>(longest * size) + once;
      copies->bytes.resize(all);
      for (size_t at = 0; at < all; at += once) std::memcpy(copies->bytes.data() + at, from, std::min(once, all - at));
      copies->of = from;
    }
    return copies->bytes.data();
  }

  const RowPlan& plan_;
  std::vector<Copies> copies_;  // by external
  // By external. Where some repeat, base_ moves and piece_ follows it; else piece_ moves alone.
  absl::InlinedVector<const char*, 8> base_, piece_;
  const char** moves_;
  absl::InlinedVector<int64_t, 24> bytes_;  // that each external moves; one dimension behind the other
  absl::InlinedVector<int64_t, 4> index_;
};

// The ops of a tape for one thread. What does not change from piece to piece is looked up once: a
// row may have so few elements that looking up took as long as computing.
class RowTape::Steps {
 public:
  Steps(const TapeOps& tape, const RowPlan& plan, const Walk& walk, char* registers) : pieces_(walk.pieces()) {
    const size_t register_bytes = static_cast<size_t>(plan.piece) * tape.widest;
    const auto at_register = [&](int reg) { return registers + static_cast<size_t>(reg) * register_bytes; };
    for (size_t i = 0; i < tape.ops.size(); ++i) {
      if (plan.Early(i) || tape.ops[i].absorbed) continue;
      Step step{.op = &tape.ops[i], .single = plan.Single(i)};
      for (int k = 0; k < step.op->num_inputs; ++k) {
        step.external[k] = plan.external_of[i][k];
        if (step.external[k] >= 0) {
          step.fixed[k] = walk.fixed(step.external[k]);
          continue;
        }
        const auto from = static_cast<size_t>(step.op->in[k].index);
        step.fixed[k] = plan.Single(from);
        step.in[k] = step.fixed[k] ? singles_[from] : at_register(tape.ops[from].reg);
      }
      if (step.op->reg >= 0) step.to = step.single ? singles_[i] : at_register(step.op->reg);
      if (step.op->fold == nullptr) step.loop = step.op->BareLoop(step.fixed);
      steps_.push_back(step);
    }
  }
  Steps(const Steps&) = delete;

  // A piece of m elements from where the walk is; their results go to `out`.
  void Run(int64_t m, char* out) {
    for (const Step& s : steps_) {
      const void* const a = s.external[0] < 0 ? s.in[0] : pieces_[s.external[0]];
      void* const to = s.to == nullptr ? out : s.to;
      const int64_t n = s.single ? 1 : m;
      if (s.op->fold != nullptr) {
        s.op->fold(a, m, to);
      } else if (s.loop.unary != nullptr) {
        s.loop.unary(a, to, n);
      } else {
        const void* const in[2] = {a, s.external[1] < 0 ? s.in[1] : pieces_[s.external[1]]};
        if (s.loop.binary != nullptr) {
          s.loop.binary(in[0], in[1], to, n);
        } else {
          s.op->Run(in, s.fixed, to, n);
        }
      }
    }
  }

 private:
  struct Step {
    const TapeOp* op;
    ElementLoop::Bare loop{};
    int external[2] = {-1, -1};  // whose piece is read; negative: `in` is
    const void* in[2] = {};
    bool fixed[2] = {};
    void* to = nullptr;   // null: the output
    bool single = false;  // it has one element a row
  };

  const char* const* const pieces_;
  absl::InlinedVector<Step, 16> steps_;
  alignas(16) char singles_[kMaxTapeOps][sizeof(double) * 2];
};

void RowTape::Run(ComputeThreads* threads, const RowPlan& plan, const Tensor* args, const Tensor* early,
                  void* out) const {
  const int64_t unit = plan.row == 0 ? 1 : plan.row;
  const bool single = plan.Single(tape_.ops.size() - 1);  // one element a row, which is a piece then
  threads->ParallelFor(plan.total / unit, tape_.cost * static_cast<double>(unit), [&](int64_t first, int64_t limit) {
    alignas(64) char near[kTapeRegisterBytes];
    const size_t bytes = static_cast<size_t>(plan.piece * tape_.num_registers) * tape_.widest;
    std::vector<char> far(bytes > sizeof(near) ? bytes + 64 : 0);
    char* const registers = far.empty() ? near : far.data() + (64 - reinterpret_cast<uintptr_t>(far.data()) % 64) % 64;
    const int64_t end = limit * unit;
    Walk walk(plan, args, early, first * unit);
    Steps steps(tape_, plan, walk, registers);
    char* to = static_cast<char*>(out) + (single ? first : first * unit) * tape_.ops.back().out_size;
    for (int64_t at = first * unit; at < end;) {
      const int64_t m = std::min({walk.left(), plan.piece, end - at});
      walk.FindPieces();
      steps.Run(m, to);
      to += (single ? 1 : m) * tape_.ops.back().out_size;
      walk.Advance(m);
      at += m;
    }
  });
}

}  // namespace troupe::math
