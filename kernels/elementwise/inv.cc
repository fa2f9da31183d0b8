#include "kernels/elementwise/reciprocals.h"

namespace troupe {
namespace {

const OpRegistrar op = math::ReciprocalOp("Inv");

}  // namespace

TROUPE_KERNEL("Inv")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::UnaryFactory<math::ReciprocalTable>);

}  // namespace troupe
