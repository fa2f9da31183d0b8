// Tensors as text that people type and read, and as JSON.
//
// Typed: a scalar or a nested list, [[1, 2], [3, 4.5]]; numbers, nan, inf, true/false, 1+2j;
// strings in "..." or '...' with C's escapes, or bare where nothing in them needs quotes. A number
// beyond the largest of its type is inf, as in C++ and Python; one below the smallest is 0.
#ifndef TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_
#define TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_

#include <string>
#include <string_view>

#include "tools/troupe/output.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe::tool {

// INVALID_ARGUMENT says what in `text` is no value of `dtype`: lists of unequal length, words that
// are no numbers, numbers out of range.
absl::StatusOr<Tensor> ParseValue(std::string_view text, DType dtype);
// The same numbers as `dtype`. INVALID_ARGUMENT names the first that would change its value; only
// floating types may round, and no number becomes infinite.
absl::StatusOr<Tensor> ConvertTensor(const Tensor& tensor, DType dtype);

// In lists as deep as the shape, one line a row. A tensor of more than 1000 elements (or, empty, of
// more than 1000 lists) is abbreviated as numpy does it, unless `full`: the first three and the
// last three of each dimension and "..." between them; an empty one is [].
void PrintValue(const Tensor& tensor, bool full, Printer* out);
// As JSON, every element: complex numbers as [re, im]; NaN, Infinity and -Infinity as Python's json
// writes them; bytes of strings that are no UTF-8 as \u0080 to \u00ff.
void PrintJsonValue(const Tensor& tensor, Printer* out);
std::string JsonString(std::string_view text);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_
