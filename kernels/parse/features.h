// What the ops that parse Examples share: which features are wanted in which form, and the tensors
// that many Examples make of them.
//
// The forms of a feature, n Examples:
//   sparse    indices [N,2] (Example, place), values [N], shape [2] = {n, most values of one}
//   dense     [n, shape...], each Example having exactly that many values, or the default
//   variable  [n, most, shape...], whose first dimension is not known: padded with the default
//   ragged    values [N], row splits [n+1]
// Of a single Example: indices [N,1] and shape [1]; dense without dimension n; no row splits.
// In feature lists each Example has a list of steps, each with a Feature: indices get one more
// column (step), dense is [n, most steps, shape...] with zeros behind the last step, ragged has
// splits of steps and of values.
//
// Errors are INVALID_ARGUMENT with the Example's number and name, the feature's key and the byte.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_PARSE_FEATURES_H_
#define TROUPE_KERNELS_PARSE_FEATURES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/parse/example_wire.h"
#include "troupe/kernel.h"

namespace troupe::parse {

enum class Form : uint8_t { kSparse, kDense, kVariable, kRagged };

struct FeatureSpec {
  std::string key;
  DType type = DType::kInvalid;  // float, int64 or string
  Form form = Form::kSparse;
  TensorShape shape;              // of kDense; of kVariable behind its first dimension
  DType splits = DType::kInt64;   // of kRagged
  Tensor default_value;           // of kDense and kVariable; without elements: the feature is required
  bool missing_is_empty = false;  // of a dense feature list
};

// The dense features' form and shape from an attr: all dimensions known, or all but the first.
absl::Status SetDenseShape(const PartialTensorShape& shape, FeatureSpec* spec);
// Whether `spec` can have this default; sets it.
absl::Status SetDefault(const Tensor& value, FeatureSpec* spec);

// The Examples of one call.
struct Messages {
  absl::Span<const std::string> serialized;
  absl::Span<const std::string> names;  // for errors; may be empty
  bool single = false;                  // one Example, whose tensors have no dimension for it
};

// What one feature becomes, by its form: {indices, values, shape}, {values}, {values, splits}; of a
// dense feature list {values, lengths}, of a ragged one {values, outer splits, inner splits}.
struct FeatureTensors {
  Tensor parts[3];
};

// The features of `Features` messages: of Examples, or the context of SequenceExamples (both have
// them in field 1).
absl::StatusOr<std::vector<FeatureTensors>> ParseFeatures(KernelContext& ctx, const Messages& messages,
                                                          absl::Span<const FeatureSpec> specs);
// The feature lists of SequenceExamples. kVariable is not a form of theirs.
absl::StatusOr<std::vector<FeatureTensors>> ParseFeatureLists(KernelContext& ctx, const Messages& messages,
                                                              absl::Span<const FeatureSpec> specs);

}  // namespace troupe::parse

#endif  // TROUPE_KERNELS_PARSE_FEATURES_H_
