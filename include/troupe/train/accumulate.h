// Gradients of several steps added up, and applied once: a batch as large as the memory of several.
//
// Run what Add returns for each part of the batch, then what Apply returns, once. The sums are
// variables "<variable>/<name>" beside the variables, and a counter "<name>/count". Sparse
// gradients are added to their rows; the sum that is applied is dense.
//
// Source of the semantics: Troupe's own; the mean of the gradients is that of a batch whose parts
// are equally large. Errors while the graph is built are the scope's.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_TRAIN_ACCUMULATE_H_
#define TROUPE_TRAIN_ACCUMULATE_H_

#include <string>
#include <vector>

#include "troupe/export.h"
#include "troupe/train/optimizer.h"

namespace troupe {
namespace TROUPE_EXPORT train {

class GradientAccumulator {
 public:
  explicit GradientAccumulator(std::string name = "GradientAccumulator") : name_(std::move(name)) {}
  // Adds the gradients to the sums, which are made on the first call; it is called once. Those that
  // are invalid are left out.
  Operation Add(const ScopeAt& at, const std::vector<GradAndVar>& grads);
  // Updates the variables by the means of the gradients that were added, and begins anew. Nothing
  // happens to the sums when none were added: the step is FAILED_PRECONDITION.
  Operation Apply(const ScopeAt& at, Optimizer& optimizer, const Variable& global_step = {});
  // How often gradients were added since the last update: int64. Invalid before Add.
  const Variable& count() const { return count_; }

 private:
  std::string name_;
  std::vector<GradAndVar> sums_;  // grad: the sum, a Variable
  std::vector<Variable> variables_;
  Variable count_;
};

}  // namespace train
}  // namespace troupe

#endif  // TROUPE_TRAIN_ACCUMULATE_H_
