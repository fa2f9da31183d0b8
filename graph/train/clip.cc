#include "troupe/train/clip.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {

namespace {

// What clips: x itself or, of slices, their values; `f` gives them back clipped.
template <class F>
Output OfValues(const Scope& s, const Output& x, const F& f) {
  std::optional<IndexedSlices> slices = SlicesOf(s, x);
  if (!slices.has_value()) return f(x);
  slices->values = f(slices->values);
  return FromSlices(s, *slices);
}

// x or, of slices, their values.
Output ValuesOf(const Scope& s, const Output& x) {
  const std::optional<IndexedSlices> slices = SlicesOf(s, x);
  return slices.has_value() ? slices->values : x;
}

}  // namespace

Output ClipByValue(const ScopeAt& at, const Output& x, const Input& min, const Input& max) {
  const Scope s = at.Sub("clip_by_value");
  return OfValues(s, x, [&](const Output& values) {
    const Output below = Build(s, "Minimum", {values, max});
    return Build(s, "Maximum", {below, min});
  });
}

Output ClipByNorm(const ScopeAt& at, const Output& whole, const Input& clip_norm, const std::vector<int>& axes) {
  const Scope s = at.Sub("clip_by_norm");
  const Output x = ValuesOf(s, whole);
  Output over;
  if (axes.empty()) {
    const Output rank = Build(s, "Rank", {x});
    over = Build(s, "Range", {0, rank, 1});
  } else {
    over = Const(s, Literal(std::vector<int32_t>(axes.begin(), axes.end())));
  }
  const Output squares = Build(s, "Sum", {Build(s, "Mul", {x, x}), over}, {{"keep_dims", true}});
  // The root's derivative is infinite at zero; there the norm is not used either.
  const Output some = Build(s, "Greater", {squares, 0.0});
  const Output safe = Build(s, "Select", {some, squares, Build(s, "OnesLike", {squares})});
  const Output norm = Build(s, "Select", {some, Build(s, "Sqrt", {safe}), squares});
  const Input limit = As(s, clip_norm, BaseType(x.dtype()));
  return OfValues(s, whole, [&](const Output& values) {
    return Build(s, "RealDiv", {Build(s, "Mul", {values, limit}), Build(s, "Maximum", {norm, limit})});
  });
}

Output GlobalNorm(const ScopeAt& at, const std::vector<Output>& list) {
  const Scope s = at.Sub("global_norm");
  std::vector<Output> halves;
  for (const Output& x : list) {
    if (x.valid()) halves.push_back(Build(s, "L2Loss", {ValuesOf(s, x)}));
  }
  if (halves.empty()) {
    at.Fail(InvalidArgument("there is no tensor to take the global norm of"));
    return {};
  }
  for (Output& h : halves) h = CastTo(s, h, BaseType(halves[0].dtype()));
  const Output half = SumOf(s, halves);
  return Build(s, "Sqrt", {Build(s, "Mul", {half, 2.0})});
}

std::vector<Output> ClipByGlobalNorm(const ScopeAt& at, const std::vector<Output>& list, const Input& clip_norm,
                                     const Output& use_norm) {
  std::vector<Output> result(list.size());
  const Scope s = at.Sub("clip_by_global_norm");
  const Output norm = use_norm.valid() ? use_norm : GlobalNorm(s, list);
  if (!s.ok()) return result;
  const Input limit = As(s, clip_norm, BaseType(norm.dtype()));
  const Output ratio = Build(s, "RealDiv", {limit, Build(s, "Maximum", {norm, limit})});
  // norm - norm is zero for every finite number, and NaN for the others.
  const Output scale = Build(s, "AddV2", {ratio, Build(s, "Sub", {norm, norm})});
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].valid()) continue;
    result[i] = OfValues(s, list[i], [&](const Output& values) {
      return Build(s, "Mul", {values, CastTo(s, scale, BaseType(values.dtype()))});
    });
  }
  return result;
}

std::vector<GradAndVar> ClipByGlobalNorm(const ScopeAt& at, std::vector<GradAndVar> grads, const Input& clip_norm) {
  std::vector<Output> list;
  for (const GradAndVar& g : grads) list.push_back(g.grad);
  list = ClipByGlobalNorm(at, list, clip_norm);
  for (size_t i = 0; i < grads.size(); ++i) grads[i].grad = list[i];
  return grads;
}

}  // namespace troupe::train
