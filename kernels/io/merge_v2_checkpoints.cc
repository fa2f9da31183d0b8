// MergeV2Checkpoints: one checkpoint of the parts that several SaveV2 wrote.
#include "kernels/io/blocking.h"
#include "troupe/checkpoint.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::io {
namespace {

TROUPE_OP("MergeV2Checkpoints")
    .Input("checkpoint_prefixes: string")
    .Input("destination_prefix: string")
    .Attr("delete_old_dirs: bool = true")
    .Attr("allow_missing_files: bool = false")
    .Stateful()
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 1).status());
      return c.WithRank(1, 0).status();
    })
    .NotDifferentiable("it moves files")
    .Doc(
        "Makes the checkpoint `destination_prefix` of the parts `checkpoint_prefixes`, whose data files it takes over; "
        "slices of one tensor join. With `delete_old_dirs` the folders that this leaves empty are deleted; with "
        "`allow_missing_files` parts that are not there are left out.");

class MergeKernel {
 public:
  explicit MergeKernel(KernelInit& init) {
    options_.delete_old_folders = init.Attr<bool>("delete_old_dirs");
    options_.allow_missing = init.Attr<bool>("allow_missing_files");
  }
  absl::Status Work(KernelContext& ctx) {
    TROUPE_ASSIGN_OR_RETURN(const auto parts, StringsInput(ctx, 0, -1, "checkpoint_prefixes"));
    TROUPE_ASSIGN_OR_RETURN(const std::string to, StringInput(ctx, 1, "destination_prefix"));
    MergeOptions options = options_;
    options.cancelled = [&ctx] { return ctx.cancelled(); };
    return MergeCheckpoints({parts.begin(), parts.end()}, to, options);
  }

 private:
  MergeOptions options_;
};
TROUPE_KERNEL("MergeV2Checkpoints").Device("CPU").Class<Blocking<MergeKernel>>();

}  // namespace
}  // namespace troupe::io
