// ShardedFilename and ShardedFilespec: names of the parts of a file that is kept in several.
#include <cstdio>

#include "kernels/common/op_file.h"
#include "kernels/io/blocking.h"

namespace troupe::io {
namespace {

absl::Status ScalarsToScalar(InferenceContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) TROUPE_RETURN_IF_ERROR(c.WithRank(i, 0).status());
  return shape_fn::Scalar(c);
}

absl::StatusOr<int32_t> IntInput(const KernelContext& ctx, int i, std::string_view what) {
  if (ctx.input(i).rank() != 0) {
    return InvalidArgument(what, " must be a scalar, but has shape ", ctx.input(i).shape().DebugString());
  }
  return ctx.input(i).scalar<int32_t>();
}

absl::Status Name(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::string base, StringInput(ctx, 0, "basename"));
  TROUPE_ASSIGN_OR_RETURN(const int32_t shard, IntInput(ctx, 1, "shard"));
  TROUPE_ASSIGN_OR_RETURN(const int32_t shards, IntInput(ctx, 2, "num_shards"));
  char numbers[48];
  std::snprintf(numbers, sizeof(numbers), "-%05d-of-%05d", shard, shards);
  ctx.set_output(0, Tensor::Scalar(base + numbers));
  return absl::OkStatus();
}

absl::Status Spec(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(const std::string base, StringInput(ctx, 0, "basename"));
  TROUPE_ASSIGN_OR_RETURN(const int32_t shards, IntInput(ctx, 1, "num_shards"));
  char numbers[48];
  std::snprintf(numbers, sizeof(numbers), "-\?\?\?\?\?-of-%05d", shards);
  ctx.set_output(0, Tensor::Scalar(base + numbers));
  return absl::OkStatus();
}

TROUPE_OP("ShardedFilename")
    .Input("basename: string")
    .Input("shard: int32")
    .Input("num_shards: int32")
    .Output("filename: string")
    .Shape(ScalarsToScalar)
    .NotDifferentiable("its output is text")
    .Doc("`basename`-00002-of-00010: the name of a shard.");
TROUPE_KERNEL("ShardedFilename").Device("CPU").Function<Name, Cost::kTrivial>();

TROUPE_OP("ShardedFilespec")
    .Input("basename: string")
    .Input("num_shards: int32")
    .Output("filename: string")
    .Shape(ScalarsToScalar)
    .NotDifferentiable("its output is text")
    .Doc("`basename`-\?\?\?\?\?-of-00010: the pattern that all shards fit.");
TROUPE_KERNEL("ShardedFilespec").Device("CPU").Function<Spec, Cost::kTrivial>();

}  // namespace
}  // namespace troupe::io
