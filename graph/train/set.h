// A variable set to a value, as an operation: Variable::Assign reads the variable afterwards, which
// here nobody wants.
//
// Thread rule: as for the scope, one thread at a time.
#ifndef TROUPE_GRAPH_TRAIN_SET_H_
#define TROUPE_GRAPH_TRAIN_SET_H_

#include "graph/train/build.h"
#include "troupe/variable.h"

namespace troupe::train {

inline Operation SetTo(const ScopeAt& at, const Variable& variable, const Output& value) {
  if (variable.is_resource())
    return EmitOp(at, "AssignVariableOp", {variable.handle(), value}, {{"dtype", variable.variable_dtype()}});
  const bool known = variable.variable_shape().IsFullyDefined();
  return EmitOp(at, "Assign", {variable.handle(), value}, {{"validate_shape", known}});
}

}  // namespace troupe::train

#endif  // TROUPE_GRAPH_TRAIN_SET_H_
