// MatrixSetDiagV2: matrices with a band of diagonals replaced.
#include "troupe/kernels/array/diagonals.h"

namespace troupe::array {
namespace {

TROUPE_OP("MatrixSetDiagV2")
    .Input("input: T")
    .Input("diagonal: T")
    .Input("k: int32")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixSetDiagBandShape)
    .Gradient(MatrixSetDiagBandGradient)
    .Doc("As MatrixSetDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixSetDiagV2").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

}  // namespace
}  // namespace troupe::array
