#include "kernels/reduce/bool_reduction.h"

namespace troupe {
namespace {

const OpRegistrar op = math::BoolReductionOp("All").Doc(
    "True where all elements over the axes in reduction_indices are; of no elements, true.");

}  // namespace

TROUPE_KERNEL("All")
    .Device("CPU")
    .HostMemory("reduction_indices")
    .Factory(math::ReductionFactory<math::BoolReductionTable<true>>);

}  // namespace troupe
