#include "kernels/elementwise/reciprocals.h"

namespace troupe {
namespace {

const OpRegistrar op =
    math::ReciprocalGradOp("ReciprocalGrad").Doc("The gradient of Reciprocal: -dy * conj(y)^2, where y = 1 / x.");

}  // namespace

TROUPE_KERNEL("ReciprocalGrad")
    .Device("CPU")
    .Types("T", math::kFloatsAndComplex)
    .Factory(math::BinaryFactory<math::ReciprocalGradTable, math::BinaryShapes::kSame>);

}  // namespace troupe
