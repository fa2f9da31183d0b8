#include "kernels/dataset/stages.h"

#include <algorithm>
#include <cstring>

namespace troupe::dataset {

uint64_t Mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void Put(ResourceState* to, const std::string& key, int64_t value) {
  to->tensors.emplace_back(key, Tensor::Scalar<int64_t>(value));
}
absl::StatusOr<int64_t> Take(const ResourceState& from, const std::string& key, int64_t least) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor t, from.Get(key, DType::kInt64, TensorShape()));
  const int64_t value = t.scalar<int64_t>();
  if (value < least) return InvalidArgument("the position has ", key, " = ", value);
  return value;
}
void PutElement(ResourceState* to, const std::string& key, const Element& element) {
  Put(to, key + "/n", static_cast<int64_t>(element.size()));
  for (size_t i = 0; i < element.size(); ++i) to->tensors.emplace_back(StrCat(key, "/", i), element[i]);
}
absl::StatusOr<Element> TakeElement(const ResourceState& from, const std::string& key) {
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, key + "/n"));
  Element element;
  for (int64_t i = 0; i < n; ++i) {
    const Tensor* t = from.Find(StrCat(key, "/", i));
    if (t == nullptr) return InvalidArgument("the position has no ", key, "/", i);
    element.push_back(*t);
  }
  return element;
}
void PutElements(ResourceState* to, const std::string& key, const std::vector<Element>& elements) {
  Put(to, key, static_cast<int64_t>(elements.size()));
  for (size_t i = 0; i < elements.size(); ++i) PutElement(to, StrCat(key, i), elements[i]);
}
absl::StatusOr<std::vector<Element>> TakeElements(const ResourceState& from, const std::string& key) {
  std::vector<Element> elements;
  if (from.Find(key) == nullptr) return elements;
  TROUPE_ASSIGN_OR_RETURN(const int64_t n, Take(from, key));
  for (int64_t i = 0; i < n; ++i) {
    TROUPE_ASSIGN_OR_RETURN(Element element, TakeElement(from, StrCat(key, i)));
    elements.push_back(std::move(element));
  }
  return elements;
}

void Copy(DType type, void* to, const void* from, int64_t n) {
  if (IsPlainBytes(type)) {
    if (n > 0) std::memcpy(to, from, static_cast<size_t>(n) * SizeOf(type));
  } else if (type == DType::kString) {
    const auto* s = static_cast<const std::string*>(from);
    std::copy(s, s + n, static_cast<std::string*>(to));
  }
}

SourcePtr Refused(std::string_view what, const std::source_location& here, const absl::Status& why) {
  const SourceLocation line{here.file_name(), static_cast<uint32_t>(here.line())};
  return NewSource({},
                   [why = Annotate(why, StrCat(what, " at ", line.ToString()))](
                       std::vector<StagePtr>, uint64_t) -> absl::StatusOr<StagePtr> { return why; });
}

}  // namespace troupe::dataset
