#include "kernels/common/as_float.h"

#include <new>

namespace troupe {
namespace {

template <class From, class To>
Tensor Convert(const KernelContext& ctx, const Tensor& t) {
  Tensor out(ctx.allocator(), kDTypeOf<To>, t.shape());
  if (!out.valid()) throw std::bad_alloc();
  const From* from = t.data<From>();
  To* to = out.data<To>();
  for (int64_t i = 0, n = t.num_elements(); i < n; ++i) to[i] = static_cast<To>(from[i]);
  return out;
}

}  // namespace

Tensor Widened(const KernelContext& ctx, const Tensor& t) {
  if (t.dtype() == DType::kHalf) return Convert<Half, float>(ctx, t);
  if (t.dtype() == DType::kBfloat16) return Convert<BFloat16, float>(ctx, t);
  return t;
}

Tensor Narrowed(const KernelContext& ctx, Tensor t, DType dtype) {
  if (dtype == DType::kHalf) return Convert<float, Half>(ctx, t);
  if (dtype == DType::kBfloat16) return Convert<float, BFloat16>(ctx, t);
  return t;
}

}  // namespace troupe
