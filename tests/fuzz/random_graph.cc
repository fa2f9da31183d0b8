#include "tests/fuzz/random_graph.h"

#include <algorithm>
#include <set>

#include "troupe/import_export.h"
#include "troupe/strings.h"

namespace troupe::fuzz {
namespace {

const std::vector<const OpDef*>& Ops() {
  static const std::vector<const OpDef*> ops = [] {
    std::vector<const OpDef*> list;
    for (const OpDef* op : OpRegistry::Global().List()) {
      // What prints would fill the log.
      if (op->name != "Print" && op->name != "PrintV2") list.push_back(op);
    }
    return list;
  }();
  return ops;
}

constexpr DType kTypes[] = {DType::kFloat,  DType::kInt32,    DType::kInt64,     DType::kDouble,
                            DType::kBool,   DType::kHalf,     DType::kUint8,     DType::kInt8,
                            DType::kInt16,  DType::kBfloat16, DType::kComplex64, DType::kString,
                            DType::kUint16, DType::kUint32,   DType::kUint64,    DType::kComplex128};
constexpr int64_t kInts[] = {0,
                             1,
                             2,
                             3,
                             4,
                             5,
                             8,
                             -1,
                             -2,
                             7,
                             31,
                             64,
                             1000,
                             -100,
                             65536,
                             1 << 30,
                             2147483647,
                             -2147483648ll,
                             int64_t{1} << 40,
                             9223372036854775807ll,
                             -9223372036854775807ll - 1};
constexpr double kFloats[] = {
    0,    1, -1, 0.5, 2, 3, 1e-3, -0.0, 1e30, -1e30, 1e-40, 1e308, __builtin_nan(""), __builtin_inf(), -__builtin_inf(),
    127.5};
constexpr int64_t kDims[] = {1, 2, 3, 4, 0, 5, 7, 8, 16, 33};

class Maker {
 public:
  explicit Maker(Bytes* b) : b_(b) {}

  RandomGraph Make(int max_nodes) {
    const int n = 1 + static_cast<int>(b_->Pick(static_cast<uint32_t>(max_nodes)));
    for (int i = 0; i < n && !b_->empty(); ++i) AddOp();
    return std::move(graph_);
  }

 private:
  struct Out {
    std::string name;
    DType type;
  };

  int64_t Int() { return b_->Byte() < 200 ? kInts[b_->Pick(10)] : kInts[b_->Pick(std::size(kInts))]; }
  double Float() { return kFloats[b_->Pick(std::size(kFloats))]; }
  DType AnyType() { return b_->Byte() < 160 ? kTypes[b_->Pick(4)] : kTypes[b_->Pick(std::size(kTypes))]; }

  TensorShape Shape() {
    TensorShape s;
    const int rank = static_cast<int>(b_->Pick(b_->Seldom() ? 7 : 5));
    for (int d = 0; d < rank; ++d) {
      (void)s.AddDim(kDims[b_->Pick(std::size(kDims))]);
      if (s.num_elements() > 4096) return TensorShape({4, 4});
    }
    return s;
  }
  PartialTensorShape PartialShape() {
    if (b_->Byte() < 60) return PartialTensorShape();
    std::vector<int64_t> dims(b_->Pick(5));
    for (int64_t& d : dims) d = b_->Byte() < 60 ? -1 : kDims[b_->Pick(std::size(kDims))];
    return PartialTensorShape(dims);
  }
  Tensor Value(DType type) {
    Tensor t(type, Shape());
    const int64_t n = t.num_elements();
    const auto fill = [&](auto* p, auto value) {
      // A few elements of the input's choice, repeated.
      const int64_t period = std::min<int64_t>(n, 1 + b_->Pick(6));
      for (int64_t i = 0; i < n; ++i) p[i] = i < period ? value() : p[i % period];
    };
    switch (type) {
      case DType::kFloat:
        fill(t.data<float>(), [&] { return static_cast<float>(std::clamp(Float(), -3e38, 3e38)); });
        break;
      case DType::kDouble:
        fill(t.data<double>(), [&] { return Float(); });
        break;
      case DType::kInt32:
        fill(t.data<int32_t>(), [&] { return static_cast<int32_t>(Int()); });
        break;
      case DType::kInt64:
        fill(t.data<int64_t>(), [&] { return Int(); });
        break;
      case DType::kBool:
        fill(t.data<bool>(), [&] { return b_->Byte() % 2 == 1; });
        break;
      case DType::kString:
        fill(t.data<std::string>(), [&] { return std::string(b_->Pick(4), static_cast<char>('a' + b_->Pick(26))); });
        break;
      default: {
        auto* p = static_cast<unsigned char*>(t.raw());
        const auto bytes = static_cast<int64_t>(t.bytes());
        const int64_t period = std::min<int64_t>(bytes, 8);
        for (int64_t i = 0; i < bytes; ++i) p[i] = i < period ? static_cast<unsigned char>(b_->Byte()) : p[i % period];
      }
    }
    return t;
  }
  static bool CanBeConstant(DType t) { return std::find(std::begin(kTypes), std::end(kTypes), t) != std::end(kTypes); }

