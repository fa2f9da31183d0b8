#include <cmath>

#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

template <class T>
class ApproximateEqualKernel {
 public:
  explicit ApproximateEqualKernel(KernelInit& init) : tolerance_(static_cast<T>(init.Attr<float>("tolerance"))) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const Tensor& y = ctx.input(1);
    if (!x.SameShape(y)) {
      return InvalidArgument("x and y must be of the same shape. x shape: ", x.shape().DebugString(),
                             ". y shape: ", y.shape().DebugString());
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, x.shape()));
    const T* a = x.data<T>();
    const T* b = y.data<T>();
    bool* z = out->data<bool>();
    ctx.threads()->ParallelFor(x.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) z[i] = std::abs(a[i] - b[i]) < tolerance_;
    });
    return absl::OkStatus();
  }

 private:
  T tolerance_;
};

}  // namespace

TROUPE_OP("ApproximateEqual")
    .Input("x: T")
    .Input("y: T")
    .Output("z: bool")
    .Attr("T: numbertype")
    .Attr("tolerance: float = 0.00001")
    .Commutative()
    .Shape(shape_fn::MergeAll)
    .NotDifferentiable("its output is bool")
    .Doc("|x - y| < tolerance, for x and y of one shape.");

TROUPE_KERNEL("ApproximateEqual").Device("CPU").Type<float>("T").Class<ApproximateEqualKernel<float>>();
TROUPE_KERNEL("ApproximateEqual").Device("CPU").Type<double>("T").Class<ApproximateEqualKernel<double>>();

}  // namespace troupe
