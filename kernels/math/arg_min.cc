#include "troupe/kernels/math/arg_reduce.h"
#include "troupe/kernels/math/elementwise.h"

namespace troupe {
namespace {

std::vector<DType> Types() {
  std::vector<DType> types(math::kReals.begin(), math::kReals.end());
  types.push_back(DType::kBool);
  return types;
}

}  // namespace

TROUPE_OP("ArgMin")
    .Input("input: T")
    .Input("dimension: Tidx")
    .Output("output: output_type")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64, qint8, quint8, "
        "qint32, qint16, quint16, bool}")
    .Attr("Tidx: {int32, int64} = DT_INT32")
    .Attr("output_type: {int32, int64} = DT_INT64")
    .Shape(math::ArgReduceShape)
    .NotDifferentiable("an index is piecewise constant")
    .Doc("The index of the smallest element along a dimension; of equal ones the first.");

TROUPE_KERNEL("ArgMin")
    .Device("CPU")
    .Types("T", Types())
    .Types("output_type", {DType::kInt32, DType::kInt64})
    .HostMemory("dimension")
    .Factory(math::MakeArgMin);

}  // namespace troupe