  std::string Constant(DType type) {
    proto::NodeDef* n = graph_.def.add_node();
    n->set_name(StrCat("c", graph_.def.node_size()));
    n->set_op("Const");
    (*n->mutable_attr())["dtype"].set_type(static_cast<proto::DataType>(type));
    TensorToProto(Value(type), (*n->mutable_attr())["value"].mutable_tensor());
    if (b_->Byte() < 100) {
      outs_.push_back({n->name(), type});
      graph_.outputs.push_back(n->name() + ":0");
    }
    return n->name();
  }
  std::string InputOf(DType type) {
    std::vector<const Out*> fit;
    for (const Out& o : outs_) {
      if (o.type == type || (!IsRef(type) && BaseType(o.type) == type)) fit.push_back(&o);
    }
    if (!fit.empty() && (b_->Byte() < 150 || !CanBeConstant(type)))
      return fit[fit.size() - 1 - b_->Pick(static_cast<uint32_t>(fit.size()))]->name;
    if (CanBeConstant(type)) return Constant(type);
    if (IsRef(type) || type == DType::kResource) return Variable(type);
    return outs_.empty() ? "nothing" : outs_[b_->Pick(static_cast<uint32_t>(outs_.size()))].name;
  }
  // A variable for ops that need one; the executor finds out when it is uninitialised.
  std::string Variable(DType type) {
    const DType held = IsRef(type) ? BaseType(type) : AnyType();
    proto::NodeDef* n = graph_.def.add_node();
    n->set_name(StrCat("v", graph_.def.node_size()));
    n->set_op(IsRef(type) ? "VariableV2" : "VarHandleOp");
    (*n->mutable_attr())["dtype"].set_type(static_cast<proto::DataType>(held));
    ShapeToProto(PartialShape(), (*n->mutable_attr())["shape"].mutable_shape());
    outs_.push_back({n->name(), type});
    const std::string name = n->name();
    if (b_->Byte() < 200) {
      // Assigned: what uses it comes after by a control edge or not at all.
      proto::NodeDef* a = graph_.def.add_node();
      a->set_name(StrCat("a", graph_.def.node_size()));
      a->set_op(IsRef(type) ? "Assign" : "AssignVariableOp");
      (*a->mutable_attr())[IsRef(type) ? "T" : "dtype"].set_type(static_cast<proto::DataType>(held));
      if (IsRef(type)) (*a->mutable_attr())["validate_shape"].set_b(false);
      const std::string assign = a->name();
      const std::string value = CanBeConstant(held) ? Constant(held) : name;
      for (proto::NodeDef& m : *graph_.def.mutable_node()) {
        if (m.name() != assign) continue;
        m.add_input(name);
        m.add_input(value);
      }
      after_ = "^" + assign;
    }
    return name;
  }

