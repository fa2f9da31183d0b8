// _FusedMatMul: MatMul with the bias and the activation behind it. Made by the pass that fuses
// nodes; graphs from TensorFlow may have it too.
#include <array>

#include "kernels/common/broadcast.h"
#include "kernels/product/bias_activation.h"
#include "kernels/product/constant_matrix.h"
#include "kernels/product/gemm.h"
#include "kernels/replaced_nodes.h"
#include "kernels/tune/tuning.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("_FusedMatMul")
    .Input("a: T")
    .Input("b: T")
    .Input("args: num_args * T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {bfloat16, half, float}")
    .Attr("num_args: int >= 0")
    .Attr("fused_ops: list(string) = []")
    .Attr("epsilon: float = 0.0001")
    .Attr("leakyrelu_alpha: float = 0.2")
    .Shape([](InferenceContext& c) -> absl::Status {
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape a, c.WithRank(0, 2));
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape b, c.WithRank(1, 2));
      TROUPE_ASSIGN_OR_RETURN(bool ta, c.Attr<bool>("transpose_a"));
      TROUPE_ASSIGN_OR_RETURN(bool tb, c.Attr<bool>("transpose_b"));
      TROUPE_RETURN_IF_ERROR(MergeDims(a.dim(ta ? 0 : 1), b.dim(tb ? 1 : 0)).status());
      c.set_output(0, {a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)});
      return absl::OkStatus();
    })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc(
        "MatMul followed by the ops of fused_ops: BiasAdd with the vector in args, then at most one of Relu, Relu6, "
        "Elu, LeakyRelu, Tanh and Sigmoid.");

class FusedMatMulKernel {
 public:
  explicit FusedMatMulKernel(KernelInit& init)
      : ta_(init.Attr<bool>("transpose_a")),
        tb_(init.Attr<bool>("transpose_b")),
        alpha_(init.Attr<float>("leakyrelu_alpha")),
        constant_(init.node()),
        replaced_(init.node()),
        adds_(replaced_.ops().size() > 1 && (replaced_.ops()[1] == "Add" || replaced_.ops()[1] == "AddV2")),
        bias_first_(replaced_.bias_first()) {
    const auto ops = init.Attr<std::vector<std::string>>("fused_ops");
    const bool known = !ops.empty() && ops.size() <= 2 && ops[0] == "BiasAdd" &&
                       (ops.size() == 1 || ParseFusedActivation(ops[1], &activation_));
    if (!known || init.num_inputs() != 3) {
      init.Fail(Unimplemented("fused_ops [", StrJoin(ops, ", "), "] with ", init.num_inputs() - 2,
                              " args are not known here"));
    }
  }

  absl::Status Compute(KernelContext& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &bias = ctx.input(2);
    GemmShape s;
    if (absl::Status bad = Sizes(a, b, &s); !bad.ok()) return replaced_.At(bad, "MatMul", ctx.node());
    if (bias.rank() != 1 || bias.dim(0) != s.n) [[unlikely]]
      return adds_ ? AddAnything(ctx, s) : RefuseBias(ctx, s);
    TROUPE_ASSIGN_OR_RETURN(Tensor * product, ctx.AllocateOutput(0, TensorShape({s.m, s.n})));
    const tune::AtNode here(ctx.node().name, ctx.node().op);
    GemmBiasActivation(ctx.threads(), s, a.data<float>(), b.data<float>(), bias.data<float>(), activation_, alpha_,
                       product->data<float>(), constant_.Panels(ctx, s, b));
    return absl::OkStatus();
  }

 private:
  absl::Status RefuseBias(KernelContext& ctx, const GemmShape& s) const {
    const Tensor& bias = ctx.input(2);
    const absl::Status bad =
        bias.rank() != 1 ? InvalidArgument("Biases must be 1D: ", bias.shape().DebugString())
                         : InvalidArgument("Must provide as many biases as the channel dimension of the input tensor: ",
                                           bias.shape().DebugString(), " vs. ", s.n, " in [", s.m, ",", s.n, "]");
    return replaced_.At(bad, replaced_.ops().size() > 1 ? replaced_.ops()[1] : "BiasAdd", ctx.node());
  }

  // What was a vector as the graph knew it may be of any shape now: a variable may be given another
  // one. Then it is added as Add does it.
  absl::Status AddAnything(KernelContext& ctx, const GemmShape& s) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1), &bias = ctx.input(2);
    TROUPE_ASSIGN_OR_RETURN(Tensor product, ctx.AllocateTemp(DType::kFloat, TensorShape({s.m, s.n})));
    const auto shape = bias_first_ ? math::BroadcastTensors(bias, product) : math::BroadcastTensors(product, bias);
    if (!shape.ok()) return replaced_.At(shape.status(), replaced_.ops()[1], ctx.node());
    Gemm(ctx.threads(), DType::kFloat, s, a.raw(), b.raw(), product.raw(), constant_.Panels(ctx, s, b));
    TROUPE_ASSIGN_OR_RETURN(Tensor * sum, ctx.AllocateOutput(0, *shape));
    const int64_t n = sum->num_elements();
    if (n == 0) return absl::OkStatus();
    const math::BroadcastWalk<2> walk(*shape, {&product, &bias});
    const bool both[] = {walk.advances(0), walk.advances(1)};
    float* const y = sum->data<float>();
    walk.ForRange(0, n, [&](const std::array<int64_t, 2>& from, int64_t at, int64_t size) {
      const float *const p = product.data<float>() + from[0], *const v = bias.data<float>() + from[1];
      for (int64_t i = 0; i < size; ++i) y[at + i] = p[both[0] ? i : 0] + v[both[1] ? i : 0];
    });
    // Nothing changes where -0 is added.
    const float nothing = -0.0f;
    AddBiasActivation(ctx.threads(), activation_, alpha_, n, 1, &nothing, y);
    return absl::OkStatus();
  }

  absl::Status Sizes(const Tensor& a, const Tensor& b, GemmShape* s) const {
    if (a.rank() != 2) return InvalidArgument("In[0] is not a matrix: its shape is ", a.shape().DebugString());
    if (b.rank() != 2) return InvalidArgument("In[1] is not a matrix: its shape is ", b.shape().DebugString());
    s->m = a.dim(ta_ ? 1 : 0);
    s->k = a.dim(ta_ ? 0 : 1);
    s->n = b.dim(tb_ ? 0 : 1);
    s->transpose_a = ta_;
    s->transpose_b = tb_;
    if (s->k == b.dim(tb_ ? 1 : 0)) return absl::OkStatus();
    return InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape().DebugString(), ta_ ? " (transposed)" : "",
                           ", In[1]: ", b.shape().DebugString(), tb_ ? " (transposed)" : "",
                           ": inner dimensions differ");
  }

  const bool ta_, tb_;
  const float alpha_;
  ConstantMatrix constant_;
  const ReplacedNodes replaced_;
  const bool adds_, bias_first_;  // the bias stood in an Add, and before the product
  FusedActivation activation_ = FusedActivation::kNone;
};

TROUPE_KERNEL("_FusedMatMul").Device("CPU").Type<float>("T").Class<FusedMatMulKernel>();

}  // namespace
}  // namespace troupe
