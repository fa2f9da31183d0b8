// _SumOfProducts: the sum of several products whose left operands are transposed, as one product.
// Made by the pass that fuses nodes.
//
// The gradient of a matrix that a step multiplies again and again (the state's weights of a
// recurrent network, once for each time step) is such a sum: of products of few rows, each as large
// as the matrix. Put below each other, all left operands are one matrix and all right operands
// another, and one product of these is the sum, so that nothing of the matrix's size is written and
// read for each term.
#include <algorithm>
#include <cstring>

#include "kernels/product/gemm.h"
#include "kernels/replaced_nodes.h"
#include "kernels/tune/tuning.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

TROUPE_OP("_SumOfProducts")
    .Input("a: N * T")
    .Input("b: N * T")
    .Output("sum: T")
    .Attr("N: int >= 1")
    .Attr("T: {float}")
    .Shape([](InferenceContext& c) -> absl::Status {
      const int n = c.num_inputs() / 2;
      int64_t rows = -1, columns = -1;
      for (int i = 0; i < n; ++i) {
        TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape a, c.WithRank(i, 2));
        TROUPE_ASSIGN_OR_RETURN(const PartialTensorShape b, c.WithRank(n + i, 2));
        TROUPE_RETURN_IF_ERROR(MergeDims(a.dim(0), b.dim(0)).status());
        TROUPE_ASSIGN_OR_RETURN(rows, MergeDims(rows, a.dim(1)));
        TROUPE_ASSIGN_OR_RETURN(columns, MergeDims(columns, b.dim(1)));
      }
      c.set_output(0, {rows, columns});
      return absl::OkStatus();
    })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc(
        "The sum over i of transpose(a[i]) * b[i], whose rows may differ in number from one i to the next; what AddN "
        "gives of these MatMuls, summed in another order.");

class SumOfProductsKernel {
 public:
  explicit SumOfProductsKernel(KernelInit& init) : terms_(init.num_inputs() / 2), replaced_(init.node()) {}

  absl::Status Compute(KernelContext& ctx) {
    GemmShape s;
    TROUPE_RETURN_IF_ERROR(Sizes(ctx, &s));
    TROUPE_ASSIGN_OR_RETURN(Tensor * sum, ctx.AllocateOutput(0, TensorShape({s.m, s.n})));
    const tune::AtNode here(ctx.node().name, ctx.node().op);
    if (s.m == 0 || s.n == 0) return absl::OkStatus();
    // With so many rows the copies would be larger than the products.
    if (s.k * (s.m + s.n) > (terms_ + 1) * s.m * s.n) return OneByOne(ctx, s, sum->data<float>());
    TROUPE_ASSIGN_OR_RETURN(const Tensor a, Stack(ctx, 0, s.k, s.m));
    TROUPE_ASSIGN_OR_RETURN(const Tensor b, Stack(ctx, terms_, s.k, s.n));
    Gemm(ctx.threads(), DType::kFloat, s, a.raw(), b.raw(), sum->raw());
    return absl::OkStatus();
  }

 private:
  // Of the one product.
  absl::Status Sizes(KernelContext& ctx, GemmShape* s) const {
    s->transpose_a = true;
    for (int i = 0; i < terms_; ++i) {
      const Tensor &a = ctx.input(i), &b = ctx.input(terms_ + i);
      absl::Status bad;
      if (a.rank() != 2) {
        bad = InvalidArgument("In[0] is not a matrix: its shape is ", a.shape().DebugString());
      } else if (b.rank() != 2) {
        bad = InvalidArgument("In[1] is not a matrix: its shape is ", b.shape().DebugString());
      } else if (a.dim(0) != b.dim(0)) {
        bad = InvalidArgument("Matrix size-incompatible: In[0]: ", a.shape().DebugString(),
                              " (transposed), In[1]: ", b.shape().DebugString(), ": inner dimensions differ");
      }
      if (!bad.ok()) return replaced_.AtPart(bad, i, ctx.node());
      if (i == 0) {
        s->m = a.dim(1);
        s->n = b.dim(1);
      } else if (a.dim(1) != s->m || b.dim(1) != s->n) {
        return replaced_.AtPart(InvalidArgument("the summands must have the same shape, but number 0 is [", s->m, ",",
                                                s->n, "], and number ", i, " is [", a.dim(1), ",", b.dim(1), "]"),
                                terms_, ctx.node());
      }
      // Of a sum without elements, rows without elements may be more than their number can say.
      if (s->m > 0 && s->n > 0) s->k += a.dim(0);
    }
    return absl::OkStatus();
  }

  // Inputs `first` and on below each other: [rows, columns].
  absl::StatusOr<Tensor> Stack(KernelContext& ctx, int first, int64_t rows, int64_t columns) const {
    TROUPE_ASSIGN_OR_RETURN(Tensor all, ctx.AllocateTemp(DType::kFloat, TensorShape({rows, columns})));
    std::vector<int64_t> at(terms_, 0);
    for (int i = 1; i < terms_; ++i) at[i] = at[i - 1] + ctx.input(first + i - 1).num_elements();
    float* const to = all.data<float>();
    // A copied element costs some tenth of a nanosecond.
    const double cost = 0.1 * static_cast<double>(rows * columns) / terms_;
    ctx.threads()->ParallelFor(terms_, cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Tensor& t = ctx.input(first + static_cast<int>(i));
        if (t.num_elements() > 0)
          std::memcpy(to + at[i], t.raw(), static_cast<size_t>(t.num_elements()) * sizeof(float));
      }
    });
    return all;
  }

  // As the separate nodes.
  absl::Status OneByOne(KernelContext& ctx, GemmShape s, float* sum) const {
    Tensor term;
    if (terms_ > 1) {
      TROUPE_ASSIGN_OR_RETURN(term, ctx.AllocateTemp(DType::kFloat, TensorShape({s.m, s.n})));
    }
    for (int i = 0; i < terms_; ++i) {
      s.k = ctx.input(i).dim(0);
      float* const to = i == 0 ? sum : term.data<float>();
      Gemm(ctx.threads(), DType::kFloat, s, ctx.input(i).raw(), ctx.input(terms_ + i).raw(), to);
      if (i == 0) continue;
      ctx.threads()->ParallelFor(s.m * s.n, 0.2, [sum, to](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) sum[k] += to[k];
      });
    }
    return absl::OkStatus();
  }

  const int terms_;
  const ReplacedNodes replaced_;
};

TROUPE_KERNEL("_SumOfProducts").Device("CPU").Type<float>("T").Class<SumOfProductsKernel>();

}  // namespace
}  // namespace troupe
