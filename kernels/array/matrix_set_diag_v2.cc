// MatrixSetDiagV2: matrices with a band of diagonals replaced.
#include "kernels/array/diagonals.h"

namespace troupe::array {
namespace {

const OpRegistrar op = MatrixSetDiagBandOp("MatrixSetDiagV2").Doc("As MatrixSetDiagV3 with align = LEFT_LEFT.");
TROUPE_KERNEL("MatrixSetDiagV2").Device("CPU").Types("T", DiagonalTypes()).HostMemory("k").Class<MatrixSetDiagKernel>();

}  // namespace
}  // namespace troupe::array
