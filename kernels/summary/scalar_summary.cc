// ScalarSummary: numbers with their tags.
#include "kernels/common/types.h"
#include "kernels/summary/summary.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

TROUPE_OP("ScalarSummary")
    .Input("tags: string")
    .Input("values: T")
    .Output("summary: string")
    .Attr("T: realnumbertype")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc("A Summary message with one value for each element of `values`, which float32 holds, under its tag.");

template <class T>
absl::Status ComputeScalars(KernelContext& ctx) {
  const Tensor &tags = ctx.input(0), &values = ctx.input(1);
  const int64_t n = values.num_elements();
  // One tag and one number go together whatever their shapes.
  if (tags.shape() != values.shape() && (tags.num_elements() != 1 || n != 1)) {
    return InvalidArgument(
        "tags and values are not the same shape: ", tags.shape().DebugString(), " and ", values.shape().DebugString(),
        tags.num_elements() == 1 ? StrCat(" (tag '", CEscape(tags.data<std::string>()[0]), "')") : "");
  }
  proto::Summary summary;
  for (int64_t i = 0; i < n; ++i) {
    proto::Summary::Value* const value = summary.add_value();
    value->set_tag(tags.data<std::string>()[i]);
    value->set_simple_value(static_cast<float>(values.data<T>()[i]));
  }
  return SetSummary(ctx, summary);
}

TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<float>("T").Function<ComputeScalars<float>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<double>("T").Function<ComputeScalars<double>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<Half>("T").Function<ComputeScalars<Half>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<BFloat16>("T").Function<ComputeScalars<BFloat16>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<int8_t>("T").Function<ComputeScalars<int8_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<int16_t>("T").Function<ComputeScalars<int16_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<int32_t>("T").Function<ComputeScalars<int32_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<int64_t>("T").Function<ComputeScalars<int64_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<uint8_t>("T").Function<ComputeScalars<uint8_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<uint16_t>("T").Function<ComputeScalars<uint16_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<uint32_t>("T").Function<ComputeScalars<uint32_t>>();
TROUPE_KERNEL("ScalarSummary").Device("CPU").Type<uint64_t>("T").Function<ComputeScalars<uint64_t>>();

}  // namespace
}  // namespace troupe::summary
