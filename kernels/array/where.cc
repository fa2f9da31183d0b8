// Where: the indices of the elements that are not zero (not false), in row-major order.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status WhereShape(InferenceContext& c) {
  c.set_output(0, PartialTensorShape{-1, c.input(0).rank()});
  return absl::OkStatus();
}

// Calls f(flat index) for every element that is not zero.
template <class T, class F>
void ForNonZero(const Tensor& t, F&& f) {
  const T* x = static_cast<const T*>(t.raw());
  const int64_t n = t.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] != T(0)) f(i);
  }
}

absl::Status ComputeWhere(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  auto visit = [&](auto&& f) {
    // Quantized numbers are zero where their integers are.
    switch (in.dtype()) {
      case DType::kQint8:
      case DType::kQuint8:
        return ForNonZero<uint8_t>(in, f);
      case DType::kQint16:
      case DType::kQuint16:
        return ForNonZero<uint16_t>(in, f);
      case DType::kQint32:
        return ForNonZero<uint32_t>(in, f);
      default:
        break;
    }
    VisitNumeric(in.dtype(), false, [&]<class T>() {
      ForNonZero<T>(in, f);
      return true;
    });
  };
  std::vector<int64_t> found;
  visit([&](int64_t i) { found.push_back(i); });
  const int rank = in.rank();
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({static_cast<int64_t>(found.size()), rank})));
  if (rank == 0) return absl::OkStatus();
  int64_t* y = out->data<int64_t>();
  for (int64_t flat : found) {
    for (int k = rank; k-- > 0;) {
      y[k] = flat % in.dim(k);
      flat /= in.dim(k);
    }
    y += rank;
  }
  return absl::OkStatus();
}

TROUPE_OP("Where")
    .Input("input: T")
    .Output("index: int64")
    .Attr("T: {numbertype, bool} = DT_BOOL")
    .Shape(WhereShape)
    .NotDifferentiable("indices are not differentiable")
    .Doc("The indices of the elements of `input` that are true or not zero, one row each, in row-major order.");
TROUPE_KERNEL("Where").Device("CPU").Function<ComputeWhere>();

}  // namespace
}  // namespace troupe::array
