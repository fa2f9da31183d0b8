// Tensors as text that people type and read, and as JSON.
//
// Typed: a scalar or a nested list, [[1, 2], [3, 4.5]]; numbers, nan, inf, true/false, 1+2j; strings in "..." or '...' with C's escapes, or bare where nothing
// in them needs quotes.
#ifndef TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_
#define TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_

#include <string>
#include <string_view>

#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"

namespace troupe::tool {

// INVALID_ARGUMENT says what in `text` is no value of `dtype`: lists of unequal length, words that are no numbers, numbers out of range.
absl::StatusOr<Tensor> ParseValue(std::string_view text, DType dtype);
// The same numbers as `dtype`. INVALID_ARGUMENT names the first that would change its value; only floating types may round.
absl::StatusOr<Tensor> ConvertTensor(const Tensor& tensor, DType dtype);

// Every element, in lists as deep as the shape, one line a row.
std::string ValueText(const Tensor& tensor);
// As JSON: complex numbers as [re, im]; NaN, Infinity and -Infinity as Python's json writes them; bytes of strings that are no UTF-8 as \u0080 to \u00ff.
std::string ValueJson(const Tensor& tensor);
std::string JsonString(std::string_view text);

}  // namespace troupe::tool

#endif  // TROUPE_TOOLS_TROUPE_VALUE_TEXT_H_
