// ArgMax and ArgMin: where along one axis the extreme element is; of equal ones the first. NaN
// never wins; where all are NaN the index is 0.
#ifndef TROUPE_KERNELS_REDUCE_ARG_REDUCE_H_
#define TROUPE_KERNELS_REDUCE_ARG_REDUCE_H_

#include <string_view>
#include <vector>

#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::math {

absl::StatusOr<PreparedKernel> MakeArgMax(KernelInit& init);
absl::StatusOr<PreparedKernel> MakeArgMin(KernelInit& init);
// The types of the kernels' inputs.
const std::vector<DType>& ArgReduceTypes();
// Input 0 without the dimension that input 1 names.
absl::Status ArgReduceShape(InferenceContext& c);
// Without Tidx, output_type and doc.
OpBuilder ArgReduceOp(std::string_view name);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_REDUCE_ARG_REDUCE_H_
