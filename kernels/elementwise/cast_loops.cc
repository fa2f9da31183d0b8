#include "kernels/elementwise/cast_loops.h"

#include <algorithm>
#include <bit>
#include <complex>

#include "kernels/elementwise/elementwise.h"

namespace troupe::math {
namespace {

struct RealFn {
  template <class T>
  static T Do(const std::complex<T>& x) {
    return x.real();
  }
};
struct ComplexFn {
  template <class T>
  static std::complex<T> Do(T x) {
    return std::complex<T>(x);
  }
};
template <class To>
struct ConvertFn {
  template <class T>
  static To Do(const T& x) {
    return static_cast<To>(x);
  }
};

template <int kBits>
struct CutFn {
  static float Do(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & ~((uint32_t{1} << kBits) - 1)); }
  static double Do(double x) {
    return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & ~((uint64_t{1} << kBits) - 1));
  }
  static std::complex<double> Do(const std::complex<double>& x) { return {Do(x.real()), Do(x.imag())}; }
};

// The real floating-point type that values pass through on their way from or to `t`.
DType Carrier(DType t) {
  switch (t) {
    case DType::kHalf:
    case DType::kBfloat16:
    case DType::kComplex64:
      return DType::kFloat;
    case DType::kComplex128:
      return DType::kDouble;
    default:
      return t;
  }
}
int MantissaBits(DType t) {
  switch (t) {
    case DType::kHalf:
      return 10;
    case DType::kBfloat16:
      return 7;
    case DType::kFloat:
    case DType::kComplex64:
      return 23;
    case DType::kDouble:
    case DType::kComplex128:
      return 52;
    default:
      return 0;
  }
}
UnaryLoop CutLoop(DType carrier, int keep) {
  if (carrier == DType::kFloat) {
    return keep == 7 ? LoopV<CutFn<16>, float, float> : keep == 10 ? LoopV<CutFn<13>, float, float> : nullptr;
  }
  if (carrier != DType::kDouble) return nullptr;
  return keep == 7    ? LoopV<CutFn<45>, double, double>
         : keep == 10 ? LoopV<CutFn<42>, double, double>
                      : LoopV<CutFn<29>, double, double>;
}

}  // namespace

UnaryLoop DirectCast(DType from, DType to) {
  if (from == DType::kFloat) return CastFromFloat(to);
  if (from == DType::kDouble) return CastFromDouble(to);
  return CastFromInteger(from, to);
}

CastPlan PlanCast(DType from, DType to, bool truncate) {
  CastPlan p;
  p.from_size = SizeOf(from);
  p.to_size = SizeOf(to);
  const auto add = [&p](UnaryLoop loop) { p.step[p.steps++] = loop; };
  const bool cut = truncate && MantissaBits(from) > MantissaBits(to) && MantissaBits(to) > 0;
  if (IsComplex(from) && IsComplex(to)) {
    if (from == DType::kComplex64) {
      add(LoopV<ConvertFn<std::complex<double>>, std::complex<float>, std::complex<double>>);
    } else {
      if (cut) add(LoopV<CutFn<29>, std::complex<double>, std::complex<double>>);
      add(LoopV<ConvertFn<std::complex<float>>, std::complex<double>, std::complex<float>>);
    }
    return p;
  }
  const DType a = Carrier(from), b = Carrier(to);
  if (SmallFloat(from).widen != nullptr) add(SmallFloat(from).widen);
  if (from == DType::kComplex64) add(LoopV<RealFn, std::complex<float>, float>);
  if (from == DType::kComplex128) add(LoopV<RealFn, std::complex<double>, double>);
  if (cut) {
    if (UnaryLoop loop = CutLoop(a, MantissaBits(to))) add(loop);
  }
  if (a != b) {
    const UnaryLoop loop = DirectCast(a, b);
    if (loop == nullptr) return CastPlan{};
    add(loop);
  }
  if (SmallFloat(to).narrow != nullptr) add(SmallFloat(to).narrow);
  if (to == DType::kComplex64) add(LoopV<ComplexFn, float, std::complex<float>>);
  if (to == DType::kComplex128) add(LoopV<ComplexFn, double, std::complex<double>>);
  return p;
}

void CastPlan::Run(const void* x, void* out, int64_t n) const {
  if (steps == 1) {
    step[0](x, out, n);
    return;
  }
  constexpr int64_t kBlock = 512;
  alignas(64) char buffer[2][kBlock * 16];
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i);
    const void* in = static_cast<const char*>(x) + i * from_size;
    for (int k = 0; k < steps; ++k) {
      void* to = k + 1 == steps ? static_cast<char*>(out) + i * to_size : buffer[k & 1];
      step[k](in, to, m);
      in = to;
    }
  }
}

}  // namespace troupe::math
