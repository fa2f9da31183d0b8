#include "kernels/state/optimizer_loops_inl.h"

namespace troupe::TROUPE_ISA {

extern const state::OptimizerLoops<float> kFloatOptimizerLoops;
extern const state::OptimizerLoops<double> kDoubleOptimizerLoops;
const state::OptimizerLoops<float> kFloatOptimizerLoops = state::kLoopsOf<float>;
const state::OptimizerLoops<double> kDoubleOptimizerLoops = state::kLoopsOf<double>;

}  // namespace troupe::TROUPE_ISA
