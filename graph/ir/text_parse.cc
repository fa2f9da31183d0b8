#include <charconv>
#include <deque>
#include <limits>

#include "graph/ir/text_form.h"
#include "troupe/import_export.h"
#include "troupe/text.h"

namespace troupe {
namespace {

// The text of one line (or of one attr) and how far it has been read. The first error sticks.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  void Fail(std::string_view what) {
    if (!ok()) return;
    status_ = InvalidArgument(what, " at '", text_.substr(pos_, 30), "'");
  }
  void Fail(const absl::Status& s) {
    if (ok()) status_ = s;
  }
  void Skip() {
    while (pos_ < text_.size() && (text_[pos_] == ' ' || text_[pos_] == '\t')) ++pos_;
  }
  bool AtEnd() {
    Skip();
    return pos_ >= text_.size();
  }
  char Peek() { return AtEnd() ? '\0' : text_[pos_]; }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++pos_;
    return true;
  }
  bool Take(std::string_view s) {
    Skip();
    if (text_.substr(pos_, s.size()) != s) return false;
    pos_ += s.size();
    return true;
  }
  void Expect(char c) {
    if (ok() && !Take(c)) Fail(StrCat("expected '", c, "'"));
  }
  std::string_view Word(std::string_view what) {
    Skip();
    const size_t begin = pos_;
    while (pos_ < text_.size() && IsTextNameChar(text_[pos_])) ++pos_;
    if (begin == pos_) Fail(StrCat("expected ", what));
    return text_.substr(begin, pos_ - begin);
  }
  // Up to a blank, or a string.
  std::string Token() {
    if (pos_ < text_.size() && text_[pos_] == '"') return Quoted();
    const size_t begin = pos_;
    while (pos_ < text_.size() && text_[pos_] != ' ') ++pos_;
    return std::string(text_.substr(begin, pos_ - begin));
  }
  // A word, or a string.
  std::string WordOrQuoted(std::string_view what) { return Peek() == '"' ? Quoted() : std::string(Word(what)); }
  // Digits, signs, points, exponents, inf, nan.
  std::string_view Number() {
    Skip();
    const size_t begin = pos_;
    while (pos_ < text_.size() && (IsTextNameChar(text_[pos_]) || text_[pos_] == '+')) ++pos_;
    return text_.substr(begin, pos_ - begin);
  }
  std::string Quoted();
  // Values stand in lists and functions, one level in the other: no more of them than a stack
  // holds.
  bool Deeper() {
    if (++depth_ <= kMaxDepth) return true;
    Fail("values are nested too deep");
    return false;
  }
  void Back() { --depth_; }

 private:
  static constexpr int kMaxDepth = 100;
  int depth_ = 0;
  std::string_view text_;
  size_t pos_ = 0;
  absl::Status status_;
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string Cursor::Quoted() {
  Expect('"');
  std::string s;
  while (pos_ < text_.size() && text_[pos_] != '"') {
    char c = text_[pos_++];
    if (c != '\\') {
      s += c;
      continue;
    }
    if (pos_ >= text_.size()) break;
    c = text_[pos_++];
    if (c >= '0' && c <= '7') {
      int v = c - '0';
      for (int k = 0; k < 2 && pos_ < text_.size() && text_[pos_] >= '0' && text_[pos_] <= '7'; ++k) {
        v = v * 8 + (text_[pos_++] - '0');
      }
      s += static_cast<char>(v);
    } else if (c == 'x') {
      int v = 0;
      for (int k = 0; k < 2 && pos_ < text_.size() && HexDigit(text_[pos_]) >= 0; ++k) {
        v = v * 16 + HexDigit(text_[pos_++]);
      }
      s += static_cast<char>(v);
    } else {
      s += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
    }
  }
  if (pos_ >= text_.size()) Fail("a string does not end");
  ++pos_;
  return s;
}

