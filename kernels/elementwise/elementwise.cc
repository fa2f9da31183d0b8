#include "kernels/elementwise/elementwise.h"

#include <algorithm>

#include "kernels/common/broadcast.h"
#include "kernels/elementwise/bare_loops.h"
#include "kernels/elementwise/hot_table.h"

namespace troupe::math {
namespace {

// Less work than this is not worth asking the threads.
constexpr double kSmallWork = 20000;
// Elements that a 16-bit float is widened at a time; three such blocks of floats stay in the
// first-level cache.
constexpr int64_t kBlock = 512;

constexpr DType kHotTypes[] = {DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64};

// How many elements are too few to ask the threads, for types whose loop runs on them as they are.
int64_t SmallCount(bool widened, float cost) {
  return widened ? 0 : cost <= 0 ? 1 : static_cast<int64_t>(std::min(1e6, kSmallWork / static_cast<double>(cost)));
}

enum class Form : uint8_t { kVV, kSV, kVS };

struct BinaryState {
  BinaryLoops loops;
  SmallFloatLoops in, out;
  BinaryCheck check;
  DType in_type, out_type;
  uint8_t in_size, out_size;
  BinaryShapes shapes;
  int64_t small_n;  // fewer elements than this are one call of the loop

  BinaryLoop loop(Form f) const { return f == Form::kVV ? loops.vv : f == Form::kSV ? loops.sv : loops.vs; }

  void Run(Form f, const char* a, const char* b, char* z, int64_t n) const {
    if (in.widen == nullptr) {
      loop(f)(a, b, z, n);
    } else {
      RunBlocks(f, a, b, z, n);
    }
  }
  void RunBlocks(Form f, const char* a, const char* b, char* z, int64_t n) const {
    float wide_a[kBlock], wide_b[kBlock], wide_z[kBlock];
    if (f == Form::kSV) in.widen(a, wide_a, 1);
    if (f == Form::kVS) in.widen(b, wide_b, 1);
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      if (f != Form::kSV) in.widen(a + i * in_size, wide_a, m);
      if (f != Form::kVS) in.widen(b + i * in_size, wide_b, m);
      if (out.narrow == nullptr) {
        loop(f)(wide_a, wide_b, z + i * out_size, m);
      } else {
        loop(f)(wide_a, wide_b, wide_z, m);
        out.narrow(wide_z, z + i * out_size, m);
      }
    }
  }
};

// Output 0 with the shape of `like`, in the buffer of input `first` or `second` (-1: none) when
// that may be overwritten.
inline absl::StatusOr<Tensor*> OutputLike(KernelContext& ctx, const Tensor& like, DType type, int first, int second) {
  for (int i : {first, second}) {
    if (i < 0) continue;
    const Tensor& in = ctx.input(i);
    if (in.dtype() != type || !in.BufferUnique() || (&in != &like && !in.SameShape(like))) continue;
    ctx.set_output(0, ctx.TakeInput(i));
    return ctx.output(0);
  }
  return like.rank() == 0 ? ctx.AllocateOutput(0, TensorShape()) : ctx.AllocateOutput(0, like.shape());
}

void RunFlat(KernelContext& ctx, const BinaryState& s, Form f, const char* a, const char* b, char* z, int64_t n) {
  if (static_cast<double>(n) * s.loops.cost < kSmallWork) {
    if (n > 0) s.Run(f, a, b, z, n);
    return;
  }
  ctx.threads()->ParallelFor(n, s.loops.cost, [&](int64_t begin, int64_t end) {
    s.Run(f, f == Form::kSV ? a : a + begin * s.in_size, f == Form::kVS ? b : b + begin * s.in_size,
          z + begin * s.out_size, end - begin);
  });
}

absl::Status RunBroadcast(KernelContext& ctx, const BinaryState& s, const Tensor& a, const Tensor& b) {
  absl::StatusOr<TensorShape> shape = BroadcastTensors(a, b);
  if (!shape.ok()) {
    if (s.shapes != BinaryShapes::kFalseIfNot && s.shapes != BinaryShapes::kTrueIfNot) return shape.status();
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape()));
    *out->data<bool>() = s.shapes == BinaryShapes::kTrueIfNot;
    return absl::OkStatus();
  }
  const BroadcastWalk<2> walk(*shape, {&a, &b});
  const int64_t n = shape->num_elements();
  if (s.check != nullptr && n > 0) TROUPE_RETURN_IF_ERROR(s.check(s.in_type, b.raw(), b.num_elements()));
  // Forwarding empties the input, so what is needed of it is taken first.
  const char* pa = static_cast<const char*>(a.raw());
  const char* pb = static_cast<const char*>(b.raw());
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0, 1}, 0, *shape));
  if (n == 0) return absl::OkStatus();
  char* z = static_cast<char*>(out->raw());
  const Form f =
      walk.advances(0) ? (walk.advances(1) ? Form::kVV : Form::kVS) : (walk.advances(1) ? Form::kSV : Form::kVV);
  // A short run costs its call.
  const double cost = s.loops.cost + 4.0 / static_cast<double>(walk.run());
  ctx.threads()->ParallelFor(n, cost, [&](int64_t begin, int64_t end) {
    walk.ForRange(begin, end, [&](const std::array<int64_t, 2>& at, int64_t to, int64_t m) {
      s.Run(f, pa + at[0] * s.in_size, pb + at[1] * s.in_size, z + to * s.out_size, m);
    });
  });
  return absl::OkStatus();
}

