#include "troupe/kernels/nn/as_float.h"

namespace troupe {
namespace {

template <class From, class To>
Tensor Convert(const Tensor& t) {
  Tensor out(kDTypeOf<To>, t.shape());
  const From* from = t.data<From>();
  To* to = out.data<To>();
  for (int64_t i = 0, n = t.num_elements(); i < n; ++i) to[i] = static_cast<To>(from[i]);
  return out;
}

}  // namespace

Tensor Widened(const Tensor& t) {
  if (t.dtype() == DType::kHalf) return Convert<Half, float>(t);
  if (t.dtype() == DType::kBfloat16) return Convert<BFloat16, float>(t);
  return t;
}

Tensor Narrowed(Tensor t, DType dtype) {
  if (dtype == DType::kHalf) return Convert<float, Half>(t);
  if (dtype == DType::kBfloat16) return Convert<float, BFloat16>(t);
  return t;
}

}  // namespace troupe