template <class T>
T ParseNumber(Cursor* c, std::string_view word) {
  T value{};
  const char* begin = word.data();
  if (!word.empty() && word[0] == '+') ++begin;
  const auto [end, error] = std::from_chars(begin, word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || word.empty()) {
    c->Fail(StrCat("'", word, "' is no number of this type"));
  }
  return value;
}

template <class T>
T ParseElement(Cursor* c) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::string_view w = c->Word("true or false");
    if (w != "true" && w != "false") c->Fail(StrCat("'", w, "' is neither true nor false"));
    return w == "true";
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    using R = typename T::value_type;
    c->Expect('(');
    const R re = ParseNumber<R>(c, c->Number());
    c->Expect(',');
    const R im = ParseNumber<R>(c, c->Number());
    c->Expect(')');
    return T(re, im);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return ParseNumber<T>(c, c->Number());
  } else {
    return T(ParseNumber<float>(c, c->Number()));
  }
}

template <class T>
Tensor FinishTensor(Cursor* c, DType dtype, const TensorShape& shape, std::vector<T> values) {
  const int64_t n = shape.num_elements();
  if (c->ok() && static_cast<int64_t>(values.size()) != n && (values.size() != 1 || n > (1 << 24))) {
    c->Fail(StrCat("a tensor of shape ", shape.DebugString(), " has ", values.size(), " values"));
  }
  if (!c->ok()) return Tensor();
  Tensor t(dtype, shape);
  if (!t.valid()) {
    c->Fail("no memory for a tensor");
    return Tensor();
  }
  for (int64_t i = 0; i < n; ++i) t.data<T>()[i] = values.size() == 1 ? values[0] : values[i];
  return t;
}

PartialTensorShape ParseShape(Cursor* c) {
  std::vector<int64_t> dims;
  c->Expect('[');
  while (c->ok() && c->Peek() != ']') {
    if (!dims.empty()) c->Expect(',');
    dims.push_back(c->Take('?') ? -1 : ParseNumber<int64_t>(c, c->Number()));
  }
  c->Expect(']');
  if (!c->ok()) return {};
  absl::StatusOr<PartialTensorShape> shape = PartialTensorShape::Make(dims);
  if (!shape.ok()) {
    c->Fail(shape.status());
    return {};
  }
  return *shape;
}

Tensor ParseTensor(Cursor* c, DType dtype) {
  PartialTensorShape shape{};
  if (c->Peek() == '[') {
    shape = ParseShape(c);
  } else {
    shape = TensorShape();
  }
  if (c->ok() && !shape.IsFullyDefined()) c->Fail("a tensor's shape must be known");
  c->Expect('{');
  if (!c->ok()) return Tensor();
  const TensorShape full = shape.AsTensorShape();
  auto list = [&]<class T>(auto&& element) {
    std::vector<T> values;
    while (c->ok() && c->Peek() != '}') {
      if (!values.empty()) c->Expect(',');
      values.push_back(element());
    }
    c->Expect('}');
    return FinishTensor<T>(c, dtype, full, std::move(values));
  };
  if (dtype == DType::kString) {
    return list.template operator()<std::string>([&] { return c->Quoted(); });
  }
  Tensor t = VisitNumeric<Tensor>(dtype, Tensor(), [&]<class T>() -> Tensor {
    std::vector<T> values;
    while (c->ok() && c->Peek() != '}') {
      if (!values.empty()) c->Expect(',');
      values.push_back(ParseElement<T>(c));
    }
    c->Expect('}');
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<char> bytes(values.begin(), values.end());
      Tensor as_bytes = FinishTensor<int8_t>(c, DType::kInt8, full, std::vector<int8_t>(bytes.begin(), bytes.end()));
      return c->ok() ? as_bytes.WithType(DType::kBool, full) : Tensor();
    } else {
      return FinishTensor<T>(c, dtype, full, std::move(values));
    }
  });
  if (c->ok() && !t.valid()) c->Fail(StrCat("tensors of ", Name(dtype), " have no text form"));
  return t;
}

AttrValue ParseValue(Cursor* c);

