#include "troupe/const.h"

#include "troupe/emit.h"

namespace troupe {

Output Const(const ScopeAt& at, const Literal& value) {
  if (!value.error().ok()) {
    at.Fail(value.error());
    return Output();
  }
  const DType dtype = value.value().dtype();
  return Emit(at, "Const", {}, {{"dtype", dtype}, {"value", value.value()}}).output(0);
}

Output Const(const ScopeAt& at, const Literal& value, DType dtype) {
  if (!value.error().ok()) {
    at.Fail(value.error());
    return Output();
  }
  absl::StatusOr<Tensor> t = ConvertLiteral(value.value(), dtype);
  if (!t.ok()) {
    at.Fail(t.status());
    return Output();
  }
  return Const(at, *t);
}

Output Const(const ScopeAt& at, const Literal& value, const TensorShape& shape) {
  if (!value.error().ok()) {
    at.Fail(value.error());
    return Output();
  }
  const Tensor& v = value.value();
  const int64_t n = shape.num_elements();
  if (v.num_elements() == n) return Const(at, v.Reshaped(shape));
  if (v.num_elements() != 1) {
    at.Fail(
        InvalidArgument("a literal of shape ", v.shape().DebugString(), " does not fill shape ", shape.DebugString()));
    return Output();
  }
  Tensor filled(v.dtype(), shape);
  if (!filled.valid()) {
    at.Fail(ResourceExhausted("no memory for a constant of shape ", shape.DebugString()));
    return Output();
  }
  if (v.dtype() == DType::kString) {
    for (std::string& s : filled.flat<std::string>()) s = v.scalar<std::string>();
  } else if (IsPlainBytes(v.dtype())) {
    const size_t size = SizeOf(v.dtype());
    for (int64_t i = 0; i < n; ++i) std::memcpy(static_cast<char*>(filled.raw()) + i * size, v.raw(), size);
  } else {
    at.Fail(InvalidArgument("a constant cannot hold ", Name(v.dtype())));
    return Output();
  }
  return Const(at, filled);
}

}  // namespace troupe
