#include "kernels/reduce/arg_reduce.h"

namespace troupe {
namespace {

const OpRegistrar op = math::ArgReduceOp("ArgMax")
                           .Attr("Tidx: {int16, int32, int64} = DT_INT32")
                           .Attr("output_type: {int16, uint16, int32, int64} = DT_INT64")
                           .Doc("The index of the largest element along a dimension; of equal ones the first.");

}  // namespace

TROUPE_KERNEL("ArgMax")
    .Device("CPU")
    .Types("T", math::ArgReduceTypes())
    .Types("output_type", {DType::kInt16, DType::kUint16, DType::kInt32, DType::kInt64})
    .HostMemory("dimension")
    .Factory(math::MakeArgMax);

}  // namespace troupe
