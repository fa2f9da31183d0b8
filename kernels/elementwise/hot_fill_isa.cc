// The hot loops of one instruction level in one table: what hot_table.cc picks from.
#include "kernels/elementwise/hot_loops.h"

namespace troupe::math {
namespace {

void FillAll(HotLoops* loops) {
  TROUPE_ISA::FillArithmetic(loops);
  TROUPE_ISA::FillComparisons(loops);
  TROUPE_ISA::FillGradients(loops);
  TROUPE_ISA::FillUnary(loops);
  TROUPE_ISA::FillTranscendental(loops);
  TROUPE_ISA::FillReductions(loops);
  TROUPE_ISA::FillConversions(loops);
}
using HotFill = void (*)(HotLoops*);

}  // namespace
}  // namespace troupe::math

namespace troupe::TROUPE_ISA {

extern const math::HotFill kHotFill;
const math::HotFill kHotFill = math::FillAll;

}  // namespace troupe::TROUPE_ISA
