// Arithmetic operators that add nodes, so that gradient functions read like their formulas.
//
//   [](GradientContext& g) { return SetUnary(g, Grad(g) * Apply("Reciprocal", Conj(In(g, 0)))); }
//
// A Value is a node's output and the context that builds; its operators add nodes. After the
// context's first error they do nothing.
//
// Thread rule: as for the graph, one thread at a time.
#ifndef TROUPE_KERNELS_COMMON_GRAD_MATH_H_
#define TROUPE_KERNELS_COMMON_GRAD_MATH_H_

#include "troupe/gradient_function.h"

namespace troupe::math {

struct Value {
  GradientContext* g;
  NodeOut out;
};

inline Value In(GradientContext& g, int i) { return {&g, g.Input(i)}; }
inline Value Out(GradientContext& g, int i = 0) { return {&g, g.Output(i)}; }
inline Value Grad(GradientContext& g, int i = 0) { return {&g, g.Grad(i)}; }

Value Apply(std::string_view op, const Value& x);
Value Apply(std::string_view op, const Value& x, const Value& y);
// The number c in the type of x.
Value Number(const Value& x, double c);
// The complex conjugate; x itself when it is real.
Value Conj(const Value& x);
// A complex number of two real parts, and a part ("Real", "Imag") of a complex number.
Value MakeComplex(const Value& re, const Value& im);
Value PartOf(std::string_view op, const Value& x);
// condition ? a : b, broadcasting.
Value Where(const Value& condition, const Value& a, const Value& b);
// A bool value as zeros and ones of x's type.
Value CastLike(const Value& b, const Value& x);

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);
Value operator-(const Value& a);
inline Value operator*(double c, const Value& a) { return Number(a, c) * a; }
inline Value operator+(double c, const Value& a) { return Number(a, c) + a; }
inline Value operator-(double c, const Value& a) { return Number(a, c) - a; }

// Ends a gradient function: the gradient of input 0; of inputs 0 and 1, each as it is; of two
// inputs that were broadcast, summed back to their shapes.
absl::Status SetUnary(GradientContext& g, const Value& gx);
absl::Status SetBoth(GradientContext& g, const Value& gx, const Value& gy);
absl::Status SetBroadcast(GradientContext& g, const Value& gx, const Value& gy);

}  // namespace troupe::math

#endif  // TROUPE_KERNELS_COMMON_GRAD_MATH_H_
