// Writes the typed builders of ops as C++: declarations (troupe/ops.h) and definitions (ops.cc).
//
// Of one op:
//   Output MatMul(const ScopeAt& scope, const Input& a, const Input& b, const MatMulAttrs& attrs = {});
// Inputs come first, in the order of the definition; then attrs without a default that the inputs
// do not tell; attrs with a default are fields of <Op>Attrs. An op with one output returns Output
// (OutputList when it is a list), one with several a struct with a field for each, one with none an
// Operation. Ops whose names begin with '_' are for passes and have no builder.
//
// It stands apart from the program that writes the files so that it can be tested on sample ops.
// Thread rule: pure functions.
#ifndef TROUPE_TOOLS_GENOPS_BUILDERS_H_
#define TROUPE_TOOLS_GENOPS_BUILDERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "troupe/op_def.h"

namespace troupe::genops {

// False for ops that get no builder.
bool HasBuilder(const OpDef& op);
// What one op adds to the header and to the source.
std::string Declaration(const OpDef& op);
std::string Definition(const OpDef& op);
// The files.
std::string Header(const std::vector<const OpDef*>& ops);
std::string Source(const std::vector<const OpDef*>& ops);
// `name`, changed where C++ or the builders' own names forbid it ("default" -> "default_").
std::string Identifier(std::string_view name);

}  // namespace troupe::genops

#endif  // TROUPE_TOOLS_GENOPS_BUILDERS_H_
