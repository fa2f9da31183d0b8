// MatrixDiagPartV2: bands of diagonals of matrices.
#include "troupe/kernels/array/diagonals.h"

namespace troupe::array {
namespace {

TROUPE_OP("MatrixDiagPartV2")
    .Input("input: T")
    .Input("k: int32")
    .Input("padding_value: T")
    .Output("diagonal: T")
    .Attr("T: type")
    .Shape(MatrixDiagPartBandShape)
    .Gradient(MatrixDiagPartBandGradient)
    .Doc("As MatrixDiagPartV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagPartV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .Class<MatrixDiagPartKernel>();

}  // namespace
}  // namespace troupe::array
