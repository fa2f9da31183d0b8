#include "kernels/common/grad_math.h"
#include "kernels/elementwise/select.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

class SelectV2Kernel {
 public:
  explicit SelectV2Kernel(KernelInit& init) : loop_(math::SelectLoopOf(init.output_type(0))) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& c = ctx.input(0);
    const Tensor& t = ctx.input(1);
    const Tensor& e = ctx.input(2);
    if (c.rank() == 0 && t.SameShape(e)) {
      ctx.set_output(0, ctx.TakeInput(*c.data<bool>() ? 1 : 2));
      return absl::OkStatus();
    }
    absl::StatusOr<TensorShape> shape = BroadcastShapes(t.shape(), e.shape());
    if (shape.ok()) shape = BroadcastShapes(*shape, c.shape());
    if (!shape.ok()) {
      return InvalidArgument("condition ", c.shape().DebugString(), ", then ", t.shape().DebugString(), ", and else ",
                             e.shape().DebugString(), " must be broadcastable");
    }
    return math::SelectBroadcast(ctx, loop_, c, *shape);
  }

 private:
  math::SelectLoop loop_;
};

absl::Status Shape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape values, BroadcastPartialShapes(c.input(1), c.input(2)));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape out, BroadcastPartialShapes(values, c.input(0)));
  c.set_output(0, std::move(out));
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& g) {
  const math::Value c = math::In(g, 0), dy = math::Grad(g), zero = math::Number(dy, 0);
  const math::Value whole = math::Apply("Shape", math::Out(g));
  for (int i : {1, 2}) {
    const math::Value part = i == 1 ? math::Where(c, dy, zero) : math::Where(c, zero, dy);
    if (g.InputShape(i).IsFullyDefined() && g.InputShape(i) == g.InputShape(0) &&
        g.InputShape(i) == g.InputShape(3 - i)) {
      g.Set(i, part.out);
      continue;
    }
    const math::Value shape = math::Apply("Shape", math::In(g, i));
    const math::Value axes = math::Apply("BroadcastGradientArgs", shape, whole);
    g.Set(i, math::Apply("Reshape", math::Apply("Sum", part, axes), shape).out);
  }
  return g.status();
}

}  // namespace

TROUPE_OP("SelectV2")
    .Input("condition: bool")
    .Input("t: T")
    .Input("e: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(Shape)
    .Gradient(Gradient)
    .Doc("Elements of t where condition is true, of e elsewhere; all three broadcast.");

TROUPE_KERNEL("SelectV2").Device("CPU").Types("T", math::SelectTypes()).Class<SelectV2Kernel>();

}  // namespace troupe