AttrMap ParseAttrs(Cursor* c) {
  AttrMap attrs;
  bool first = true;
  while (c->ok() && c->Peek() != ']') {
    if (!first) c->Expect(',');
    first = false;
    const std::string name = c->WordOrQuoted("the name of an attr");
    c->Expect('=');
    if (c->ok() && attrs.Has(name)) c->Fail(StrCat("attr '", name, "' is given twice"));
    attrs.Set(name, ParseValue(c));
  }
  c->Expect(']');
  return attrs;
}

template <class T>
AttrValue ListOf(Cursor* c, const std::vector<AttrValue>& items) {
  std::vector<T> list;
  for (const AttrValue& v : items) {
    const T* item = v.As<T>();
    if (item == nullptr) {
      c->Fail("a list has values of several kinds");
      return {};
    }
    list.push_back(*item);
  }
  return list;
}

AttrValue ParseList(Cursor* c) {
  std::vector<AttrValue> items;
  while (c->ok() && c->Peek() != '}') {
    if (!items.empty()) c->Expect(',');
    items.push_back(ParseValue(c));
  }
  c->Expect('}');
  if (!c->ok()) return {};
  if (items.empty()) return EmptyList{};
  const AttrValue::Variant& v = items[0].variant();
  if (std::holds_alternative<std::string>(v)) return ListOf<std::string>(c, items);
  if (std::holds_alternative<int64_t>(v)) return ListOf<int64_t>(c, items);
  if (std::holds_alternative<float>(v)) return ListOf<float>(c, items);
  if (std::holds_alternative<bool>(v)) return ListOf<bool>(c, items);
  if (std::holds_alternative<DType>(v)) return ListOf<DType>(c, items);
  if (std::holds_alternative<PartialTensorShape>(v)) return ListOf<PartialTensorShape>(c, items);
  if (std::holds_alternative<Tensor>(v)) return ListOf<Tensor>(c, items);
  if (std::holds_alternative<FuncAttr>(v)) return ListOf<FuncAttr>(c, items);
  c->Fail("a list cannot hold this kind of value");
  return {};
}

AttrValue ParseNested(Cursor* c);

AttrValue ParseValue(Cursor* c) {
  AttrValue v;
  if (c->Deeper()) v = ParseNested(c);
  c->Back();
  return v;
}

AttrValue ParseNested(Cursor* c) {
  const char next = c->Peek();
  if (next == '"') return c->Quoted();
  if (next == '[') return ParseShape(c);
  if (c->Take("<unknown>")) return PartialTensorShape();
  if (c->Take('{')) return ParseList(c);
  if (c->Take('$')) return AttrPlaceholder{c->WordOrQuoted("the name of an attr")};
  if (c->Take('&')) {
    FuncAttr f{c->WordOrQuoted("the name of a function"), std::make_shared<AttrMap>()};
    if (c->Take('[')) *f.attrs = ParseAttrs(c);
    return f;
  }
  const std::string_view word = c->Number();
  if (word.empty()) {
    c->Fail("expected a value");
    return {};
  }
  if (word == "none") return AttrValue();
  if (word == "true") return true;
  if (word == "false") return false;
  if (const DType t = DTypeFromName(word); t != DType::kInvalid) {
    if (c->Peek() == '[' || c->Peek() == '{') return ParseTensor(c, t);
    return t;
  }
  const bool integral = word.find_first_not_of("+-0123456789") == std::string_view::npos;
  if (integral) return ParseNumber<int64_t>(c, word);
  return ParseNumber<float>(c, word);
}

// A literal that stands for several kinds, as the op's definition has it.
AttrValue Coerce(AttrValue v, std::string_view kind) {
  if (kind == "float") {
    if (const int64_t* i = v.As<int64_t>()) return static_cast<float>(*i);
  }
  if (kind == "list(float)") {
    if (const auto* list = v.As<std::vector<int64_t>>()) return std::vector<float>(list->begin(), list->end());
  }
  return v;
}

