#include "tools/genops/builders.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::genops {

namespace {

constexpr std::string_view kReserved[] = {
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "compl", "concept",
    "const", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do", "double", "else",
    "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long",
    "mutable", "namespace", "new", "not", "operator", "or", "private", "protected", "public", "register", "requires",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "template", "this", "throw", "true", "try",
    "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor",
    // Macros of the C library and of compilers.
    "assert", "errno", "linux", "unix", "major", "minor", "stdin", "stdout", "stderr", "I",
    // Names that the builders use themselves.
    "scope", "attrs", "operation", "std", "troupe"};

constexpr const char* kTypeNames[kNumDTypes] = {
    "kInvalid",   "kFloat",  "kDouble",     "kInt32", "kUint8",    "kInt16",   "kInt8",     "kString",
    "kComplex64", "kInt64",  "kBool",       "kQint8", "kQuint8",   "kQint32",  "kBfloat16", "kQint16",
    "kQuint16",   "kUint16", "kComplex128", "kHalf",  "kResource", "kVariant", "kUint32",   "kUint64"};

std::string TypeText(DType t) {
  const std::string base = StrCat("DType::", kTypeNames[static_cast<int>(BaseType(t))]);
  return IsRef(t) ? StrCat("MakeRef(", base, ")") : base;
}

// The C++ type of an attr; "" when builders cannot take it.
std::string CppType(std::string_view kind) {
  if (kind.starts_with("list(")) {
    const std::string inner = CppType(kind.substr(5, kind.size() - 6));
    return inner.empty() ? "" : StrCat("std::vector<", inner, ">");
  }
  if (kind == "string") return "std::string";
  if (kind == "int") return "int64_t";
  if (kind == "float") return "float";
  if (kind == "bool") return "bool";
  if (kind == "type") return "DType";
  if (kind == "shape") return "PartialTensorShape";
  if (kind == "tensor") return "Tensor";
  if (kind == "func") return "FuncAttr";
  return "";
}

bool ByValue(std::string_view kind) { return kind == "int" || kind == "float" || kind == "bool" || kind == "type"; }

std::string FloatText(float f) {
  if (std::isnan(f)) return "std::numeric_limits<float>::quiet_NaN()";
  if (std::isinf(f))
    return f > 0 ? "std::numeric_limits<float>::infinity()" : "-std::numeric_limits<float>::infinity()";
  std::string s = StrCat(f);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s + "f";
}

std::string ShapeText(const PartialTensorShape& s) {
  if (!s.known_rank()) return "PartialTensorShape()";
  if (s.rank() == 0) return "PartialTensorShape(TensorShape())";
  return StrCat("PartialTensorShape({", StrJoin(s.dims(), ", "), "})");
}

template <class T, class F>
std::string ListText(const std::vector<T>& v, F&& text) {
  std::vector<std::string> parts;
  for (const auto& x : v) parts.push_back(text(x));
  return StrCat("{", StrJoin(parts, ", "), "}");
}

// A default value as a C++ initialiser; "" when there is no way to write it.
std::string ValueText(const AttrValue& v) {
  const auto quote = [](const std::string& s) { return StrCat("\"", CEscape(s), "\""); };
  if (const auto* s = v.As<std::string>()) return quote(*s);
  if (const auto* i = v.As<int64_t>())
    return *i == std::numeric_limits<int64_t>::min() ? "std::numeric_limits<int64_t>::min()" : StrCat(*i);
  if (const auto* f = v.As<float>()) return FloatText(*f);
  if (const auto* b = v.As<bool>()) return *b ? "true" : "false";
  if (const auto* t = v.As<DType>()) return TypeText(*t);
  if (const auto* s = v.As<PartialTensorShape>()) return ShapeText(*s);
  if (v.Kind() == "" || std::holds_alternative<EmptyList>(v.variant())) return "{}";
  if (const auto* l = v.As<std::vector<std::string>>()) return ListText(*l, quote);
  if (const auto* l = v.As<std::vector<int64_t>>()) return ListText(*l, [](int64_t x) { return StrCat(x); });
  if (const auto* l = v.As<std::vector<float>>()) return ListText(*l, FloatText);
  if (const auto* l = v.As<std::vector<bool>>())
    return ListText(*l, [](bool x) { return std::string(x ? "true" : "false"); });
  if (const auto* l = v.As<std::vector<DType>>()) return ListText(*l, TypeText);
  if (const auto* l = v.As<std::vector<PartialTensorShape>>()) return ListText(*l, ShapeText);
  return "";
}

// What a builder of the op looks like.
struct Plan {
  struct Attr {
    const AttrDef* def;
    std::string name, type;  // in C++
  };
  std::vector<Attr> required, optional;
};

bool ToldByInputs(const OpDef& op, const std::string& attr) {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](const ArgDef& a) {
    return a.type_attr == attr || a.number_attr == attr || a.type_list_attr == attr;
  });
}

