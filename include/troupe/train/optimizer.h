// Optimizers: from a loss to an operation that, run once, changes the variables so that the loss
// falls.
//
//   train::Adam adam(0.001);
//   Operation step = adam.Minimize(root, loss);
//   Operation init = GlobalVariablesInitializer(root);  // after Minimize: slots are variables, too
//   absl::Status status = session->Extend(*root.graph());
//   if (status.ok()) status = session->Run({}, {}, {init}, nullptr);
//   for (int i = 0; i < 100 && status.ok(); ++i) status = session->Run(feeds, {}, {step}, nullptr);
//
// Minimize calls ComputeGradients, then ApplyGradients; call these two yourself to inspect, clip or
// exchange gradients in between.
//
// The update has the form that TensorFlow gives it: one Apply node per variable, all independent of
// each other; a NoOp "update" after all of them; and, when there is a global step, its increment
// after that.
//
// The gradient of a table of which rows are gathered consists of slices (troupe/indexed_slices.h).
// Then the update is that of these rows alone, and nothing of the table's size is made.
//
// Slots (a momentum, Adam's two moments) are variables named "<variable>/<Slot>" on the variable's
// device. They are in the collection "variables", but not trainable.
//
// Source of the semantics: tf.train.Optimizer; section 4.1 of TensorFlow's white paper for the
// gradients. Variables and gradients are of floating type. Errors are the scope's.
//
// Thread rule: an optimizer belongs, with the scopes that it is given, to one thread at a time.
#ifndef TROUPE_TRAIN_OPTIMIZER_H_
#define TROUPE_TRAIN_OPTIMIZER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/gradients.h"
#include "troupe/indexed_slices.h"
#include "troupe/scope.h"
#include "troupe/variable.h"

namespace troupe {
namespace TROUPE_EXPORT train {

struct GradAndVar {
  Output grad;  // invalid when the loss does not depend on the variable
  Variable var;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // The variables are those of collection "trainable_variables" when `vars` is empty. Their order
  // is kept.
  std::vector<GradAndVar> ComputeGradients(const ScopeAt& at, const Output& loss,
                                           const std::vector<Variable>& vars = {},
                                           const GradientOptions& options = {}) const;
  // The scope's error when no variable has a gradient. `global_step` (optional, an integer scalar)
  // grows by one after the updates.
  Operation ApplyGradients(const ScopeAt& at, const std::vector<GradAndVar>& grads, const Variable& global_step = {});
  // Both at once. `loss` may have any shape; the sum of its elements is what falls.
  Operation Minimize(const ScopeAt& at, const Output& loss, const std::vector<Variable>& vars = {},
                     const Variable& global_step = {}, const GradientOptions& options = {});

  const std::string& name() const { return name_; }
  // Invalid when there is none (yet).
  Variable Slot(const Variable& var, std::string_view slot) const;

 protected:
  explicit Optimizer(std::string name) : name_(std::move(name)) {}
  // Adds the update of one variable; `scope` is on the variable's device.
  virtual Operation Apply(const Scope& scope, const Output& grad, const Variable& var) = 0;
  // As Apply, for a gradient that consists of slices, in which an index may come more than once.
  // Otherwise it is made dense, and given to Apply.
  virtual Operation ApplySlices(const Scope& scope, const IndexedSlices& grad, const Variable& var) {
    return Apply(scope, FromSlices(scope, grad), var);
  }
  // Called before the first Apply and after the last: what all variables share. Finish's operations
  // belong to the update.
  virtual void Prepare(const Scope&, const std::vector<GradAndVar>& /*grads*/) {}
  virtual std::vector<Operation> Finish(const Scope&, const std::vector<Operation>& /*updates*/) { return {}; }

  // "ResourceApplyX" or "ApplyX".
  static std::string ApplyOp(const Variable& var, std::string_view op) {
    return (var.is_resource() ? "Resource" : "") + std::string(op);
  }
  // The slot, made on the first call: zeros of the variable's shape.
  Variable ZerosSlot(const Scope& scope, const Variable& var, const std::string& slot) {
    return FilledSlot(scope, var, slot, 0);
  }
  // As ZerosSlot, with this number in place of zero.
  Variable FilledSlot(const Scope& scope, const Variable& var, const std::string& slot, double value);
  // A variable that belongs to no single one, like Adam's powers; named `name`, beside `like`.
  static Variable SharedVariable(const Scope& scope, const Variable& like, const std::string& name, double initial);

 private:
  std::string name_;
  std::map<std::string, Variable, std::less<>> slots_;  // by "<variable>/<slot>"
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_OPTIMIZER_H_
