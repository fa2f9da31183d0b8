// Functions of statistics that the C library does not have, in float64: psi, zeta and the
// incomplete gamma and beta integrals.
//
// Outside of a function's domain the result is NaN, at a pole infinity or NaN, as TensorFlow has
// it; no errno, no exceptions. Results are good to some 1e-14, relative to 1 for the integrals; for
// arguments beyond 1e4 to some 1e-12.
//
// Thread rule: pure functions.
#ifndef TROUPE_KERNELS_SPECIAL_SPECIAL_FUNCTIONS_H_
#define TROUPE_KERNELS_SPECIAL_SPECIAL_FUNCTIONS_H_

namespace troupe::math {

// The derivative of log(gamma(x)).
double Digamma(double x);
// The sum of 1 / (q + k)^x over k = 0, 1, ... for x > 1.
double Zeta(double x, double q);
// The derivative of order n + 1 of log(gamma(x)), for whole n >= 0.
double Polygamma(double n, double x);

// The integral of t^(a-1) e^-t / gamma(a) over [0, x], and over [x, infinity), for a > 0 and x >=
// 0.
double Igamma(double a, double x);
double Igammac(double a, double x);
// The derivative of Igamma with respect to a.
double IgammaGradA(double a, double x);
// How a sample x of the gamma distribution with shape a moves with a when it keeps its place in the
// distribution: -IgammaGradA / density.
double GammaSampleGrad(double a, double x);

// The integral of t^(a-1) (1-t)^(b-1) over [0, x], divided by that over [0, 1], for a, b > 0 and x
// in [0, 1].
double Betainc(double a, double b, double x);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_SPECIAL_SPECIAL_FUNCTIONS_H_
