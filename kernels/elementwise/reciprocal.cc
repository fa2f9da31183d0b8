#include "kernels/elementwise/reciprocals.h"

namespace troupe {
namespace {

const OpRegistrar op = math::ReciprocalOp("Reciprocal");

}  // namespace

TROUPE_KERNEL("Reciprocal")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::UnaryFactory<math::ReciprocalTable>);

}  // namespace troupe
