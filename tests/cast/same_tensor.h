// Tensors that are equal bit for bit.
#ifndef TROUPE_TESTS_CAST_SAME_TENSOR_H_
#define TROUPE_TESTS_CAST_SAME_TENSOR_H_

#include <algorithm>
#include <cstring>
#include <string>

#include "troupe/tensor.h"

namespace troupe {

inline bool Same(const Tensor& a, const Tensor& b) {
  if (a.valid() != b.valid()) return false;
  if (!a.valid()) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kString) {
    return std::equal(a.data<std::string>(), a.data<std::string>() + a.num_elements(), b.data<std::string>());
  }
  return a.num_elements() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace troupe

#endif  // TROUPE_TESTS_CAST_SAME_TENSOR_H_