struct Line {
  int number = 0;
  std::string name, op, requested, assigned;
  AttrMap attrs;
  std::vector<std::string> inputs;
  // Found out from the other lines.
  const OpDef* def = nullptr;
  struct From {
    const Node* node = nullptr;  // of the graph, or
    int line = -1;
    int output = 0;
  };
  std::vector<From> from;  // by data input
  std::vector<DType> outputs;
  int unknown = 0;  // data inputs from lines whose outputs are not known yet
  bool done = false;
  Node* node = nullptr;
};

absl::StatusOr<Line> ParseLine(std::string_view text, int number) {
  Cursor c(text);
  Line line;
  line.number = number;
  line.name = c.Word("a node's name");
  c.Expect('=');
  if (c.ok()) line.op = c.Word("an op's name");
  if (c.ok() && c.Take('[')) line.attrs = ParseAttrs(&c);
  if (c.ok() && c.Take('(')) {
    while (c.ok() && c.Peek() != ')') {
      if (!line.inputs.empty()) c.Expect(',');
      std::string input = c.Take('^') ? "^" : "";
      input += c.Word("an input");
      if (c.Take(':')) StrAppend(&input, ":", c.Word("an output's number"));
      line.inputs.push_back(std::move(input));
    }
    c.Expect(')');
  }
  while (c.ok() && c.Take('@')) {
    if (c.Take('=')) {
      line.assigned = c.Token();
    } else {
      line.requested = c.Token();
    }
  }
  if (c.ok() && !c.AtEnd() && c.Peek() != '#') c.Fail("expected the end of the line");
  if (!c.ok()) return c.status();
  return line;
}

// Fills in the attrs that the inputs determine, as far as their types are known.
void InferAttrs(const OpDef& op, const std::vector<DType>& types, AttrMap* attrs) {
  if (op.Has(OpTrait::kConstant) && !attrs->Has("dtype")) {
    if (const AttrValue* v = attrs->Find("value"); v != nullptr && v->As<Tensor>()) {
      attrs->Set("dtype", v->As<Tensor>()->dtype());
    }
  }
  int singles = 0, lists = 0;
  for (const ArgDef& arg : op.inputs) (arg.IsList() ? lists : singles) += 1;
  const int in_lists = static_cast<int>(types.size()) - singles;
  const bool one_length = ListsHaveOneLength(op);
  size_t at = 0;
  for (const ArgDef& arg : op.inputs) {
    int64_t count = 1;
    if (arg.IsList()) {
      count = std::max(in_lists, 0) / lists;
      const AttrValue* v = attrs->Find(arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr);
      if (!one_length) {  // the length must be told
        if (v == nullptr) return;
        if (const auto* n = v->As<int64_t>()) count = *n;
        if (const auto* list = v->As<std::vector<DType>>()) count = static_cast<int64_t>(list->size());
        if (v->As<EmptyList>() != nullptr) count = 0;
      }
      if (!arg.number_attr.empty() && !attrs->Has(arg.number_attr)) attrs->Set(arg.number_attr, count);
    }
    if (count < 0 || at + static_cast<size_t>(count) > types.size()) return;
    if (!arg.type_list_attr.empty() && !attrs->Has(arg.type_list_attr)) {
      attrs->Set(arg.type_list_attr, std::vector<DType>(types.begin() + at, types.begin() + at + count));
    }
    for (int64_t i = 0; i < count && !arg.type_attr.empty(); ++i) {
      if (types[at + i] != DType::kInvalid && !attrs->Has(arg.type_attr)) attrs->Set(arg.type_attr, types[at + i]);
    }
    at += count;
  }
}

// The attrs and output types of all lines: of each when its inputs' are known, whatever the order
// of the lines. In a loop that is never so: its Merges are then taken with the inputs that are
// known.
class LineTypes {
 public:
  LineTypes(std::vector<Line>* lines, const Graph& graph) : lines_(*lines), graph_(graph) {}

