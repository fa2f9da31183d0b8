#include <deque>
#include <limits>

#include "graph/core/hash_map.h"
#include "graph/ir/text_form.h"
#include "graph/ir/text_value.h"
#include "troupe/import_export.h"
#include "troupe/text.h"

namespace troupe {
namespace {

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
  TextCursor c(text);
  Line line;
  line.number = number;
  line.name = c.Word("a node's name");
  c.Expect('=');
  if (c.ok()) line.op = c.Word("an op's name");
  if (c.ok() && c.Take('[')) line.attrs = ParseTextAttrs(&c);
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
  HashMap<std::string_view, int> by_name_;
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
  TextCursor c(text);
  c.Take("@versions");
  c.Expect('[');
  const AttrMap attrs = ParseTextAttrs(&c);
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
  TextCursor c(text);
  AttrValue v = ParseTextValue(&c);
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
