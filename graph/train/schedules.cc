#include "troupe/train/schedules.h"

#include <algorithm>
#include <numbers>

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {
namespace {

// What every schedule begins with: the rate as a tensor, and step / decay_steps in its type.
struct Start {
  Start(const ScopeAt& at, const char* name, const Input& rate_in, const Output& step_in) : s(at.Sub(name)) {
    rate =
        rate_in.literal() == nullptr ? rate_in.out() : Const(s.WithOpName("rate"), *rate_in.literal(), DType::kFloat);
    if (!IsFloating(BaseType(rate.dtype())) && s.ok())
      at.Fail(InvalidArgument("a learning rate must be of a floating type, not ", Name(rate.dtype())));
    step = CastTo(s, step_in, BaseType(rate.dtype()));
  }
  Output Progress(double steps, bool staircase) const {
    const Output p = Build(s, "RealDiv", {step, steps});
    return staircase ? Build(s, "Floor", {p}) : p;
  }
  Scope s;
  Output rate, step;
};

}  // namespace

Output ExponentialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double decay_rate,
                        bool staircase) {
  const Start t(at, "ExponentialDecay", rate, step);
  const Output p = t.Progress(decay_steps, staircase);
  return Build(t.s, "Mul", {t.rate, Build(t.s, "Pow", {decay_rate, p})});
}

Output NaturalExponentialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps,
                               double decay_rate, bool staircase) {
  const Start t(at, "NaturalExpDecay", rate, step);
  const Output p = t.Progress(decay_steps, staircase);
  return Build(t.s, "Mul", {t.rate, Build(t.s, "Exp", {Build(t.s, "Mul", {p, -decay_rate})})});
}

Output InverseTimeDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double decay_rate,
                        bool staircase) {
  const Start t(at, "InverseTimeDecay", rate, step);
  const Output p = t.Progress(decay_steps, staircase);
  return Build(t.s, "RealDiv", {t.rate, Build(t.s, "AddV2", {Build(t.s, "Mul", {p, decay_rate}), 1.0})});
}

Output PiecewiseConstant(const ScopeAt& at, const Output& step, const std::vector<double>& boundaries,
                         const std::vector<double>& values, DType dtype) {
  if (values.size() != boundaries.size() + 1 ||
      !std::is_sorted(boundaries.begin(), boundaries.end(), std::less_equal<>())) {
    at.Fail(InvalidArgument("PiecewiseConstant needs growing boundaries and one value more than those: ",
                            boundaries.size(), " boundaries, ", values.size(), " values"));
    return {};
  }
  const Scope s = at.Sub("PiecewiseConstant");
  const Output x = CastTo(s, step, DType::kDouble);
  Output value = Const(s, values[0], dtype);
  for (size_t i = 0; i < boundaries.size(); ++i) {
    const Output past = Build(s, "Greater", {x, Const(s, boundaries[i], DType::kDouble)});
    value = Build(s, "Select", {past, Const(s, values[i + 1], dtype), value});
  }
  return value;
}

Output PolynomialDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double end,
                       double power, bool cycle) {
  const Start t(at, "PolynomialDecay", rate, step);
  Output p;
  if (cycle) {
    // The first multiple of decay_steps at or after the step; the first one for step 0.
    const Output times =
        Build(t.s, "Maximum", {Build(t.s, "Ceil", {Build(t.s, "RealDiv", {t.step, decay_steps})}), 1.0});
    p = Build(t.s, "RealDiv", {t.step, Build(t.s, "Mul", {times, decay_steps})});
  } else {
    p = Build(t.s, "RealDiv", {Build(t.s, "Minimum", {t.step, decay_steps}), decay_steps});
  }
  const Output left = Build(t.s, "Pow", {Build(t.s, "Sub", {1.0, p}), power});
  return Build(t.s, "AddV2", {Build(t.s, "Mul", {Build(t.s, "Sub", {t.rate, end}), left}), end});
}

Output CosineDecay(const ScopeAt& at, const Input& rate, const Output& step, double decay_steps, double alpha) {
  const Start t(at, "CosineDecay", rate, step);
  const Output p = Build(t.s, "RealDiv", {Build(t.s, "Minimum", {t.step, decay_steps}), decay_steps});
  const Output cosine = Build(t.s, "Cos", {Build(t.s, "Mul", {p, std::numbers::pi})});
  const Output half = Build(t.s, "Mul", {Build(t.s, "AddV2", {cosine, 1.0}), 0.5 * (1 - alpha)});
  return Build(t.s, "Mul", {t.rate, Build(t.s, "AddV2", {half, alpha})});
}

Output WarmUp(const ScopeAt& at, const Input& rate, const Output& step, double warm_steps, double start) {
  const Start t(at, "WarmUp", rate, step);
  const Output part = Build(t.s, "Minimum", {Build(t.s, "RealDiv", {t.step, warm_steps}), 1.0});
  const Output grown = Build(t.s, "Mul", {Build(t.s, "Sub", {t.rate, start}), part});
  const Output warm = Build(t.s, "Less", {t.step, warm_steps});
  return Build(t.s, "Select", {warm, Build(t.s, "AddV2", {grown, start}), t.rate});
}

}  // namespace troupe::train
