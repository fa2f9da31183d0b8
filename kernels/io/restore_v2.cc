// RestoreV2: tensors from a checkpoint of either format.
#include "kernels/io/blocking.h"
#include "kernels/io/restored.h"
#include "troupe/op_def.h"

namespace troupe::io {
namespace {

TROUPE_OP("RestoreV2")
    .Input("prefix: string")
    .Input("tensor_names: string")
    .Input("shape_and_slices: string")
    .Output("tensors: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(CheckNamesAndSlices(c, c.num_outputs()));
      const Tensor* const slices = c.input_tensor(2);
      for (int o = 0; o < c.num_outputs(); ++o) {
        TROUPE_RETURN_IF_ERROR(SetRestoredShape(c, o, slices != nullptr ? slices->flat<std::string>()[o] : ""));
      }
      return absl::OkStatus();
    })
    .NotDifferentiable("it reads files")
    .Doc(
        "The tensors `tensor_names` of the checkpoint `prefix`, or the slices of them that `shape_and_slices` "
        "describes, as SaveV2 takes them. NOT_FOUND lists the names that are most like one that is not there. "
        "Checkpoints of the first format are read, too.");

class RestoreV2Kernel {
 public:
  explicit RestoreV2Kernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const std::string prefix, StringInput(ctx, 0, "prefix"));
    TROUPE_ASSIGN_OR_RETURN(const auto names, StringsInput(ctx, 1, ctx.num_outputs(), "tensor_names"));
    TROUPE_ASSIGN_OR_RETURN(const auto slices, StringsInput(ctx, 2, ctx.num_outputs(), "shape_and_slices"));
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(prefix));
    reader->ReadInto(ctx.allocator());
    for (int o = 0; o < ctx.num_outputs(); ++o) {
      if (ctx.cancelled()) return Cancelled("restoring ", prefix, " was cancelled");
      const auto i = static_cast<size_t>(o);
      absl::StatusOr<Tensor> value = Restored(*reader, names[i], slices[i], ctx.output_type(o));
      if (!value.ok()) return Annotate(value.status(), prefix);
      ctx.set_output(o, *std::move(value));
    }
    return absl::OkStatus();
  }
};
TROUPE_KERNEL("RestoreV2").Device("CPU").Class<Blocking<RestoreV2Kernel>>();

}  // namespace
}  // namespace troupe::io
