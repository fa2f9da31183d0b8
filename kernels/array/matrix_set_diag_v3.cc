// MatrixSetDiagV3: matrices with a band of diagonals replaced.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op =
    MatrixSetDiagBandOp("MatrixSetDiagV3")
        .Attr(kAlignAttr)
        .Doc(
            "`input` with the diagonals k[0] to k[1] (of a single k that one) of its matrices replaced by `diagonal`, "
            "which is packed as\n"
            "MatrixDiagV3 reads it.");
TROUPE_KERNEL("MatrixSetDiagV3").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

}  // namespace
}  // namespace troupe::array
