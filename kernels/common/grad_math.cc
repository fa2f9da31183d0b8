#include "kernels/common/grad_math.h"

namespace troupe::math {

Value Apply(std::string_view op, const Value& x) { return {x.g, x.g->Op(op, {x.out})}; }
Value Apply(std::string_view op, const Value& x, const Value& y) { return {x.g, x.g->Op(op, {x.out, y.out})}; }

Value Number(const Value& x, double c) {
  if (!x.out.valid()) return x;
  return {x.g, x.g->ScalarLike(x.out, c)};
}

Value Conj(const Value& x) {
  if (!x.out.valid() || !IsComplex(BaseType(x.out.dtype()))) return x;
  return Apply("Conj", x);
}

Value MakeComplex(const Value& re, const Value& im) {
  if (!re.out.valid()) return re;
  const DType type = BaseType(re.out.dtype()) == DType::kDouble ? DType::kComplex128 : DType::kComplex64;
  return {re.g, re.g->Op("Complex", {re.out, im.out}, {{"Tout", type}})};
}

Value PartOf(std::string_view op, const Value& x) {
  if (!x.out.valid()) return x;
  const DType type = BaseType(x.out.dtype()) == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  return {x.g, x.g->Op(op, {x.out}, {{"Tout", type}})};
}

Value Where(const Value& condition, const Value& a, const Value& b) {
  return {a.g, a.g->Op("SelectV2", {condition.out, a.out, b.out})};
}

Value CastLike(const Value& b, const Value& x) {
  if (!x.out.valid()) return x;
  return {b.g, b.g->Op("Cast", {b.out}, {{"DstT", BaseType(x.out.dtype())}})};
}

Value operator+(const Value& a, const Value& b) { return Apply("AddV2", a, b); }
Value operator-(const Value& a, const Value& b) { return Apply("Sub", a, b); }
Value operator*(const Value& a, const Value& b) { return Apply("Mul", a, b); }
Value operator/(const Value& a, const Value& b) { return Apply("RealDiv", a, b); }
Value operator-(const Value& a) { return Apply("Neg", a); }

absl::Status SetUnary(GradientContext& g, const Value& gx) {
  g.Set(0, gx.out);
  return g.status();
}

absl::Status SetBoth(GradientContext& g, const Value& gx, const Value& gy) {
  g.Set(0, gx.out);
  g.Set(1, gy.out);
  return g.status();
}

absl::Status SetBroadcast(GradientContext& g, const Value& gx, const Value& gy) {
  if (g.status().ok()) g.Set(0, g.SumToShapeOf(gx.out, 0));
  if (g.status().ok()) g.Set(1, g.SumToShapeOf(gy.out, 1));
  return g.status();
}

}  // namespace troupe::math
