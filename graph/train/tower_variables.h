// What the functions of towers get when they make variables: those of the first tower, or mirrors
// of them.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_TOWER_VARIABLES_H_
#define TROUPE_GRAPH_TRAIN_TOWER_VARIABLES_H_

#include <string>
#include <vector>

#include "graph/api/scope_state.h"
#include "troupe/variable.h"

namespace troupe::train {

class TowerVariables : public internal::VariableMaker {
 public:
  // `outside`: where shared variables are made; mirrored ones are made where their tower is.
  TowerVariables(const Scope& outside, bool mirrored) : outside_(outside), mirrored_(mirrored) {}

  // Makes what `tower` does with a scope of this prefix use these variables.
  template <class F>
  void During(const std::string& prefix, F&& tower) {
    prefix_ = prefix;
    made_.emplace_back();
    internal::ScopeShared& shared = *outside_.state()->shared;
    internal::VariableMaker* const before = shared.variable_maker;
    shared.variable_maker = this;
    tower();
    shared.variable_maker = before;
  }
  void Make(const ScopeAt& at, const Input& initial_value, const VariableOptions& options, Variable* made) override;
  // By tower, in the order in which they were made. Shared: of the first alone.
  const std::vector<std::vector<Variable>>& made() const { return made_; }
  const std::vector<bool>& trainable() const { return trainable_; }

 private:
  std::string NameFor(const ScopeAt& at, const VariableOptions& options) const;
  Variable MakeOne(const ScopeAt& at, const Scope& where, const Input& initial_value, const VariableOptions& options);

  const Scope outside_;
  const bool mirrored_;
  std::string prefix_;
  std::vector<std::vector<Variable>> made_;
  std::vector<std::string> names_;  // that were asked for
  std::vector<bool> trainable_;
};

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_TOWER_VARIABLES_H_
