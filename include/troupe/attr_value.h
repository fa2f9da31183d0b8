// Values of node attributes, as C++ values; their wire form is proto::AttrValue
// (troupe/import_export.h converts).
//
// Source of the semantics: attr_value.proto of TensorFlow.
//
// Thread rule: plain values; as for a std::string.
#ifndef TROUPE_ATTR_VALUE_H_
#define TROUPE_ATTR_VALUE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "troupe/dtype.h"
#include "troupe/export.h"
#include "troupe/shape.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace TROUPE_EXPORT troupe {

class AttrValue;

// Attributes of one node: few, so a flat vector searched linearly. Order is the order of setting.
class AttrMap {
 public:
  using Item = std::pair<std::string, AttrValue>;
  struct Init;  // one item of a literal: {{"T", DType::kFloat}, {"N", 2}}
  AttrMap();
  AttrMap(std::initializer_list<Init> items);
  AttrMap(const AttrMap&);
  AttrMap(AttrMap&&) noexcept;
  AttrMap& operator=(const AttrMap&);
  AttrMap& operator=(AttrMap&&) noexcept;
  ~AttrMap();
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

// What a file that sets or reads attrs needs of this class is compiled once, in attr_value.cc:
// every file of the library includes this header.
class AttrValue {
 public:
  using Variant = std::variant<std::monostate, std::string, int64_t, float, bool, DType, PartialTensorShape, Tensor,
                               FuncAttr, AttrPlaceholder, EmptyList, std::vector<std::string>, std::vector<int64_t>,
                               std::vector<float>, std::vector<bool>, std::vector<DType>,
                               std::vector<PartialTensorShape>, std::vector<Tensor>, std::vector<FuncAttr>>;

  AttrValue();
  AttrValue(const char* v);       // NOLINT: attrs read as literals
  AttrValue(std::string v);       // NOLINT
  AttrValue(std::string_view v);  // NOLINT
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) AttrValue(T v) : AttrValue(Int{v}) {}  // NOLINT
  AttrValue(float v);                                                                                // NOLINT
  AttrValue(double v);                                                                               // NOLINT
  AttrValue(bool v);                                                                                 // NOLINT
  AttrValue(DType v);                                                                                // NOLINT
  AttrValue(PartialTensorShape v);                                                                   // NOLINT
  AttrValue(const TensorShape& v);                                                                   // NOLINT
  AttrValue(Tensor v);                                                                               // NOLINT
  AttrValue(FuncAttr v);                                                                             // NOLINT
  AttrValue(AttrPlaceholder v);                                                                      // NOLINT
  AttrValue(EmptyList v);                                                                            // NOLINT
  AttrValue(std::vector<std::string> v);                                                             // NOLINT
  AttrValue(std::vector<int64_t> v);                                                                 // NOLINT
  AttrValue(std::vector<float> v);                                                                   // NOLINT
  AttrValue(std::vector<bool> v);                                                                    // NOLINT
  AttrValue(std::vector<DType> v);                                                                   // NOLINT
  AttrValue(std::vector<PartialTensorShape> v);                                                      // NOLINT
  AttrValue(std::vector<Tensor> v);                                                                  // NOLINT
  AttrValue(std::vector<FuncAttr> v);                                                                // NOLINT
  AttrValue(const AttrValue&);
  AttrValue(AttrValue&&) noexcept;
  AttrValue& operator=(const AttrValue&);
  AttrValue& operator=(AttrValue&&) noexcept;
  ~AttrValue();

  const Variant& variant() const { return v_; }
  bool has_value() const { return v_.index() != 0; }
  bool IsPlaceholder() const;
  // Null when the value is of another kind. An EmptyList is every kind of list. T is a type of the
  // variant.
  template <class T>
  const T* As() const;
  // The spelling of op definitions: "int", "list(type)", "tensor", ...; "" without value.
  std::string_view Kind() const;
  // One line for messages and text dumps.
  std::string DebugString() const;
  friend bool operator==(const AttrValue& a, const AttrValue& b);  // tensors by value

 private:
  struct Int {
    template <class T>
    explicit Int(T v) : value(static_cast<int64_t>(v)) {}
    int64_t value;
  };
  explicit AttrValue(Int v);
  Variant v_;
};

struct AttrMap::Init {
  Init(std::string_view n, AttrValue v);
  std::string_view name;
  AttrValue value;
};

// The C++ types of attrs. The getters below are instantiated for these and for int32_t, once
// (attr_value.cc).
// clang-format off
#define TROUPE_FOR_ATTR_TYPES(X)                                                                  \
  X(std::string) X(int64_t) X(float) X(bool) X(DType) X(PartialTensorShape) X(Tensor) X(FuncAttr) \
  X(std::vector<std::string>) X(std::vector<int64_t>) X(std::vector<float>) X(std::vector<bool>)  \
  X(std::vector<DType>) X(std::vector<PartialTensorShape>) X(std::vector<Tensor>)                 \
  X(std::vector<FuncAttr>)
// clang-format on

// The spelling of the C++ type T in op definitions, as AttrValue::Kind() gives it.
template <class T>
TROUPE_EXPORT std::string_view AttrKindOf();

// The value of attr `name` as a T (std::string, int64_t, float, bool, DType, PartialTensorShape,
// Tensor, FuncAttr or a std::vector of one of them; also int32_t, checked for range). NOT_FOUND
// when it is missing, INVALID_ARGUMENT when it is of another kind.
template <class T>
TROUPE_EXPORT absl::StatusOr<T> GetAttr(const AttrMap& attrs, std::string_view name);

}  // namespace troupe

#endif  // TROUPE_ATTR_VALUE_H_
