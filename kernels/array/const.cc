// Const: the tensor of its attr. The kernel hands out the attr's own buffer; nobody can write to
// it, since the kernel keeps a reference.
#include "kernels/common/op_file.h"

namespace troupe::array {
namespace {

absl::Status ConstShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const Tensor value, c.Attr<Tensor>("value"));
  c.set_output(0, value.shape());
  return absl::OkStatus();
}

class ConstKernel {
 public:
  static constexpr Cost kCost = Cost::kTrivial;
  explicit ConstKernel(KernelInit& init) : value_(init.Attr<Tensor>("value")) {
    if (!init.status().ok()) return;
    if (value_.dtype() != init.output_type(0)) {
      init.Fail(InvalidArgument("attr 'value' is ", value_.TypeAndShape(), " but attr 'dtype' is ",
                                Name(init.output_type(0))));
    }
  }
  absl::Status Compute(KernelContext& ctx) {
    ctx.set_output(0, value_);
    return absl::OkStatus();
  }

 private:
  Tensor value_;
};

TROUPE_OP("Const")
    .Output("output: dtype")
    .Attr("value: tensor")
    .Attr("dtype: type")
    .Trait(OpTrait::kConstant)
    .Shape(ConstShape)
    .NotDifferentiable("it has no inputs")
    .Doc("A constant: the value of attr `value`.");
TROUPE_KERNEL("Const").Device("CPU").Class<ConstKernel>();
TROUPE_KERNEL("Const").Device("*").HostMemory("output").Class<ConstKernel>();

}  // namespace
}  // namespace troupe::array
