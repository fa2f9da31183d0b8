// TensorArrayGatherV3: several elements as one tensor.
#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status GatherShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape indices, c.WithRank(1, 1));
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape element, c.Attr<PartialTensorShape>("element_shape"));
  if (!element.known_rank()) return absl::OkStatus();
  PartialTensorShape out({indices.dim(0)});
  for (const int64_t d : element.dims()) out.AddDim(d);
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

TROUPE_OP("TensorArrayGatherV3")
    .Input("handle: resource")
    .Input("indices: int32")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Stateful()
    .Shape(GatherShape)
    .Gradient([](GradientContext& g) {
      const control::GradientArray grad = control::GradientArrayOf(g, g.Input(2));
      g.Set(2, g.Op("TensorArrayScatterV3", {grad.handle, g.Input(1), g.Grad(0), grad.flow}));
      return g.status();
    })
    .Doc("The elements at `indices`, which must all have one shape, packed along a new dimension 0.");

class GatherKernel {
 public:
  explicit GatherKernel(KernelInit& init) : element_shape_(init.Attr<PartialTensorShape>("element_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<control::TensorArray>(0));
    const Tensor& indices = ctx.input(1);
    if (indices.rank() != 1)
      return InvalidArgument("indices must be a vector, but has shape ", indices.shape().DebugString());
    if (array->dtype() != ctx.output_type(0)) {
      return InvalidArgument("TensorArray '", array->name(), "' holds ", Name(array->dtype()), ", not ",
                             Name(ctx.output_type(0)));
    }
    TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape expected, element_shape_.MergeWith(array->element_shape()));
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Tensor> values, array->ReadAll(indices.flat<int32_t>()));
    if (values.empty() && !expected.IsFullyDefined()) {
      return Unimplemented(
          "TensorArray '", array->name(), "' has size zero, but its element shape ", expected.DebugString(),
          " is not fully defined: only arrays with known element shapes can be gathered when they are empty");
    }
    TensorShape shape = values.empty() ? expected.AsTensorShape() : values[0].shape();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].HasShape(shape)) {
        return InvalidArgument("TensorArray '", array->name(), "' has inconsistent shapes: index ",
                               indices.data<int32_t>()[0], " has ", shape.DebugString(), ", but index ",
                               indices.data<int32_t>()[i], " has ", values[i].shape().DebugString());
      }
      if (!expected.IsCompatibleWith(values[i].shape())) {
        return InvalidArgument("TensorArray '", array->name(), "': index ", indices.data<int32_t>()[i], " has shape ",
                               values[i].shape().DebugString(), ", which does not fit the element shape ",
                               expected.DebugString());
      }
    }
    const int64_t n = shape.num_elements();
    shape.InsertDim(0, static_cast<int64_t>(values.size()));
    TROUPE_ASSIGN_OR_RETURN(Tensor* const out, ctx.AllocateOutput(0, shape));
    for (size_t i = 0; i < values.size() && n > 0; ++i) {
      const int64_t at = static_cast<int64_t>(i) * n;
      if (out->dtype() == DType::kString) {
        std::copy_n(values[i].data<std::string>(), n, out->data<std::string>() + at);
      } else if (IsPlainBytes(out->dtype())) {
        std::memcpy(static_cast<char*>(out->raw()) + at * SizeOf(out->dtype()), values[i].raw(), values[i].bytes());
      } else {
        return Unimplemented("elements of type ", Name(out->dtype()), " cannot be gathered");
      }
    }
    return absl::OkStatus();
  }

 private:
  const PartialTensorShape element_shape_;
};
TROUPE_KERNEL("TensorArrayGatherV3").Device("CPU").Class<GatherKernel>();

}  // namespace
}  // namespace troupe