absl::Status ComputeBinary(KernelContext& ctx) {
  const BinaryState& s = *static_cast<const BinaryState*>(ctx.state());
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  if (a.rank() + b.rank() == 0 && s.small_n > 1 && s.check == nullptr) {
    // Two scalars: nothing to plan.
    const void* pa = a.raw();
    const void* pb = b.raw();
    Tensor* out = ctx.output(0);
    if (s.in_type == s.out_type && a.BufferUnique()) {
      *out = ctx.TakeInput(0);
    } else if (s.in_type == s.out_type && b.BufferUnique()) {
      *out = ctx.TakeInput(1);
    } else {
      TROUPE_RETURN_IF_ERROR(ctx.AllocateOutput(0, TensorShape()).status());
    }
    s.loops.vv(pa, pb, out->raw(), 1);
    return absl::OkStatus();
  }
  Form f;
  int64_t n;
  const Tensor* like;
  if (a.SameShape(b)) {
    f = Form::kVV;
    n = a.num_elements();
    like = &a;
  } else if (s.shapes == BinaryShapes::kSame) {
    return InvalidArgument("Inputs must have the same shape: ", a.shape().DebugString(), " vs. ",
                           b.shape().DebugString());
  } else if (b.rank() == 0) {
    f = Form::kVS;
    n = a.num_elements();
    like = &a;
  } else if (a.rank() == 0) {
    f = Form::kSV;
    n = b.num_elements();
    like = &b;
  } else {
    return RunBroadcast(ctx, s, a, b);
  }
  const char* pa = static_cast<const char*>(a.raw());
  const char* pb = static_cast<const char*>(b.raw());
  if (s.check != nullptr && n > 0) TROUPE_RETURN_IF_ERROR(s.check(s.in_type, pb, f == Form::kVS ? 1 : n));
  TROUPE_ASSIGN_OR_RETURN(Tensor * out,
                          OutputLike(ctx, *like, s.out_type, f == Form::kSV ? -1 : 0, f == Form::kVS ? -1 : 1));
  if (n < s.small_n) {
    if (n > 0) s.loop(f)(pa, pb, static_cast<char*>(out->raw()), n);
    return absl::OkStatus();
  }
  RunFlat(ctx, s, f, pa, pb, static_cast<char*>(out->raw()), n);
  return absl::OkStatus();
}

struct UnaryState {
  UnaryLoops loops;
  SmallFloatLoops in, out;
  DType out_type;
  uint8_t in_size, out_size;
  int64_t small_n;

  void Run(const char* x, char* z, int64_t n) const {
    if (in.widen == nullptr) {
      loops.v(x, z, n);
      return;
    }
    float wide[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      in.widen(x + i * in_size, wide, m);
      if (out.narrow == nullptr) {
        loops.v(wide, z + i * out_size, m);
      } else {
        loops.v(wide, wide, m);
        out.narrow(wide, z + i * out_size, m);
      }
    }
  }
};

absl::Status ComputeUnary(KernelContext& ctx) {
  const UnaryState& s = *static_cast<const UnaryState*>(ctx.state());
  const Tensor& x = ctx.input(0);
  const char* px = static_cast<const char*>(x.raw());
  const int64_t n = x.num_elements();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, OutputLike(ctx, x, s.out_type, 0, -1));
  char* z = static_cast<char*>(out->raw());
  if (n < s.small_n) {
    if (n > 0) s.loops.v(px, z, n);
    return absl::OkStatus();
  }
  if (static_cast<double>(n) * s.loops.cost < kSmallWork) {
    if (n > 0) s.Run(px, z, n);
    return absl::OkStatus();
  }
  ctx.threads()->ParallelFor(n, s.loops.cost, [&](int64_t begin, int64_t end) {
    s.Run(px + begin * s.in_size, z + begin * s.out_size, end - begin);
  });
  return absl::OkStatus();
}

