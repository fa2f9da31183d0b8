#include <type_traits>

#include "kernels/common/grad_math.h"
#include "kernels/elementwise/elementwise.h"
#include "troupe/kernel.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// The lower bound is applied last and so wins where the bounds cross; NaN stays NaN.
using ClipLoop = void (*)(const void* x, const void* low, int low_step, const void* high, int high_step, void* out,
                          int64_t n);
template <class T>
void Clip(const void* x, const void* low, int low_step, const void* high, int high_step, void* out, int64_t n) {
  // 16-bit floats compare as floats, and keep their bits.
  using V = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  const T* from = static_cast<const T*>(x);
  const T* lower = static_cast<const T*>(low);
  const T* upper = static_cast<const T*>(high);
  T* z = static_cast<T*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const V l = static_cast<V>(lower[i * low_step]), h = static_cast<V>(upper[i * high_step]);
    V v = static_cast<V>(from[i]);
    v = v > h ? h : v;
    z[i] = static_cast<T>(v < l ? l : v);
  }
}

class ClipKernel {
 public:
  explicit ClipKernel(KernelInit& init)
      : loop_(VisitNumeric(init.output_type(0), ClipLoop{nullptr}, []<class T>() -> ClipLoop {
          if constexpr (requires(T a) { a < a; } && !std::is_same_v<T, bool>) {
            return Clip<T>;
          } else {
            return nullptr;
          }
        })) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    const Tensor& low = ctx.input(1);
    const Tensor& high = ctx.input(2);
    for (const Tensor* bound : {&low, &high}) {
      if (bound->rank() != 0 && !bound->SameShape(x)) {
        return InvalidArgument(
            "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. input shape: ",
            x.shape().DebugString(), " clip_value_min shape: ", low.shape().DebugString(),
            " clip_value_max shape: ", high.shape().DebugString());
      }
    }
    const int64_t n = x.num_elements(), size = static_cast<int64_t>(SizeOf(x.dtype()));
    const int low_step = low.rank() != 0, high_step = high.rank() != 0;
    const char* px = static_cast<const char*>(x.raw());
    const char* pl = static_cast<const char*>(low.raw());
    const char* ph = static_cast<const char*>(high.raw());
    const TensorShape shape = x.shape();
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, ctx.ForwardOrAllocate({0}, 0, shape));
    char* z = static_cast<char*>(out->raw());
    ctx.threads()->ParallelFor(n, 0.5, [&](int64_t begin, int64_t end) {
      loop_(px + begin * size, pl + begin * size * low_step, low_step, ph + begin * size * high_step, high_step,
            z + begin * size, end - begin);
    });
    return absl::OkStatus();
  }

 private:
  ClipLoop loop_;
};

absl::Status Gradient(GradientContext& g) {
  const math::Value x = math::In(g, 0), low = math::In(g, 1), high = math::In(g, 2), dy = math::Grad(g),
                    zero = math::Number(dy, 0);
  const math::Value below = math::Apply("Less", x, low), above = math::Apply("Greater", x, high);
  g.Set(0, math::Where(math::Apply("LogicalOr", below, above), zero, dy).out);
  for (int i : {1, 2}) {
    const math::Value part = math::Where(i == 1 ? below : above, dy, zero);
    const math::Value shape = math::Apply("Shape", math::In(g, i));
    if (!g.status().ok()) return g.status();
    const NodeOut axes = g.Op("BroadcastGradientArgs", {shape.out, math::Apply("Shape", x).out});
    g.Set(i, math::Apply("Reshape", {&g, g.Op("Sum", {part.out, axes})}, shape).out);
  }
  return g.status();
}

}  // namespace

TROUPE_OP("ClipByValue")
    .Input("t: T")
    .Input("clip_value_min: T")
    .Input("clip_value_max: T")
    .Output("output: T")
    .Attr("T: numbertype")
    .Shape(shape_fn::Unchanged)
    .Gradient(Gradient)
    .Doc("t limited to [clip_value_min, clip_value_max], which are scalars or have the shape of t.");

TROUPE_KERNEL("ClipByValue")
    .Device("CPU")
    .Types("T", {DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kDouble, DType::kInt8, DType::kInt16,
                 DType::kInt32, DType::kInt64, DType::kUint8, DType::kUint16})
    .Class<ClipKernel>();

}  // namespace troupe
