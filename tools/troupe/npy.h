// Tensors in NumPy's .npy files (graph/files/npy.h).
#ifndef TROUPE_TOOLS_TROUPE_NPY_H_
#define TROUPE_TOOLS_TROUPE_NPY_H_

#include <string>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::tool {

// NOT_FOUND when there is no such file, INVALID_ARGUMENT (with the path) for what is no .npy file,
// or one of a type that is none here.
absl::StatusOr<Tensor> ReadNpy(const std::string& path);
// A file that was at `path` is replaced when the new one is complete (write_file.h).
absl::Status WriteNpy(const Tensor& tensor, const std::string& path);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_NPY_H_
