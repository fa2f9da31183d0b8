// Copies and fills elements of any dtype: most array ops depend on the size of an element only, not
// on its meaning.
//
// Plain dtypes are handled by the size of their element (1, 2, 4, 8, 16 bytes), so that one
// instantiation serves float, int32, qint32 and so on; strings and handles are C++ objects and are
// copied as such. Element counts may be 0; sources and destinations must not overlap.
//
// Thread rule: pure functions on memory that the caller owns.
#ifndef TROUPE_KERNELS_COMMON_ELEMENTS_H_
#define TROUPE_KERNELS_COMMON_ELEMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/compute_threads.h"
#include "troupe/dtype.h"
#include "troupe/resource.h"
#include "troupe/tensor.h"

namespace troupe::array {

struct Bits128 {
  uint64_t low, high;
  friend bool operator==(const Bits128& a, const Bits128& b) = default;
};

// Calls `f.template operator()<E>()` with the type that moves elements of dtype `t`; returns
// `otherwise` for types without elements.
template <class R, class F>
R VisitElement(DType t, R otherwise, F&& f) {
  if (t == DType::kString) return f.template operator()<std::string>();
  if (t == DType::kResource) return f.template operator()<ResourceHandle>();
  if (!IsPlainBytes(t)) return otherwise;
  switch (SizeOf(t)) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    case 16:
      return f.template operator()<Bits128>();
    default:
      return otherwise;
  }
}

// dst[0, n) = src[0, n).
void CopyElements(ComputeThreads* threads, DType t, void* dst, const void* src, int64_t n);
// dst[0, n) = *value.
void FillElements(ComputeThreads* threads, DType t, void* dst, const void* value, int64_t n);
// dst[0, n) = 0, "" or an unbound handle.
void ZeroElements(ComputeThreads* threads, DType t, void* dst, int64_t n);
// Element `index` of an array of dtype `t`.
inline void* ElementAt(DType t, void* base, int64_t index) {
  return static_cast<char*>(base) + index * static_cast<int64_t>(SizeOf(t));
}
inline const void* ElementAt(DType t, const void* base, int64_t index) {
  return static_cast<const char*>(base) + index * static_cast<int64_t>(SizeOf(t));
}

// Every dtype whose tensors hold elements: what the kernels that only move them are registered for.
const std::vector<DType>& MovableTypes();

}  // namespace troupe::array

#endif  // TROUPE_KERNELS_COMMON_ELEMENTS_H_
