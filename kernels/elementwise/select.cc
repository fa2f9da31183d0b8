#include "kernels/elementwise/select.h"

#include "kernels/common/grad_math.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

class SelectKernel {
 public:
  explicit SelectKernel(KernelInit& init) : loop_(math::SelectLoopOf(init.output_type(0))) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& c = ctx.input(0);
    const Tensor& t = ctx.input(1);
    const Tensor& e = ctx.input(2);
    if (!t.SameShape(e)) {
      return InvalidArgument("'then' and 'else' must have the same size.  but received: ", t.shape().DebugString(),
                             " vs. ", e.shape().DebugString());
    }
    if (c.rank() == 0) {
      ctx.set_output(0, ctx.TakeInput(*c.data<bool>() ? 1 : 2));
      return absl::OkStatus();
    }
    const TensorShape shape = t.shape();
    if (c.SameShape(t)) return math::SelectBroadcast(ctx, loop_, c, shape);
    // A vector chooses whole rows.
    if (c.rank() != 1) {
      return InvalidArgument("'cond' must be a vector, but saw shape: ", c.shape().DebugString());
    }
    if (t.rank() < 1 || t.dim(0) != c.dim(0)) {
      return InvalidArgument("Number of batches of 'then' must match size of 'cond', but saw: ",
                             t.rank() < 1 ? 0 : t.dim(0), " vs. ", c.dim(0));
    }
    TensorShape column({c.dim(0)});
    for (int i = 1; i < t.rank(); ++i) column.AddDim(1);
    return math::SelectBroadcast(ctx, loop_, c.Reshaped(column), shape);
  }

 private:
  math::SelectLoop loop_;
};

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, c.input(1).MergeWith(c.input(2)));
  const PartialTensorShape& condition = c.input(0);
  if (condition.known_rank() && condition.rank() > 1) {
    TROUPE_ASSIGN_OR_RETURN(out, out.MergeWith(condition));
  }
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

}  // namespace

TROUPE_OP("Select")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(Shape)
    .Gradient([](GradientContext& g) -> absl::Status {
      const math::Value dy = math::Grad(g), zero = math::Apply("ZerosLike", dy);
      g.Set(1, g.Op("Select", {g.Input(0), dy.out, zero.out}));
      g.Set(2, g.Op("Select", {g.Input(0), zero.out, dy.out}));
      return g.status();
    })
    .Doc(
        "Elements of t where condition is true, of e elsewhere. A condition that is a vector chooses rows of t and e, "
        "a scalar all of them.");

TROUPE_KERNEL("Select").Device("CPU").Types("T", math::SelectTypes()).Class<SelectKernel>();

}  // namespace troupe
