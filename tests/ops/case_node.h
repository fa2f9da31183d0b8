// The node of a recorded case.
#ifndef TROUPE_TESTS_OPS_CASE_NODE_H_
#define TROUPE_TESTS_OPS_CASE_NODE_H_

#include <string>

#include "tests/cases/case_file.h"
#include "troupe/graph.h"

namespace troupe::test {

// Without its inputs; the attrs that these determine are set.
inline absl::StatusOr<Node*> AddCaseNode(const Case& c, const std::string& name, Graph* graph) {
  TROUPE_ASSIGN_OR_RETURN(const OpDef* op, OpRegistry::Global().LookUp(c.op));
  AttrMap attrs = c.attrs;
  size_t at = 0, list = 0;
  for (const ArgDef& arg : op->inputs) {
    const size_t n = arg.IsList() ? static_cast<size_t>(c.list_sizes[list++]) : 1;
    if (!arg.number_attr.empty()) attrs.Set(arg.number_attr, static_cast<int64_t>(n));
    if (!arg.type_attr.empty() && !attrs.Has(arg.type_attr)) attrs.Set(arg.type_attr, c.inputs[at].dtype());
    if (!arg.type_list_attr.empty() && !attrs.Has(arg.type_list_attr)) {
      std::vector<DType> types;
      for (size_t i = 0; i < n; ++i) types.push_back(c.inputs[at + i].dtype());
      attrs.Set(arg.type_list_attr, std::move(types));
    }
    at += n;
  }
  return graph->AddNode(name, c.op, std::move(attrs));
}

}  // namespace troupe::test

#endif  // TROUPE_TESTS_OPS_CASE_NODE_H_
