// Batch and layer normalization.
#include "graph/train/layer_parts.h"
#include "troupe/control_flow.h"

namespace troupe::layers {
namespace {

using train::Build;

// beta and gamma, invalid where the options leave them out.
struct NormWeights {
  Output beta, gamma;
};
NormWeights MakeWeights(const Scope& s, int64_t n, DType dtype, const NormOptions& o) {
  NormWeights w;
  if (o.scale) w.gamma = MakeVariable(s, "gamma", o.gamma_initializer, {n}, dtype, o);
  if (o.center) w.beta = MakeVariable(s, "beta", o.beta_initializer, {n}, dtype, o);
  return w;
}

// (x - mean) / sqrt(variance + epsilon) * gamma + beta
Output Normalized(const Scope& s, const Output& x, const Output& mean, const Output& variance, const NormWeights& w,
                  double epsilon) {
  Output factor = Build(s, "Rsqrt", {Build(s, "AddV2", {variance, epsilon})});
  if (w.gamma.valid()) factor = Build(s, "Mul", {factor, w.gamma});
  Output offset = Build(s, "Mul", {mean, factor});
  offset = w.beta.valid() ? Build(s, "Sub", {w.beta, offset}) : Build(s, "Neg", {offset});
  return Build(s, "AddV2", {Build(s, "Mul", {x, factor}), offset});
}

}  // namespace

Output BatchNorm(const ScopeAt& at, const Output& x, const Input& training, const BatchNormOptions& o) {
  const int64_t channels = LastDim(at, x, 0, "BatchNorm");
  if (channels < 0) return {};
  const Scope s = at.Sub("batch_normalization");
  const int rank = s.ShapeOf(x).rank();
  const DType dtype = BaseType(x.dtype());
  const DType of_statistics = dtype == DType::kHalf || dtype == DType::kBfloat16 ? DType::kFloat : dtype;
  const bool fused = rank == 4 && of_statistics == DType::kFloat;
  const NormWeights weights = MakeWeights(s, channels, of_statistics, o);
  NormOptions fixed = o;
  fixed.trainable = false;
  const Variable moving_mean =
      MakeVariable(s, "moving_mean", o.moving_mean_initializer, {channels}, of_statistics, fixed);
  const Variable moving_variance =
      MakeVariable(s, "moving_variance", o.moving_variance_initializer, {channels}, of_statistics, fixed);
  if (!s.ok()) return {};

  // y, and the mean and variance that belong to it.
  const auto normalize = [&](const Scope& in, bool by_batch) -> OutputList {
    if (fused) {
      const auto or_filled = [&](const Output& weight, float value) {
        return weight.valid() ? weight : Const(in, value, TensorShape({channels}));
      };
      const Output none = Const(in, Literal(Tensor(DType::kFloat, {0})));
      const Operation norm =
          EmitOp(in, "FusedBatchNormV3",
                 {x, or_filled(weights.gamma, 1), or_filled(weights.beta, 0), by_batch ? none : moving_mean.Read(in),
                  by_batch ? none : moving_variance.Read(in)},
                 {{"epsilon", static_cast<float>(o.epsilon)}, {"is_training", by_batch}});
      return {norm.output(0), norm.output(1), norm.output(2)};
    }
    Output mean, variance;
    const Output wide = train::CastTo(in, x, of_statistics);
    if (by_batch) {
      std::vector<int32_t> all;
      for (int i = 0; i + 1 < rank; ++i) all.push_back(i);
      mean = Build(in, "Mean", {wide, Ints(in, all)});
      variance = Build(in, "Mean", {Build(in, "SquaredDifference", {wide, mean}), Ints(in, all)});
    } else {
      mean = moving_mean.Read(in);
      variance = moving_variance.Read(in);
    }
    const Output y = Normalized(in, wide, mean, variance, weights, o.epsilon);
    return {train::CastTo(in, y, dtype), mean, variance};
  };
  OutputList found;
  Input share = 1 - o.momentum;  // of the batch in the moving values
  if (const Literal* said = training.literal()) {
    if (said->value().dtype() != DType::kBool || said->value().rank() != 0) {
      at.Fail(
          InvalidArgument("whether BatchNorm is training must be a bool scalar, not ", said->value().TypeAndShape()));
      return {};
    }
    found = normalize(s, said->value().scalar<bool>());
    if (!said->value().scalar<bool>()) return found[0];
  } else {
    found = CondList(
        s, training,
        [&](const Scope& in) {
          return BranchResult{normalize(in, true), {}};
        },
        [&](const Scope& in) {
          return BranchResult{normalize(in, false), {}};
        });
    if (found.size() != 3) return {};
    share = Build(s, "SelectV2", {training, Const(s, 1 - o.momentum, of_statistics), Const(s, 0.0, of_statistics)});
  }
  for (const auto& [moving, now] : {std::pair(moving_mean, found[1]), std::pair(moving_variance, found[2])}) {
    const Scope here = s.ColocateWith(moving.handle());
    const Output away = Build(here, "Sub", {moving.Read(here), now});
    const Output updated = moving.AssignSub(here, Build(here, "Mul", {away, share}));
    if (updated.valid()) s.graph()->collection(kUpdateOps).push_back(updated.node()->name());
  }
  return found[0];
}

std::vector<Operation> UpdateOps(const ScopeAt& at) {
  std::vector<Operation> ops;
  if (!at.ok()) return ops;
  for (const std::string& name : at->graph()->collection(kUpdateOps)) {
    Node* const node = at->graph()->Find(name);
    if (node == nullptr) {
      at.Fail(NotFound("the collection '", kUpdateOps, "' names the node '", name, "', which is not in the graph"));
      return {};
    }
    ops.emplace_back(node);
  }
  return ops;
}

Output LayerNorm(const ScopeAt& at, const Output& x, const NormOptions& o) {
  const int64_t n = LastDim(at, x, 0, "LayerNorm");
  if (n < 0) return {};
  const Scope s = at.Sub("layer_normalization");
  const NormWeights w = MakeWeights(s, n, BaseType(x.dtype()), o);
  const Output mean = Build(s, "Mean", {x, Ints(s, {-1})}, {{"keep_dims", true}});
  const Output variance =
      Build(s, "Mean", {Build(s, "SquaredDifference", {x, mean}), Ints(s, {-1})}, {{"keep_dims", true}});
  return Normalized(s, x, mean, variance, w, o.epsilon);
}

}  // namespace troupe::layers
