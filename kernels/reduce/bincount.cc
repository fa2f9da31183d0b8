#include <algorithm>
#include <type_traits>

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// Counts of many 16-bit floats would stop growing, so sums are kept wider.
template <class T>
void Count(const int32_t* arr, const T* weights, int64_t n, int64_t size, T* bins) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  std::vector<Sum> sums(size, Sum(0));
  for (int64_t i = 0; i < n; ++i) {
    if (arr[i] < size) sums[arr[i]] += weights == nullptr ? Sum(1) : static_cast<Sum>(weights[i]);
  }
  for (int64_t i = 0; i < size; ++i) bins[i] = static_cast<T>(sums[i]);
}

absl::Status Compute(KernelContext& ctx) {
  const Tensor& arr = ctx.input(0);
  const Tensor& size_tensor = ctx.input(1);
  const Tensor& weights = ctx.input(2);
  if (size_tensor.rank() != 0) return InvalidArgument("Shape must be rank 0 but is rank ", size_tensor.rank());
  const int64_t size = *size_tensor.data<int32_t>(), n = arr.num_elements();
  if (size < 0) return InvalidArgument("size (", size, ") must be non-negative");
  const bool weighted = weights.num_elements() != 0;
  if (weighted && !weights.SameShape(arr)) return InvalidArgument("Input indices and weights must have the same size.");
  const int32_t* at = arr.data<int32_t>();
  if (std::any_of(at, at + n, [](int32_t v) { return v < 0; }))
    return InvalidArgument("Input arr must be non-negative!");
  TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, TensorShape({size})));
  VisitNumeric(out->dtype(), 0, [&]<class T>() {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int32_t> ||
                  std::is_same_v<T, int64_t>) {
      Count<T>(at, weighted ? weights.data<T>() : nullptr, n, size, out->data<T>());
    }
    return 0;
  });
  return absl::OkStatus();
}

absl::Status Shape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  const Tensor* size = c.input_tensor(1);
  c.set_output(0, PartialTensorShape({size == nullptr ? -1 : std::max<int64_t>(*size->data<int32_t>(), 0)}));
  return absl::OkStatus();
}

}  // namespace

TROUPE_OP("Bincount")
    .Input("arr: int32")
    .Input("size: int32")
    .Input("weights: T")
    .Output("bins: T")
    .Attr("T: {int32, int64, float, double}")
    .Shape(Shape)
    .NotDifferentiable("it counts")
    .Doc(
        "How often (or with what sum of weights, when there are any) each of 0 to size - 1 occurs in arr; larger "
        "values are left out.");

TROUPE_CPU_KERNEL("Bincount").HostMemory("size").Function<Compute>();

}  // namespace troupe