  AttrValue One(const std::string& kind, const AttrDef& def) {
    if (kind == "int")
      return std::max(def.has_minimum && !b_->Seldom() ? def.minimum : kInts[std::size(kInts) - 1], Int());
    if (kind == "float") return static_cast<float>(std::clamp(Float(), -3e38, 3e38));
    if (kind == "bool") return b_->Byte() % 2 == 1;
    if (kind == "type")
      return def.allowed_types.empty() ? AnyType()
                                       : def.allowed_types[b_->Pick(static_cast<uint32_t>(def.allowed_types.size()))];
    if (kind == "shape") return PartialShape();
    if (kind == "tensor") return Value(AnyType());
    if (kind == "string" && !def.allowed_strings.empty())
      return def.allowed_strings[b_->Pick(static_cast<uint32_t>(def.allowed_strings.size()))];
    return std::string(b_->Pick(3), 's');
  }
  AttrValue Attr(const AttrDef& def) {
    if (!def.kind.starts_with("list(")) return One(def.kind, def);
    const std::string kind = def.kind.substr(5, def.kind.size() - 6);
    AttrDef element = def;
    element.has_minimum = false;
    // Windows and strides have four numbers, mostly.
    const uint32_t n = b_->Byte() < 128
                           ? 4
                           : std::max<uint32_t>(b_->Pick(6), def.has_minimum ? static_cast<uint32_t>(def.minimum) : 0);
    const auto list = [&](auto zero) {
      std::vector<decltype(zero)> v;
      for (uint32_t i = 0; i < n; ++i) v.push_back(std::get<decltype(zero)>(One(kind, element).variant()));
      return v;
    };
    if (kind == "int") return list(int64_t{});
    if (kind == "float") return list(float{});
    if (kind == "bool") return list(bool{});
    if (kind == "type") return list(DType{});
    if (kind == "shape") return list(PartialTensorShape());
    return list(std::string());
  }

  void AddOp() {
    const OpDef& op = *Ops()[b_->Pick(static_cast<uint32_t>(Ops().size()))];
    AttrMap attrs;
    // Types of inputs that are there are tried first, so that ops meet.
    for (const AttrDef& a : op.attrs) {
      if (a.default_value.has_value() && b_->Byte() < 160) continue;
      bool is_number = false;
      for (const ArgDef& arg : op.inputs) is_number |= arg.number_attr == a.name;
      for (const ArgDef& arg : op.outputs) is_number |= arg.number_attr == a.name;
      if (is_number) {
        attrs.Set(a.name, int64_t{1} + b_->Pick(4));
      } else if (a.kind == "type" && !outs_.empty() && b_->Byte() < 180) {
        const DType t = BaseType(outs_[outs_.size() - 1 - b_->Pick(static_cast<uint32_t>(outs_.size()))].type);
        const bool allowed = a.allowed_types.empty() ||
                             std::find(a.allowed_types.begin(), a.allowed_types.end(), t) != a.allowed_types.end();
        attrs.Set(a.name, allowed ? AttrValue(t) : Attr(a));
      } else {
        attrs.Set(a.name, Attr(a));
      }
    }
    const AttrMap given = attrs;
    std::vector<DType> in, out;
    if (!ValidateAttrs(op, &attrs).ok() || !ArgTypes(op.inputs, attrs, &in).ok() ||
        !ArgTypes(op.outputs, attrs, &out).ok()) {
      in.clear();
      out.clear();
    }
    std::vector<std::string> inputs;
    after_.clear();
    for (size_t i = 0; i < in.size() && i < 32; ++i) inputs.push_back(InputOf(in[i]));
    if (!after_.empty()) inputs.push_back(after_);
    if (b_->Seldom() && !outs_.empty()) {
      std::string other = outs_[b_->Pick(static_cast<uint32_t>(outs_.size()))].name;
      inputs.push_back("^" + other.substr(0, other.find(':')));
    }
    proto::NodeDef* n = graph_.def.add_node();
    n->set_name(StrCat("n", graph_.def.node_size()));
    n->set_op(op.name);
    for (const auto& [name, value] : given) AttrToProto(value, &(*n->mutable_attr())[name]);
    for (const std::string& i : inputs) n->add_input(i);
    for (size_t k = 0; k < out.size() && k < 32; ++k) {
      outs_.push_back({StrCat(n->name(), ":", k), out[k]});
      graph_.outputs.push_back(outs_.back().name);
    }
    // A loop's back edge: a Merge may wait for a node that comes later.
    if (op.control_flow == ControlFlow::kNextIteration && b_->Byte() < 200) {
      for (proto::NodeDef& m : *graph_.def.mutable_node()) {
        if (m.op() == "Merge" && m.input_size() > 1) m.set_input(1, n->name());
      }
    }
  }

  Bytes* const b_;
  RandomGraph graph_;
  std::vector<Out> outs_;
  std::string after_;
};

}  // namespace

RandomGraph MakeGraph(Bytes* bytes, int max_nodes) { return Maker(bytes).Make(max_nodes); }

}  // namespace troupe::fuzz
