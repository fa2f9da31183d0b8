// MatrixDiagV3: matrices of bands of diagonals.
#include "troupe/kernels/array/diagonals.h"

namespace troupe::array {
namespace {

TROUPE_OP("MatrixDiagV3")
    .Input("diagonal: T")
    .Input("k: int32")
    .Input("num_rows: int32")
    .Input("num_cols: int32")
    .Input("padding_value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'")
    .Shape(MatrixDiagBandShape)
    .Gradient(MatrixDiagBandGradient)
    .Doc(
        "Matrices with the diagonals k[0] to k[1] (of a single k that one) from `diagonal` and padding_value "
        "elsewhere. The uppermost\n"
        "diagonal comes first, each in a row that is as long as the longest; `align` says at which end of its row a "
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
