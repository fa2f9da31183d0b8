// TensorSummary, TensorSummaryV2: any tensor, with what a plugin of TensorBoard needs to show it.
// Text is a tensor of strings of the plugin "text".
#include "kernels/summary/summary.h"
#include "troupe/import_export.h"
#include "troupe/op_def.h"
#include "troupe/proto/tensor.pb.h"
#include "troupe/shape_inference.h"

namespace troupe::summary {
namespace {

TROUPE_OP("TensorSummary")
    .Input("tensor: T")
    .Output("summary: string")
    .Attr("T: type")
    .Attr("description: string = ''")
    .Attr("labels: list(string) = []")
    .Attr("display_name: string = ''")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc("A Summary message with the tensor, under the name of this node. The attrs but T are ignored.");

TROUPE_OP("TensorSummaryV2")
    .Input("tag: string")
    .Input("tensor: T")
    .Input("serialized_summary_metadata: string")
    .Output("summary: string")
    .Attr("T: type")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable(kWhyNoGradient)
    .Doc("A Summary message with the tensor under a tag, and with a serialized SummaryMetadata message.");

absl::Status SetTensor(const Tensor& t, proto::Summary::Value* value) {
  if (t.dtype() == DType::kResource || t.dtype() == DType::kVariant) {
    return InvalidArgument("a summary cannot hold a tensor of ", Name(t.dtype()));
  }
  proto::TensorProto* const to = value->mutable_tensor();
  if (t.dtype() == DType::kString) {
    TensorToProto(t, to);
    return absl::OkStatus();
  }
  to->set_dtype(static_cast<proto::DataType>(t.dtype()));
  ShapeToProto(t.shape(), to->mutable_tensor_shape());
  to->set_tensor_content(t.raw(), t.bytes());
  return absl::OkStatus();
}

absl::Status ComputeTensor(KernelContext& ctx) {
  proto::Summary summary;
  proto::Summary::Value* const value = summary.add_value();
  value->set_node_name(std::string(ctx.node().name));
  TROUPE_RETURN_IF_ERROR(SetTensor(ctx.input(0), value));
  return SetSummary(ctx, summary);
}
TROUPE_KERNEL("TensorSummary").Device("CPU").Function<ComputeTensor>();

absl::Status ComputeV2(KernelContext& ctx) {
  TROUPE_ASSIGN_OR_RETURN(std::string tag, ScalarString(ctx, 0, "tag"));
  TROUPE_ASSIGN_OR_RETURN(const std::string metadata, ScalarString(ctx, 2, "serialized_summary_metadata"));
  proto::Summary summary;
  proto::Summary::Value* const value = summary.add_value();
  value->set_tag(std::move(tag));
  TROUPE_RETURN_IF_ERROR(SetTensor(ctx.input(1), value));
  if (!value->mutable_metadata()->ParseFromString(metadata)) {
    return InvalidArgument("serialized_summary_metadata is no SummaryMetadata message");
  }
  return SetSummary(ctx, summary);
}
TROUPE_KERNEL("TensorSummaryV2").Device("CPU").Function<ComputeV2>();

}  // namespace
}  // namespace troupe::summary
