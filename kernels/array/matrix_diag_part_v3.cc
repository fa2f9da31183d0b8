// MatrixDiagPartV3: bands of diagonals of matrices.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op =
    MatrixDiagPartBandOp("MatrixDiagPartV3")
        .Attr(kAlignAttr)
        .Doc(
            "The diagonals k[0] to k[1] (of a single k that one) of the matrices in the last two dimensions, packed as "
            "MatrixDiagV3 reads\n"
            "them, with padding_value where a row is longer than its diagonal.");
TROUPE_KERNEL("MatrixDiagPartV3")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .Class<MatrixDiagPartKernel>();

}  // namespace
}  // namespace troupe::array
