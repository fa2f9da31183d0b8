#include "troupe/dtype.h"

#include <array>

#include "troupe/resource.h"

namespace troupe {
namespace {

struct Entry {
  DType type;
  size_t size;
  std::string_view name;
  std::string_view enum_name;
  std::string_view short_name;  // as written in op definitions
};

constexpr std::array<Entry, kNumDTypes> kTable = {{
    {DType::kInvalid, 0, "invalid", "DT_INVALID", "invalid"},
    {DType::kFloat, 4, "float32", "DT_FLOAT", "float"},
    {DType::kDouble, 8, "float64", "DT_DOUBLE", "double"},
    {DType::kInt32, 4, "int32", "DT_INT32", "int32"},
    {DType::kUint8, 1, "uint8", "DT_UINT8", "uint8"},
    {DType::kInt16, 2, "int16", "DT_INT16", "int16"},
    {DType::kInt8, 1, "int8", "DT_INT8", "int8"},
    {DType::kString, sizeof(std::string), "string", "DT_STRING", "string"},
    {DType::kComplex64, 8, "complex64", "DT_COMPLEX64", "complex64"},
    {DType::kInt64, 8, "int64", "DT_INT64", "int64"},
    {DType::kBool, 1, "bool", "DT_BOOL", "bool"},
    {DType::kQint8, 1, "qint8", "DT_QINT8", "qint8"},
    {DType::kQuint8, 1, "quint8", "DT_QUINT8", "quint8"},
    {DType::kQint32, 4, "qint32", "DT_QINT32", "qint32"},
    {DType::kBfloat16, 2, "bfloat16", "DT_BFLOAT16", "bfloat16"},
    {DType::kQint16, 2, "qint16", "DT_QINT16", "qint16"},
    {DType::kQuint16, 2, "quint16", "DT_QUINT16", "quint16"},
    {DType::kUint16, 2, "uint16", "DT_UINT16", "uint16"},
    {DType::kComplex128, 16, "complex128", "DT_COMPLEX128", "complex128"},
    {DType::kHalf, 2, "float16", "DT_HALF", "half"},
    {DType::kResource, sizeof(ResourceHandle), "resource", "DT_RESOURCE", "resource"},
    {DType::kVariant, sizeof(ResourceHandle), "variant", "DT_VARIANT", "variant"},
    {DType::kUint32, 4, "uint32", "DT_UINT32", "uint32"},
    {DType::kUint64, 8, "uint64", "DT_UINT64", "uint64"},
}};

constexpr bool TableIsInOrder() {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (static_cast<int>(kTable[i].type) != i) return false;
  }
  return true;
}
static_assert(TableIsInOrder());

const Entry& Find(DType t) {
  const int i = static_cast<int>(BaseType(t));
  return kTable[i < kNumDTypes ? i : 0];
}

}  // namespace

size_t SizeOf(DType t) { return IsRef(t) ? sizeof(ResourceHandle) : Find(t).size; }

std::string_view Name(DType t) {
  static const auto* refs = [] {
    auto* names = new std::array<std::string, kNumDTypes>;
    for (int i = 0; i < kNumDTypes; ++i) (*names)[i] = std::string(kTable[i].name) + "_ref";
    return names;
  }();
  return IsRef(t) ? std::string_view((*refs)[&Find(t) - kTable.data()]) : Find(t).name;
}

std::string EnumName(DType t) {
  std::string name(Find(t).enum_name);
  return IsRef(t) ? name + "_REF" : name;
}

DType DTypeFromName(std::string_view name) {
  bool ref = false;
  for (std::string_view suffix : {"_ref", "_REF"}) {
    if (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix) {
      name.remove_suffix(suffix.size());
      ref = true;
    }
  }
  for (const Entry& e : kTable) {
    if (e.type != DType::kInvalid && (name == e.name || name == e.enum_name || name == e.short_name)) {
      return ref ? MakeRef(e.type) : e.type;
    }
  }
  return DType::kInvalid;
}

}  // namespace troupe
