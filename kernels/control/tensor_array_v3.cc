// TensorArrayV3: a new array.
#include <atomic>

#include "kernels/control/tensor_array.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status ArrayShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("TensorArrayV3")
    .Input("size: int32")
    .Output("handle: resource")
    .Output("flow: float")
    .Attr("dtype: type")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Attr("dynamic_size: bool = false")
    .Attr("clear_after_read: bool = true")
    .Attr("identical_element_shapes: bool = false")
    .Attr("tensor_array_name: string = ''")
    .Stateful()
    .Shape(ArrayShape)
    .NotDifferentiable("an array is made before anything flows through it")
    .Doc(
        "A handle of a new array of `size` tensors, which lives until the step ends, and a flow: a value that every op "
        "on the array takes and gives, so that "
        "what happens to the array happens in that order.");

class TensorArrayKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit TensorArrayKernel(KernelInit& init) : name_(init.Attr<std::string>("tensor_array_name")) {
    options_.dtype = init.Attr<DType>("dtype");
    options_.element_shape = init.Attr<PartialTensorShape>("element_shape");
    options_.dynamic_size = init.Attr<bool>("dynamic_size");
    options_.clear_after_read = init.Attr<bool>("clear_after_read");
    options_.identical_element_shapes = init.Attr<bool>("identical_element_shapes");
    if (name_.empty()) name_ = init.node().name();
  }
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const int32_t size, control::ScalarInput(ctx, 0, "size"));
    if (size < 0) return InvalidArgument("size must not be negative, but is ", size);
    // Each run makes another array: a loop has one per iteration of the loop around it.
    static std::atomic<int64_t> counter{0};
    std::string key = StrCat(name_, "_", counter.fetch_add(1, std::memory_order_relaxed));
    TROUPE_ASSIGN_OR_RETURN(
        auto array, ctx.step()->resources.LookUpOrCreate<control::TensorArray>(control::kTensorArrays, key, [&] {
          return std::make_shared<control::TensorArray>(name_, size, options_);
        }));
    control::SetArrayOutputs(ctx, std::move(key), std::move(array));
    return absl::OkStatus();
  }

 private:
  std::string name_;
  control::TensorArray::Options options_;
};
TROUPE_KERNEL("TensorArrayV3").Device("CPU").Class<TensorArrayKernel>();

}  // namespace
}  // namespace troupe
