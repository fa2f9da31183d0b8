#include "kernels/linalg/without_vectors.h"

#include "kernels/linalg/orthogonal_inl.h"

namespace troupe::linalg {

TROUPE_ORTHOGONAL(std::complex<float>);

}  // namespace troupe::linalg
