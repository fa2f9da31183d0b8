#include "kernels/linalg/orthogonal_inl.h"

namespace troupe::linalg {

TROUPE_ORTHOGONAL(double);

}  // namespace troupe::linalg
