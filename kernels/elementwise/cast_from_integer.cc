#include <cstdint>

#include "kernels/elementwise/cast_loops.h"
#include "kernels/elementwise/loops.h"

namespace troupe::math {
namespace {

template <class To>
struct ConvertFn {
  template <class T>
  static To Do(T x) {
    return static_cast<To>(x);
  }
};
struct ToBoolFn {
  template <class T>
  static bool Do(T x) {
    return x != 0;
  }
};

// Results of one size share a loop: the low bits do not depend on the result's sign.
template <class T>
UnaryLoop CastFrom(DType to) {
  switch (to) {
    case DType::kFloat:
      return LoopV<ConvertFn<float>, T, float>;
    case DType::kDouble:
      return LoopV<ConvertFn<double>, T, double>;
    case DType::kInt8:
    case DType::kUint8:
      return LoopV<ConvertFn<uint8_t>, T, uint8_t>;
    case DType::kInt16:
    case DType::kUint16:
      return LoopV<ConvertFn<uint16_t>, T, uint16_t>;
    case DType::kInt32:
    case DType::kUint32:
      return LoopV<ConvertFn<uint32_t>, T, uint32_t>;
    case DType::kInt64:
    case DType::kUint64:
      return LoopV<ConvertFn<uint64_t>, T, uint64_t>;
    case DType::kBool:
      return LoopV<ToBoolFn, T, bool>;
    default:
      return nullptr;
  }
}

}  // namespace

UnaryLoop CastFromInteger(DType from, DType to) {
  switch (from) {
    case DType::kInt8:
      return CastFrom<int8_t>(to);
    case DType::kInt16:
      return CastFrom<int16_t>(to);
    case DType::kInt32:
      return CastFrom<int32_t>(to);
    case DType::kInt64:
      return CastFrom<int64_t>(to);
    case DType::kBool:  // stored as 0 or 1
    case DType::kUint8:
      return CastFrom<uint8_t>(to);
    case DType::kUint16:
      return CastFrom<uint16_t>(to);
    case DType::kUint32:
      return CastFrom<uint32_t>(to);
    case DType::kUint64:
      return CastFrom<uint64_t>(to);
    default:
      return nullptr;
  }
}

}  // namespace troupe::math
