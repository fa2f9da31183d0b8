// MatrixDiagV3: matrices of bands of diagonals.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op =
    MatrixDiagBandOp("MatrixDiagV3")
        .Attr(kAlignAttr)
        .Doc(
            "Matrices with the diagonals k[0] to k[1] (of a single k that one) from `diagonal` and padding_value "
            "elsewhere. The uppermost\n"
            "diagonal comes first, each in a row that is as long as the longest; `align` says at which end of its row "
            "a "
            "shorter\n"
            "superdiagonal, and a shorter subdiagonal, stands. Rows and columns that are -1 are as few as fit.");
TROUPE_KERNEL("MatrixDiagV3")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .HostMemory("num_rows")
    .HostMemory("num_cols")
    .Class<MatrixDiagKernel>();

}  // namespace
}  // namespace troupe::array
