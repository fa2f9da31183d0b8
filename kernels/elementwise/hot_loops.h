// The inner loops that are compiled once per instruction level, as one table per level.
//
// Files named *_isa.cc are compiled for x86-64-v2, -v3 and -v4 into the namespaces
// troupe::math::v2, v3 and v4 (v0 on other processors); each fills its part of a HotLoops. Hot()
// (hot_table.h) is the table of this machine. Such a file must not use anything that could leave an
// inline function of a shared header behind: the linker keeps one copy of it for the whole library,
// and that copy could need AVX-512. So this header holds plain data only, and the loops use
// builtins instead of <cmath> and <algorithm>.
//
// A loop gets untyped pointers to dense elements. `out` may be exactly an input's address (in
// place), never overlap it otherwise.
//
// Thread rule: a loop runs on the calling thread; what it writes belongs to the caller. A table is
// filled once (hot_table.h), by one thread.
#ifndef TROUPE_KERNELS_ELEMENTWISE_HOT_LOOPS_H_
#define TROUPE_KERNELS_ELEMENTWISE_HOT_LOOPS_H_

#include <cstdint>

namespace troupe::math {

using BinaryLoop = void (*)(const void* a, const void* b, void* out, int64_t n);
using UnaryLoop = void (*)(const void* x, void* out, int64_t n);

// One binary function on one type: both vectors, a scalar first, a scalar second. `cost` is a guess
// of nanoseconds per element.
struct BinaryLoops {
  BinaryLoop vv, sv, vs;
  float cost;
};
struct UnaryLoops {
  UnaryLoop v;
  float cost;
};

// Reductions of one type. `row` folds n adjacent elements into acc[0]; `rows` folds `rows` rows of
// n elements, `stride` elements apart, into acc[0..n). The accumulator of float sums is double;
// sums are made of short blocks, so that errors do not grow with n.
struct ReduceLoops {
  void (*row)(const void* x, int64_t n, void* acc);
  void (*rows)(const void* x, int64_t rows, int64_t stride, int64_t n, void* acc);
};

enum class HotType : uint8_t { kFloat, kDouble, kInt32, kInt64, kCount };
enum class HotBinary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kTanhGrad,
  kSigmoidGrad,
  kSqrtGrad,
  kRsqrtGrad,
  kInvGrad,
  kEqual,  // from here on the output is bool
  kNotEqual,
  kLess,
  kLessEqual,
  kCount
};
enum class HotUnary : uint8_t {
  kNeg,
  kAbs,
  kSquare,
  kSqrt,
  kRsqrt,
  kInv,
  kExp,
  kLog,
  kTanh,
  kSigmoid,
  kSwish,  // x sigmoid(x), with the bits of Sigmoid and Mul; of float alone
  kCount
};
enum class HotReduce : uint8_t { kSum, kMax, kMin, kCount };

// A null entry has no loop of this level: the op's own file has it.
struct HotLoops {
  BinaryLoops binary[static_cast<int>(HotBinary::kCount)][static_cast<int>(HotType::kCount)];
  UnaryLoops unary[static_cast<int>(HotUnary::kCount)][static_cast<int>(HotType::kCount)];
  ReduceLoops reduce[static_cast<int>(HotReduce::kCount)][2];  // float, double
  // 16-bit floats to and from float.
  UnaryLoop half_to_float, float_to_half, bfloat16_to_float, float_to_bfloat16;
};

#define TROUPE_DECLARE_ISA(ns)              \
  namespace ns {                            \
  void FillArithmetic(HotLoops* loops);     \
  void FillComparisons(HotLoops* loops);    \
  void FillGradients(HotLoops* loops);      \
  void FillUnary(HotLoops* loops);          \
  void FillTranscendental(HotLoops* loops); \
  void FillReductions(HotLoops* loops);     \
  void FillConversions(HotLoops* loops);    \
  }
#if defined(__x86_64__)
TROUPE_DECLARE_ISA(v2)
TROUPE_DECLARE_ISA(v3)
TROUPE_DECLARE_ISA(v4)
#else
TROUPE_DECLARE_ISA(v0)
#endif
#undef TROUPE_DECLARE_ISA

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_ELEMENTWISE_HOT_LOOPS_H_
