// ScaledTanh: scale * tanh(x). An op of a program that uses Troupe.
#include <cmath>

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

using namespace troupe;

TROUPE_OP("ScaledTanh")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: {float, double}")
    .Attr("scale: float = 1.7159")
    .Shape(shape_fn::Unchanged)
    .Gradient([](GradientContext& g) {
      // dy * (scale - y * y / scale)
      const double scale = g.Attr<float>("scale");
      const NodeOut y = g.Output(0);
      const NodeOut part = g.Op("Mul", {g.Op("Square", {y}), g.ScalarLike(y, 1 / scale)});
      g.Set(0, g.Op("Mul", {g.Grad(0), g.Op("Sub", {g.ScalarLike(y, scale), part})}));
      return g.status();
    })
    .Doc("scale * tanh(x), element by element.");

// Made once for each node; every step and thread uses it, so it does not change.
template <class T>
class ScaledTanh {
 public:
  explicit ScaledTanh(KernelInit& init) : scale_(init.Attr<float>("scale")) {
    if (scale_ == 0) init.Fail(InvalidArgument("scale is 0"));
  }
  absl::Status Compute(KernelContext& ctx) {
    const Tensor x = ctx.input(0);
    TROUPE_ASSIGN_OR_RETURN(Tensor * y, ctx.AllocateOutput(0, x.shape()));
    const absl::Span<const T> from = x.flat<T>();
    const absl::Span<T> to = y->flat<T>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = scale_ * std::tanh(from[i]);
    return absl::OkStatus();
  }

 private:
  const T scale_;
};
TROUPE_KERNEL("ScaledTanh").Device("CPU").Type<float>("T").Class<ScaledTanh<float>>();
TROUPE_KERNEL("ScaledTanh").Device("CPU").Type<double>("T").Class<ScaledTanh<double>>();
