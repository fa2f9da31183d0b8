// MergeSummary: one summary of several.
#include <set>

#include "kernels/summary/summary.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

TROUPE_OP("MergeSummary")
    .Input("inputs: N * string")
    .Output("summary: string")
    .Attr("N: int >= 1")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc("A Summary message with the values of all inputs, in their order. Two of one tag are refused.");

absl::Status MergeSummaries(KernelContext& ctx) {
  proto::Summary merged;
  std::set<std::string> tags;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    for (const std::string& bytes : ctx.input(i).flat<std::string>()) {
      proto::Summary summary;
      if (!summary.ParseFromString(bytes)) return InvalidArgument("input ", i, " is no Summary message");
      for (proto::Summary::Value& value : *summary.mutable_value()) {
        // Values of TensorSummary have no tag.
        if (!value.tag().empty() && !tags.insert(value.tag()).second) {
          return InvalidArgument("the tag '", CEscape(value.tag()), "' is twice in the inputs");
        }
        *merged.add_value() = std::move(value);
      }
    }
  }
  return SetSummary(ctx, merged);
}
TROUPE_KERNEL("MergeSummary").Device("CPU").Function<MergeSummaries>();

}  // namespace
}  // namespace troupe::summary
