// Tensors to and from TensorProto.
//
// A proto announces a shape and may back it by far fewer values, since a list that is too short
// repeats its last value. So the announced size is never believed: it is compared with what is
// there before memory is asked for, and repetition stops at kMaxRepeated bytes.
#include <algorithm>
#include <bit>
#include <cstring>

#include "troupe/import_export.h"
#include "troupe/proto/tensor.pb.h"
#include "troupe/resource.h"

namespace troupe {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor_content is little-endian");

constexpr int64_t kMaxRepeated = int64_t{1} << 31;
// Tensors that vary in at most so many leading elements are written as lists of values, which
// people can read.
constexpr int64_t kFewElements = 8;

// Which list of the proto holds values of `t`, and how many numbers stand for one element there.
struct ValueList {
  std::string_view name;
  int64_t size;
  int per_element;
};

ValueList ListOf(DType t, const proto::TensorProto& p) {
  switch (t) {
    case DType::kFloat:
      return {"float_val", p.float_val_size(), 1};
    case DType::kDouble:
      return {"double_val", p.double_val_size(), 1};
    case DType::kHalf:
    case DType::kBfloat16:
      return {"half_val", p.half_val_size(), 1};
    case DType::kString:
      return {"string_val", p.string_val_size(), 1};
    case DType::kComplex64:
      return {"scomplex_val", p.scomplex_val_size(), 2};
    case DType::kComplex128:
      return {"dcomplex_val", p.dcomplex_val_size(), 2};
    case DType::kInt64:
      return {"int64_val", p.int64_val_size(), 1};
    case DType::kBool:
      return {"bool_val", p.bool_val_size(), 1};
    case DType::kUint32:
      return {"uint32_val", p.uint32_val_size(), 1};
    case DType::kUint64:
      return {"uint64_val", p.uint64_val_size(), 1};
    case DType::kResource:
      return {"resource_handle_val", p.resource_handle_val_size(), 1};
    case DType::kVariant:
      return {"variant_val", p.variant_val_size(), 1};
    default:
      return {"int_val", p.int_val_size(), 1};
  }
}

int64_t AllValues(const proto::TensorProto& p) {
  return int64_t{0} + p.float_val_size() + p.double_val_size() + p.half_val_size() + p.string_val_size() +
         p.scomplex_val_size() + p.dcomplex_val_size() + p.int64_val_size() + p.bool_val_size() + p.uint32_val_size() +
         p.uint64_val_size() + p.resource_handle_val_size() + p.variant_val_size() + p.int_val_size();
}

// Fills `t` from a list of `count` elements, the last one repeated; without any, with zeros.
template <class T, class Get>
void Fill(int64_t count, Get get, Tensor* t) {
  T* out = static_cast<T*>(t->raw());
  const int64_t n = t->num_elements();
  for (int64_t i = 0; i < count; ++i) out[i] = get(static_cast<int>(i));
  if (count < n) std::fill(out + count, out + n, count == 0 ? T() : T(out[count - 1]));
}

template <class T, class List>
void FillFrom(const List& list, Tensor* t) {
  Fill<T>(
      list.size(), [&](int i) { return static_cast<T>(list.Get(i)); }, t);
}

void FillValues(const proto::TensorProto& p, Tensor* t) {
  switch (t->dtype()) {
    case DType::kFloat:
      return FillFrom<float>(p.float_val(), t);
    case DType::kDouble:
      return FillFrom<double>(p.double_val(), t);
    case DType::kHalf:
    case DType::kBfloat16:
      return FillFrom<uint16_t>(p.half_val(), t);
    case DType::kString:
      return FillFrom<std::string>(p.string_val(), t);
    case DType::kComplex64:
      return Fill<std::complex<float>>(
          p.scomplex_val_size() / 2,
          [&](int i) { return std::complex<float>(p.scomplex_val(2 * i), p.scomplex_val(2 * i + 1)); }, t);
    case DType::kComplex128:
      return Fill<std::complex<double>>(
          p.dcomplex_val_size() / 2,
          [&](int i) { return std::complex<double>(p.dcomplex_val(2 * i), p.dcomplex_val(2 * i + 1)); }, t);
    case DType::kInt64:
      return FillFrom<int64_t>(p.int64_val(), t);
    case DType::kBool:
      return FillFrom<bool>(p.bool_val(), t);
    case DType::kUint32:
      return FillFrom<uint32_t>(p.uint32_val(), t);
    case DType::kUint64:
      return FillFrom<uint64_t>(p.uint64_val(), t);
    case DType::kResource:
      return Fill<ResourceHandle>(
          p.resource_handle_val_size(),
          [&](int i) {
            const proto::ResourceHandleProto& h = p.resource_handle_val(i);
            return ResourceHandle(h.device(), h.container(), h.name(), nullptr);
          },
          t);
    default:
      break;
  }
  switch (SizeOf(t->dtype())) {  // int_val serves every small integer and the quantized types
    case 1:
      return FillFrom<uint8_t>(p.int_val(), t);
    case 2:
      return FillFrom<uint16_t>(p.int_val(), t);
    default:
      return FillFrom<int32_t>(p.int_val(), t);
  }
}

// Strings as bytes: all lengths as varints, then the characters.
absl::Status DecodeStrings(std::string_view bytes, int64_t n, std::vector<uint32_t>* lengths) {
  if (n > static_cast<int64_t>(bytes.size())) {
    return InvalidArgument("tensor_content of ", bytes.size(), " bytes cannot hold ", n, " strings");
  }
  lengths->reserve(n);
  size_t at = 0;
  uint64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at == bytes.size() || shift > 28) return InvalidArgument("tensor_content has a damaged length of string ", i);
      const uint8_t b = static_cast<uint8_t>(bytes[at++]);
      length |= static_cast<uint64_t>(b & 0x7f) << shift;
      if (!(b & 0x80)) break;
    }
    total += length;
    if (total > bytes.size()) return InvalidArgument("string ", i, " goes past the end of tensor_content");
    lengths->push_back(static_cast<uint32_t>(length));
  }
  if (at + total != bytes.size()) {
    return InvalidArgument("tensor_content has ", bytes.size(), " bytes, but its strings take ", at + total);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> FromContent(const std::string& content, DType dtype, const TensorShape& shape) {
  const int64_t n = shape.num_elements();
  if (dtype == DType::kString) {
    std::vector<uint32_t> lengths;
    TROUPE_RETURN_IF_ERROR(DecodeStrings(content, n, &lengths));
    Tensor t(dtype, shape);
    if (!t.valid()) return ResourceExhausted("no memory for string ", shape.DebugString());
    size_t at = content.size();
    for (int64_t i = n; i-- > 0;) {
      at -= lengths[i];
      t.data<std::string>()[i].assign(content, at, lengths[i]);
    }
    return t;
  }
  if (!IsPlainBytes(dtype)) return InvalidArgument("a ", Name(dtype), " tensor cannot be read from tensor_content");
  const int64_t bytes = MultiplyWithoutOverflow(n, static_cast<int64_t>(SizeOf(dtype)));
  if (bytes != static_cast<int64_t>(content.size())) {
    return InvalidArgument("tensor_content has ", content.size(), " bytes, but ", Name(dtype), " ", shape.DebugString(),
                           " takes ", bytes < 0 ? StrCat("more than can be counted") : StrCat(bytes));
  }
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for ", Name(dtype), " ", shape.DebugString());
  if (dtype == DType::kBool) {  // any byte but 0 is true; C++ knows only 0 and 1
    auto* out = static_cast<uint8_t*>(t.raw());
    for (size_t i = 0; i < content.size(); ++i) out[i] = content[i] != 0;
  } else {
    std::memcpy(t.raw(), content.data(), content.size());
  }
  return t;
}

template <class T, class Put>
void EachValue(const Tensor& t, int64_t count, Put put) {
  const T* in = static_cast<const T*>(t.raw());
  for (int64_t i = 0; i < count; ++i) put(in[i]);
}

void PutValues(const Tensor& t, int64_t count, proto::TensorProto* p) {
  switch (t.dtype()) {
    case DType::kFloat:
      return EachValue<float>(t, count, [&](float v) { p->add_float_val(v); });
    case DType::kDouble:
      return EachValue<double>(t, count, [&](double v) { p->add_double_val(v); });
    case DType::kHalf:
    case DType::kBfloat16:
      return EachValue<uint16_t>(t, count, [&](uint16_t v) { p->add_half_val(v); });
    case DType::kString:
      return EachValue<std::string>(t, count, [&](const std::string& v) { p->add_string_val(v); });
    case DType::kComplex64:
      return EachValue<std::complex<float>>(t, count, [&](std::complex<float> v) {
        p->add_scomplex_val(v.real());
        p->add_scomplex_val(v.imag());
      });
    case DType::kComplex128:
      return EachValue<std::complex<double>>(t, count, [&](std::complex<double> v) {
        p->add_dcomplex_val(v.real());
        p->add_dcomplex_val(v.imag());
      });
    case DType::kInt64:
      return EachValue<int64_t>(t, count, [&](int64_t v) { p->add_int64_val(v); });
    case DType::kBool:
      return EachValue<bool>(t, count, [&](bool v) { p->add_bool_val(v); });
    case DType::kUint32:
      return EachValue<uint32_t>(t, count, [&](uint32_t v) { p->add_uint32_val(v); });
    case DType::kUint64:
      return EachValue<uint64_t>(t, count, [&](uint64_t v) { p->add_uint64_val(v); });
    case DType::kInt8:
    case DType::kQint8:
      return EachValue<int8_t>(t, count, [&](int8_t v) { p->add_int_val(v); });
    case DType::kUint8:
    case DType::kQuint8:
      return EachValue<uint8_t>(t, count, [&](uint8_t v) { p->add_int_val(v); });
    case DType::kInt16:
    case DType::kQint16:
      return EachValue<int16_t>(t, count, [&](int16_t v) { p->add_int_val(v); });
    case DType::kUint16:
    case DType::kQuint16:
      return EachValue<uint16_t>(t, count, [&](uint16_t v) { p->add_int_val(v); });
    case DType::kInt32:
    case DType::kQint32:
      return EachValue<int32_t>(t, count, [&](int32_t v) { p->add_int_val(v); });
    default:
      return EachValue<ResourceHandle>(t, count, [&](const ResourceHandle& h) {
        proto::ResourceHandleProto* out = p->add_resource_handle_val();
        out->set_device(h.device());
        out->set_container(h.container());
        out->set_name(h.name());
      });
  }
}

// Elements up to the last that differs from the one before it (by its bits, so that -0 and NaN stay
// what they are); at least 1 of n >= 1.
int64_t SignificantElements(const Tensor& t) {
  const size_t size = SizeOf(t.dtype());
  const auto* bytes = static_cast<const char*>(t.raw());
  int64_t n = t.num_elements();
  while (n > 1 && std::memcmp(bytes + (n - 1) * size, bytes + (n - 2) * size, size) == 0) --n;
  return n;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromProto(const proto::TensorProto& p) {
  const int number = p.dtype();
  if (!IsValidDType(number) || IsRef(static_cast<DType>(number))) {
    return InvalidArgument("a tensor cannot be of type ",
                           proto::DataType_IsValid(number) ? proto::DataType_Name(p.dtype()) : StrCat(number));
  }
  const auto dtype = static_cast<DType>(number);
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape partial, ShapeFromProto(p.tensor_shape()));
  if (!partial.IsFullyDefined())
    return InvalidArgument("the tensor's shape ", partial.DebugString(), " is not fully known");
  TROUPE_ASSIGN_OR_RETURN(TensorShape shape, TensorShape::Make(partial.dims()));
  const int64_t n = shape.num_elements();
  if (!p.tensor_content().empty()) return FromContent(p.tensor_content(), dtype, shape);

  const ValueList list = ListOf(dtype, p);
  const auto what = [&] { return StrCat(Name(dtype), " ", shape.DebugString()); };
  if (list.size % list.per_element != 0) {
    return InvalidArgument(list.name, " has ", list.size, " numbers, but a ", Name(dtype), " element takes ",
                           list.per_element);
  }
  const int64_t count = list.size / list.per_element;
  if (count > n)
    return InvalidArgument(list.name, " has ", count, " values, more than the ", n, " elements of ", what());
  if (count == 0 && AllValues(p) > 0) {
    return InvalidArgument("the values of ", what(), " must stand in ", list.name,
                           ", but it is empty and another list is not");
  }
  if (dtype == DType::kVariant && n > 0) return InvalidArgument("values of type variant cannot be read from a tensor");
  if (count < n) {
    int64_t each = static_cast<int64_t>(SizeOf(dtype));
    if (dtype == DType::kString && count > 0) each += p.string_val(static_cast<int>(count) - 1).size();
    const int64_t bytes = MultiplyWithoutOverflow(n, each);
    if (bytes < 0 || bytes > kMaxRepeated) {
      return InvalidArgument(list.name, " has ", count, " values for ", what(),
                             ": repeating the last one would take more than 2^31 bytes");
    }
  }
  Tensor t(dtype, shape);
  if (!t.valid()) return ResourceExhausted("no memory for ", what());
  if (n > 0) FillValues(p, &t);
  return t;
}

void TensorToProto(const Tensor& t, proto::TensorProto* p) {
  p->Clear();
  if (!t.valid()) return;
  p->set_dtype(static_cast<proto::DataType>(t.dtype()));
  ShapeToProto(t.shape(), p->mutable_tensor_shape());
  const int64_t n = t.num_elements();
  if (n == 0 || t.dtype() == DType::kVariant) return;
  if (!IsPlainBytes(t.dtype())) return PutValues(t, n, p);
  const int64_t significant = SignificantElements(t);
  if (significant <= kFewElements && static_cast<int64_t>(t.bytes()) <= kMaxRepeated)
    return PutValues(t, significant, p);
  p->set_tensor_content(t.raw(), t.bytes());
}

}  // namespace troupe