Plan MakePlan(const OpDef& op) {
  Plan plan;
  for (const AttrDef& a : op.attrs) {
    if (ToldByInputs(op, a.name)) continue;
    const std::string type = CppType(a.kind);
    std::string name = Identifier(a.name);
    if (a.default_value.has_value()) {
      // A default that C++ cannot write is left to the definition.
      if (!type.empty() && !ValueText(a.default_value).empty()) plan.optional.push_back({&a, name, type});
    } else {
      for (const ArgDef& in : op.inputs) {
        if (Identifier(in.name) == name) name += "_attr";
      }
      plan.required.push_back({&a, name, type.empty() ? "AttrValue" : type});
    }
  }
  return plan;
}

std::string ReturnType(const OpDef& op) {
  if (op.outputs.empty()) return "Operation";
  if (op.outputs.size() == 1) return op.outputs[0].IsList() ? "OutputList" : "Output";
  return op.name + "Outputs";
}

// `text` as comment lines of at most 100 columns.
void Comment(std::string* out, std::string_view text, std::string_view indent) {
  std::string line;
  const auto flush = [&] {
    while (!line.empty() && (line.back() == '\\' || line.back() == ' ')) line.pop_back();
    StrAppend(out, indent, line.empty() ? "//" : "// ", line, "\n");
    line.clear();
  };
  for (const std::string& paragraph : StrSplit(text, '\n')) {
    for (const std::string& word : StrSplit(paragraph, ' ')) {
      if (word.empty()) continue;
      if (!line.empty() && line.size() + word.size() + indent.size() > 95) flush();
      if (!line.empty()) line += ' ';
      line += word;
    }
    if (!line.empty() || !paragraph.empty()) flush();
  }
}

std::string Signature(const OpDef& op, const Plan& plan, bool defaults) {
  std::string s = StrCat(ReturnType(op), " ", op.name, "(const ScopeAt& scope");
  for (const ArgDef& in : op.inputs) {
    StrAppend(&s, in.IsList() ? ", const InputList& " : ", const Input& ", Identifier(in.name));
  }
  for (const Plan::Attr& a : plan.required) {
    StrAppend(&s, ", ", ByValue(a.def->kind) ? a.type + " " : "const " + a.type + "& ", a.name);
  }
  if (!plan.optional.empty()) StrAppend(&s, ", const ", op.name, "Attrs& attrs", defaults ? " = {}" : "");
  return s + ")";
}

// Reductions: a value and the axes that go.
bool Reduces(const OpDef& op) {
  return op.inputs.size() == 2 && op.inputs[1].name == "reduction_indices" && !op.inputs[1].IsList() &&
         !MakePlan(op).optional.empty() && MakePlan(op).required.empty();
}

std::string ReduceAllSignature(const OpDef& op, std::string_view attrs) {
  return StrCat(ReturnType(op), " ", op.name, "(const ScopeAt& scope, const Input& ", Identifier(op.inputs[0].name),
                attrs, ")");
}

std::string ArgType(const ArgDef& a) {
  std::string t = !a.type_list_attr.empty() ? a.type_list_attr
                  : !a.type_attr.empty()    ? a.type_attr
                                            : std::string(Name(a.type));
  if (!a.number_attr.empty()) t = StrCat(a.number_attr, " * ", t);
  return a.is_ref ? StrCat("Ref(", t, ")") : t;
}

}  // namespace

std::string Identifier(std::string_view name) {
  std::string s;
  for (const char c : name) {
    const bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    s += alnum || c == '_' ? c : '_';
  }
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) s = "_" + s;
  return std::find(std::begin(kReserved), std::end(kReserved), s) != std::end(kReserved) ? s + "_" : s;
}

bool HasBuilder(const OpDef& op) {
  // Const is written by hand: it takes literals.
  return !op.name.starts_with('_') && op.name != "Const" && Identifier(op.name) == op.name;
}

