#include "troupe/attr_value.h"

#include <algorithm>
#include <cstring>

#include "troupe/strings.h"

namespace troupe {

AttrMap::AttrMap() = default;
AttrMap::AttrMap(std::initializer_list<Init> items) {
  items_.reserve(items.size());
  for (const Init& i : items) items_.emplace_back(i.name, i.value);
}
AttrMap::AttrMap(const AttrMap&) = default;
AttrMap::AttrMap(AttrMap&&) noexcept = default;
AttrMap& AttrMap::operator=(const AttrMap&) = default;
AttrMap& AttrMap::operator=(AttrMap&&) noexcept = default;
AttrMap::~AttrMap() = default;
AttrMap::Init::Init(std::string_view n, AttrValue v) : name(n), value(std::move(v)) {}
size_t AttrMap::size() const { return items_.size(); }
std::vector<AttrMap::Item>::const_iterator AttrMap::begin() const { return items_.begin(); }
std::vector<AttrMap::Item>::const_iterator AttrMap::end() const { return items_.end(); }

const AttrValue* AttrMap::Find(std::string_view name) const {
  for (const Item& item : items_) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}
AttrValue* AttrMap::Find(std::string_view name) {
  return const_cast<AttrValue*>(static_cast<const AttrMap*>(this)->Find(name));
}
void AttrMap::Set(std::string_view name, AttrValue value) {
  if (AttrValue* v = Find(name)) {
    *v = std::move(value);
  } else {
    items_.emplace_back(std::string(name), std::move(value));
  }
}
bool AttrMap::Erase(std::string_view name) {
  const auto it = std::find_if(items_.begin(), items_.end(), [&](const Item& i) { return i.first == name; });
  if (it == items_.end()) return false;
  items_.erase(it);
  return true;
}

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

std::string Text(const std::string& s) { return StrCat("\"", CEscape(s), "\""); }
std::string Text(int64_t v) { return StrCat(v); }
std::string Text(float v) { return StrCat(v); }
std::string Text(bool v) { return v ? "true" : "false"; }
std::string Text(DType t) { return IsRef(t) ? EnumName(t) : std::string(Name(t)); }
std::string Text(const PartialTensorShape& s) { return s.DebugString(); }
std::string Text(const Tensor& t) { return StrCat("Tensor<", t.DebugString(), ">"); }
std::string Text(const FuncAttr& f) { return StrCat("func ", f.name); }

template <class T>
std::string ListText(const std::vector<T>& v) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) StrAppend(&s, i ? ", " : "", Text(static_cast<T>(v[i])));
  return s + "]";
}

bool SameTensor(const Tensor& a, const Tensor& b) {
  if (!a.valid() || !b.valid()) return a.valid() == b.valid();
  if (a.dtype() != b.dtype() || !a.SameShape(b)) return false;
  if (a.buffer() == b.buffer()) return true;
  if (a.dtype() == DType::kString) {
    return std::equal(a.data<std::string>(), a.data<std::string>() + a.num_elements(), b.data<std::string>());
  }
  return IsPlainBytes(a.dtype()) && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

bool Same(const FuncAttr& a, const FuncAttr& b) {
  if (a.name != b.name) return false;
  const size_t na = a.attrs ? a.attrs->size() : 0, nb = b.attrs ? b.attrs->size() : 0;
  if (na != nb) return false;
  if (na == 0) return true;
  return std::all_of(a.attrs->begin(), a.attrs->end(), [&](const AttrMap::Item& i) {
    const AttrValue* v = b.attrs->Find(i.first);
    return v != nullptr && *v == i.second;
  });
}
bool Same(const Tensor& a, const Tensor& b) { return SameTensor(a, b); }
bool Same(const AttrPlaceholder& a, const AttrPlaceholder& b) { return a.name == b.name; }
bool Same(const EmptyList&, const EmptyList&) { return true; }
bool Same(std::monostate, std::monostate) { return true; }
template <class T>
bool Same(const T& a, const T& b) {
  return a == b;
}
template <class T>
requires(std::is_same_v<T, Tensor> || std::is_same_v<T, FuncAttr>) bool Same(const std::vector<T>& a,
                                                                             const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return Same(x, y); });
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

}  // namespace

