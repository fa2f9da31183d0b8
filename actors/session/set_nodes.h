// The nodes by which Session::Set assigns a value to a variable: a placeholder that is fed with the
// value, and a node that assigns it.
//
// Thread rule: plain values; as for a std::string. A Variable belongs to the thread of its scope.
#ifndef TROUPE_ACTORS_SESSION_SET_NODES_H_
#define TROUPE_ACTORS_SESSION_SET_NODES_H_

#include <string>

#include "troupe/variable.h"

namespace troupe {

// INVALID_ARGUMENT when the variable is invalid, or the value has another type or shape than it.
absl::Status CheckSet(const Variable& variable, const Tensor& value);

struct SetNodes {
  explicit SetNodes(const Variable& variable);
  proto::GraphDef Graph() const;

  // The names of the nodes. They contain the type, so that a variable of another graph that has the
  // same name and another type does not get in the way.
  std::string assign, value;

 private:
  std::string variable_;
  DType type_;
  bool resource_, fully_defined_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_SESSION_SET_NODES_H_