  absl::Status Find() {
    for (size_t i = 0; i < lines_.size(); ++i) by_name_.try_emplace(lines_[i].name, static_cast<int>(i));
    consumers_.resize(lines_.size());
    for (size_t i = 0; i < lines_.size(); ++i)
      TROUPE_RETURN_IF_ERROR(Annotate(ReadLine(static_cast<int>(i)), At(lines_[i])));
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (lines_[i].unknown == 0) ready_.push_back(static_cast<int>(i));
    }
    for (;;) {
      for (; !ready_.empty(); ready_.pop_front()) {
        Line& line = lines_[ready_.front()];
        if (!line.done) TROUPE_RETURN_IF_ERROR(Annotate(Infer(ready_.front()), At(line)));
      }
      if (partly_.empty()) break;
      const int i = partly_.front();
      partly_.pop_front();
      // What does not do with a part of the inputs may with all.
      if (!lines_[i].done) Infer(i).IgnoreError();
    }
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].done) TROUPE_RETURN_IF_ERROR(Annotate(Infer(static_cast<int>(i)), At(lines_[i])));
      // Its consumers have one more.
      for (; !ready_.empty(); ready_.pop_front()) {
        if (!lines_[ready_.front()].done)
          TROUPE_RETURN_IF_ERROR(Annotate(Infer(ready_.front()), At(lines_[ready_.front()])));
      }
    }
    return absl::OkStatus();
  }

 private:
  static std::string At(const Line& line) { return StrCat("line ", line.number); }

  absl::Status ReadLine(int i) {
    Line& line = lines_[i];
    TROUPE_ASSIGN_OR_RETURN(line.def, graph_.ops().LookUp(line.op));
    AttrMap attrs;
    for (const auto& [name, value] : line.attrs) {
      const AttrDef* def = line.def->FindAttr(name);
      attrs.Set(name, def ? Coerce(value, def->kind) : value);
    }
    line.attrs = std::move(attrs);
    for (const std::string& input : line.inputs) {
      TROUPE_ASSIGN_OR_RETURN(const auto name, ParseTensorName(input));
      if (name.second == kControlSlot) continue;
      Line::From from{.node = graph_.Find(name.first), .output = name.second};
      if (const auto it = by_name_.find(name.first); it != by_name_.end()) {
        from.node = nullptr;
        from.line = it->second;
        consumers_[it->second].push_back(i);
        ++line.unknown;
      }
      line.from.push_back(from);
    }
    return absl::OkStatus();
  }

  absl::Status Infer(int i) {
    Line& line = lines_[i];
    std::vector<DType> types;
    for (const Line::From& f : line.from) {
      const std::vector<DType>* outputs = f.line >= 0         ? &lines_[f.line].outputs
                                          : f.node != nullptr ? &f.node->output_types()
                                                              : nullptr;
      const bool known = outputs != nullptr && f.output < static_cast<int>(outputs->size());
      types.push_back(known ? BaseType((*outputs)[f.output]) : DType::kInvalid);
    }
    AttrMap attrs = line.attrs;
    InferAttrs(*line.def, types, &attrs);
    AttrMap full = attrs;
    TROUPE_RETURN_IF_ERROR(ValidateAttrs(*line.def, &full));
    std::vector<DType> outputs;
    TROUPE_RETURN_IF_ERROR(ArgTypes(line.def->outputs, full, &outputs));
    line.attrs = std::move(attrs);
    line.outputs = std::move(outputs);
    line.done = true;
    for (const int c : consumers_[i]) {
      if (lines_[c].done) continue;
      (--lines_[c].unknown == 0 ? ready_ : partly_).push_back(c);
    }
    return absl::OkStatus();
  }

  std::vector<Line>& lines_;
  const Graph& graph_;
  absl::flat_hash_map<std::string_view, int> by_name_;
  std::vector<std::vector<int>> consumers_;
  std::deque<int> ready_, partly_;
};

absl::Status AddLine(Line* line, Graph* graph) {
  TROUPE_ASSIGN_OR_RETURN(line->node, graph->AddNode(line->name, line->op, line->attrs));
  line->node->set_requested_device(line->requested);
  line->node->set_assigned_device(line->assigned);
  return absl::OkStatus();
}

