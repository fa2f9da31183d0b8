// StringJoin: texts one behind the other, element by element.
#include "kernels/common/op_file.h"

namespace troupe::parse {
namespace {

TROUPE_OP("StringJoin")
    .Input("inputs: N * string")
    .Output("output: string")
    .Attr("N: int >= 0")
    .Attr("separator: string = ''")
    .Shape([](InferenceContext& c) -> absl::Status {
      // Scalars go with every shape.
      PartialTensorShape out{};
      bool all_scalars = true;
      for (int i = 0; i < c.num_inputs(); ++i) {
        if (!c.input(i).known_rank()) all_scalars = false;
        if (c.input(i).rank() <= 0) continue;
        all_scalars = false;
        TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(c.input(i)));
      }
      c.set_output(0, all_scalars ? PartialTensorShape(TensorShape()) : out);
      return absl::OkStatus();
    })
    .NotDifferentiable("its output is text")
    .Doc("The inputs joined, with `separator` between them; scalars are joined to every element of the others.");

class StringJoinKernel {
 public:
  explicit StringJoinKernel(KernelInit& init) : separator_(init.Attr<std::string>("separator")) {}
  absl::Status Compute(KernelContext& ctx) {
    TensorShape shape;
    bool any = false;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      if (ctx.input(i).rank() == 0) continue;
      if (any && ctx.input(i).shape() != shape) {
        return InvalidArgument("the inputs' shapes do not match: ", shape.DebugString(), " and ",
                               ctx.input(i).shape().DebugString());
      }
      any = true;
      shape = ctx.input(i).shape();
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, shape));
    std::string* const to = out->data<std::string>();
    const int64_t n = out->num_elements();
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const std::string* const from = ctx.input(i).data<std::string>();
      const bool scalar = ctx.input(i).rank() == 0;
      for (int64_t k = 0; k < n; ++k) {
        if (i > 0) to[k] += separator_;
        to[k] += from[scalar ? 0 : k];
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::string separator_;
};
TROUPE_KERNEL("StringJoin").Device("CPU").Class<StringJoinKernel>();

}  // namespace
}  // namespace troupe::parse
