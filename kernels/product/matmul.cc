// MatMul: the product of two matrices, either of them transposed on the way in.
#include "kernels/common/types.h"
#include "kernels/product/constant_matrix.h"
#include "kernels/product/gemm.h"
#include "kernels/tune/tuning.h"
#include "troupe/gradient_function.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

absl::Status MatMulShape(InferenceContext& c) {
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape a, c.WithRank(0, 2));
  TROUPE_ASSIGN_OR_RETURN(PartialTensorShape b, c.WithRank(1, 2));
  TROUPE_ASSIGN_OR_RETURN(bool ta, c.Attr<bool>("transpose_a"));
  TROUPE_ASSIGN_OR_RETURN(bool tb, c.Attr<bool>("transpose_b"));
  if (!MergeDims(a.dim(ta ? 0 : 1), b.dim(tb ? 1 : 0)).ok()) {
    return InvalidArgument("inner dimensions differ: ", a.DebugString(), ta ? " (transposed)" : "", " x ",
                           b.DebugString(), tb ? " (transposed)" : "");
  }
  c.set_output(0, {a.dim(ta ? 1 : 0), b.dim(tb ? 0 : 1)});
  return absl::OkStatus();
}

absl::Status MatMulGradient(GradientContext& g) {
  const bool ta = g.Attr<bool>("transpose_a"), tb = g.Attr<bool>("transpose_b");
  NodeOut a = g.Input(0), b = g.Input(1), d = g.Grad(0);
  if (IsComplex(g.input_type(0))) {
    a = g.Op("Conj", {a});
    b = g.Op("Conj", {b});
  }
  auto product = [&g](NodeOut x, NodeOut y, bool tx, bool ty, const char* which) {
    return g.Op("MatMul", {x, y}, {{"transpose_a", tx}, {"transpose_b", ty}, {which, true}});
  };
  // The forward input enters as operand a or b of the backward product; grad_a and grad_b say which
  // operand of the forward one it stands for.
  g.Set(0, ta ? product(b, d, tb, true, "grad_b") : product(d, b, false, !tb, "grad_b"));
  g.Set(1, tb ? product(d, a, true, ta, "grad_a") : product(a, d, !ta, false, "grad_a"));
  return g.status();
}

TROUPE_OP("MatMul")
    .Input("a: T")
    .Input("b: T")
    .Output("product: T")
    .Attr("transpose_a: bool = false")
    .Attr("transpose_b: bool = false")
    .Attr("T: {bfloat16, half, float, double, int32, int64, uint8, uint16, uint32, uint64, complex64, complex128}")
    .Attr("grad_a: bool = false")
    .Attr("grad_b: bool = false")
    .Shape(MatMulShape)
    .Gradient(MatMulGradient)
    .Doc(
        "The matrix a times the matrix b. Either is transposed first where its attr says so. grad_a and grad_b mark "
        "products that a gradient made; they do not change the value.");

class MatMulKernel {
 public:
  explicit MatMulKernel(KernelInit& init)
      : dtype_(init.input_type(0)),
        ta_(init.Attr<bool>("transpose_a")),
        tb_(init.Attr<bool>("transpose_b")),
        constant_(init.node()) {}

  absl::Status Compute(KernelContext& ctx) {
    const Tensor &a = ctx.input(0), &b = ctx.input(1);
    if (a.rank() != 2) return InvalidArgument("In[0] is not a matrix: its shape is ", a.shape().DebugString());
    if (b.rank() != 2) return InvalidArgument("In[1] is not a matrix: its shape is ", b.shape().DebugString());
    GemmShape s;
    s.m = a.dim(ta_ ? 1 : 0);
    s.k = a.dim(ta_ ? 0 : 1);
    s.n = b.dim(tb_ ? 0 : 1);
    s.transpose_a = ta_;
    s.transpose_b = tb_;
    if (s.k != b.dim(tb_ ? 1 : 0)) {
      return InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape().DebugString(), ta_ ? " (transposed)" : "",
                             ", In[1]: ", b.shape().DebugString(), tb_ ? " (transposed)" : "",
                             ": inner dimensions differ");
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * product, ctx.AllocateOutput(0, TensorShape({s.m, s.n})));
    const tune::AtNode here(ctx.node().name, ctx.node().op);
    Gemm(ctx.threads(), dtype_, s, a.raw(), b.raw(), product->raw(), constant_.Panels(ctx, s, b));
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
  const bool ta_, tb_;
  ConstantMatrix constant_;
};

TROUPE_CPU_KERNEL("MatMul").Class<MatMulKernel>();

}  // namespace
}  // namespace troupe
