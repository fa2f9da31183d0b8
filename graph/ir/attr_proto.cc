// Attributes and shapes to and from their wire forms.
#include <algorithm>

#include "troupe/import_export.h"
#include "troupe/proto/attr_value.pb.h"
#include "troupe/proto/tensor_shape.pb.h"

namespace troupe {
namespace {

absl::StatusOr<DType> TypeFromNumber(int number) {
  // DT_INVALID is a value of its own: attrs with a leading underscore carry it, and definitions
  // refuse it where it matters.
  if (number == 0 || IsValidDType(number)) return static_cast<DType>(number);
  return InvalidArgument(
      "element type ",
      proto::DataType_IsValid(number) ? proto::DataType_Name(static_cast<proto::DataType>(number)) : StrCat(number),
      " is not supported");
}

absl::StatusOr<FuncAttr> FuncFromProto(const proto::NameAttrList& p) {
  FuncAttr f{p.name(), std::make_shared<AttrMap>()};
  std::vector<std::string_view> names;
  for (const auto& item : p.attr()) names.push_back(item.first);
  std::sort(names.begin(), names.end());  // the wire has no order
  for (std::string_view name : names) {
    absl::StatusOr<AttrValue> v = AttrFromProto(p.attr().at(std::string(name)));
    if (!v.ok()) return Annotate(v.status(), StrCat("attr '", name, "' of function '", p.name(), "'"));
    f.attrs->Set(name, *std::move(v));
  }
  return f;
}

void FuncToProto(const FuncAttr& f, proto::NameAttrList* p) {
  p->set_name(f.name);
  if (f.attrs == nullptr) return;
  for (const auto& [name, value] : *f.attrs) AttrToProto(value, &(*p->mutable_attr())[name]);
}

template <class T, class List, class Convert>
absl::StatusOr<AttrValue> ListFrom(const List& list, Convert convert) {
  std::vector<T> out;
  out.reserve(list.size());
  for (const auto& item : list) {
    TROUPE_ASSIGN_OR_RETURN(T v, convert(item));
    out.push_back(std::move(v));
  }
  return AttrValue(std::move(out));
}

absl::StatusOr<AttrValue> ListFromProto(const proto::AttrValue::ListValue& p) {
  const int kinds = (p.s_size() > 0) + (p.i_size() > 0) + (p.f_size() > 0) + (p.b_size() > 0) + (p.type_size() > 0) +
                    (p.shape_size() > 0) + (p.tensor_size() > 0) + (p.func_size() > 0);
  if (kinds == 0) return AttrValue(EmptyList());
  if (kinds > 1) return InvalidArgument("the list has values of ", kinds, " kinds");
  if (p.s_size() > 0) return AttrValue(std::vector<std::string>(p.s().begin(), p.s().end()));
  if (p.i_size() > 0) return AttrValue(std::vector<int64_t>(p.i().begin(), p.i().end()));
  if (p.f_size() > 0) return AttrValue(std::vector<float>(p.f().begin(), p.f().end()));
  if (p.b_size() > 0) return AttrValue(std::vector<bool>(p.b().begin(), p.b().end()));
  if (p.type_size() > 0) return ListFrom<DType>(p.type(), TypeFromNumber);
  if (p.shape_size() > 0) return ListFrom<PartialTensorShape>(p.shape(), ShapeFromProto);
  if (p.tensor_size() > 0) return ListFrom<Tensor>(p.tensor(), TensorFromProto);
  return ListFrom<FuncAttr>(p.func(), FuncFromProto);
}

// Where each C++ value goes.
struct Writer {
  proto::AttrValue* p;
  proto::AttrValue::ListValue* list() const { return p->mutable_list(); }

