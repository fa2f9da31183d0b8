// Element types of tensors.
//
// The numbers are those of TensorFlow's DataType so that GraphDefs written there can be read here
// without a table. A reference type (the edge out of a `Variable` op, which carries the variable
// and not a value) is its base type + 100.
//
// Thread rule: everything here is a pure function.
#ifndef TROUPE_DTYPE_H_
#define TROUPE_DTYPE_H_

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/export.h"
#include "troupe/half.h"

namespace TROUPE_EXPORT troupe {

class ResourceHandle;

enum class DType : uint8_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
};
inline constexpr int kNumDTypes = 24;
inline constexpr int kRefOffset = 100;

constexpr bool IsRef(DType t) { return static_cast<int>(t) > kRefOffset; }
constexpr DType MakeRef(DType t) { return IsRef(t) ? t : static_cast<DType>(static_cast<int>(t) + kRefOffset); }
constexpr DType BaseType(DType t) { return IsRef(t) ? static_cast<DType>(static_cast<int>(t) - kRefOffset) : t; }
// True for a number that names a (possibly reference) type.
constexpr bool IsValidDType(int number) {
  const int base = number > kRefOffset ? number - kRefOffset : number;
  return base > 0 && base < kNumDTypes;
}

// Bytes of one element; for string, resource and variant the size of the C++ object that stands for
// it.
size_t SizeOf(DType t);
// "float32", "int64", "float32_ref", ...
std::string_view Name(DType t);
// "DT_FLOAT", "DT_FLOAT_REF", ...: the spelling of GraphDef text files.
std::string EnumName(DType t);
// The inverse of Name, EnumName and of the short OpDef spellings ("float", "double", "half");
// kInvalid when unknown.
DType DTypeFromName(std::string_view name);

constexpr bool IsFloating(DType t) {
  return t == DType::kFloat || t == DType::kDouble || t == DType::kHalf || t == DType::kBfloat16;
}
constexpr bool IsComplex(DType t) { return t == DType::kComplex64 || t == DType::kComplex128; }
constexpr bool IsInteger(DType t) {
  return t == DType::kInt8 || t == DType::kInt16 || t == DType::kInt32 || t == DType::kInt64 || t == DType::kUint8 ||
         t == DType::kUint16 || t == DType::kUint32 || t == DType::kUint64;
}
constexpr bool IsUnsigned(DType t) {
  return t == DType::kUint8 || t == DType::kUint16 || t == DType::kUint32 || t == DType::kUint64;
}
constexpr bool IsQuantized(DType t) {
  return t == DType::kQint8 || t == DType::kQuint8 || t == DType::kQint16 || t == DType::kQuint16 ||
         t == DType::kQint32;
}
// Elements are plain bytes: they can be copied with memcpy and written to a file as they are.
constexpr bool IsPlainBytes(DType t) {
  return t != DType::kInvalid && t != DType::kString && t != DType::kResource && t != DType::kVariant && !IsRef(t);
}

// The C++ element type of a DType and back.
template <class T>
struct DTypeOfImpl;
#define TROUPE_DTYPE_OF(type, value)              \
  template <>                                     \
  struct DTypeOfImpl<type> {                      \
    static constexpr DType kValue = DType::value; \
  };
TROUPE_DTYPE_OF(float, kFloat)
TROUPE_DTYPE_OF(double, kDouble)
TROUPE_DTYPE_OF(int32_t, kInt32)
TROUPE_DTYPE_OF(uint8_t, kUint8)
TROUPE_DTYPE_OF(int16_t, kInt16)
TROUPE_DTYPE_OF(int8_t, kInt8)
TROUPE_DTYPE_OF(std::string, kString)
TROUPE_DTYPE_OF(std::complex<float>, kComplex64)
TROUPE_DTYPE_OF(int64_t, kInt64)
TROUPE_DTYPE_OF(bool, kBool)
TROUPE_DTYPE_OF(BFloat16, kBfloat16)
TROUPE_DTYPE_OF(uint16_t, kUint16)
TROUPE_DTYPE_OF(std::complex<double>, kComplex128)
TROUPE_DTYPE_OF(Half, kHalf)
TROUPE_DTYPE_OF(ResourceHandle, kResource)
TROUPE_DTYPE_OF(uint32_t, kUint32)
TROUPE_DTYPE_OF(uint64_t, kUint64)
#undef TROUPE_DTYPE_OF
template <class T>
inline constexpr DType kDTypeOf = DTypeOfImpl<T>::kValue;

// Calls `f.template operator()<T>()` with the C++ type of `t` for every plain numeric type and
// bool; returns what f returns, or `otherwise` for string, resource, variant, quantized and
// reference types.
template <class R, class F>
R VisitNumeric(DType t, R otherwise, F&& f) {
  switch (t) {
    case DType::kFloat:
      return f.template operator()<float>();
    case DType::kDouble:
      return f.template operator()<double>();
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kUint8:
      return f.template operator()<uint8_t>();
    case DType::kInt16:
      return f.template operator()<int16_t>();
    case DType::kInt8:
      return f.template operator()<int8_t>();
    case DType::kComplex64:
      return f.template operator()<std::complex<float>>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kBool:
      return f.template operator()<bool>();
    case DType::kBfloat16:
      return f.template operator()<BFloat16>();
    case DType::kUint16:
      return f.template operator()<uint16_t>();
    case DType::kComplex128:
      return f.template operator()<std::complex<double>>();
    case DType::kHalf:
      return f.template operator()<Half>();
    case DType::kUint32:
      return f.template operator()<uint32_t>();
    case DType::kUint64:
      return f.template operator()<uint64_t>();
    default:
      return otherwise;
  }
}

}  // namespace troupe

#endif  // TROUPE_DTYPE_H_
