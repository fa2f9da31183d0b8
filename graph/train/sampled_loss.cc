#include "troupe/train/sampled_loss.h"

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::train {
namespace {

struct Logits {
  Output logits, labels;  // [batch, num_true + num_sampled]
};

Logits SampledLogits(const ScopeAt& at, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                     const Output& labels, const Output& inputs, int64_t num_sampled, int64_t num_classes,
                     const SampledLossOptions& o) {
  const Scope s = at.Sub("sampled_logits");
  if (!s.ok()) return {};
  const PartialTensorShape of_inputs = s.ShapeOf(inputs);
  if (!of_inputs.known_rank() || of_inputs.rank() != 2 || of_inputs.dim(1) < 0) {
    at.Fail(InvalidArgument("a sampled loss needs inputs [batch, n] with a known n, but '", inputs.name(),
                            "' has shape ", of_inputs.DebugString()));
    return {};
  }
  const int64_t width = of_inputs.dim(1), num_true = o.num_true;
  const DType dtype = BaseType(inputs.dtype());
  const auto ints = [&](std::vector<int64_t> v) { return Const(s, Literal(Tensor::Vector<int64_t>(v))); };
  const Output wide = CastTo(s, labels, DType::kInt64);
  const SampledClasses drawn = o.sampled.classes.valid() ? o.sampled
                                                         : SampleClasses(s, wide, num_true, num_sampled, num_classes,
                                                                         ClassSampler::kLogUniform, true, o.seed);
  // One lookup of all: rows of the true classes, then those of the draws.
  const Output flat = Build(s, "Reshape", {wide, ints({-1})});
  const Output ids = EmitLists(s, "ConcatV2", {InputList({flat, drawn.classes}), InputList({Input(0)})}).output(0);
  const Output all_w = EmbeddingLookup(s, weights, ids, o.parting);
  const Output all_b = EmbeddingLookup(s, biases, ids, o.parting);
  const Output number = Build(s, "Size", {flat}, {{"out_type", DType::kInt64}});
  const Output one = Build(s, "Reshape", {number, ints({1})});
  const auto pair = [&](const Output& first, int64_t second) {
    return EmitLists(s, "ConcatV2", {InputList({first, ints({second})}), InputList({Input(0)})}).output(0);
  };
  const Output true_w = Build(s, "Slice", {all_w, ints({0, 0}), pair(one, -1)});
  const Output sampled_w = Build(s, "Slice", {all_w, pair(one, 0), ints({-1, -1})});
  const Output true_b = Build(s, "Slice", {all_b, ints({0}), one});
  const Output sampled_b = Build(s, "Slice", {all_b, one, ints({-1})});

  Output sampled = Build(s, "MatMul", {inputs, sampled_w}, {{"transpose_b", true}});
  sampled = Build(s, "AddV2", {sampled, sampled_b});
  const Output rows = Build(s, "Reshape", {true_w, ints({-1, num_true, width})});
  const Output products = Build(s, "Mul", {Build(s, "ExpandDims", {inputs, 1}), rows});
  Output known = Build(s, "Sum", {products, Const(s, {2})});
  known = Build(s, "AddV2", {known, Build(s, "Reshape", {true_b, ints({-1, num_true})})});
  if (o.remove_accidental_hits) {
    const Operation hits = EmitOp(s, "ComputeAccidentalHits", {wide, drawn.classes}, {{"num_true", num_true}});
    const Output row = CastTo(s, hits.output(0), DType::kInt64);
    const Output places = EmitLists(s, "Pack", {InputList({row, hits.output(1)})}, {{"axis", 1}}).output(0);
    const Output shape = Build(s, "Shape", {sampled}, {{"out_type", DType::kInt64}});
    const Output lowest = Build(s, "ScatterNd", {places, CastTo(s, hits.output(2), dtype), shape});
    sampled = Build(s, "AddV2", {sampled, lowest});
  }
  known = Build(s, "Sub", {known, CastTo(s, Build(s, "Log", {drawn.expected_true}), dtype)});
  sampled = Build(s, "Sub", {sampled, CastTo(s, Build(s, "Log", {drawn.expected_sampled}), dtype)});
  const auto beside = [&](const Output& a, const Output& b) {
    return EmitLists(s, "ConcatV2", {InputList({a, b}), InputList({Input(1)})}).output(0);
  };
  const Output share = Build(s, "RealDiv", {Build(s, "OnesLike", {known}), static_cast<double>(num_true)});
  return {beside(known, sampled), beside(share, Build(s, "ZerosLike", {sampled}))};
}

SampledClasses Sampled(const ScopeAt& at, const char* name, const Output& labels, AttrMap attrs, int64_t seed) {
  if (seed != 0) {
    attrs.Set("seed", int64_t{87654321});
    attrs.Set("seed2", seed);
  }
  const Operation op = EmitOp(at, name, {CastTo(at, labels, DType::kInt64)}, std::move(attrs));
  return {op.output(0), op.output(1), op.output(2)};
}

}  // namespace

SampledClasses SampleClasses(const ScopeAt& at, const Output& labels, int64_t num_true, int64_t num_sampled,
                             int64_t num_classes, ClassSampler sampler, bool unique, int64_t seed) {
  if (sampler == ClassSampler::kAll && num_sampled != num_classes) {
    at.Fail(InvalidArgument("all ", num_classes, " classes are sampled, but num_sampled is ", num_sampled));
    return {};
  }
  AttrMap attrs = {{"num_true", num_true}, {"num_sampled", num_sampled}, {"unique", unique}};
  if (sampler != ClassSampler::kAll) attrs.Set("range_max", num_classes);
  const char* op = "";
  switch (sampler) {
    case ClassSampler::kLogUniform:
      op = "LogUniformCandidateSampler";
      break;
    case ClassSampler::kUniform:
      op = "UniformCandidateSampler";
      break;
    case ClassSampler::kLearnedUnigram:
      op = "LearnedUnigramCandidateSampler";
      break;
    case ClassSampler::kAll:
      op = "AllCandidateSampler";
      break;
  }
  return Sampled(at, op, labels, std::move(attrs), seed);
}

SampledClasses SampleClassesByWeight(const ScopeAt& at, const Output& labels, int64_t num_true, int64_t num_sampled,
                                     const std::vector<float>& weights, float distortion, bool unique, int64_t seed) {
  return Sampled(at, "FixedUnigramCandidateSampler", labels,
                 {{"num_true", num_true},
                  {"num_sampled", num_sampled},
                  {"unique", unique},
                  {"range_max", static_cast<int64_t>(weights.size())},
                  {"distortion", distortion},
                  {"unigrams", weights}},
                 seed);
}

Output NceLoss(const ScopeAt& at, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
               const Output& labels, const Output& inputs, int64_t num_sampled, int64_t num_classes,
               const SampledLossOptions& options) {
  const Scope s = at.Sub("nce_loss");
  const Logits l = SampledLogits(s, weights, biases, labels, inputs, num_sampled, num_classes, options);
  if (!s.ok()) return {};
  // The cross entropy of sigmoids: max(x, 0) - x z + log(1 + exp(-|x|)).
  const Output& x = l.logits;
  const Output linear = Build(s, "Sub", {Build(s, "Relu", {x}), Build(s, "Mul", {x, l.labels})});
  const Output rest = Build(s, "Log1p", {Build(s, "Exp", {Build(s, "Neg", {Build(s, "Abs", {x})})})});
  return Build(s, "Sum", {Build(s, "AddV2", {linear, rest}), Const(s, {1})});
}

Output SampledSoftmaxLoss(const ScopeAt& at, const std::vector<Variable>& weights, const std::vector<Variable>& biases,
                          const Output& labels, const Output& inputs, int64_t num_sampled, int64_t num_classes,
                          SampledLossOptions options) {
  options.remove_accidental_hits = true;
  const Scope s = at.Sub("sampled_softmax_loss");
  const Logits l = SampledLogits(s, weights, biases, labels, inputs, num_sampled, num_classes, options);
  if (!s.ok()) return {};
  return EmitOp(s, "SoftmaxCrossEntropyWithLogits", {l.logits, l.labels}).output(0);
}

}  // namespace troupe::train
