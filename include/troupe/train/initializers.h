// Initial values of variables: functions from a shape and a type to a tensor of the graph.
//
//   Variable w(scope.WithOpName("w"), init::GlorotUniform()(scope, {784, 100}, DType::kFloat));
//
// With seed 0 (the default) each session draws other numbers; with any other seed each session
// draws the same ones.
//
// Source of the semantics: tf.initializers of TensorFlow 1, whose names and distributions these
// have: Glorot and Bengio (2010), He et al. (2015), LeCun et al. (1998), Saxe et al. (2014) for
// Orthogonal. The type is a floating one (Zeros, Ones and Constant: any number); else, or where the
// shape does not fit, the scope has an error.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_INITIALIZERS_H_
#define TROUPE_TRAIN_INITIALIZERS_H_

#include <functional>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace troupe {
namespace TROUPE_EXPORT init {

using Initializer = std::function<Output(const ScopeAt& at, const TensorShape& shape, DType dtype)>;

Initializer Zeros();
Initializer Ones();
Initializer Constant(double value);
Initializer RandomUniform(double min = -0.05, double max = 0.05, int64_t seed = 0);
Initializer RandomNormal(double mean = 0.0, double stddev = 0.05, int64_t seed = 0);
// Normal, with what lies more than two standard deviations from the mean drawn again.
Initializer TruncatedNormal(double mean = 0.0, double stddev = 0.05, int64_t seed = 0);

enum class FanMode { kFanIn, kFanOut, kFanAvg };
enum class Distribution { kTruncatedNormal, kUntruncatedNormal, kUniform };
// Variance scale / n, where n is the number of inputs of a unit, of its outputs, or their mean. For
// a kernel of a convolution [..., in, out] both are multiplied by the size of its window.
Initializer VarianceScaling(double scale = 1.0, FanMode mode = FanMode::kFanIn,
                            Distribution distribution = Distribution::kTruncatedNormal, int64_t seed = 0);
Initializer GlorotUniform(int64_t seed = 0);
Initializer GlorotNormal(int64_t seed = 0);
Initializer HeUniform(int64_t seed = 0);
Initializer HeNormal(int64_t seed = 0);
Initializer LecunUniform(int64_t seed = 0);
Initializer LecunNormal(int64_t seed = 0);

// For shapes of rank 2 and more, seen as a matrix [all but the last, last]: its rows, or its
// columns where there are more rows than columns, are orthogonal and have length `gain`.
Initializer Orthogonal(double gain = 1.0, int64_t seed = 0);

// The inputs and outputs of one unit of a layer whose weights have this shape.
void ComputeFans(const TensorShape& shape, double* fan_in, double* fan_out);

}  // namespace init
}  // namespace troupe

#endif  // TROUPE_TRAIN_INITIALIZERS_H_
