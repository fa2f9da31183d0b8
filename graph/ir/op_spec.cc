// The mini-language of op definitions: parses what OpBuilder collected.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <set>

#include <google/protobuf/text_format.h>

#include "troupe/gradient_function.h"
#include "troupe/import_export.h"
#include "troupe/op_def.h"
#include "troupe/proto/tensor.pb.h"

namespace troupe {
namespace {

// A cursor over a spec.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpace();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool Peek(std::string_view token) {
    SkipSpace();
    return text_.substr(at_, token.size()) == token;
  }
  std::string_view Word() {
    SkipSpace();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }
  // Up to one of `stops` or the end.
  std::string_view Until(std::string_view stops) {
    SkipSpace();
    const size_t start = at_;
    while (at_ < text_.size() && stops.find(text_[at_]) == std::string_view::npos) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool Quoted(std::string* out) {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return false;
    const char quote = text_[at_++];
    const size_t start = at_;
    while (at_ < text_.size() && text_[at_] != quote) ++at_;
    if (at_ == text_.size()) return false;
    *out = text_.substr(start, at_++ - start);
    return true;
  }
  // What stands between '{' and its '}'.
  bool Braces(std::string_view* out) {
    if (!Take("{")) return false;
    const size_t start = at_;
    for (int open = 1; at_ < text_.size(); ++at_) {
      if (text_[at_] == '{') ++open;
      if (text_[at_] == '}' && --open == 0) {
        *out = text_.substr(start, at_++ - start);
        return true;
      }
    }
    return false;
  }
  template <class T>
  bool Number(T* v) {
    SkipSpace();
    const auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), *v);
    if (ec != std::errc()) return false;
    at_ = static_cast<size_t>(end - text_.data());
    return true;
  }
  bool Done() {
    SkipSpace();
    return at_ == text_.size();
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

std::string Wrong(std::string_view spec, std::string_view why) { return StrCat("\"", spec, "\": ", why); }

bool ParseType(Cursor& c, DType* t) {
  *t = DTypeFromName(c.Word());
  return *t != DType::kInvalid;
}

// A default value of a scalar kind.
bool ParseScalar(Cursor& c, std::string_view kind, AttrValue* v) {
  if (kind == "int") {
    int64_t i;
    if (!c.Number(&i)) return false;
    *v = i;
  } else if (kind == "float") {
    float f;
    if (!c.Number(&f)) return false;
    *v = f;
  } else if (kind == "bool") {
    if (c.Take("true")) {
      *v = true;
    } else if (c.Take("false")) {
      *v = false;
    } else {
      return false;
    }
  } else if (kind == "string") {
    std::string s;
    if (!c.Quoted(&s)) return false;
    *v = s;
  } else if (kind == "type") {
    DType t;
    if (!ParseType(c, &t)) return false;
    *v = t;
  } else if (kind == "shape") {
    // "{}" is a scalar, "{ unknown_rank: true }" is no shape at all, "{ dim { size: 2 } }" is not
    // needed.
    if (!c.Take("{")) return false;
    PartialTensorShape s{};
    if (c.Take("unknown_rank")) {
      if (!c.Take(":") || !c.Take("true")) return false;
    } else {
      s = PartialTensorShape(TensorShape());
    }
    if (!c.Take("}")) return false;
    *v = s;
  } else if (kind == "tensor") {
    // "{ dtype: DT_UINT8 tensor_shape {} int_val: 1 }": a TensorProto.
    std::string_view text;
    if (!c.Braces(&text)) return false;
    proto::TensorProto p;
    const google::protobuf::LogSilencer silence;
    if (!google::protobuf::TextFormat::ParseFromString(std::string(text), &p)) return false;
    const absl::StatusOr<Tensor> t = TensorFromProto(p);
    if (!t.ok()) return false;
    *v = *t;
  } else {
    return false;
  }
  return true;
}

template <class T>
bool ParseList(Cursor& c, std::string_view kind, AttrValue* v) {
  std::vector<T> list;
  while (!c.Peek("]")) {
    AttrValue item;
    if (!ParseScalar(c, kind, &item)) return false;
    list.push_back(*item.As<T>());
    if (!c.Take(",")) break;
  }
  *v = AttrValue(std::move(list));
  return true;
}

bool ParseDefault(Cursor& c, const std::string& kind, AttrValue* v) {
  if (!kind.starts_with("list(")) return ParseScalar(c, kind, v);
  const std::string_view of = std::string_view(kind).substr(5, kind.size() - 6);
  if (!c.Take("[")) return false;
  bool ok = false;
  if (of == "int") ok = ParseList<int64_t>(c, of, v);
  if (of == "float") ok = ParseList<float>(c, of, v);
  if (of == "bool") ok = ParseList<bool>(c, of, v);
  if (of == "string") ok = ParseList<std::string>(c, of, v);
  if (of == "type") ok = ParseList<DType>(c, of, v);
  if (of == "shape") ok = ParseList<PartialTensorShape>(c, of, v);
  return ok && c.Take("]");
}

// The kind, or a set of allowed values that stands for one. Returns an error or "".
std::string ParseKind(Cursor& c, AttrDef* a) {
  if (c.Take("{")) {
    if (c.Peek("'") || c.Peek("\"")) {
      a->kind = "string";
      do {
        std::string s;
        if (!c.Quoted(&s)) return Wrong(c.text(), "expected a quoted value");
        a->allowed_strings.push_back(s);
      } while (c.Take(","));
    } else {
      a->kind = "type";
      do {
        if (c.Take("numbertype")) {
          a->allowed_types.insert(a->allowed_types.end(), NumberTypes().begin(), NumberTypes().end());
          continue;
        }
        if (c.Take("realnumbertype")) {
          a->allowed_types.insert(a->allowed_types.end(), RealNumberTypes().begin(), RealNumberTypes().end());
          continue;
        }
        DType t;
        if (!ParseType(c, &t)) return Wrong(c.text(), "expected a type");
        a->allowed_types.push_back(t);
      } while (c.Take(","));
    }
    return c.Take("}") ? "" : Wrong(c.text(), "expected '}'");
  }
  const std::string_view word = c.Word();
  if (word == "numbertype" || word == "numerictype") {
    a->kind = "type";
    a->allowed_types = NumberTypes();
  } else if (word == "realnumbertype" || word == "realnumerictype") {
    a->kind = "type";
    a->allowed_types = RealNumberTypes();
  } else {
    static const std::set<std::string_view> kinds = {"string", "int",    "float", "bool", "type",
                                                     "shape",  "tensor", "func",  "any"};
    if (!kinds.contains(word)) return Wrong(c.text(), "unknown kind of attr");
    a->kind = word;
  }
  return "";
}

std::string ParseAttr(std::string_view spec, AttrDef* a) {
  Cursor c(spec);
  a->name = c.Word();
  if (a->name.empty() || !c.Take(":")) return Wrong(spec, "expected \"name: kind\"");
  bool list = false;
  if (c.Take("list(")) list = true;
  if (std::string e = ParseKind(c, a); !e.empty()) return e;
  if (list) {
    if (!c.Take(")")) return Wrong(spec, "expected ')'");
    a->kind = StrCat("list(", a->kind, ")");
  }
  if (c.Take(">=")) {
    a->has_minimum = true;
    if (!c.Number(&a->minimum)) return Wrong(spec, "expected a number after >=");
  }
  if (c.Take("=")) {
    if (!ParseDefault(c, a->kind, &a->default_value)) return Wrong(spec, "the default value does not parse");
  }
  return c.Done() ? "" : Wrong(spec, "unexpected text at the end");
}

std::string ParseArg(std::string_view spec, const OpDef& op, ArgDef* arg) {
  Cursor c(spec);
  arg->name = c.Word();
  if (arg->name.empty() || !c.Take(":")) return Wrong(spec, "expected \"name: type\"");
  if (c.Take("Ref(")) arg->is_ref = true;
  std::string word(c.Word());
  if (c.Take("*")) {
    arg->number_attr = word;
    const AttrDef* n = op.FindAttr(word);
    if (n == nullptr || n->kind != "int") return Wrong(spec, StrCat("'", word, "' is no attr of kind int"));
    word = c.Word();
  }
  if (const AttrDef* a = op.FindAttr(word)) {
    if (a->kind == "type") {
      arg->type_attr = word;
    } else if (a->kind == "list(type)" && arg->number_attr.empty()) {
      arg->type_list_attr = word;
    } else {
      return Wrong(spec, StrCat("attr '", word, "' is ", a->kind, ", not a type"));
    }
  } else {
    arg->type = DTypeFromName(word);
    if (arg->type == DType::kInvalid) return Wrong(spec, StrCat("'", word, "' is neither a type nor an attr"));
  }
  if (arg->is_ref && !c.Take(")")) return Wrong(spec, "expected ')'");
  return c.Done() ? "" : Wrong(spec, "unexpected text at the end");
}

}  // namespace

