// The ops on tensor arrays: TensorArrayV3, TensorArrayGradV3, and those that read, write, gather,
// scatter, ask for the size and close.
#include <atomic>

#include "kernels/control/tensor_array.h"
#include "troupe/gradient_function.h"
#include "troupe/shape_inference.h"

namespace troupe::control {
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
    .Trait(OpTrait::kArrayHandle)
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
    TROUPE_ASSIGN_OR_RETURN(const int32_t size, ScalarInput(ctx, 0, "size"));
    if (size < 0) return InvalidArgument("size must not be negative, but is ", size);
    // Each run makes another array: a loop has one per iteration of the loop around it.
    static std::atomic<int64_t> counter{0};
    std::string key = StrCat(name_, "_", counter.fetch_add(1, std::memory_order_relaxed));
    TROUPE_ASSIGN_OR_RETURN(auto array, ctx.step()->resources.LookUpOrCreate<TensorArray>(kTensorArrays, key, [&] {
      return std::make_shared<TensorArray>(name_, size, options_);
    }));
    SetArrayOutputs(ctx, std::move(key), std::move(array));
    return absl::OkStatus();
  }

 private:
  std::string name_;
  TensorArray::Options options_;
};
TROUPE_KERNEL("TensorArrayV3").Device("CPU").Class<TensorArrayKernel>();

TROUPE_OP("TensorArrayGradV3")
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("grad_handle: resource")
    .Output("flow_out: float")
    .Attr("source: string")
    .Stateful()
    .Trait(OpTrait::kArrayHandle)
    .Shape(shape_fn::Scalar)
    .Gradient([](GradientContext& g) {
      // What was written to the array before, and what was read, is as it was: the order of what
      // happens runs through.
      if (g.HasGrad(1)) g.Set(1, g.Grad(1));
      return g.status();
    })
    .Doc(
        "The array that holds the gradients of the elements of an array: made at the first call in a step with this "
        "`source`, with the size, and elements of the shapes, that the array then has; "
        "the same one afterwards. Writes to one of its elements add up.");

class TensorArrayGradKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit TensorArrayGradKernel(KernelInit& init) : source_(init.Attr<std::string>("source")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
    std::string key = StrCat(static_cast<const ResourceHandle*>(ctx.input(0).raw())->name(), "@", source_);
    TROUPE_ASSIGN_OR_RETURN(auto grad, ctx.step()->resources.LookUpOrCreate<TensorArray>(kTensorArrays, key, [&] {
      return std::make_shared<TensorArray>(StrCat(array->name(), "@", source_), *array);
    }));
    SetArrayOutputs(ctx, std::move(key), std::move(grad));
    return absl::OkStatus();
  }

 private:
  const std::string source_;
};
TROUPE_KERNEL("TensorArrayGradV3").Device("CPU").Class<TensorArrayGradKernel>();

absl::Status ReadShape(InferenceContext& c) { return c.WithRank(1, 0).status(); }

TROUPE_OP("TensorArrayReadV3")
    .Input("handle: resource")
    .Input("index: int32")
    .Input("flow_in: float")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Stateful()
    .Shape(ReadShape)
    .Gradient([](GradientContext& g) {
      const GradientArray grad = GradientArrayOf(g, g.Input(2));
      g.Set(2, g.Op("TensorArrayWriteV3", {grad.handle, g.Input(1), g.Grad(0), grad.flow}));
      return g.status();
    })
    .Doc("Element `index` of the array; it cannot be read again when the array clears after reads.");

