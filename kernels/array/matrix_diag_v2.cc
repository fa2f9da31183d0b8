// MatrixDiagV2: matrices of bands of diagonals.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op = MatrixDiagBandOp("MatrixDiagV2").Doc("As MatrixDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixDiagV2")
    .Device("CPU")
    .Types("T", DiagonalTypes())
    .HostMemory("k")
    .HostMemory("num_rows")
    .HostMemory("num_cols")
    .Class<MatrixDiagKernel>();

}  // namespace
}  // namespace troupe::array
