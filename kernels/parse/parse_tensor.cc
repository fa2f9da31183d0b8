// ParseTensor and SerializeTensor: tensors as the bytes of a TensorProto.
#include "kernels/common/op_file.h"
#include "kernels/common/types.h"
#include "troupe/import_export.h"
#include "troupe/proto/tensor.pb.h"

namespace troupe::parse {
namespace {

TROUPE_OP("ParseTensor")
    .Input("serialized: string")
    .Output("output: out_type")
    .Attr("out_type: type")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_RETURN_IF_ERROR(c.WithRank(0, 0).status());
      return shape_fn::Unknown(c);
    })
    .NotDifferentiable("its input is text")
    .Doc("The tensor whose TensorProto has these bytes.");

class ParseTensorKernel {
 public:
  explicit ParseTensorKernel(KernelInit& init) : type_(init.output_type(0)) {}
  absl::Status Compute(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0) {
      return InvalidArgument("serialized must be a scalar, but has shape ", ctx.input(0).shape().DebugString());
    }
    const std::string& bytes = ctx.input(0).scalar<std::string>();
    proto::TensorProto p;
    if (!p.ParseFromString(bytes)) return InvalidArgument("the ", bytes.size(), " bytes are no TensorProto");
    absl::StatusOr<Tensor> t = TensorFromProto(p);
    if (!t.ok()) return Annotate(t.status(), "the TensorProto is damaged");
    if (t->dtype() != type_) return InvalidArgument("the tensor is of type ", Name(t->dtype()), ", not ", Name(type_));
    ctx.set_output(0, *std::move(t));
    return absl::OkStatus();
  }

 private:
  const DType type_;
};
TROUPE_KERNEL("ParseTensor").Device("CPU").Class<ParseTensorKernel>();

TROUPE_OP("SerializeTensor")
    .Input("tensor: T")
    .Output("serialized: string")
    .Attr("T: type")
    .Shape(shape_fn::Scalar)
    .NotDifferentiable("its output is text")
    .Doc("The bytes of the tensor's TensorProto.");

absl::Status Serialize(KernelContext& ctx) {
  if (ctx.input(0).dtype() == DType::kResource) return InvalidArgument("a handle has no bytes");
  if (ctx.input(0).bytes() > (size_t{1} << 31) - 1024) {
    return InvalidArgument("the tensor ", ctx.input(0).TypeAndShape(), " is too large: a TensorProto ends at 2 GiB");
  }
  proto::TensorProto p;
  TensorToProto(ctx.input(0), &p);
  std::string bytes;
  if (!p.SerializeToString(&bytes)) return InvalidArgument("the tensor is too large: a TensorProto ends at 2 GiB");
  ctx.set_output(0, Tensor::Scalar(std::move(bytes)));
  return absl::OkStatus();
}
TROUPE_KERNEL("SerializeTensor").Device("CPU").Function<Serialize>();

}  // namespace
}  // namespace troupe::parse
