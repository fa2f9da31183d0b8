#include "kernels/elementwise/truncated_remainder.h"

namespace troupe {
namespace {

const OpRegistrar op = math::TruncatedRemainderOp("Mod", "T: {int32, int64, half, bfloat16, float, double}");

}  // namespace

TROUPE_KERNEL("Mod")
    .Device("CPU")
    .Types("T", math::kTruncatedRemainderTypes)
    .Factory(
        math::BinaryFactory<math::TruncatedRemainderTable, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
