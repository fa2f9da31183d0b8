#include "kernels/state/dense_update.h"

namespace troupe::state {
namespace {

using DenseFn = void (*)(void* var, const void* delta, int64_t n);

// Overflow of signed integers wraps, as everywhere.
template <class T>
auto Bits(T v) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(v);
  } else {
    return v;
  }
}

template <class T>
void Add(void* var, const void* delta, int64_t n) {
  T* __restrict__ v = static_cast<T*>(var);
  const T* __restrict__ d = static_cast<const T*>(delta);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(Bits(v[i]) + Bits(d[i]));
}
template <class T>
void Sub(void* var, const void* delta, int64_t n) {
  T* __restrict__ v = static_cast<T*>(var);
  const T* __restrict__ d = static_cast<const T*>(delta);
  for (int64_t i = 0; i < n; ++i) v[i] = static_cast<T>(Bits(v[i]) - Bits(d[i]));
}

DenseFn Find(DType dtype, DenseOp op) {
  return VisitNumeric<DenseFn>(dtype, nullptr, [op]<class T>() -> DenseFn {
    if constexpr (std::is_same_v<T, bool>) {
      return nullptr;
    } else {
      return op == DenseOp::kAdd ? &Add<T> : &Sub<T>;
    }
  });
}

}  // namespace

absl::Status UpdateDense(KernelContext& ctx, VariableSlot* slot, const Tensor& delta, DenseOp op) {
  const DenseFn fn = Find(slot->dtype(), op);
  if (fn == nullptr) return Unimplemented("there is no arithmetic on ", Name(slot->dtype()));
  return slot->Update([&](Tensor& value) -> absl::Status {
    if (!value.SameShape(delta)) {
      return InvalidArgument("variable '", slot->name(), "' has shape ", value.shape().DebugString(),
                             ", the update has ", delta.shape().DebugString(), ": shapes must be equal");
    }
    const size_t size = SizeOf(value.dtype());
    char* const v = static_cast<char*>(value.raw());
    const char* const d = static_cast<const char*>(delta.raw());
    ctx.threads()->ParallelFor(value.num_elements(), 0.1 * static_cast<double>(size), [&](int64_t begin, int64_t end) {
      fn(v + begin * size, d + begin * size, end - begin);
    });
    return absl::OkStatus();
  });
}

}  // namespace troupe::state
