#include "troupe/train/global_step.h"

#include "graph/api/scope_state.h"
#include "troupe/const.h"

namespace troupe::train {

Variable GetOrCreateGlobalStep(const ScopeAt& at) {
  if (const std::vector<Variable> found = VariablesIn(at, kGlobalStep); !found.empty()) return found[0];
  const ScopeAt top(Scope(internal::TopLevel(*at->state()), kGlobalStep), at.location());
  VariableOptions options;
  options.trainable = false;
  options.collections = {kGlobalVariables, kGlobalStep};
  return Variable(top, int64_t{0}, options);
}

}  // namespace troupe::train
