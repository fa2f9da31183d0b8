// Moving averages of variables, which often do better in a test than the variables themselves. An
// update is average -= (1 - decay) * (average - variable).
//
// Apply is built behind the update of the variables (`root.WithControlDependencies(step)`), and run
// in its place. A test reads the averages into the variables, by a Saver of VariablesToRestore.
//
// An average is a variable "<variable>/<name>" beside it, not trainable, and begins with the
// variable's value. The variable is in the collection "moving_average_variables".
//
// Source of the semantics: tf.train.ExponentialMovingAverage, whose names and values these are.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_MOVING_AVERAGE_H_
#define TROUPE_TRAIN_MOVING_AVERAGE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

inline constexpr char kMovingAverageVariables[] = "moving_average_variables";

struct MovingAverageOptions {
  // A scalar number: the decay of a step is at most (1 + num_updates) / (10 + num_updates), so that
  // an average moves faster in the beginning. A variable is read after the control dependencies of
  // Apply's scope, as the averaged variables are.
  Output num_updates;
  // Averages of tensors (not those of variables) begin with zero; this divides the zeros out.
  bool zero_debias = false;
  std::string name = "ExponentialMovingAverage";
};

class ExponentialMovingAverage {
 public:
  explicit ExponentialMovingAverage(double decay, MovingAverageOptions options = {})
      : decay_(decay), options_(std::move(options)) {}
  // One update of the averages of `vars`; of all trainable variables when there are none given. The
  // averages are made on the first call.
  Operation Apply(const ScopeAt& at, const std::vector<Variable>& vars = {});
  // The same of tensors, whose static shapes must be known. Their averages begin with zeros, and
  // are named after the tensors' nodes.
  Operation ApplyToTensors(const ScopeAt& at, const std::vector<Output>& tensors);
  // The average of a variable or a tensor; an invalid Variable before Apply.
  Variable Average(const Output& of) const;
  // "<variable>/<name>", also before Apply.
  std::string AverageName(const Variable& var) const;
  // What to read from a checkpoint to run with the averages: for each name in it the variable that
  // gets the value. Trainable variables and those that have an average are read from the average's
  // name, all other global ones from their own.
  std::map<std::string, Variable> VariablesToRestore(const ScopeAt& at) const;

 private:
  Output Decay(const Scope& s) const;
  Operation Update(const ScopeAt& at, const std::vector<Output>& values, const std::vector<Variable>& averages,
                   bool debias);
  Variable Zeros(const Scope& scope, const std::string& name, DType dtype, const TensorShape& shape) const;
  double decay_;
  MovingAverageOptions options_;
  std::map<std::string, Variable, std::less<>> averages_;  // by the name of the variable or tensor
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_MOVING_AVERAGE_H_
