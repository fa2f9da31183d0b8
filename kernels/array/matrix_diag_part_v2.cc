// MatrixDiagPartV2: bands of diagonals of matrices.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op = MatrixDiagPartBandOp("MatrixDiagPartV2").Doc("As MatrixDiagPartV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagPartV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .Class<MatrixDiagPartKernel>();

}  // namespace
}  // namespace troupe::array
