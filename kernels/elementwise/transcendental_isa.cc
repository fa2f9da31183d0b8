// exp, log, tanh and sigmoid of floats without branches or tables. Those but log are of
// kernels/common/float_functions.h; log is left to the compiler, which makes vector code of it.
//
// Largest errors against the exact value, measured over all floats in steps
// (tests/elementwise/isa_test.cc holds them):
//   exp 1 ulp, log 1 ulp, sigmoid 3 ulp, tanh 4 ulp below 1/2 and 7 above. Infinities, NaN, zeros,
//   overflow and subnormal results are as the C library's.
// Subnormals are zeros when the thread flushes them.
#include "kernels/common/float_functions.h"
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

namespace isa = troupe::TROUPE_ISA;

inline uint32_t Bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float Float(uint32_t b) { return __builtin_bit_cast(float, b); }

inline float Log(float x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)).
  const bool tiny = x < 1.17549435e-38f;
  const uint32_t b = Bits(tiny ? x * 8388608.0f : x);
  const uint32_t shifted = b - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float f = Float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * f + -1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f + -1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f + -1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f + -2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  const float z = f * f;
  float y = p * z * f;
  y = y + e * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = f + y + e * 0.693359375f;
  r = x == __builtin_inff() ? x : r;
  r = x == 0.0f ? -__builtin_inff() : r;
  return x < 0.0f ? __builtin_nanf("") : (x != x ? x : r);
}

struct LogFn {
  static float Do(float x) { return Log(x); }
};
struct ExpOfVector {
  static isa::Vec Do(isa::Vec x) { return isa::ExpOf(x); }
};
struct TanhOfVector {
  static isa::Vec Do(isa::Vec x) { return isa::TanhOf(x); }
};
struct SigmoidOfVector {
  static isa::Vec Do(isa::Vec x) { return isa::SigmoidOf(x); }
};
struct SwishOfVector {
  static isa::Vec Do(isa::Vec x) { return x * isa::SigmoidOf(x); }
};

template <class F>
void LoopOfVectors(const void* x, void* y, int64_t n) {
  isa::ForEachFloat<F>(static_cast<const float*>(x), static_cast<float*>(y), n);
}

}  // namespace

void TROUPE_ISA::FillTranscendental(HotLoops* l) {
  const auto fill = [l](HotUnary op, UnaryLoop loop, float cost) {
    l->unary[static_cast<int>(op)][static_cast<int>(HotType::kFloat)] = {loop, cost};
  };
  fill(HotUnary::kExp, LoopOfVectors<ExpOfVector>, 0.4f);
  Fill<LogFn, float>(l, HotUnary::kLog, HotType::kFloat, 0.8f);
  fill(HotUnary::kTanh, LoopOfVectors<TanhOfVector>, 0.5f);
  fill(HotUnary::kSigmoid, LoopOfVectors<SigmoidOfVector>, 0.6f);
  fill(HotUnary::kSwish, LoopOfVectors<SwishOfVector>, 0.6f);
}

}  // namespace troupe::math
