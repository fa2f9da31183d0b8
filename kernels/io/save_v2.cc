// SaveV2: tensors into the files of a checkpoint.
#include "kernels/io/blocking.h"
#include "troupe/checkpoint.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::io {
namespace {

TROUPE_OP("SaveV2")
    .Input("prefix: string")
    .Input("tensor_names: string")
    .Input("shape_and_slices: string")
    .Input("tensors: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Stateful()
    .Shape([](InferenceContext& c) { return CheckNamesAndSlices(c, c.num_inputs() - 3); })
    .NotDifferentiable("it writes files")
    .Doc(
        "Writes `tensors` under `tensor_names` into the checkpoint `prefix`, in TensorFlow's second format. A text of "
        "`shape_and_slices` that is not empty says of which tensor its tensor is a slice: \"4 2 0,2:-\" are the first "
        "two rows of [4,2]. What was there is replaced in one step, when all has been written and synced.");

class SaveV2Kernel {
 public:
  explicit SaveV2Kernel(KernelInit&) {}
  absl::Status Work(KernelContext& ctx) {
    const int n = ctx.num_inputs() - 3;
    TROUPE_ASSIGN_OR_RETURN(const std::string prefix, StringInput(ctx, 0, "prefix"));
    TROUPE_ASSIGN_OR_RETURN(const auto names, StringsInput(ctx, 1, n, "tensor_names"));
    TROUPE_ASSIGN_OR_RETURN(const auto slices, StringsInput(ctx, 2, n, "shape_and_slices"));
    TROUPE_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointWriter> writer, CheckpointWriter::Create(prefix));
    for (int i = 0; i < n; ++i) {
      if (ctx.cancelled()) return Cancelled("saving ", prefix, " was cancelled");
      const Tensor& value = ctx.input(3 + i);
      const std::string& name = names[static_cast<size_t>(i)];
      if (slices[static_cast<size_t>(i)].empty()) {
        TROUPE_RETURN_IF_ERROR(writer->Add(name, value));
      } else {
        TROUPE_ASSIGN_OR_RETURN(const ShapeAndSlice at, ShapeAndSlice::Parse(slices[static_cast<size_t>(i)]));
        TROUPE_RETURN_IF_ERROR(writer->AddSlice(name, at.full_shape, at.slice, value));
      }
    }
    return writer->Finish([&ctx] { return ctx.cancelled(); });
  }
};
TROUPE_KERNEL("SaveV2").Device("CPU").Class<Blocking<SaveV2Kernel>>();

}  // namespace
}  // namespace troupe::io