template <class T>
bool HasZero(const void* b, int64_t n) {
  const T* x = static_cast<const T*>(b);
  bool zero = false;
  for (int64_t i = 0; i < n; ++i) zero |= x[i] == 0;
  return zero;
}

}  // namespace

BinaryTable HotTable(HotBinary op, bool wrapping) {
  BinaryTable t;
  for (int i = 0; i < static_cast<int>(HotType::kCount); ++i) t[kHotTypes[i]] = Hot().binary[static_cast<int>(op)][i];
  if (wrapping) {
    t[DType::kUint32] = t[DType::kInt32];
    t[DType::kUint64] = t[DType::kInt64];
  }
  return t;
}

UnaryTable HotTable(HotUnary op) {
  UnaryTable t;
  for (int i = 0; i < static_cast<int>(HotType::kCount); ++i) t[kHotTypes[i]] = Hot().unary[static_cast<int>(op)][i];
  return t;
}

SmallFloatLoops SmallFloat(DType type) {
  if (type == DType::kHalf) return {Hot().half_to_float, Hot().float_to_half};
  if (type == DType::kBfloat16) return {Hot().bfloat16_to_float, Hot().float_to_bfloat16};
  return {};
}

absl::Status CheckNoIntegerZero(DType type, const void* b, int64_t n) {
  if (!IsInteger(type)) return absl::OkStatus();
  bool zero = false;
  switch (SizeOf(type)) {
    case 1:
      zero = HasZero<uint8_t>(b, n);
      break;
    case 2:
      zero = HasZero<uint16_t>(b, n);
      break;
    case 4:
      zero = HasZero<uint32_t>(b, n);
      break;
    default:
      zero = HasZero<uint64_t>(b, n);
      break;
  }
  return zero ? InvalidArgument("Integer division by zero") : absl::OkStatus();
}

absl::StatusOr<PreparedKernel> MakeBinary(KernelInit& init, const BinaryTable& table, BinaryCheck check,
                                          BinaryShapes shapes) {
  BinaryState s{};
  s.in_type = init.input_type(0);
  s.out_type = init.output_type(0);
  s.in_size = static_cast<uint8_t>(SizeOf(s.in_type));
  s.out_size = static_cast<uint8_t>(SizeOf(s.out_type));
  s.in = SmallFloat(s.in_type);
  s.out = SmallFloat(s.out_type);
  s.loops = table[s.in.widen != nullptr ? DType::kFloat : s.in_type];
  s.check = IsInteger(s.in_type) ? check : nullptr;
  s.shapes = shapes;
  s.small_n = SmallCount(s.in.widen != nullptr, s.loops.cost);
  if (s.loops.vv == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(s.in_type));
  PreparedKernel k;
  k.compute = ComputeBinary;
  k.state = std::make_shared<BinaryState>(s);
  return k;
}

absl::StatusOr<PreparedKernel> MakeUnary(KernelInit& init, const UnaryTable& table) {
  UnaryState s{};
  const DType in_type = init.input_type(0);
  s.out_type = init.output_type(0);
  s.in_size = static_cast<uint8_t>(SizeOf(in_type));
  s.out_size = static_cast<uint8_t>(SizeOf(s.out_type));
  s.in = SmallFloat(in_type);
  s.out = SmallFloat(s.out_type);
  s.loops = table[s.in.widen != nullptr ? DType::kFloat : in_type];
  s.small_n = SmallCount(s.in.widen != nullptr, s.loops.cost);
  if (s.loops.v == nullptr) return Unimplemented(init.node().op().name, " has no kernel for ", Name(in_type));
  PreparedKernel k;
  k.compute = ComputeUnary;
  k.state = std::make_shared<UnaryState>(s);
  return k;
}

bool LoopsOf(const PreparedKernel& kernel, BareLoops* loops) {
  if (kernel.compute == ComputeBinary) {
    const BinaryState& s = *static_cast<const BinaryState*>(kernel.state.get());
    if (s.in.widen != nullptr || s.check != nullptr || s.shapes == BinaryShapes::kFalseIfNot ||
        s.shapes == BinaryShapes::kTrueIfNot)
      return false;
    loops->binary = s.loops;
    loops->same_shape = s.shapes == BinaryShapes::kSame;
    return true;
  }
  if (kernel.compute != ComputeUnary) return false;
  const UnaryState& s = *static_cast<const UnaryState*>(kernel.state.get());
  if (s.in.widen != nullptr) return false;
  loops->unary = s.loops;
  return true;
}

absl::StatusOr<TensorShape> BroadcastTensors(const Tensor& a, const Tensor& b) {
  return BroadcastShapes(a.shape(), b.shape());
}

}  // namespace troupe::math
