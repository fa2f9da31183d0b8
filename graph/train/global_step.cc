#include "troupe/train/global_step.h"

#include "graph/api/scope_state.h"
#include "troupe/const.h"

namespace troupe::train {

Variable GetOrCreateGlobalStep(const ScopeAt& at) {
  if (const std::vector<Variable> found = VariablesIn(at, kGlobalStep); !found.empty()) return found[0];
  auto s = std::make_shared<internal::ScopeState>(*at->state());
  s->prefix.clear();
  s->control.clear();
  s->context = nullptr;
  const ScopeAt top(Scope(std::move(s), kGlobalStep), at.location());
  VariableOptions options;
  options.trainable = false;
  options.collections = {kGlobalVariables, kGlobalStep};
  return Variable(top, int64_t{0}, options);
}

}  // namespace troupe::train