OpBuilder::OpBuilder(std::string_view name) { def_.name = name; }
OpBuilder::OpBuilder(const OpBuilder&) = default;
OpBuilder& OpBuilder::operator=(const OpBuilder&) = default;
OpBuilder::~OpBuilder() = default;
OpBuilder& OpBuilder::Input(std::string_view spec) {
  inputs_.emplace_back(spec);
  return *this;
}
OpBuilder& OpBuilder::Output(std::string_view spec) {
  outputs_.emplace_back(spec);
  return *this;
}
OpBuilder& OpBuilder::Attr(std::string_view spec) {
  attrs_.emplace_back(spec);
  return *this;
}
OpBuilder& OpBuilder::Trait(OpTrait t) {
  def_.traits |= static_cast<uint64_t>(t);
  return *this;
}
OpBuilder& OpBuilder::Flow(ControlFlow c) {
  def_.control_flow = c;
  return *this;
}
OpBuilder& OpBuilder::Shape(ShapeFn f) {
  def_.shape_fn = f;
  return *this;
}
OpBuilder& OpBuilder::Gradient(GradientFn f) {
  def_.gradient = f;
  if (f == static_cast<GradientFn>(&NoGradientFlows)) Trait(OpTrait::kNoGradientFlows);
  return *this;
}
OpBuilder& OpBuilder::NotDifferentiable(std::string_view why) {
  def_.not_differentiable = why;
  return *this;
}
OpBuilder& OpBuilder::Doc(std::string_view doc) {
  def_.doc = doc;
  return *this;
}
OpBuilder& OpBuilder::Deprecated(int since, std::string_view why) {
  def_.deprecated_since = since;
  def_.deprecation = why;
  return *this;
}