absl::Status Read(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
  if (array->dtype() != ctx.output_type(0)) {
    return InvalidArgument("TensorArray '", array->name(), "' holds ", Name(array->dtype()), ", not ",
                           Name(ctx.output_type(0)));
  }
  TROUPE_ASSIGN_OR_RETURN(const int32_t index, ScalarInput(ctx, 1, "index"));
  TROUPE_ASSIGN_OR_RETURN(Tensor value, array->Read(index));
  ctx.set_output(0, std::move(value));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayReadV3").Device("CPU").Function<Read, Cost::kTrivial>();

absl::Status WriteShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("TensorArrayWriteV3")
    .Input("handle: resource")
    .Input("index: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Stateful()
    .Shape(WriteShape)
    .Gradient([](GradientContext& g) {
      const GradientArray grad = GradientArrayOf(g, g.Grad(0));
      g.Set(2, g.Op("TensorArrayReadV3", {grad.handle, g.Input(1), grad.flow}, {{"dtype", g.input_type(2)}}));
      g.Set(3, g.Grad(0));
      return g.status();
    })
    .Doc("Sets element `index` of the array to `value`; an array of dynamic size grows to hold it.");

absl::Status Write(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
  TROUPE_ASSIGN_OR_RETURN(const int32_t index, ScalarInput(ctx, 1, "index"));
  TROUPE_RETURN_IF_ERROR(array->Write(index, ctx.TakeInput(2)));
  ctx.set_output(0, ctx.TakeInput(3));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayWriteV3").Device("CPU").Function<Write, Cost::kTrivial>();

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
      const GradientArray grad = GradientArrayOf(g, g.Input(2));
      g.Set(2, g.Op("TensorArrayScatterV3", {grad.handle, g.Input(1), g.Grad(0), grad.flow}));
      return g.status();
    })
    .Doc("The elements at `indices`, which must all have one shape, packed along a new dimension 0.");

class GatherKernel {
 public:
  explicit GatherKernel(KernelInit& init) : element_shape_(init.Attr<PartialTensorShape>("element_shape")) {}
  absl::Status Compute(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
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

absl::Status ScatterShape(InferenceContext& c) {
  TROUPE_RETURN_IF_ERROR(c.WithRank(1, 1).status());
  TROUPE_RETURN_IF_ERROR(c.WithRankAtLeast(2, 1).status());
  return shape_fn::Scalar(c);
}

TROUPE_OP("TensorArrayScatterV3")
    .Input("handle: resource")
    .Input("indices: int32")
    .Input("value: T")
    .Input("flow_in: float")
    .Output("flow_out: float")
    .Attr("T: type")
    .Stateful()
    .Shape(ScatterShape)
    .Gradient([](GradientContext& g) {
      const GradientArray grad = GradientArrayOf(g, g.Grad(0));
      PartialTensorShape row;  // which an empty gather cannot see
      if (const PartialTensorShape value = g.InputShape(2); value.known_rank() && value.rank() > 0)
        row = PartialTensorShape(value.dims().subspan(1));
      g.Set(2, g.Op("TensorArrayGatherV3", {grad.handle, g.Input(1), grad.flow},
                    {{"dtype", g.input_type(2)}, {"element_shape", row}}));
      g.Set(3, g.Grad(0));
      return g.status();
    })
    .Doc("Sets the elements at `indices` to the rows of `value` along its dimension 0.");

absl::Status Scatter(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
  const Tensor &indices = ctx.input(1), &value = ctx.input(2);
  if (indices.rank() != 1)
    return InvalidArgument("indices must be a vector, but has shape ", indices.shape().DebugString());
  if (value.rank() < 1 || value.dim(0) != indices.num_elements()) {
    return InvalidArgument("value must have one row for each of the ", indices.num_elements(),
                           " indices, but has shape ", value.shape().DebugString());
  }
  TensorShape row = value.shape();
  row.RemoveDim(0);
  for (int64_t i = 0; i < value.dim(0); ++i) {
    // A row of its own buffer: elements are handed out to kernels that may write into what they own
    // alone.
    const Tensor view = value.Slice(i, i + 1);
    Tensor element = view.valid() ? view.Reshaped(row).Clone(ctx.allocator()) : Tensor();
    if (!element.valid()) return ResourceExhausted("no memory for an element of shape ", row.DebugString());
    TROUPE_RETURN_IF_ERROR(array->Write(indices.data<int32_t>()[i], std::move(element)));
  }
  ctx.set_output(0, ctx.TakeInput(3));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayScatterV3").Device("CPU").Function<Scatter>();

TROUPE_OP("TensorArraySizeV3")
    .Input("handle: resource")
    .Input("flow_in: float")
    .Output("size: int32")
    .Stateful()
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its value is a number of elements")
    .Doc("The number of elements of the array.");

TROUPE_OP("TensorArrayCloseV3")
    .Input("handle: resource")
    .Stateful()
    .NotDifferentiable("it has no output")
    .Doc("Drops the array's elements at once, instead of when the step ends. The array cannot be used afterwards.");

absl::Status Size(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
  ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(array->size())));
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArraySizeV3").Device("CPU").Function<Size, Cost::kTrivial>();

absl::Status Close(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(auto* const array, ctx.resource<TensorArray>(0));
  array->Close();
  return absl::OkStatus();
}
TROUPE_KERNEL("TensorArrayCloseV3").Device("CPU").Function<Close, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::control
