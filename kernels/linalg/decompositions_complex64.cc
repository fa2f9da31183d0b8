#include "kernels/linalg/without_vectors.h"

#include "kernels/linalg/decompositions_inl.h"

namespace troupe::linalg {

TROUPE_DECOMPOSITIONS(std::complex<float>);

}  // namespace troupe::linalg
