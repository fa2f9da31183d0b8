// The registry, and the checks of attrs against a definition. The mini-language is parsed in
// op_spec.cc.
#include "troupe/op_def.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "graph/core/near_names.h"
#include "troupe/registration.h"

namespace troupe {

const AttrDef* OpDef::FindAttr(std::string_view attr) const {
  for (const AttrDef& a : attrs) {
    if (a.name == attr) return &a;
  }
  return nullptr;
}

const std::vector<DType>& RealNumberTypes() {
  static const auto* types = new std::vector<DType>{DType::kFloat,  DType::kDouble, DType::kInt32,  DType::kUint8,
                                                    DType::kInt16,  DType::kInt8,   DType::kInt64,  DType::kBfloat16,
                                                    DType::kUint16, DType::kHalf,   DType::kUint32, DType::kUint64};
  return *types;
}

const std::vector<DType>& NumberTypes() {
  static const auto* types =
      new std::vector<DType>{DType::kFloat,      DType::kDouble,    DType::kInt32,  DType::kUint8,   DType::kInt16,
                             DType::kInt8,       DType::kComplex64, DType::kInt64,  DType::kQint8,   DType::kQuint8,
                             DType::kQint32,     DType::kBfloat16,  DType::kQint16, DType::kQuint16, DType::kUint16,
                             DType::kComplex128, DType::kHalf,      DType::kUint32, DType::kUint64};
  return *types;
}

struct OpRegistry::Impl {
  mutable std::mutex mu;
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops;
};

OpRegistry::OpRegistry() : impl_(std::make_unique<Impl>()) {}

OpRegistry& OpRegistry::Global() {
  static OpRegistry* registry = new OpRegistry;
  return *registry;
}

absl::Status OpRegistry::Register(const OpBuilder& builder) {
  absl::StatusOr<OpDef> def = builder.Finish();
  if (!def.ok()) return def.status();
  std::lock_guard<std::mutex> lock(impl_->mu);
  if (impl_->ops.contains(def->name))
    return AlreadyExists("op '", def->name, "' is defined twice; the first definition holds");
  std::string name = def->name;
  impl_->ops.emplace(std::move(name), std::make_unique<OpDef>(*std::move(def)));
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(std::string_view name) const {
  std::lock_guard<std::mutex> lock(impl_->mu);
  const auto it = impl_->ops.find(name);
  return it == impl_->ops.end() ? nullptr : it->second.get();
}

absl::StatusOr<const OpDef*> OpRegistry::LookUp(std::string_view name) const {
  if (const OpDef* def = Find(name)) return def;
  if (name.size() > 100) return NotFound("there is no op of that name (", name.size(), " bytes long)");
  std::string near;
  for (const OpDef* op : List()) {
    if (EditDistance(op->name, name) <= 2) StrAppend(&near, near.empty() ? "" : ", ", op->name);
  }
  if (const std::string why = RegistrationErrorsOf(name); !why.empty())
    return NotFound("there is no op '", name, "', since it could not be registered: ", why);
  return NotFound("there is no op '", name, "'", near.empty() ? "" : "; did you mean ", near);
}

std::vector<const OpDef*> OpRegistry::List() const {
  std::lock_guard<std::mutex> lock(impl_->mu);
  std::vector<const OpDef*> list;
  list.reserve(impl_->ops.size());
  for (const auto& [name, def] : impl_->ops) list.push_back(def.get());
  return list;
}

OpRegistrar::OpRegistrar(const OpBuilder& builder) {
  // A wrong definition cannot be handed to anybody before main: who uses the op will be told.
  if (absl::Status s = OpRegistry::Global().Register(builder); !s.ok()) NoteRegistrationError(s);
}

namespace {

absl::Status CheckMinimum(const AttrDef& def, const AttrValue& v) {
  if (!def.has_minimum) return absl::OkStatus();
  int64_t n;
  if (const int64_t* i = v.As<int64_t>()) {
    n = *i;
    if (n < def.minimum)
      return InvalidArgument("attr '", def.name, "' = ", n, " is less than its minimum ", def.minimum);
    return absl::OkStatus();
  }
  n = std::visit(
      []<class T>(const T& x) -> int64_t {
        if constexpr (requires {
                        x.begin();
                        x.size();
                      } &&
                      !std::is_same_v<T, std::string>) {
          return static_cast<int64_t>(x.size());
        }
        return 0;
      },
      v.variant());
  if (n < def.minimum) {
    return InvalidArgument("attr '", def.name, "' has ", n, " elements, fewer than its minimum ", def.minimum);
  }
  return absl::OkStatus();
}

absl::Status CheckAllowed(const AttrDef& def, const AttrValue& v) {
  const auto check_type = [&](DType t) -> absl::Status {
    if (static_cast<int>(t) == 0) return InvalidArgument("attr '", def.name, "' is an invalid type");
    if (def.allowed_types.empty() ||
        std::find(def.allowed_types.begin(), def.allowed_types.end(), BaseType(t)) != def.allowed_types.end()) {
      return absl::OkStatus();
    }
    std::vector<std::string_view> names;
    for (DType a : def.allowed_types) names.push_back(Name(a));
    return InvalidArgument("attr '", def.name, "' = ", Name(t),
                           " is not in the list of allowed types: ", StrJoin(names, ", "));
  };
  const auto check_string = [&](const std::string& s) -> absl::Status {
    if (def.allowed_strings.empty() ||
        std::find(def.allowed_strings.begin(), def.allowed_strings.end(), s) != def.allowed_strings.end()) {
      return absl::OkStatus();
    }
    return InvalidArgument("attr '", def.name, "' = \"", CEscape(s),
                           "\" is not in the list of allowed values: ", StrJoin(def.allowed_strings, ", "));
  };
  const auto check_shape = [&](const PartialTensorShape& s) -> absl::Status {
    for (int64_t d : s.dims()) {
      if (d < -1) return InvalidArgument("attr '", def.name, "' is a shape with dimension ", d, ", which is negative");
    }
    return Annotate(PartialTensorShape::Make(s.dims()).status(), StrCat("attr '", def.name, "'"));
  };
  if (const auto* s = v.As<PartialTensorShape>()) return check_shape(*s);
  if (const auto* shapes = v.As<std::vector<PartialTensorShape>>()) {
    for (const PartialTensorShape& s : *shapes) TROUPE_RETURN_IF_ERROR(check_shape(s));
  }
  if (const DType* t = v.As<DType>()) return check_type(*t);
  if (const std::string* s = v.As<std::string>()) return check_string(*s);
  if (const auto* types = v.As<std::vector<DType>>()) {
    for (DType t : *types) TROUPE_RETURN_IF_ERROR(check_type(t));
  }
  if (const auto* strings = v.As<std::vector<std::string>>()) {
    for (const std::string& s : *strings) TROUPE_RETURN_IF_ERROR(check_string(s));
  }
  return absl::OkStatus();
}

absl::Status CheckAttrs(const OpDef& op, AttrMap* attrs) {
  for (const auto& [name, value] : *attrs) {
    if (name.empty()) return InvalidArgument("an attr has an empty name");
    if (name[0] == '_') continue;
    const AttrDef* def = op.FindAttr(name);
    if (def == nullptr) return InvalidArgument("op '", op.name, "' has no attr '", name, "'");
    if (value.IsPlaceholder()) return InvalidArgument("attr '", name, "' is a placeholder outside of a function");
    const bool list = def->kind.starts_with("list(");
    if (value.Kind() != def->kind && !(list && value.As<EmptyList>() != nullptr)) {
      return InvalidArgument("attr '", name, "' is ", value.has_value() ? value.Kind() : "without value", ", not ",
                             def->kind);
    }
    TROUPE_RETURN_IF_ERROR(CheckMinimum(*def, value));
    TROUPE_RETURN_IF_ERROR(CheckAllowed(*def, value));
  }
  for (const AttrDef& def : op.attrs) {
    if (attrs->Has(def.name)) continue;
    if (!def.default_value.has_value())
      return InvalidArgument("op '", op.name, "' needs attr '", def.name, "' (", def.kind, ")");
    attrs->Set(def.name, def.default_value);
  }
  if (op.Has(OpTrait::kConstant)) {
    // Whoever folds or reads a constant goes by its type, and by the value's bytes.
    const AttrValue *value = attrs->Find("value"), *type = attrs->Find("dtype");
    const Tensor* tensor = value == nullptr ? nullptr : value->As<Tensor>();
    const DType* dtype = type == nullptr ? nullptr : type->As<DType>();
    if (tensor != nullptr && dtype != nullptr && tensor->dtype() != *dtype) {
      return InvalidArgument("attr 'value' is ", tensor->TypeAndShape(), " but attr 'dtype' is ", Name(*dtype));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateAttrs(const OpDef& op, AttrMap* attrs) {
  absl::Status s = CheckAttrs(op, attrs);
  if (s.ok()) return s;
  // Attrs that do not fit may be meant for another definition.
  const std::string why = RegistrationErrorsOf(op.name);
  return why.empty() ? s : InvalidArgument(s.message(), " (", why, ")");
}

absl::Status ArgTypes(const std::vector<ArgDef>& args, const AttrMap& attrs, std::vector<DType>* types) {
  types->clear();
  for (const ArgDef& arg : args) {
    if (!arg.type_list_attr.empty()) {
      TROUPE_ASSIGN_OR_RETURN(std::vector<DType> list, GetAttr<std::vector<DType>>(attrs, arg.type_list_attr));
      for (DType t : list) types->push_back(arg.is_ref ? MakeRef(t) : t);
      continue;
    }
    DType t = arg.type;
    if (!arg.type_attr.empty()) {
      TROUPE_ASSIGN_OR_RETURN(t, GetAttr<DType>(attrs, arg.type_attr));
    }
    if (arg.is_ref) t = MakeRef(t);
    int64_t n = 1;
    if (!arg.number_attr.empty()) {
      TROUPE_ASSIGN_OR_RETURN(n, GetAttr<int64_t>(attrs, arg.number_attr));
      if (n < 0 || n > (1 << 24)) return InvalidArgument("attr '", arg.number_attr, "' = ", n, " is out of range");
    }
    types->insert(types->end(), static_cast<size_t>(n), t);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::pair<int, int>> ArgRange(const std::vector<ArgDef>& args, const AttrMap& attrs,
                                             std::string_view name) {
  int at = 0;
  for (const ArgDef& arg : args) {
    std::vector<DType> types;
    TROUPE_RETURN_IF_ERROR(ArgTypes({arg}, attrs, &types));
    const int end = at + static_cast<int>(types.size());
    if (arg.name == name) return std::make_pair(at, end);
    at = end;
  }
  return NotFound("there is no arg '", name, "'");
}

}  // namespace troupe
