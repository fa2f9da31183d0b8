#include "kernels/reduce/reduce_grad.h"

#include <algorithm>

namespace troupe::math {
namespace {

Value OpWith(GradientContext& g, std::string_view op, std::initializer_list<NodeOut> inputs, AttrMap attrs = {}) {
  return {&g, g.Op(op, inputs, std::move(attrs))};
}

Value Vector(GradientContext& g, const std::vector<int64_t>& v) {
  Tensor t(DType::kInt32, TensorShape({static_cast<int64_t>(v.size())}));
  std::copy(v.begin(), v.end(), t.data<int32_t>());
  return {&g, g.Const(std::move(t))};
}

bool KeepsDims(GradientContext& g) { return g.Attr<bool>("keep_dims"); }

}  // namespace

bool StaticAxes(GradientContext& g, std::vector<int64_t>* axes) {
  const PartialTensorShape shape = g.InputShape(0);
  const Node* node = g.node().input(1).node;
  if (!shape.known_rank() || node == nullptr || !node->IsConstant()) return false;
  const absl::StatusOr<Tensor> value = node->Attr<Tensor>("value");
  if (!value.ok()) return false;
  axes->clear();
  for (int64_t i = 0; i < value->num_elements(); ++i) {
    int64_t axis = value->dtype() == DType::kInt32 ? value->data<int32_t>()[i] : value->data<int64_t>()[i];
    if (axis < 0) axis += shape.rank();
    if (axis < 0 || axis >= shape.rank()) return false;
    axes->push_back(axis);
  }
  return true;
}

Value KeepDims(GradientContext& g, const Value& v) {
  if (!v.out.valid() || KeepsDims(g)) return v;
  std::vector<int64_t> axes;
  const PartialTensorShape shape = g.InputShape(0);
  if (shape.IsFullyDefined() && StaticAxes(g, &axes)) {
    std::vector<int64_t> kept(shape.dims().begin(), shape.dims().end());
    for (int64_t a : axes) kept[a] = 1;
    if (std::all_of(kept.begin(), kept.end(), [](int64_t d) { return d <= INT32_MAX; }))
      return Apply("Reshape", v, Vector(g, kept));
  }
  // Which dimensions are reduced, counted by index; those get size one.
  const Value x = In(g, 0), rank = Apply("Rank", x);
  const Value all = Apply("FloorMod", OpWith(g, "Cast", {g.Input(1)}, {{"DstT", DType::kInt32}}), rank);
  const Value times = OpWith(g, "UnsortedSegmentSum", {Apply("OnesLike", all).out, all.out, rank.out});
  if (!times.out.valid()) return v;
  const Value kept = Where(Apply("Greater", times, Number(times, 0)), Number(times, 1), Apply("Shape", x));
  return Apply("Reshape", v, kept);
}

Value SpreadOverInput(GradientContext& g, const Value& v) {
  const Value kept = KeepDims(g, v);
  return Apply("BroadcastTo", kept, Apply("Shape", In(g, 0)));
}

Value ReducedCount(GradientContext& g, const Value& v) {
  const Value in = Apply("Size", In(g, 0)), out = Apply("Size", Out(g));
  if (!out.out.valid()) return v;
  // Never zero: an empty input has no elements whose gradient could tell.
  const Value one = Number(out, 1);
  return CastLike(Apply("Maximum", Apply("FloorDiv", in, Apply("Maximum", out, one)), one), v);
}

absl::Status SharedByExtremes(GradientContext& g) {
  const Value x = In(g, 0), y = KeepDims(g, Out(g)), dy = KeepDims(g, Grad(g));
  const Value mine = CastLike(Apply("Equal", y, x), dy);
  const Value times = OpWith(g, "Sum", {mine.out, g.Input(1)}, {{"keep_dims", true}});
  return SetUnary(g, mine / times * dy);
}

}  // namespace troupe::math
