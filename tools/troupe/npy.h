// NumPy's .npy files: one tensor each, little-endian, rows first.
//
// Numbers and bools map to NumPy's types of the same name. NumPy has no bfloat16, so such a tensor is written as float32, which holds it exactly. Strings and
// handles have no form here.
#ifndef TROUPE_TOOLS_TROUPE_NPY_H_
#define TROUPE_TOOLS_TROUPE_NPY_H_

#include <string>

#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"

namespace troupe::tool {

// NOT_FOUND when there is no such file, INVALID_ARGUMENT (with the path) for what is no .npy file, or one of another byte order, column-major or of
// another type.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);
absl::Status WriteNpy(const Tensor& tensor, const std::string& path);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_NPY_H_
