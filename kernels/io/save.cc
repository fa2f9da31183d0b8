// Save and SaveSlices: tensors into one file of the first format of checkpoints.
#include "graph/checkpoint/first_format.h"
#include "kernels/io/blocking.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::io {
namespace {

TROUPE_OP("Save")
    .Input("filename: string")
    .Input("tensor_names: string")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape names, c.WithRank(1, 1));
      return MergeDims(names.dim(0), c.num_inputs() - 2).status();
    })
    .NotDifferentiable("it writes a file")
    .Doc(
        "Writes `data` under `tensor_names` into one file, in TensorFlow's first format of checkpoints. SaveV2 writes "
        "the second one.");

TROUPE_OP("SaveSlices")
    .Input("filename: string")
    .Input("tensor_names: string")
    .Input("shapes_and_slices: string")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Stateful()
    .Shape([](InferenceContext& c) { return CheckNamesAndSlices(c, c.num_inputs() - 3); })
    .NotDifferentiable("it writes a file")
    .Doc("As Save; a text of `shapes_and_slices` that is not empty says of which tensor its tensor is a slice.");

template <bool kSlices>
class SaveKernel {
 public:
  explicit SaveKernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    const int first = kSlices ? 3 : 2, n = ctx.num_inputs() - first;
    TROUPE_ASSIGN_OR_RETURN(const std::string path, StringInput(ctx, 0, "filename"));
    TROUPE_ASSIGN_OR_RETURN(const auto names, StringsInput(ctx, 1, n, "tensor_names"));
    std::vector<FirstFormatTensor> tensors;
    for (int i = 0; i < n; ++i) {
      const Tensor& value = ctx.input(first + i);
      FirstFormatTensor t{names[static_cast<size_t>(i)], value.shape(), TensorSlice::Full(value.rank()), value};
      if constexpr (kSlices) {
        TROUPE_ASSIGN_OR_RETURN(const auto slices, StringsInput(ctx, 2, n, "shapes_and_slices"));
        if (const std::string& text = slices[static_cast<size_t>(i)]; !text.empty()) {
          TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(text));
          t.full_shape = at.full_shape;
          t.slice = at.slice;
        }
      }
      tensors.push_back(std::move(t));
    }
    return WriteFirstFormat(path, tensors, [&ctx] { return ctx.cancelled(); });
  }
};
TROUPE_KERNEL("Save").Device("CPU").Class<Blocking<SaveKernel<false>>>();
TROUPE_KERNEL("SaveSlices").Device("CPU").Class<Blocking<SaveKernel<true>>>();

}  // namespace
}  // namespace troupe::io
