#include "kernels/elementwise/cast_loops.h"

#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

class CastKernel {
 public:
  explicit CastKernel(KernelInit& init) : from_(init.input_type(0)), to_(init.output_type(0)) {
    if (from_ == to_) return;
    plan_ = math::PlanCast(from_, to_, init.Attr<bool>("Truncate"));
    if (plan_.steps == 0) init.Fail(Unimplemented("Cast ", Name(from_), " to ", Name(to_), " is not supported"));
  }

  absl::Status Compute(KernelContext& ctx) {
    if (from_ == to_) {
      ctx.set_output(0, ctx.TakeInput(0));
      return absl::OkStatus();
    }
    const Tensor& x = ctx.input(0);
    const int64_t n = x.num_elements();
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, x.shape()));
    const char* px = static_cast<const char*>(x.raw());
    char* z = static_cast<char*>(out->raw());
    ctx.threads()->ParallelFor(n, 0.5 * plan_.steps, [&](int64_t begin, int64_t end) {
      plan_.Run(px + begin * plan_.from_size, z + begin * plan_.to_size, end - begin);
    });
    return absl::OkStatus();
  }

 private:
  DType from_, to_;
  math::CastPlan plan_;
};

// Integers and bools have no gradient.
absl::Status Gradient(GradientContext& g) {
  const DType from = g.input_type(0), to = BaseType(g.node().output_type(0));
  if ((IsFloating(from) || IsComplex(from)) && (IsFloating(to) || IsComplex(to))) {
    g.Set(0, g.Op("Cast", {g.Grad(0)}, {{"DstT", from}}));
  }
  return g.status();
}

}  // namespace

TROUPE_OP("Cast")
    .Input("x: SrcT")
    .Output("y: DstT")
    .Attr("SrcT: type")
    .Attr("DstT: type")
    .Attr("Truncate: bool = false")
    .Shape(shape_fn::Unchanged)
    .Gradient(Gradient)
    .Doc(
        "x in another type. Floats become integers by truncation towards zero; with Truncate, floats become shorter "
        "floats by cutting bits off.");

TROUPE_KERNEL("Cast").Device("CPU").Class<CastKernel>();

}  // namespace troupe
