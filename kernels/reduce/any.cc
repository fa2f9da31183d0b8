#include "kernels/reduce/bool_reduction.h"

namespace troupe {
namespace {

const OpRegistrar op = math::BoolReductionOp("Any").Doc(
    "True where an element over the axes in reduction_indices is; of no elements, false.");

}  // namespace

TROUPE_KERNEL("Any")
    .Device("CPU")
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::BoolReductionTable<false>>);

}  // namespace troupe
