#include "kernels/reduce/arg_reduce.h"

namespace troupe {
namespace {

const OpRegistrar op = math::ArgReduceOp("ArgMin")
                           .Attr("Tidx: {int32, int64} = DT_INT32")
                           .Attr("output_type: {int32, int64} = DT_INT64")
                           .Doc("The index of the smallest element along a dimension; of equal ones the first.");

}  // namespace

TROUPE_KERNEL("ArgMin")
    .Device("CPU")
    .Types("T", math::ArgReduceTypes())
    .Types("output_type", {DType::kInt32, DType::kInt64})
    .HostMemory("dimension")
    .Factory(math::MakeArgMin);

}  // namespace troupe
