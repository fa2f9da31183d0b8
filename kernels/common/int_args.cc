#include "kernels/common/int_args.h"

namespace troupe::array {

int64_t IntAt(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kInt64:
      return t.data<int64_t>()[i];
    case DType::kInt32:
      return t.data<int32_t>()[i];
    case DType::kInt16:
      return t.data<int16_t>()[i];
    case DType::kInt8:
      return t.data<int8_t>()[i];
    case DType::kUint8:
      return t.data<uint8_t>()[i];
    case DType::kUint16:
      return t.data<uint16_t>()[i];
    case DType::kUint32:
      return t.data<uint32_t>()[i];
    case DType::kUint64:
      return static_cast<int64_t>(t.data<uint64_t>()[i]);
    case DType::kBool:
      return t.data<bool>()[i] ? 1 : 0;
    default:
      return 0;
  }
}

Ints ReadInts(const Tensor& t) {
  Ints values(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = IntAt(t, static_cast<int64_t>(i));
  return values;
}

absl::Status WriteInts(absl::Span<const int64_t> values, Tensor* t) {
  if (t->dtype() == DType::kInt64) {
    std::copy(values.begin(), values.end(), t->data<int64_t>());
    return absl::OkStatus();
  }
  int32_t* out = t->data<int32_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = static_cast<int32_t>(values[i]);
    if (out[i] != values[i])
      return InvalidArgument("value ", values[i], " at index ", i, " does not fit into int32; ask for int64");
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorShape> ReadShape(const Tensor& t) {
  if (t.rank() != 1)
    return InvalidArgument("shape must be a vector of {int32,int64}, got shape ", t.shape().DebugString());
  const Ints dims = ReadInts(t);
  return TensorShape::Make(dims);
}

absl::StatusOr<int64_t> ReadScalar(const Tensor& t, std::string_view what) {
  if (t.num_elements() != 1) return InvalidArgument(what, " must be a scalar, got shape ", t.shape().DebugString());
  return IntAt(t);
}

absl::StatusOr<int> NormalizeAxis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank)
    return InvalidArgument(what, " must be in the range [", -rank, ", ", rank, "), got ", axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::StatusOr<KnownInt> ConstantScalar(const InferenceContext& c, int i, std::string_view what) {
  const Tensor* t = c.input_tensor(i);
  if (t == nullptr) return KnownInt{};
  TROUPE_ASSIGN_OR_RETURN(const int64_t v, ReadScalar(*t, what));
  return KnownInt{true, v};
}

}  // namespace troupe::array
