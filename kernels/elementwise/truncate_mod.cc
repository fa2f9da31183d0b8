#include "kernels/elementwise/truncated_remainder.h"

namespace troupe {
namespace {

const OpRegistrar op = math::TruncatedRemainderOp("TruncateMod", "T: {int32, int64, bfloat16, half, float, double}");

}  // namespace

TROUPE_KERNEL("TruncateMod")
    .Device("CPU")
    .Types("T", math::kTruncatedRemainderTypes)
    .Factory(
        math::BinaryFactory<math::TruncatedRemainderTable, math::BinaryShapes::kBroadcast, math::CheckNoIntegerZero>);

}  // namespace troupe
