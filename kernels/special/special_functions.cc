#include "kernels/special/special_functions.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace troupe::math {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kEpsilon = 1.1e-16;
constexpr double kPi = 3.14159265358979323846;

// lgamma without the global `signgam`.
double LogGamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

// A sum (or fraction) and its derivative with respect to a.
struct WithSlope {
  double value, slope;
};

// Igamma without the factor x^a e^-x / gamma(a + 1): 1 + x / (a+1) + x^2 / ((a+1)(a+2)) + ...
WithSlope LowerSeries(double a, double x) {
  WithSlope sum = {1, 0};
  double term = 1, slope = 0, n = a;
  // The terms grow while n < x, and then fall faster and faster.
  for (int i = 0; i < 200000; ++i) {
    n += 1;
    slope = (slope - term / n) * (x / n);
    term *= x / n;
    sum.value += term;
    sum.slope += slope;
    if (term <= kEpsilon * sum.value && std::abs(slope) <= kEpsilon * std::abs(sum.slope)) break;
  }
  return sum;
}

// Igammac without the factor x^a e^-x / gamma(a): the continued fraction 1 / (x + 1 - a - 1 (1 - a)
// / (x + 3 - a - ...)), by the recurrence of numerators and denominators, which are scaled down
// together when they grow.
WithSlope UpperFraction(double a, double x) {
  double y = 1 - a, z = x + y + 1;
  double p2 = 1, q2 = x, p1 = x + 1, q1 = z * x;
  double dp2 = 0, dq2 = 0, dp1 = 0, dq1 = -x;
  WithSlope result = {p1 / q1, 0};
  result.slope = (dp1 - result.value * dq1) / q1;
  for (int i = 1; i < 20000; ++i) {
    y += 1;
    z += 2;
    const double c = i, yc = y * c;
    const double p = p1 * z - p2 * yc, q = q1 * z - q2 * yc;
    const double dp = dp1 * z - p1 - dp2 * yc + p2 * c, dq = dq1 * z - q1 - dq2 * yc + q2 * c;
    bool done = false;
    if (q != 0) {
      const double value = p / q, slope = (dp - value * dq) / q;
      done = std::abs(value - result.value) <= kEpsilon * std::abs(value) &&
             std::abs(slope - result.slope) <= 4 * kEpsilon * std::abs(slope);
      result = {value, slope};
    }
    p2 = p1, p1 = p, q2 = q1, q1 = q;
    dp2 = dp1, dp1 = dp, dq2 = dq1, dq1 = dq;
    if (done) break;
    if (std::abs(p) > 1e100) {
      for (double* v : {&p1, &p2, &q1, &q2, &dp1, &dp2, &dq1, &dq2}) *v *= 1e-100;
    }
  }
  return result;
}

// x^a e^-x / gamma(a).
double GammaFactor(double a, double x) { return std::exp(a * std::log(x) - x - LogGamma(a)); }

bool InGammaDomain(double a, double x) { return x >= 0 && a > 0; }  // false for NaN
// Where the fraction converges fast; elsewhere the series does.
bool Far(double a, double x) { return x > 1 && x > a; }

// The continued fraction of Betainc, for x below the middle (a + 1) / (a + b + 2), by Lentz's
// method.
double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto not_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m < 20000; ++m) {
    const double m2 = 2.0 * m;
    const double even = m * (b - m) * x / ((a + m2 - 1) * (a + m2)),
                 odd = -(a + m) * (a + b + m) * x / ((a + m2) * (a + m2 + 1));
    d = 1 / not_zero(1 + even * d);
    c = not_zero(1 + even / c);
    h *= d * c;
    d = 1 / not_zero(1 + odd * d);
    c = not_zero(1 + odd / c);
    const double factor = d * c;
    h *= factor;
    if (std::abs(factor - 1) <= 2 * kEpsilon) break;
  }
  return h;
}

}  // namespace

double Digamma(double x) {
  if (x <= 0) {
    if (x == std::floor(x)) return kNan;
    // Reflection. The tangent has period pi: its argument is reduced first, to the nearest integer.
    // That is exact; the distance to the integer below is not next to a pole, where it would be
    // rounded to 1.
    return Digamma(1 - x) - kPi / std::tan(kPi * (x - std::round(x)));
  }
  double shift = 0;
  for (; x < 12; x += 1) shift -= 1 / x;
  if (std::isinf(x)) return x;
  // Bernoulli numbers B(2k) / 2k of the asymptotic series.
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return shift + std::log(x) - 0.5 / x - series;
}

double Zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (x < 1 || std::isnan(x) || std::isnan(q)) return kNan;
  if (q <= 0) {
    const bool whole = x == std::floor(x);
    if (q == std::floor(q)) return whole && (std::isinf(x) || std::fmod(x, 2) == 0) ? kInfinity : kNan;
    if (!whole) return kNan;
  }
  if (std::isinf(q)) return 0;
  // The first terms one by one, the rest by the formula of Euler and Maclaurin.
  double sum = std::pow(q, -x), w = q, term = 0;
  for (int i = 0; i < 9 || w <= 9; ++i) {
    w += 1;
    term = std::pow(w, -x);
    sum += term;
    if (std::abs(term) < kEpsilon * std::abs(sum)) return sum;
  }
  // All that follows is smaller than what cannot be told from zero; below, it would be multiplied
  // by powers of x.
  if (term == 0) return sum;
  sum += term * w / (x - 1) - 0.5 * term;
  // B(2k) / (2k)!
  constexpr double kBernoulli[] = {1.0 / 12,
                                   -1.0 / 720,
                                   1.0 / 30240,
                                   -1.0 / 1209600,
                                   1.0 / 47900160,
                                   -691.0 / 1307674368000,
                                   1.0 / 74724249600,
                                   -3617.0 / 10670622842880000,
                                   43867.0 / 5109094217170944000,
                                   -174611.0 / 802857662698291200000.0,
                                   77683.0 / 14101100039391805440000.0,
                                   -236364091.0 / 1693824136731743669452800000.0};
  double factor = 1, k = 0;
  for (const double b : kBernoulli) {
    factor *= x + k;
    term /= w;
    const double t = factor * term * b;
    sum += t;
    if (std::abs(t) < kEpsilon * std::abs(sum)) break;
    k += 1;
    factor *= x + k;
    term /= w;
    k += 1;
  }
  return sum;
}

double Polygamma(double n, double x) {
  if (std::floor(n) != n) return kNan;
  if (n == 0) return Digamma(x);
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1;
  return sign * std::exp(LogGamma(n + 1)) * Zeta(n + 1, x);
}

double Igamma(double a, double x) {
  if (x == 0) return 0;
  if (!InGammaDomain(a, x)) return kNan;
  if (std::isinf(a)) return 0;
  if (std::isinf(x)) return 1;
  if (Far(a, x)) return 1 - GammaFactor(a, x) * UpperFraction(a, x).value;
  return GammaFactor(a, x) / a * LowerSeries(a, x).value;
}

double Igammac(double a, double x) {
  if (!InGammaDomain(a, x)) return kNan;
  if (std::isinf(x)) return 0;
  if (std::isinf(a) || x == 0) return 1;
  if (Far(a, x)) return GammaFactor(a, x) * UpperFraction(a, x).value;
  return 1 - GammaFactor(a, x) / a * LowerSeries(a, x).value;
}

double IgammaGradA(double a, double x) {
  if (x == 0) return 0;
  if (!InGammaDomain(a, x)) return kNan;
  if (std::isinf(x) || std::isinf(a)) return 0;
  const double factor = GammaFactor(a, x);
  if (factor == 0) return 0;
  if (Far(a, x)) {
    const WithSlope f = UpperFraction(a, x);
    return -factor * ((std::log(x) - Digamma(a)) * f.value + f.slope);
  }
  const WithSlope s = LowerSeries(a, x);
  return factor / a * ((std::log(x) - Digamma(a + 1)) * s.value + s.slope);
}

double GammaSampleGrad(double a, double x) {
  if (x == 0) return 0;
  if (!InGammaDomain(a, x) || std::isinf(a) || std::isinf(x)) return kNan;
  if (Far(a, x)) {
    const WithSlope f = UpperFraction(a, x);
    return x * ((std::log(x) - Digamma(a)) * f.value + f.slope);
  }
  const WithSlope s = LowerSeries(a, x);
  return -x / a * ((std::log(x) - Digamma(a + 1)) * s.value + s.slope);
}

double Betainc(double a, double b, double x) {
  if (a <= 0 || b <= 0 || !(x >= 0 && x <= 1)) return kNan;
  if (x == 0 || x == 1) return x;
  if (!std::isfinite(a) || !std::isfinite(b)) return kNan;
  const double factor = std::exp(LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return factor * BetaFraction(a, b, x) / a;
  return 1 - factor * BetaFraction(b, a, 1 - x) / b;
}

}  // namespace troupe::math
