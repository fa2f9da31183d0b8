// MatrixDiagV2: matrices of bands of diagonals.
#include "troupe/kernels/array/diagonals.h"

namespace troupe::array {
namespace {

TROUPE_OP("MatrixDiagV2")
    .Input("diagonal: T")
    .Input("k: int32")
    .Input("num_rows: int32")
    .Input("num_cols: int32")
    .Input("padding_value: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixDiagBandShape)
    .Gradient(MatrixDiagBandGradient)
    .Doc("As MatrixDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .HostMemory("num_rows")
    .HostMemory("num_cols")
    .Class<MatrixDiagKernel>();

}  // namespace
}  // namespace troupe::array
