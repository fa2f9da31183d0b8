// Combines several operations into one, and makes values wait for operations.
//
// Source of the semantics: tf.group, and TensorFlow's with_dependencies for After.
//
// Thread rule: as for Scope: all calls that build one graph come from one thread at a time.
#ifndef TROUPE_GROUP_H_
#define TROUPE_GROUP_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/scope.h"

namespace TROUPE_EXPORT troupe {

// A NoOp named "group_deps" (or by WithOpName) that runs after all of `ops`. Invalid ones are
// ignored. If all ask for the same device, it asks for that one, whatever the scope says (unless it
// colocates), so that a train op stands beside the variables that it updates.
Operation Group(const ScopeAt& at, const std::vector<Operation>& ops);
// `value` as soon as it and all of `ops` are done: an Identity, of value's dtype and shape.
Output After(const ScopeAt& at, const std::vector<Operation>& ops, const Output& value);

}  // namespace troupe

#endif  // TROUPE_GROUP_H_
