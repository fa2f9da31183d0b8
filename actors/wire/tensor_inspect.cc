// A tensor on the wire: dtype (one byte; 0: there is no value), number of dimensions (one byte),
// the dimensions (int64 each), then
//   of strings:    for each element its length (uint32) and its bytes,
//   of resources:  for each element device, container and name,
//   of all others: the elements as they lie in memory.
#include <limits>

#include "actors/wire/wire.h"
#include "troupe/resource.h"

namespace troupe {
namespace {

// A message of CAF counts its bytes in 32 bits, and wraps around unnoticed.
constexpr uint64_t kMostTensorBytes = uint64_t{1} << 31;

// Bytes that are still to be read, as far as the source knows.
size_t Remaining(const caf::deserializer& f) {
  const auto* binary = dynamic_cast<const caf::binary_deserializer*>(&f);
  return binary != nullptr ? binary->remaining() : std::numeric_limits<size_t>::max();
}

bool IsPlain(DType t) { return t != DType::kString && t != DType::kResource && t != DType::kVariant; }

caf::error WriteString(caf::serializer& f, std::string& s) {
  auto length = static_cast<uint32_t>(s.size());
  if (caf::error e = f(length)) return e;
  return s.empty() ? caf::none : f.apply_raw(s.size(), s.data());
}

caf::error ReadString(caf::deserializer& f, std::string* s) {
  uint32_t length = 0;
  if (caf::error e = f(length)) return e;
  if (length > Remaining(f)) return caf::sec::end_of_stream;
  s->resize(length);
  return length == 0 ? caf::none : f.apply_raw(length, s->data());
}

caf::error ReadResource(caf::deserializer& f, ResourceHandle* handle) {
  std::string device, container, name;
  for (std::string* s : {&device, &container, &name}) {
    if (caf::error e = ReadString(f, s)) return e;
  }
  *handle = ResourceHandle(std::move(device), std::move(container), std::move(name), nullptr);
  return caf::none;
}

// A bool is 0 or 1; other bytes would be neither true nor false. They are taken for true: who fills
// a tensor with them would have no answer if the message were refused.
void MakeBools(Tensor* t) {
  auto* bytes = static_cast<unsigned char*>(t->raw());
  for (int64_t i = 0; i < t->num_elements(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
}

}  // namespace

caf::error inspect(caf::serializer& f, Tensor& x) {
  if (x.valid() && (IsRef(x.dtype()) || x.dtype() == DType::kVariant)) return caf::sec::invalid_argument;
  if (x.memory() != MemoryKind::kHost) return caf::sec::invalid_argument;
  auto dtype = static_cast<uint8_t>(x.valid() ? x.dtype() : DType::kInvalid);
  if (caf::error e = f(dtype)) return e;
  if (!x.valid()) return caf::none;
  auto rank = static_cast<uint8_t>(x.rank());
  if (caf::error e = f(rank)) return e;
  for (int d = 0; d < x.rank(); ++d) {
    int64_t dim = x.dim(d);
    if (caf::error e = f(dim)) return e;
  }
  if (x.num_elements() == 0) return caf::none;
  if (IsPlain(x.dtype())) {
    if (x.bytes() >= kMostTensorBytes) return caf::sec::invalid_argument;
    return f.apply_raw(x.bytes(), x.raw());
  }
  uint64_t bytes = 0;
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    if (x.dtype() == DType::kString) {
      std::string& s = x.data<std::string>()[i];
      if ((bytes += s.size()) >= kMostTensorBytes) return caf::sec::invalid_argument;
      if (caf::error e = WriteString(f, s)) return e;
      continue;
    }
    const ResourceHandle& handle = static_cast<const ResourceHandle*>(x.raw())[i];
    for (std::string s : {handle.device(), handle.container(), handle.name()}) {
      if (caf::error e = WriteString(f, s)) return e;
    }
  }
  return caf::none;
}

caf::error inspect(caf::deserializer& f, Tensor& x) {
  x = Tensor();
  uint8_t number = 0, rank = 0;
  if (caf::error e = f(number)) return e;
  if (number == 0) return caf::none;
  const auto dtype = static_cast<DType>(number);
  if (!IsValidDType(number) || IsRef(dtype) || dtype == DType::kVariant) return caf::sec::invalid_argument;
  if (caf::error e = f(rank)) return e;
  std::vector<int64_t> dims(rank);
  for (int64_t& dim : dims) {
    if (caf::error e = f(dim)) return e;
  }
  const absl::StatusOr<TensorShape> shape = TensorShape::Make(dims);
  if (!shape.ok()) return caf::sec::invalid_argument;
  // Each element has this many bytes at least, and they must be there before memory is taken.
  const uint64_t least = IsPlain(dtype) ? SizeOf(dtype) : dtype == DType::kString ? 4 : 12;
  const auto n = static_cast<uint64_t>(shape->num_elements());
  if (n >= kMostTensorBytes || n * least >= kMostTensorBytes || n * least > Remaining(f))
    return caf::sec::end_of_stream;
  Tensor t(dtype, *shape);
  if (!t.valid()) return caf::sec::runtime_error;  // no memory is left
  if (n > 0 && IsPlain(dtype)) {
    if (caf::error e = f.apply_raw(t.bytes(), t.raw())) return e;
    if (dtype == DType::kBool) MakeBools(&t);
  }
  for (uint64_t i = 0; i < n && !IsPlain(dtype); ++i) {
    if (caf::error e = dtype == DType::kString ? ReadString(f, &t.data<std::string>()[i])
                                               : ReadResource(f, &static_cast<ResourceHandle*>(t.raw())[i]))
      return e;
  }
  x = std::move(t);
  return caf::none;
}

}  // namespace troupe
