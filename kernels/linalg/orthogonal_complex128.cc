#include "kernels/linalg/orthogonal_inl.h"

namespace troupe::linalg {

TROUPE_ORTHOGONAL(std::complex<double>);

}  // namespace troupe::linalg
