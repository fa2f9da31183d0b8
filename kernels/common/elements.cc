#include "kernels/common/elements.h"

#include <algorithm>
#include <cstring>

namespace troupe::array {
namespace {
// Estimated nanoseconds to write one byte of a big block.
constexpr double kByteCost = 0.1;
constexpr double kObjectCost = 20;

double ElementCost(DType t) { return IsPlainBytes(t) ? kByteCost * static_cast<double>(SizeOf(t)) : kObjectCost; }
}  // namespace

void CopyElements(ComputeThreads* threads, DType t, void* dst, const void* src, int64_t n) {
  if (n == 0) return;
  threads->ParallelFor(n, ElementCost(t), [&](int64_t begin, int64_t end) {
    if (IsPlainBytes(t)) {
      std::memcpy(ElementAt(t, dst, begin), ElementAt(t, src, begin), static_cast<size_t>(end - begin) * SizeOf(t));
      return;
    }
    VisitElement(t, false, [&]<class E>() {
      std::copy(static_cast<const E*>(src) + begin, static_cast<const E*>(src) + end, static_cast<E*>(dst) + begin);
      return true;
    });
  });
}

void FillElements(ComputeThreads* threads, DType t, void* dst, const void* value, int64_t n) {
  if (n == 0) return;
  threads->ParallelFor(n, ElementCost(t), [&](int64_t begin, int64_t end) {
    VisitElement(t, false, [&]<class E>() {
      const E v = *static_cast<const E*>(value);
      std::fill(static_cast<E*>(dst) + begin, static_cast<E*>(dst) + end, v);
      return true;
    });
  });
}

void ZeroElements(ComputeThreads* threads, DType t, void* dst, int64_t n) {
  if (n == 0) return;
  threads->ParallelFor(n, ElementCost(t), [&](int64_t begin, int64_t end) {
    if (IsPlainBytes(t)) {
      std::memset(ElementAt(t, dst, begin), 0, static_cast<size_t>(end - begin) * SizeOf(t));
      return;
    }
    VisitElement(t, false, [&]<class E>() {
      std::fill(static_cast<E*>(dst) + begin, static_cast<E*>(dst) + end, E{});
      return true;
    });
  });
}

const std::vector<DType>& MovableTypes() {
  static const auto* types = [] {
    auto* v = new std::vector<DType>;
    for (int i = 1; i < kNumDTypes; ++i) {
      if (static_cast<DType>(i) != DType::kVariant) v->push_back(static_cast<DType>(i));
    }
    return v;
  }();
  return *types;
}

}  // namespace troupe::array