AttrValue::AttrValue() = default;
AttrValue::AttrValue(const char* v) : v_(std::string(v)) {}
AttrValue::AttrValue(std::string v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::string_view v) : v_(std::string(v)) {}
AttrValue::AttrValue(Int v) : v_(v.value) {}
AttrValue::AttrValue(float v) : v_(v) {}
AttrValue::AttrValue(double v) : v_(static_cast<float>(v)) {}
AttrValue::AttrValue(bool v) : v_(v) {}
AttrValue::AttrValue(DType v) : v_(v) {}
AttrValue::AttrValue(PartialTensorShape v) : v_(std::move(v)) {}
AttrValue::AttrValue(const TensorShape& v) : v_(PartialTensorShape(v)) {}
AttrValue::AttrValue(Tensor v) : v_(std::move(v)) {}
AttrValue::AttrValue(FuncAttr v) : v_(std::move(v)) {}
AttrValue::AttrValue(AttrPlaceholder v) : v_(std::move(v)) {}
AttrValue::AttrValue(EmptyList v) : v_(v) {}
AttrValue::AttrValue(std::vector<std::string> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<int64_t> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<float> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<bool> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<DType> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<PartialTensorShape> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<Tensor> v) : v_(std::move(v)) {}
AttrValue::AttrValue(std::vector<FuncAttr> v) : v_(std::move(v)) {}
AttrValue::AttrValue(const AttrValue&) = default;
AttrValue::AttrValue(AttrValue&&) noexcept = default;
AttrValue& AttrValue::operator=(const AttrValue&) = default;
AttrValue& AttrValue::operator=(AttrValue&&) noexcept = default;
AttrValue::~AttrValue() = default;

bool AttrValue::IsPlaceholder() const { return std::holds_alternative<AttrPlaceholder>(v_); }

template <class T>
const T* AttrValue::As() const {
  if (const T* p = std::get_if<T>(&v_)) return p;
  if constexpr (IsVector<T>::value) {
    static const T* empty = new T;
    if (std::holds_alternative<EmptyList>(v_)) return empty;
  }
  return nullptr;
}

template <class T>
std::string_view AttrKindOf() {
  return AttrValue(T{}).Kind();
}

template <class T>
absl::StatusOr<T> GetAttr(const AttrMap& attrs, std::string_view name) {
  const AttrValue* v = attrs.Find(name);
  if (v == nullptr || !v->has_value()) return NotFound("attr '", name, "' is missing");
  if constexpr (std::is_same_v<T, int32_t>) {
    const int64_t* i = v->As<int64_t>();
    if (i == nullptr) return InvalidArgument("attr '", name, "' is ", v->Kind(), ", not int");
    if (*i != static_cast<int32_t>(*i))
      return InvalidArgument("attr '", name, "' = ", *i, " does not fit into 32 bits");
    return static_cast<int32_t>(*i);
  } else {
    const T* p = v->As<T>();
    if (p == nullptr) {
      return InvalidArgument("attr '", name, "' is ", v->Kind(), ", not ", AttrKindOf<T>());
    }
    return *p;
  }
}

// In the variant, but no attr's type.
template const AttrPlaceholder* AttrValue::As() const;
template const EmptyList* AttrValue::As() const;
#define TROUPE_INSTANTIATE(...)                                                                \
  template absl::StatusOr<__VA_ARGS__> GetAttr<__VA_ARGS__>(const AttrMap&, std::string_view); \
  template std::string_view AttrKindOf<__VA_ARGS__>();
TROUPE_INSTANTIATE(int32_t)
TROUPE_FOR_ATTR_TYPES(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE
#define TROUPE_INSTANTIATE(...) template const __VA_ARGS__* AttrValue::As() const;
TROUPE_FOR_ATTR_TYPES(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

std::string_view AttrValue::Kind() const {
  static constexpr std::string_view kKinds[] = {
      "",           "string",     "int",         "float",        "bool",         "type",      "shape",
      "tensor",     "func",       "placeholder", "list",         "list(string)", "list(int)", "list(float)",
      "list(bool)", "list(type)", "list(shape)", "list(tensor)", "list(func)"};
  static_assert(std::size(kKinds) == std::variant_size_v<Variant>);
  return kKinds[v_.index()];
}

std::string AttrValue::DebugString() const {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("<none>"); },
                 [](const AttrPlaceholder& p) { return StrCat("$", p.name); },
                 [](const EmptyList&) { return std::string("[]"); },
                 []<class T>(const std::vector<T>& v) { return ListText(v); }, [](const auto& v) { return Text(v); }},
      v_);
}

// Marked here: the mark of a namespace does not reach a function that only a class declares, as its
// friend.
TROUPE_EXPORT bool operator==(const AttrValue& a, const AttrValue& b) {
  if (a.v_.index() != b.v_.index()) {
    // An empty list equals any list without elements.
    const auto empty = [](const AttrValue& v) {
      return std::visit(
          Overloaded{[](const EmptyList&) { return true; }, []<class T>(const std::vector<T>& l) { return l.empty(); },
                     [](const auto&) { return false; }},
          v.v_);
    };
    return empty(a) && empty(b) && (std::holds_alternative<EmptyList>(a.v_) || std::holds_alternative<EmptyList>(b.v_));
  }
  return std::visit([&]<class T>(const T& x) { return Same(x, std::get<T>(b.v_)); }, a.v_);
}

}  // namespace troupe
