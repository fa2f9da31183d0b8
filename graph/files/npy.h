// NumPy's .npy files: one tensor each. Read in both byte orders, and row by row or column by
// column; written little-endian, row by row.
//
// Numbers and bools map to NumPy's types of the same name. NumPy has no bfloat16, so such a tensor
// is written as float32, which holds it exactly. Strings and handles have no form here.
//
// Thread rule: all functions are thread safe.
#ifndef TROUPE_GRAPH_FILES_NPY_H_
#define TROUPE_GRAPH_FILES_NPY_H_

#include <string>
#include <string_view>

#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::files {

bool HasNpyForm(DType dtype);
// The tensor of a file with these bytes. INVALID_ARGUMENT for what is no .npy file, or one of a
// type that is none here; RESOURCE_EXHAUSTED without memory for it.
absl::StatusOr<Tensor> ParseNpy(std::string_view bytes);
// What a file consists of.
struct NpyFile {
  std::string header;
  Tensor elements;  // the tensor, or it as float32
  std::string_view data() const { return {static_cast<const char*>(elements.raw()), elements.bytes()}; }
};
// INVALID_ARGUMENT when HasNpyForm is false.
absl::StatusOr<NpyFile> MakeNpy(const Tensor& tensor);

}  // namespace troupe::files

#endif  // TROUPE_GRAPH_FILES_NPY_H_