absl::StatusOr<OpDef> OpBuilder::Finish() const {
  OpDef op = def_;
  std::string error;
  std::set<std::string> names;
  for (const std::string& spec : attrs_) {
    AttrDef& a = op.attrs.emplace_back();
    if (error.empty()) error = ParseAttr(spec, &a);
    if (error.empty() && !names.insert(a.name).second) error = Wrong(spec, "the name is taken");
  }
  names.clear();
  for (const std::string& spec : inputs_) {
    ArgDef& a = op.inputs.emplace_back();
    if (error.empty()) error = ParseArg(spec, op, &a);
    if (error.empty() && !names.insert(a.name).second) error = Wrong(spec, "the name is taken");
  }
  names.clear();
  for (const std::string& spec : outputs_) {
    ArgDef& a = op.outputs.emplace_back();
    if (error.empty()) error = ParseArg(spec, op, &a);
    if (error.empty() && !names.insert(a.name).second) error = Wrong(spec, "the name is taken");
  }
  if (error.empty() && op.name.empty()) error = "the name is empty";
  if (error.empty() && op.gradient == nullptr && op.not_differentiable.empty()) {
    error = "it has neither a Gradient nor says why it is NotDifferentiable";
  }
  if (error.empty() && op.gradient != nullptr && !op.not_differentiable.empty()) {
    error = "it has a Gradient and says that it is NotDifferentiable";
  }
  constexpr OpTrait kOfAnInput[] = {OpTrait::kForwardsInput, OpTrait::kShape, OpTrait::kSize,
                                    OpTrait::kRank,          OpTrait::kZeros, OpTrait::kPassesGradient,
                                    OpTrait::kReadsVariable};
  const bool of_an_input =
      std::any_of(std::begin(kOfAnInput), std::end(kOfAnInput), [&](OpTrait t) { return op.Has(t); });
  if (error.empty() && of_an_input && (op.inputs.empty() || op.outputs.empty())) {
    error = "it has a trait that speaks of an input and an output, but not both of these";
  }
  if (!error.empty()) return InvalidArgument("definition of op '", op.name, "': ", error);
  return op;
}

}  // namespace troupe
