#include "kernels/linalg/decompositions_inl.h"

namespace troupe::linalg {

TROUPE_DECOMPOSITIONS(std::complex<double>);

}  // namespace troupe::linalg
