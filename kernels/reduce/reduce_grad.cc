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

// The integers that `v` has in every run: those of constants, and what tf.range and tf.stack make
// of them. `x` is a tensor of known rank.
bool ConstantInts(NodeOut v, NodeOut x, int rank, std::vector<int64_t>* out) {
  while (v.valid() && v.node->op().Has(OpTrait::kForwardsInput)) v = v.node->input(0);
  if (!v.valid()) return false;
  const Node& n = *v.node;
  const std::string& op = n.op().name;
  if (n.IsConstant()) {
    const absl::StatusOr<Tensor> value = n.Attr<Tensor>("value");
    if (!value.ok() || (value->dtype() != DType::kInt32 && value->dtype() != DType::kInt64)) return false;
    for (int64_t i = 0; i < value->num_elements(); ++i)
      out->push_back(value->dtype() == DType::kInt32 ? value->data<int32_t>()[i] : value->data<int64_t>()[i]);
    return true;
  }
  if (n.op().Has(OpTrait::kRank) && n.input(0) == x) {
    out->push_back(rank);
    return true;
  }
  if (op != "Range" && op != "Pack") return false;
  std::vector<int64_t> args;
  for (int i = 0; i < n.num_inputs(); ++i) {
    // One number each, and no list of lists: this does not go deep.
    const size_t before = args.size();
    if (n.input(i).valid() && (n.input(i).node->op().name == "Range" || n.input(i).node->op().name == "Pack"))
      return false;
    if (!ConstantInts(n.input(i), x, rank, &args) || args.size() != before + 1) return false;
  }
  if (op == "Pack") {
    out->insert(out->end(), args.begin(), args.end());
    return true;
  }
  const int64_t step = args[2];
  if (step == 0) return false;
  for (int64_t at = args[0]; step > 0 ? at < args[1] : at > args[1]; at += step) {
    if (at < -rank || at >= rank) return false;
    out->push_back(at);
    if (step > 2 * rank || step < -2 * rank) break;  // nor can the sum overflow
  }
  return true;
}

bool KeepsDims(GradientContext& g) { return g.Attr<bool>("keep_dims"); }

}  // namespace

bool StaticAxes(GradientContext& g, std::vector<int64_t>* axes) {
  const PartialTensorShape shape = g.InputShape(0);
  axes->clear();
  // Nothing has no axes, however they are computed.
  if (shape.known_rank() && shape.rank() == 0) return true;
  if (!shape.known_rank() || !ConstantInts(g.node().input(1), g.node().input(0), shape.rank(), axes)) return false;
  for (int64_t& axis : *axes) {
    if (axis < 0) axis += shape.rank();
    if (axis < 0 || axis >= shape.rank()) return false;
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