std::string Declaration(const OpDef& op) {
  const Plan plan = MakePlan(op);
  std::string s;
  if (!plan.optional.empty()) {
    StrAppend(&s, "struct ", op.name, "Attrs {\n");
    for (const Plan::Attr& a : plan.optional) {
      StrAppend(&s, "  ", a.type, " ", a.name, " = ", ValueText(a.def->default_value), ";");
      if (!a.def->allowed_strings.empty()) StrAppend(&s, "  // one of: ", StrJoin(a.def->allowed_strings, ", "));
      s += "\n";
    }
    s += "};\n";
  }
  if (op.outputs.size() > 1) {
    StrAppend(&s, "struct ", op.name, "Outputs {\n");
    for (const ArgDef& out : op.outputs)
      StrAppend(&s, "  ", out.IsList() ? "OutputList " : "Output ", Identifier(out.name), ";\n");
    s += "  Operation operation;\n};\n";
  }
  Comment(&s, op.doc.empty() ? StrCat("Op ", op.name, ".") : op.doc, "");
  std::vector<std::string> args;
  for (const ArgDef& in : op.inputs) args.push_back(StrCat(Identifier(in.name), ": ", ArgType(in)));
  std::vector<std::string> outs;
  for (const ArgDef& out : op.outputs) outs.push_back(StrCat(Identifier(out.name), ": ", ArgType(out)));
  Comment(&s, StrCat("  (", StrJoin(args, ", "), ") -> (", StrJoin(outs, ", "), ")"), "");
  if (op.deprecated_since > 0) Comment(&s, StrCat("Deprecated: ", op.deprecation), "");
  StrAppend(&s, Signature(op, plan, true), ";\n");
  if (Reduces(op)) {
    Comment(&s, "Over all axes. Attrs are given by name: MeanAttrs{.keep_dims = true}.", "");
    StrAppend(&s, ReduceAllSignature(op, ""), ";\n", "template <std::same_as<", op.name, "Attrs> Attrs>\n",
              ReduceAllSignature(op, ", const Attrs& attrs"), " {\n  return ", op.name, "(scope, ",
              Identifier(op.inputs[0].name), ", AllAxes(scope, ", Identifier(op.inputs[0].name), "), attrs);\n}\n");
  }
  return s;
}

std::string Definition(const OpDef& op) {
  const Plan plan = MakePlan(op);
  std::string call = StrCat("Emit(scope, \"", op.name, "\", {");
  std::vector<std::string> args;
  for (const ArgDef& in : op.inputs) args.push_back(Identifier(in.name));
  StrAppend(&call, StrJoin(args, ", "), "}");
  std::vector<std::string> attrs;
  for (const Plan::Attr& a : plan.required) attrs.push_back(StrCat("{\"", a.def->name, "\", ", a.name, "}"));
  for (const Plan::Attr& a : plan.optional) attrs.push_back(StrCat("{\"", a.def->name, "\", attrs.", a.name, "}"));
  if (!attrs.empty()) StrAppend(&call, ", {", StrJoin(attrs, ", "), "}");
  call += ")";
  std::string s = Signature(op, plan, false) + " {\n";
  if (op.outputs.empty()) {
    StrAppend(&s, "  return ", call, ";\n");
  } else if (op.outputs.size() == 1) {
    if (op.outputs[0].IsList()) {
      StrAppend(&s, "  return OutputsOf(", call, ", \"", op.outputs[0].name, "\");\n");
    } else {
      StrAppend(&s, "  return ", call, ".output(0);\n");
    }
  } else {
    StrAppend(&s, "  const Operation op = ", call, ";\n  return {");
    bool fixed = true;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      fixed = fixed && !op.outputs[i].IsList();
      if (fixed) {
        StrAppend(&s, "op.output(", i, "), ");
      } else if (op.outputs[i].IsList()) {
        StrAppend(&s, "OutputsOf(op, \"", op.outputs[i].name, "\"), ");
      } else {
        StrAppend(&s, "OutputOf(op, \"", op.outputs[i].name, "\"), ");
      }
    }
    s += "op};\n";
  }
  if (Reduces(op)) {
    const std::string in = Identifier(op.inputs[0].name);
    StrAppend(&s, "}\n\n", ReduceAllSignature(op, ""), " {\n  return ", op.name, "(scope, ", in, ", AllAxes(scope, ",
              in, "));\n");
  }
  return s + "}\n";
}

std::string Header(const std::vector<const OpDef*>& ops) {
  std::string s =
      "// Typed builders of every op. Generated from the op definitions; do not edit.\n"
      "//\n"
      "// Inputs take Outputs and literals (troupe/output.h); attrs that have a default are fields of the "
      "last argument:\n"
      "// ops::MatMul(scope, a, b, {.transpose_b = true}).\n"
      "#ifndef TROUPE_OPS_H_\n#define TROUPE_OPS_H_\n\n"
      "#include <concepts>\n#include <cstdint>\n#include <limits>\n#include <string>\n#include <vector>\n\n"
      "#include \"troupe/const.h\"\n#include \"troupe/emit.h\"\n#include \"troupe/scope.h\"\n\n"
      "namespace troupe {\nnamespace TROUPE_EXPORT ops {\n\nusing ::troupe::Const;\n\n";
  for (const OpDef* op : ops) {
    if (HasBuilder(*op)) StrAppend(&s, Declaration(*op), "\n");
  }
  return s + "}  // namespace ops\n}  // namespace troupe\n\n#endif  // TROUPE_OPS_H_\n";
}

std::string Source(const std::vector<const OpDef*>& ops) {
  std::string s =
      "// Generated from the op definitions; do not edit.\n#include \"troupe/ops.h\"\n\n#include "
      "\"troupe/emit.h\"\n\n"
      "namespace troupe::ops {\n\n";
  for (const OpDef* op : ops) {
    if (HasBuilder(*op)) StrAppend(&s, Definition(*op), "\n");
  }
  return s + "}  // namespace troupe::ops\n";
}

}  // namespace troupe::genops