// The attrs of "@versions".
absl::Status SetVersions(std::string_view text, Graph* graph) {
  Cursor c(text);
  c.Take("@versions");
  c.Expect('[');
  const AttrMap attrs = ParseAttrs(&c);
  if (c.ok() && !c.AtEnd() && c.Peek() != '#') c.Fail("expected the end of the line");
  if (!c.ok()) return c.status();
  for (const auto& [name, value] : attrs) {
    const auto number = [](int64_t v) { return v >= 0 && v <= std::numeric_limits<int>::max(); };
    if (name == "bad_consumers") {
      const auto* list = value.As<std::vector<int64_t>>();
      if (list == nullptr && value.As<EmptyList>() == nullptr) return InvalidArgument("bad_consumers are no numbers");
      std::vector<std::string>& bad = graph->collection(kBadConsumers);
      bad.clear();
      for (const int64_t v : list == nullptr ? std::vector<int64_t>() : *list) bad.push_back(StrCat(v));
      continue;
    }
    const int64_t* v = value.As<int64_t>();
    if ((name != "producer" && name != "min_consumer") || v == nullptr || !number(*v))
      return InvalidArgument("'", name, "' is no version, or has no number");
    (name == "producer" ? graph->producer : graph->min_consumer) = static_cast<int>(*v);
  }
  return absl::OkStatus();
}

absl::Status ConnectLine(const Line& line, Graph* graph) {
  int next = 0;
  for (const std::string& input : line.inputs) {
    TROUPE_ASSIGN_OR_RETURN(const auto name, ParseTensorName(input));
    Node* src = graph->Find(name.first);
    if (src == nullptr) return InvalidArgument("there is no node '", name.first, "'");
    if (name.second == kControlSlot) {
      graph->AddControlEdge(src, line.node);
    } else {
      const auto edge = graph->AddEdge(src, name.second, line.node, next++);
      if (!edge.ok()) return edge.status();
    }
  }
  if (next != line.node->num_inputs()) {
    return InvalidArgument("op ", line.op, " takes ", line.node->num_inputs(), " inputs, not ", next);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttrValue> ParseAttrText(std::string_view text) {
  Cursor c(text);
  AttrValue v = ParseValue(&c);
  if (c.ok() && !c.AtEnd()) c.Fail("expected the end");
  if (!c.ok()) return c.status();
  return v;
}

absl::Status AddGraphText(std::string_view text, Graph* graph) {
  std::vector<Line> lines;
  int number = 0;
  for (const std::string& raw : StrSplit(text, '\n')) {
    ++number;
    const size_t begin = raw.find_first_not_of(" \t\r");
    if (begin == std::string::npos || raw[begin] == '#') continue;
    const size_t end = raw.find_last_not_of(" \t\r");
    const std::string_view trimmed = std::string_view(raw).substr(begin, end - begin + 1);
    if (trimmed.starts_with("@versions")) {
      TROUPE_RETURN_IF_ERROR(Annotate(SetVersions(trimmed, graph), StrCat("line ", number)));
      continue;
    }
    absl::StatusOr<Line> line = ParseLine(trimmed, number);
    if (!line.ok()) return Annotate(line.status(), StrCat("line ", number));
    lines.push_back(*std::move(line));
  }
  TROUPE_RETURN_IF_ERROR(LineTypes(&lines, *graph).Find());
  for (Line& line : lines) {
    TROUPE_RETURN_IF_ERROR(Annotate(AddLine(&line, graph), StrCat("line ", line.number)));
  }
  for (const Line& line : lines) {
    TROUPE_RETURN_IF_ERROR(Annotate(ConnectLine(line, graph), StrCat("line ", line.number)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Graph>> ParseGraphText(std::string_view text, const OpRegistry* ops) {
  auto graph = std::make_unique<Graph>(ops);
  TROUPE_RETURN_IF_ERROR(AddGraphText(text, graph.get()));
  return graph;
}

}  // namespace troupe
