// MatrixSetDiagV3: matrices with a band of diagonals replaced.
#include "troupe/kernels/array/diagonals.h"

namespace troupe::array {
namespace {

TROUPE_OP("MatrixSetDiagV3")
    .Input("input: T")
    .Input("diagonal: T")
    .Input("k: int32")
    .Output("output: T")
    .Attr("T: type")
    .Attr("align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'")
    .Shape(MatrixSetDiagBandShape)
    .Gradient(MatrixSetDiagBandGradient)
    .Doc(
        "`input` with the diagonals k[0] to k[1] (of a single k that one) of its matrices replaced by `diagonal`, "
        "which is packed as\n"
        "MatrixDiagV3 reads it.");
TROUPE_KERNEL("MatrixSetDiagV3").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

}  // namespace
}  // namespace troupe::array
