#include "kernels/linalg/decompositions_inl.h"

namespace troupe::linalg {

TROUPE_DECOMPOSITIONS(float);
template void CholeskyGradient<float>(const float*, const float*, int64_t, float*);

}  // namespace troupe::linalg
