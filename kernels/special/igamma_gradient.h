// The gradient that Igamma and Igammac share: their values add up to 1, so their gradients differ
// in sign.
#ifndef TROUPE_KERNELS_SPECIAL_IGAMMA_GRADIENT_H_
#define TROUPE_KERNELS_SPECIAL_IGAMMA_GRADIENT_H_

#include "kernels/common/grad_math.h"

namespace troupe::math {

// `dy`: the gradient of Igamma(a, x), of inputs 0 and 1 of the node.
inline absl::Status IgammaGradient(GradientContext& g, const Value& dy) {
  const Value a = In(g, 0), x = In(g, 1);
  // In logarithms first, since gamma(a) can be large.
  const Value density = Apply("Exp", (Apply("Log", x) * (a - Number(a, 1))) - x - Apply("Lgamma", a));
  return SetBroadcast(g, dy * Apply("IgammaGradA", a, x), dy * density);
}

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_SPECIAL_IGAMMA_GRADIENT_H_
