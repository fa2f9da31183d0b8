#include "kernels/state/optimizer_loops.h"

#include "kernels/common/isa.h"
#include "kernels/state/optimizer_loops_inl.h"

TROUPE_ISA_TABLE(state::OptimizerLoops<float>, kFloatOptimizerLoops, PickFloatOptimizerLoops)
TROUPE_ISA_TABLE(state::OptimizerLoops<double>, kDoubleOptimizerLoops, PickDoubleOptimizerLoops)

namespace troupe::state {

template <>
const OptimizerLoops<float>& Loops<float>() {
  return PickFloatOptimizerLoops();
}
template <>
const OptimizerLoops<double>& Loops<double>() {
  return PickDoubleOptimizerLoops();
}
template <>
const OptimizerLoops<Half>& Loops<Half>() {
  return kLoopsOf<Half>;
}
template <>
const OptimizerLoops<BFloat16>& Loops<BFloat16>() {
  return kLoopsOf<BFloat16>;
}
template <>
const OptimizerLoops<std::complex<float>>& Loops<std::complex<float>>() {
  return kLoopsOf<std::complex<float>>;
}
template <>
const OptimizerLoops<std::complex<double>>& Loops<std::complex<double>>() {
  return kLoopsOf<std::complex<double>>;
}

}  // namespace troupe::state
