// L2Loss: half the sum of squares.
#include <vector>

#include "kernels/common/as_float.h"
#include "kernels/common/types.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("L2Loss")
    .Input("t: T")
    .Output("output: T")
    .Attr("T: {half, bfloat16, float, double}")
    .Shape(shape_fn::Scalar)
    .Gradient([](GradientContext& g) {
      g.Set(0, g.Op("Mul", {g.Input(0), g.Grad(0)}));
      return g.status();
    })
    .Doc("sum(t * t) / 2.");

// Eight running sums, so that the additions do not wait for each other and float64 can absorb long
// tensors.
template <class T>
double SumOfSquares(const T* x, int64_t n) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int l = 0; l < 8; ++l) lanes[l] += static_cast<double>(x[i + l]) * x[i + l];
  }
  for (; i < n; ++i) lanes[0] += static_cast<double>(x[i]) * x[i];
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

absl::Status Compute(KernelContext& ctx) {
  const DType dtype = ctx.node().input_types[0];
  const Tensor x = Widened(ctx, ctx.input(0));
  const int64_t n = x.num_elements(), ranges = std::max<int64_t>(1, ctx.threads()->NumRanges(n, 0.4));
  std::vector<double> partial(ranges);
  ctx.threads()->ParallelRanges(ranges, ranges, [&](int64_t first, int64_t limit) {
    for (int64_t r = first; r < limit; ++r) {
      int64_t b, e;
      ComputeThreads::Range(n, ranges, r, &b, &e);
      partial[r] = x.dtype() == DType::kDouble ? SumOfSquares(x.data<double>() + b, e - b)
                                               : SumOfSquares(x.data<float>() + b, e - b);
    }
  });
  double sum = 0;
  for (double p : partial) sum += p;
  Tensor out = x.dtype() == DType::kDouble ? Tensor::Scalar<double>(sum / 2)
                                           : Tensor::Scalar<float>(static_cast<float>(sum / 2));
  ctx.set_output(0, Narrowed(ctx, std::move(out), dtype));
  return absl::OkStatus();
}

TROUPE_CPU_KERNEL("L2Loss").Function<Compute>();

}  // namespace
}  // namespace troupe
