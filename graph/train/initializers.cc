#include "troupe/train/initializers.h"

#include <algorithm>
#include <cmath>

#include "graph/train/build.h"
#include "troupe/const.h"

namespace troupe::init {
namespace {

using train::Build;

Output ShapeConst(const Scope& s, const TensorShape& shape) {
  const std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  return Const(s.WithOpName("shape"), Literal(Tensor::Vector<int64_t>(absl::MakeConstSpan(dims))));
}

Output Filled(const ScopeAt& at, const char* name, double value, const TensorShape& shape, DType dtype) {
  const Scope s = at.Sub(name);
  // A whole number is one in every type.
  const Output v = value == std::floor(value) ? Const(s.WithOpName("value"), static_cast<int64_t>(value), dtype)
                                              : Const(s.WithOpName("value"), value, dtype);
  return Build(s, "Fill", {v.valid() ? ShapeConst(s, shape) : v, v}, {{"index_type", DType::kInt64}});
}

// op(shape) * scale + offset
Output Random(const ScopeAt& at, const char* name, const char* op, const TensorShape& shape, DType dtype, double scale,
              double offset, int64_t seed) {
  const Scope s = at.Sub(name);
  if (!IsFloating(dtype) && s.ok()) {
    at.Fail(InvalidArgument("random initial values must be of a floating type, not ", Name(dtype)));
    return {};
  }
  // As TensorFlow: the graph's own seed, and the op's.
  AttrMap attrs = {{"dtype", dtype}};
  if (seed != 0) {
    attrs.Set("seed", int64_t{87654321});
    attrs.Set("seed2", seed);
  }
  Output r = Build(s, op, {ShapeConst(s, shape)}, std::move(attrs));
  if (scale != 1) r = Build(s, "Mul", {r, scale});
  if (offset != 0) r = Build(s, "AddV2", {r, offset});
  return r;
}

}  // namespace

Initializer Zeros() { return Constant(0); }
Initializer Ones() { return Constant(1); }
Initializer Constant(double value) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) {
    return Filled(at, value == 0 ? "zeros" : value == 1 ? "ones" : "constant", value, shape, dtype);
  };
}

Initializer RandomUniform(double min, double max, int64_t seed) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) {
    return Random(at, "random_uniform", "RandomUniform", shape, dtype, max - min, min, seed);
  };
}
Initializer RandomNormal(double mean, double stddev, int64_t seed) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) {
    return Random(at, "random_normal", "RandomStandardNormal", shape, dtype, stddev, mean, seed);
  };
}
Initializer TruncatedNormal(double mean, double stddev, int64_t seed) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) {
    return Random(at, "truncated_normal", "TruncatedNormal", shape, dtype, stddev, mean, seed);
  };
}

void ComputeFans(const TensorShape& shape, double* fan_in, double* fan_out) {
  const int rank = shape.rank();
  *fan_in = *fan_out = 1;
  if (rank == 1) *fan_in = *fan_out = static_cast<double>(shape.dim(0));
  if (rank < 2) return;
  double window = 1;
  for (int i = 0; i < rank - 2; ++i) window *= static_cast<double>(shape.dim(i));
  *fan_in = window * static_cast<double>(shape.dim(rank - 2));
  *fan_out = window * static_cast<double>(shape.dim(rank - 1));
}

Initializer VarianceScaling(double scale, FanMode mode, Distribution distribution, int64_t seed) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) {
    double in, out;
    ComputeFans(shape, &in, &out);
    const double n = mode == FanMode::kFanIn ? in : mode == FanMode::kFanOut ? out : (in + out) / 2;
    const double variance = scale / std::max(1.0, n);
    switch (distribution) {
      case Distribution::kUniform: {
        const double limit = std::sqrt(3 * variance);
        return RandomUniform(-limit, limit, seed)(at, shape, dtype);
      }
      case Distribution::kUntruncatedNormal:
        return RandomNormal(0, std::sqrt(variance), seed)(at, shape, dtype);
      case Distribution::kTruncatedNormal:
        break;
    }
    // The standard deviation of a standard normal distribution that is cut at two.
    return TruncatedNormal(0, std::sqrt(variance) / 0.87962566103423978, seed)(at, shape, dtype);
  };
}

Initializer GlorotUniform(int64_t seed) { return VarianceScaling(1, FanMode::kFanAvg, Distribution::kUniform, seed); }
Initializer GlorotNormal(int64_t seed) {
  return VarianceScaling(1, FanMode::kFanAvg, Distribution::kTruncatedNormal, seed);
}
Initializer HeUniform(int64_t seed) { return VarianceScaling(2, FanMode::kFanIn, Distribution::kUniform, seed); }
Initializer HeNormal(int64_t seed) { return VarianceScaling(2, FanMode::kFanIn, Distribution::kTruncatedNormal, seed); }
Initializer LecunUniform(int64_t seed) { return VarianceScaling(1, FanMode::kFanIn, Distribution::kUniform, seed); }
Initializer LecunNormal(int64_t seed) {
  return VarianceScaling(1, FanMode::kFanIn, Distribution::kTruncatedNormal, seed);
}

Initializer Orthogonal(double gain, int64_t seed) {
  return [=](const ScopeAt& at, const TensorShape& shape, DType dtype) -> Output {
    if (shape.rank() < 2) {
      at.Fail(InvalidArgument("orthogonal values need a shape of rank 2 or more, not ", shape.DebugString()));
      return {};
    }
    const Scope s = at.Sub("orthogonal");
    int64_t rows = 1;
    for (int d = 0; d + 1 < shape.rank(); ++d) rows *= shape.dim(d);
    const int64_t columns = shape.dim(shape.rank() - 1);
    const TensorShape tall({std::max(rows, columns), std::min(rows, columns)});
    const Operation qr = EmitOp(s, "Qr", {RandomNormal(0, 1, seed)(s, tall, dtype)});
    // Signs that make the decomposition unique, so that all directions are equally likely.
    const Output signs = Build(s, "Sign", {Build(s, "MatrixDiagPart", {qr.output(1)})});
    Output q = Build(s, "Mul", {qr.output(0), signs});
    if (rows < columns) q = Build(s, "Transpose", {q, Const(s, {1, 0})});
    const Output whole = Build(s, "Reshape", {q, ShapeConst(s, shape)});
    return gain == 1 ? whole : Build(s, "Mul", {whole, gain});
  };
}

}  // namespace troupe::init
