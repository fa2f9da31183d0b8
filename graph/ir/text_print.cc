#include <algorithm>
#include <cmath>

#include "graph/ir/text_form.h"
#include "troupe/import_export.h"
#include "troupe/text.h"

namespace troupe {
namespace {

std::string FloatText(double v, bool is_float) {
  std::string s = is_float ? StrCat(static_cast<float>(v)) : StrCat(v);
  if (std::isfinite(v) && s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string Quoted(const std::string& s) { return StrCat("\"", CEscape(s), "\""); }

std::string ElementText(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString) return Quoted(t.data<std::string>()[i]);
  return VisitNumeric<std::string>(t.dtype(), "?", [&]<class T>() -> std::string {
    const T v = t.data<T>()[i];
    if constexpr (std::is_same_v<T, bool>) {
      return v ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      return StrCat(v);
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      return StrCat("(", v.real(), ",", v.imag(), ")");
    } else if constexpr (std::is_same_v<T, double>) {
      return StrCat(v);
    } else {
      return StrCat(static_cast<float>(v));
    }
  });
}

// Equal to the byte, so that one element may stand for all.
bool AllElementsEqual(const Tensor& t) {
  if (!IsPlainBytes(t.dtype())) return false;
  const char* bytes = static_cast<const char*>(t.raw());
  const size_t size = SizeOf(t.dtype());
  for (int64_t i = 1; i < t.num_elements(); ++i) {
    if (std::memcmp(bytes, bytes + i * size, size) != 0) return false;
  }
  return true;
}

std::string TensorText(const Tensor& t, int max_elements) {
  if (!t.valid()) return "none";
  std::string s(Name(t.dtype()));
  if (t.rank() > 0) s += t.shape().DebugString();
  s += "{";
  const int64_t n = t.num_elements();
  const int64_t shown = n > 1 && AllElementsEqual(t) ? 1 : std::min<int64_t>(n, max_elements);
  for (int64_t i = 0; i < shown; ++i) StrAppend(&s, i > 0 ? ", " : "", ElementText(t, i));
  if (shown < n && shown != 1) s += ", ...";
  return s + "}";
}

// Where a word of a text does not do, a string.
std::string WordText(const std::string& s) {
  const bool word = !s.empty() && std::all_of(s.begin(), s.end(), IsTextNameChar);
  return word ? s : Quoted(s);
}

std::string DeviceText(const std::string& s) {
  return s.find_first_of(" \t\r\n\"") == std::string::npos && s[0] != '=' ? s : Quoted(s);
}

struct Printer {
  int max_elements;
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(const std::string& v) const { return Quoted(v); }
  std::string operator()(int64_t v) const { return StrCat(v); }
  std::string operator()(float v) const { return FloatText(v, true); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(DType v) const { return std::string(Name(v)); }
  std::string operator()(const PartialTensorShape& v) const { return v.DebugString(); }
  std::string operator()(const Tensor& v) const { return TensorText(v, max_elements); }
  std::string operator()(const AttrPlaceholder& v) const { return "$" + WordText(v.name); }
  std::string operator()(const EmptyList&) const { return "{}"; }
  std::string operator()(const FuncAttr& f) const {
    std::string s = "&" + WordText(f.name);
    if (f.attrs == nullptr || f.attrs->empty()) return s;
    bool first = true;
    for (const auto& [name, value] : *f.attrs) {
      StrAppend(&s, first ? "[" : ", ", WordText(name), "=", AttrText(value, max_elements));
      first = false;
    }
    return s + "]";
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string s = "{";
    for (size_t i = 0; i < list.size(); ++i) {
      const T item = list[i];
      StrAppend(&s, i > 0 ? ", " : "", (*this)(item));
    }
    return s + "}";
  }
};

// True for an attr that AddGraphText finds out from the inputs.
bool IsInferred(const Node& node, std::string_view attr) {
  const bool lengths = ListsHaveOneLength(node.op());
  for (const ArgDef& arg : node.op().inputs) {
    if (arg.number_attr == attr || arg.type_list_attr == attr) return lengths;
    if (arg.type_attr != attr) continue;
    if (arg.number_attr.empty()) return true;
    const auto n = node.Attr<int64_t>(arg.number_attr);
    if (n.ok() && *n > 0) return true;
  }
  if (node.IsConstant() && attr == "dtype") return true;
  return false;
}

std::string InputText(const Node& node, int i) {
  const NodeOut in = node.input(i);
  if (!in.valid()) return "?";
  return in.index == 0 ? in.node->name() : in.ToString();
}

}  // namespace

std::string AttrText(const AttrValue& value, int max_elements) {
  return std::visit(Printer{max_elements}, value.variant());
}

std::string NodeText(const Node& node, const GraphTextOptions& options) {
  std::string s = StrCat(node.name(), " = ", node.op().name);
  std::vector<std::string> attrs;
  for (const AttrDef& def : node.op().attrs) {
    const AttrValue* v = node.attrs().Find(def.name);
    if (v == nullptr || IsInferred(node, def.name)) continue;
    if (def.default_value.has_value() && *v == def.default_value) continue;
    attrs.push_back(StrCat(def.name, "=", AttrText(*v, options.max_elements)));
  }
  std::vector<std::string> others;
  for (const auto& [name, value] : node.attrs()) {
    if (node.op().FindAttr(name) == nullptr) {
      others.push_back(StrCat(WordText(name), "=", AttrText(value, options.max_elements)));
    }
  }
  std::sort(others.begin(), others.end());
  attrs.insert(attrs.end(), others.begin(), others.end());
  if (!attrs.empty()) StrAppend(&s, "[", StrJoin(attrs, ", "), "]");

  std::vector<std::string> inputs, controls;
  for (int i = 0; i < node.num_inputs(); ++i) inputs.push_back(InputText(node, i));
  for (const Edge* e : node.in_edges()) {
    if (e->IsControl() && e->src->IsOp()) controls.push_back("^" + e->src->name());
  }
  std::sort(controls.begin(), controls.end());
  inputs.insert(inputs.end(), controls.begin(), controls.end());
  if (!inputs.empty()) StrAppend(&s, "(", StrJoin(inputs, ", "), ")");

  if (options.devices && !node.requested_device().empty()) {
    StrAppend(&s, " @", DeviceText(node.requested_device()));
  }
  if (options.devices && !node.assigned_device().empty()) {
    StrAppend(&s, " @=", DeviceText(node.assigned_device()));
  }
  return s;
}

std::string GraphText(const Graph& graph, const GraphTextOptions& options) {
  std::vector<Node*> nodes = graph.op_nodes();
  if (options.sorted) {
    std::sort(nodes.begin(), nodes.end(), [](Node* a, Node* b) { return a->name() < b->name(); });
  }
  std::string s;
  for (const Node* n : nodes) StrAppend(&s, NodeText(*n, options), "\n");
  std::vector<std::string> versions;
  if (graph.producer != kGraphVersion) versions.push_back(StrCat("producer=", graph.producer));
  if (graph.min_consumer != 0) versions.push_back(StrCat("min_consumer=", graph.min_consumer));
  const auto bad = graph.collections().find(kBadConsumers);
  if (bad != graph.collections().end() && !bad->second.empty())
    versions.push_back(StrCat("bad_consumers={", StrJoin(bad->second, ", "), "}"));
  if (!versions.empty()) StrAppend(&s, "@versions[", StrJoin(versions, ", "), "]\n");
  return s;
}

}  // namespace troupe
