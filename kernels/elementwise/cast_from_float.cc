#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/cast_loops.h"
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

constexpr double kTwo31 = 2147483648.0, kTwo63 = 9223372036854775808.0;

template <class F>
int32_t ToInt32(F x) {
  return x >= F(-kTwo31) && x < F(kTwo31) ? static_cast<int32_t>(x) : std::numeric_limits<int32_t>::min();
}
template <class F>
int64_t ToInt64(F x) {
  return x >= F(-kTwo63) && x < F(kTwo63) ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
}

template <class To>
struct ToIntFn {
  template <class F>
  static To Do(F x) {
    if constexpr (sizeof(To) < 4) {
      return static_cast<To>(ToInt32(x));
    } else if constexpr (sizeof(To) == 4) {
      if constexpr (std::is_signed_v<To>) {
        return ToInt32(x);
      } else {
        return static_cast<To>(ToInt64(x));
      }
    } else if constexpr (std::is_signed_v<To>) {
      return ToInt64(x);
    } else {
      // 2^63 for what fits in no 64 bits, as for a NaN.
      return x >= F(kTwo63) && x < F(2 * kTwo63) ? static_cast<To>(ToInt64(x - F(kTwo63))) ^ (To{1} << 63)
                                                 : static_cast<To>(ToInt64(x));
    }
  }
};
struct ToBoolFn {
  template <class F>
  static bool Do(F x) {
    return x != 0;
  }
};
template <class To>
struct ToFloatFn {
  template <class F>
  static To Do(F x) {
    return static_cast<To>(x);
  }
};

template <class F>
UnaryLoop CastFrom(DType to) {
  switch (to) {
    case DType::kFloat:
      return LoopV<ToFloatFn<float>, F, float>;
    case DType::kDouble:
      return LoopV<ToFloatFn<double>, F, double>;
    case DType::kInt8:
    case DType::kUint8:
      return LoopV<ToIntFn<uint8_t>, F, uint8_t>;
    case DType::kInt16:
    case DType::kUint16:
      return LoopV<ToIntFn<uint16_t>, F, uint16_t>;
    case DType::kInt32:
      return LoopV<ToIntFn<int32_t>, F, int32_t>;
    case DType::kUint32:
      return LoopV<ToIntFn<uint32_t>, F, uint32_t>;
    case DType::kInt64:
      return LoopV<ToIntFn<int64_t>, F, int64_t>;
    case DType::kUint64:
      return LoopV<ToIntFn<uint64_t>, F, uint64_t>;
    case DType::kBool:
      return LoopV<ToBoolFn, F, bool>;
    default:
      return nullptr;
  }
}

}  // namespace

UnaryLoop CastFromFloat(DType to) { return CastFrom<float>(to); }
UnaryLoop CastFromDouble(DType to) { return CastFrom<double>(to); }

}  // namespace troupe::math
