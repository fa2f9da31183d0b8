// Values of node attributes, as C++ values; their wire form is proto::AttrValue (graph/ir/import_export.h converts).
#ifndef TROUPE_GRAPH_IR_ATTR_VALUE_H_
#define TROUPE_GRAPH_IR_ATTR_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/graph/core/dtype.h"
#include "troupe/graph/core/shape.h"
#include "troupe/graph/core/status.h"
#include "troupe/graph/core/tensor.h"

namespace troupe {

class AttrValue;

// Attributes of one node: few, so a flat vector searched linearly. Order is the order of setting.
class AttrMap {
 public:
  using Item = std::pair<std::string, AttrValue>;
  AttrMap() = default;
  AttrMap(std::initializer_list<Item> items);
  const AttrValue* Find(std::string_view name) const;
  AttrValue* Find(std::string_view name);
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  void Set(std::string_view name, AttrValue value);  // replaces
  bool Erase(std::string_view name);
  size_t size() const;
  bool empty() const { return size() == 0; }
  std::vector<Item>::const_iterator begin() const;
  std::vector<Item>::const_iterator end() const;

 private:
  std::vector<Item> items_;
};

// A function by name, with attributes of its own ("func" attrs).
struct FuncAttr {
  std::string name;
  std::shared_ptr<AttrMap> attrs;
};
// An attr of a function body that stands for an attr of the function.
struct AttrPlaceholder {
  std::string name;
};
// An empty list whose element type the wire form does not tell.
struct EmptyList {};

class AttrValue {
 public:
  using Variant = std::variant<std::monostate, std::string, int64_t, float, bool, DType, PartialTensorShape, Tensor,
                               FuncAttr, AttrPlaceholder, EmptyList, std::vector<std::string>, std::vector<int64_t>,
                               std::vector<float>, std::vector<bool>, std::vector<DType>,
                               std::vector<PartialTensorShape>, std::vector<Tensor>, std::vector<FuncAttr>>;

  AttrValue() = default;
  AttrValue(const char* v) : v_(std::string(v)) {}       // NOLINT: attrs read as literals
  AttrValue(std::string v) : v_(std::move(v)) {}         // NOLINT
  AttrValue(std::string_view v) : v_(std::string(v)) {}  // NOLINT
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) AttrValue(T v) : v_(static_cast<int64_t>(v)) {}  // NOLINT
  AttrValue(float v) : v_(v) {}                                                                                // NOLINT
  AttrValue(double v) : v_(static_cast<float>(v)) {}                                                           // NOLINT
  AttrValue(bool v) : v_(v) {}                                                                                 // NOLINT
  AttrValue(DType v) : v_(v) {}                                                                                // NOLINT
  AttrValue(PartialTensorShape v) : v_(std::move(v)) {}                                                        // NOLINT
  AttrValue(const TensorShape& v) : v_(PartialTensorShape(v)) {}                                               // NOLINT
  AttrValue(Tensor v) : v_(std::move(v)) {}                                                                    // NOLINT
  AttrValue(FuncAttr v) : v_(std::move(v)) {}                                                                  // NOLINT
  AttrValue(AttrPlaceholder v) : v_(std::move(v)) {}                                                           // NOLINT
  AttrValue(EmptyList v) : v_(v) {}                                                                            // NOLINT
  AttrValue(std::vector<std::string> v) : v_(std::move(v)) {}                                                  // NOLINT
  AttrValue(std::vector<int64_t> v) : v_(std::move(v)) {}                                                      // NOLINT
  AttrValue(std::vector<float> v) : v_(std::move(v)) {}                                                        // NOLINT
  AttrValue(std::vector<bool> v) : v_(std::move(v)) {}                                                         // NOLINT
  AttrValue(std::vector<DType> v) : v_(std::move(v)) {}                                                        // NOLINT
  AttrValue(std::vector<PartialTensorShape> v) : v_(std::move(v)) {}                                           // NOLINT
  AttrValue(std::vector<Tensor> v) : v_(std::move(v)) {}                                                       // NOLINT
  AttrValue(std::vector<FuncAttr> v) : v_(std::move(v)) {}                                                     // NOLINT

  const Variant& variant() const { return v_; }
  bool has_value() const { return !std::holds_alternative<std::monostate>(v_); }
  bool IsPlaceholder() const { return std::holds_alternative<AttrPlaceholder>(v_); }
  // Null when the value is of another kind. An EmptyList is every kind of list.
  template <class T>
  const T* As() const {
    if (const T* p = std::get_if<T>(&v_)) return p;
    if constexpr (IsVector<T>::value) {
      static const T* empty = new T;
      if (std::holds_alternative<EmptyList>(v_)) return empty;
    }
    return nullptr;
  }
  // The spelling of op definitions: "int", "list(type)", "tensor", ...; "" without value.
  std::string_view Kind() const;
  // One line for messages and text dumps.
  std::string DebugString() const;
  friend bool operator==(const AttrValue& a, const AttrValue& b);  // tensors by value

 private:
  template <class T>
  struct IsVector : std::false_type {};
  template <class T>
  struct IsVector<std::vector<T>> : std::true_type {};
  Variant v_;
};

// The spelling of the C++ type T in op definitions, as AttrValue::Kind() gives it.
template <class T>
std::string_view AttrKindOf() {
  return AttrValue(T{}).Kind();
}

// The value of attr `name` as a T (std::string, int64_t, float, bool, DType, PartialTensorShape, Tensor, FuncAttr or a std::vector of one of
// them; also int32_t, checked for range). NOT_FOUND when it is missing, INVALID_ARGUMENT when it is of another kind.
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

}  // namespace troupe

#endif  // TROUPE_GRAPH_IR_ATTR_VALUE_H_
