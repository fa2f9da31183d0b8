#include "kernels/linalg/decompositions_inl.h"

namespace troupe::linalg {

TROUPE_DECOMPOSITIONS(double);
template void CholeskyGradient<double>(const double*, const double*, int64_t, double*);

}  // namespace troupe::linalg
