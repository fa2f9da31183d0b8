#include "kernels/summary/summary.h"

namespace troupe::summary {

absl::Status SetSummary(KernelContext& ctx, const proto::Summary& summary) {
  std::string bytes;
  if (!summary.SerializeToString(&bytes)) return InvalidArgument("a summary of 2 GiB or more");
  ctx.set_output(0, Tensor::Scalar(std::move(bytes)));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ScalarString(const KernelContext& ctx, int i, std::string_view what) {
  const Tensor& t = ctx.input(i);
  if (t.rank() != 0) return InvalidArgument(what, " must be a scalar, but has shape ", t.shape().DebugString());
  return t.scalar<std::string>();
}

std::string NumberedTag(std::string_view tag, std::string_view kind, int64_t i, int64_t most) {
  return most == 1 ? StrCat(tag, "/", kind) : StrCat(tag, "/", kind, "/", i);
}

}  // namespace troupe::summary
