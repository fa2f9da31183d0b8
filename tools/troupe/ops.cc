// troupe ops: what there is to build graphs of.
#include <algorithm>

#include "tools/troupe/commands.h"
#include "tools/troupe/output.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/text.h"

namespace troupe::tool {
namespace {

// "values: N * T", as in the op's definition.
std::string ArgText(const ArgDef& a) {
  std::string type = !a.type_list_attr.empty() ? a.type_list_attr
                     : !a.type_attr.empty()    ? a.type_attr
                                               : std::string(Name(a.type));
  if (!a.number_attr.empty()) type = StrCat(a.number_attr, " * ", type);
  if (a.is_ref) type = StrCat("Ref(", type, ")");
  return StrCat(a.name, ": ", type);
}

std::string ArgsText(const std::vector<ArgDef>& args) {
  std::vector<std::string> texts;
  for (const ArgDef& a : args) texts.push_back(ArgText(a));
  return StrJoin(texts, ", ");
}

std::string AttrDefText(const AttrDef& a) {
  std::string kind = a.kind, allowed;
  if (!a.allowed_types.empty()) {
    std::vector<std::string_view> names;
    for (DType t : a.allowed_types) names.push_back(Name(t));
    allowed = StrJoin(names, ", ");
  } else if (!a.allowed_strings.empty()) {
    allowed = StrCat("\"", StrJoin(a.allowed_strings, "\", \""), "\"");
  }
  std::string s = StrCat(a.name, ": ", kind);
  if (!allowed.empty()) StrAppend(&s, " in {", allowed, "}");
  if (a.has_minimum) StrAppend(&s, " >= ", a.minimum);
  if (a.default_value.has_value()) StrAppend(&s, " = ", AttrText(a.default_value));
  return s;
}

std::string TraitsText(const OpDef& op) {
  std::vector<std::string> traits;
  if (op.stateful()) traits.push_back("stateful");
  if (op.Has(OpTrait::kCommutative)) traits.push_back("commutative");
  if (op.Has(OpTrait::kAggregate)) traits.push_back("aggregate");
  if (op.Has(OpTrait::kPlaceholder)) traits.push_back("must be fed");
  if (op.control_flow != ControlFlow::kNone) traits.push_back("control flow");
  if (op.deprecated_since > 0)
    traits.push_back(StrCat("deprecated since graph version ", op.deprecated_since, " (", op.deprecation, ")"));
  return StrJoin(traits, ", ");
}

// The types that each kernel for the CPU takes: "T in {float32, int32}".
std::vector<std::string> KernelTexts(const OpDef& op) {
  std::vector<std::string> lines;
  std::vector<std::pair<std::string, std::vector<DType>>>
      merged;  // kernels that differ in one attr's types are one line
  for (const KernelDef* k : KernelRegistry::Global().List(op.name)) {
    if (k->device_type != "CPU") continue;
    if (k->constraints.size() == 1 && k->label.empty()) {
      const auto& c = k->constraints[0];
      const auto it = std::find_if(merged.begin(), merged.end(), [&](const auto& m) { return m.first == c.attr; });
      auto& types = it == merged.end() ? merged.emplace_back(c.attr, std::vector<DType>{}).second : it->second;
      for (DType t : c.types) {
        if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
      }
      continue;
    }
    std::string s;
    for (const auto& c : k->constraints) {
      std::vector<std::string_view> names;
      for (DType t : c.types) names.push_back(Name(t));
      StrAppend(&s, s.empty() ? "" : "; ", c.attr, " in {", StrJoin(names, ", "), "}");
    }
    if (s.empty()) s = "any types";
    if (!k->label.empty()) StrAppend(&s, " (label ", k->label, ")");
    if (std::find(lines.begin(), lines.end(), s) == lines.end()) lines.push_back(s);
  }
  for (auto& [attr, types] : merged) {
    std::sort(types.begin(), types.end());
    std::vector<std::string_view> names;
    for (DType t : types) names.push_back(Name(t));
    lines.push_back(StrCat(attr, " in {", StrJoin(names, ", "), "}"));
  }
  return lines;
}

void Show(const OpDef& op) {
  std::string s = StrCat(op.name, "(", ArgsText(op.inputs), ") -> (", ArgsText(op.outputs), ")\n");
  for (const std::string& line : StrSplit(op.doc, '\n')) {
    if (!line.empty()) StrAppend(&s, "    ", line, "\n");
  }
  for (const AttrDef& a : op.attrs) StrAppend(&s, "  attr ", AttrDefText(a), "\n");
  if (const std::string traits = TraitsText(op); !traits.empty()) StrAppend(&s, "  ", traits, "\n");
  const std::vector<std::string> kernels = KernelTexts(op);
  if (kernels.empty()) s += "  no kernel for the CPU\n";
  for (const std::string& k : kernels) StrAppend(&s, "  CPU: ", k, "\n");
  if (op.gradient == nullptr) StrAppend(&s, "  no gradient: ", op.not_differentiable, "\n");
  Print(s);
}

}  // namespace

int OpsCommand(const OpsFlags& flags) {
  std::vector<const OpDef*> ops;
  std::string missing;
  for (const std::string& name : flags.names) {
    const auto op = OpRegistry::Global().LookUp(name);
    if (op.ok()) {
      ops.push_back(*op);
    } else {
      StrAppend(&missing, missing.empty() ? "" : "; ", op.status().message());
    }
  }
  if (!missing.empty()) return Complain(kFailed, missing);
  if (flags.names.empty()) ops = OpRegistry::Global().List();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (flags.names_only) {
      Print(StrCat(ops[i]->name, "\n"));
    } else {
      if (i > 0) Print("\n");
      Show(*ops[i]);
    }
  }
  return kOk;
}

}  // namespace troupe::tool