  void operator()(std::monostate) const {}
  void operator()(const std::string& v) const { p->set_s(v); }
  void operator()(int64_t v) const { p->set_i(v); }
  void operator()(float v) const { p->set_f(v); }
  void operator()(bool v) const { p->set_b(v); }
  void operator()(DType v) const { p->set_type(static_cast<proto::DataType>(v)); }
  void operator()(const PartialTensorShape& v) const { ShapeToProto(v, p->mutable_shape()); }
  void operator()(const Tensor& v) const { TensorToProto(v, p->mutable_tensor()); }
  void operator()(const FuncAttr& v) const { FuncToProto(v, p->mutable_func()); }
  void operator()(const AttrPlaceholder& v) const { p->set_placeholder(v.name); }
  void operator()(EmptyList) const { list(); }
  void operator()(const std::vector<std::string>& v) const {
    list();
    for (const std::string& x : v) list()->add_s(x);
  }
  void operator()(const std::vector<int64_t>& v) const { list()->mutable_i()->Add(v.begin(), v.end()); }
  void operator()(const std::vector<float>& v) const { list()->mutable_f()->Add(v.begin(), v.end()); }
  void operator()(const std::vector<bool>& v) const { list()->mutable_b()->Add(v.begin(), v.end()); }
  void operator()(const std::vector<DType>& v) const {
    list();
    for (DType x : v) list()->add_type(static_cast<proto::DataType>(x));
  }
  void operator()(const std::vector<PartialTensorShape>& v) const {
    list();
    for (const PartialTensorShape& x : v) ShapeToProto(x, list()->add_shape());
  }
  void operator()(const std::vector<Tensor>& v) const {
    list();
    for (const Tensor& x : v) TensorToProto(x, list()->add_tensor());
  }
  void operator()(const std::vector<FuncAttr>& v) const {
    list();
    for (const FuncAttr& x : v) FuncToProto(x, list()->add_func());
  }
};

}  // namespace

absl::StatusOr<AttrValue> AttrFromProto(const proto::AttrValue& p) {
  switch (p.value_case()) {
    case proto::AttrValue::kS:
      return AttrValue(p.s());
    case proto::AttrValue::kI:
      return AttrValue(int64_t{p.i()});
    case proto::AttrValue::kF:
      return AttrValue(p.f());
    case proto::AttrValue::kB:
      return AttrValue(p.b());
    case proto::AttrValue::kType: {
      TROUPE_ASSIGN_OR_RETURN(DType t, TypeFromNumber(p.type()));
      return AttrValue(t);
    }
    case proto::AttrValue::kShape: {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape s, ShapeFromProto(p.shape()));
      return AttrValue(std::move(s));
    }
    case proto::AttrValue::kTensor: {
      TROUPE_ASSIGN_OR_RETURN(Tensor t, TensorFromProto(p.tensor()));
      return AttrValue(std::move(t));
    }
    case proto::AttrValue::kFunc: {
      TROUPE_ASSIGN_OR_RETURN(FuncAttr f, FuncFromProto(p.func()));
      return AttrValue(std::move(f));
    }
    case proto::AttrValue::kPlaceholder:
      return AttrValue(AttrPlaceholder{p.placeholder()});
    case proto::AttrValue::kList:
      return ListFromProto(p.list());
    case proto::AttrValue::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

void AttrToProto(const AttrValue& v, proto::AttrValue* p) {
  p->Clear();
  std::visit(Writer{p}, v.variant());
}

absl::StatusOr<PartialTensorShape> ShapeFromProto(const proto::TensorShapeProto& p) {
  if (p.unknown_rank()) {
    if (p.dim_size() > 0) return InvalidArgument("a shape of unknown rank has ", p.dim_size(), " dimensions");
    return PartialTensorShape();
  }
  absl::InlinedVector<int64_t, 8> dims;
  for (const proto::TensorShapeProto::Dim& d : p.dim()) dims.push_back(d.size());
  return PartialTensorShape::Make(dims);
}

void ShapeToProto(const PartialTensorShape& s, proto::TensorShapeProto* p) {
  p->Clear();
  if (!s.known_rank()) {
    p->set_unknown_rank(true);
    return;
  }
  for (int64_t d : s.dims()) p->add_dim()->set_size(d);
}

}  // namespace troupe
