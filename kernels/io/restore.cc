// Restore and RestoreSlice: one tensor from files that a pattern names.
#include "kernels/io/blocking.h"
#include "kernels/io/restored.h"
#include "troupe/op_def.h"

namespace troupe::io {
namespace {

TROUPE_OP("Restore")
    .Input("file_pattern: string")
    .Input("tensor_name: string")
    .Output("tensor: dt")
    .Attr("dt: type")
    .Attr("preferred_shard: int = -1")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      TROUPE_RETURN_IF_ERROR(c.WithRank(1, 0).status());
      return shape_fn::Unknown(c);
    })
    .NotDifferentiable("it reads files")
    .Doc(
        "The tensor `tensor_name` of a checkpoint: files of the first format that `file_pattern` names, or one of the "
        "second format with this prefix. `preferred_shard` is not needed: no file is read but for its list of names "
        "and the tensor.");

TROUPE_OP("RestoreSlice")
    .Input("file_pattern: string")
    .Input("tensor_name: string")
    .Input("shape_and_slice: string")
    .Output("tensor: dt")
    .Attr("dt: type")
    .Attr("preferred_shard: int = -1")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      for (int i = 0; i < 3; ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
      const Tensor* const slice = c.input_tensor(2);
      return SetRestoredShape(c, 0, slice != nullptr ? slice->scalar<std::string>() : "");
    })
    .NotDifferentiable("it reads files")
    .Doc("As Restore; the slice of the tensor that `shape_and_slice` describes, all of it when that is empty.");

template <bool kSlice>
class RestoreKernel {
 public:
  explicit RestoreKernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string pattern, StringInput(ctx, 0, "file_pattern"));
    TROUPE_ASSIGN_OR_RETURN(const std::string name, StringInput(ctx, 1, "tensor_name"));
    std::string slice;
    if constexpr (kSlice) {
      TROUPE_ASSIGN_OR_RETURN(slice, StringInput(ctx, 2, "shape_and_slice"));
    }
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(pattern));
    reader->ReadInto(ctx.allocator());
    absl::StatusOr<Tensor> value = Restored(*reader, name, slice, ctx.output_type(0));
    if (!value.ok()) return Annotate(value.status(), pattern);
    ctx.set_output(0, *std::move(value));
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("Restore").Device("CPU").Class<Blocking<RestoreKernel<false>>>();
TROUPE_KERNEL("RestoreSlice").Device("CPU").Class<Blocking<RestoreKernel<true>>>();

}  // namespace
}  // namespace troupe::io
