// _FusedElementwise: a few element-wise nodes, and reductions of rows among them, in one. Made by
// the pass that fuses nodes.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "kernels/elementwise/element_tape.h"
#include "kernels/elementwise/row_tape.h"
#include "kernels/replaced_nodes.h"
#include "kernels/run_kernel.h"
#include "troupe/kernel.h"
#include "troupe/op_def.h"
#include "troupe/shape_inference.h"
#include "troupe/text.h"

namespace troupe {
namespace {

TROUPE_OP("_FusedElementwise")
    .Input("args: Targs")
    .Output("output: T")
    .Attr("Targs: list(type) >= 1")
    .Attr("T: type")
    .Attr("body: string")
    .Trait(OpTrait::kReusesInput)
    .Shape([](InferenceContext& c) -> absl::Status {
      PartialTensorShape shape({});
      for (int i = 0; i < c.num_inputs(); ++i) {
        // Axes: something is reduced, and which argument's shape the result has is not known here.
        if (const DType t = c.input_type(i); t == DType::kInt32 || t == DType::kInt64) {
          c.set_output(0, PartialTensorShape());
          return absl::OkStatus();
        }
        TROUPE_ASSIGN_OR_RETURN(shape, BroadcastPartialShapes(shape, c.input(i)));
      }
      c.set_output(0, std::move(shape));
      return absl::OkStatus();
    })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc(
        "What the graph in body computes from args, which are its _Arg nodes. Its nodes are element-wise, or are Sum "
        "and Mean over the last dimension, which is kept; the last one's value is the output. body is a graph in text "
        "form, with the nodes' own names.");

class FusedElementwiseKernel {
 public:
  explicit FusedElementwiseKernel(KernelInit& init) : replaced_(init.node()) {
    if (absl::Status s = Prepare(init); !s.ok()) init.Fail(s);
  }

  absl::Status Compute(KernelContext& ctx) {
    // The inputs lie one behind the other.
    const Tensor* args = &ctx.input(0);
    if (TensorShape shape; has_tape_ && tape_.Fits(args, &shape)) {
      TROUPE_ASSIGN_OR_RETURN(Tensor * out, OutputOf(ctx, shape));
      if (out->num_elements() > 0) tape_.Run(ctx.threads(), args, out->num_elements(), out->raw());
      return absl::OkStatus();
    }
    if (math::RowPlan plan; has_rows_ && rows_.Plan(args, *ctx.threads(), &plan)) return RunRows(ctx, plan);
    return OneByOne(ctx);
  }

 private:
  absl::Status Prepare(KernelInit& init) {
    TROUPE_ASSIGN_OR_RETURN(body_, ParseGraphText(init.Attr<std::string>("body")));
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, body_->TopologicalOrder());
    std::vector<Node*> nodes;
    int num_args = 0;
    for (Node* n : order) {
      if (!n->IsOp()) continue;
      nodes.push_back(n);
      if (n->op().Has(OpTrait::kArgument)) {
        TROUPE_ASSIGN_OR_RETURN(const int64_t index, n->Attr<int64_t>("index"));
        if (index < 0 || index >= init.num_inputs() || n->output_type(0) != init.input_type(static_cast<int>(index))) {
          return InvalidArgument("argument ", index, " of the body does not fit the node's inputs");
        }
        ++num_args;
        continue;
      }
      if (n->num_outputs() != 1) return InvalidArgument("node '", n->name(), "' of the body is not element-wise");
      TROUPE_ASSIGN_OR_RETURN(PreparedKernel kernel, PrepareKernel(*n, init.device(), init.session()));
      if (kernel.compute == nullptr) return InvalidArgument("node '", n->name(), "' of the body is not element-wise");
      kernels_.push_back(std::move(kernel));
      described_.push_back(DescribeNode(*n, init.device()));
      operands_.push_back(OperandsOf(*n));
      steps_.push_back(n);
    }
    if (kernels_.empty() || num_args != init.num_inputs() || steps_.back()->output_type(0) != init.output_type(0)) {
      return InvalidArgument("the body does not fit the node");
    }
    has_tape_ = tape_.Compile(nodes, kernels_);
    has_rows_ = rows_.Compile(nodes, kernels_);
    return absl::OkStatus();
  }

  // Output 0, in the buffer of an argument that nobody else needs: a piece of the output is written
  // when that piece of the inputs has been read.
  static absl::StatusOr<Tensor*> OutputOf(KernelContext& ctx, const TensorShape& shape) {
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& in = ctx.input(i);
      if (in.rank() == 0 || in.dtype() != ctx.output_type(0) || !in.HasShape(shape) || !in.BufferUnique()) continue;
      ctx.set_output(0, in);
      return ctx.output(0);
    }
    return ctx.AllocateOutput(0, shape);
  }

  absl::Status RunRows(KernelContext& ctx, const math::RowPlan& plan) {
    absl::InlinedVector<Tensor, 8> values(plan.early == 0 ? 0 : steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (plan.Early(i)) TROUPE_RETURN_IF_ERROR(RunStep(ctx, i, absl::MakeSpan(values)));
    }
    TROUPE_ASSIGN_OR_RETURN(Tensor * out, OutputOf(ctx, plan.shape));
    rows_.Run(ctx.threads(), plan, &ctx.input(0), values.data(), out->raw());
    return absl::OkStatus();
  }

  // Shapes that do not fit, types without loops, too few elements: as if the nodes stood alone.
  absl::Status OneByOne(KernelContext& ctx) {
    absl::InlinedVector<Tensor, 8> values(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) TROUPE_RETURN_IF_ERROR(RunStep(ctx, i, absl::MakeSpan(values)));
    ctx.set_output(0, std::move(values.back()));
    return absl::OkStatus();
  }

  // Computes values[i] by the node's own kernel.
  absl::Status RunStep(KernelContext& ctx, size_t i, absl::Span<Tensor> values) {
    absl::InlinedVector<Tensor, 2> in;
    for (const Operand& o : operands_[i]) {
      if (o.is_arg) {
        in.push_back(ctx.input(o.index));
      } else if (o.is_only_use) {
        in.push_back(std::move(values[o.index]));  // so that its buffer may be reused
      } else {
        in.push_back(values[o.index]);
      }
    }
    KernelContext here(&described_[i], in.data(), &values[i], ctx.step(), ctx.exchange());
    here.set_state(kernels_[i].state.get());
    const absl::Status s = replaced_.AtNamed(kernels_[i].compute(here), described_[i].name, ctx.node());
    // Of a node whose line is not known, this one's, which is another node's, says nothing.
    if (s.ok() || HasAddress(s)) return s;
    return WithAddress(s, described_[i].name, described_[i].op, ctx.device()->name(), ctx.node().location);
  }

  struct Operand {
    bool is_arg;
    int index;  // of the argument, or of the step that computes it
    bool is_only_use;
  };
  std::vector<Operand> OperandsOf(const Node& n) const {
    std::vector<Operand> operands;
    for (int k = 0; k < n.num_inputs(); ++k) {
      const Node* from = n.input(k).node;
      const bool is_arg = from->op().Has(OpTrait::kArgument);
      const auto index = is_arg ? static_cast<int>(from->Attr<int64_t>("index").value_or(0))
                                : static_cast<int>(std::find(steps_.begin(), steps_.end(), from) - steps_.begin());
      operands.push_back({is_arg, index, !is_arg && NumUses(*from) == 1});
    }
    return operands;
  }
  static size_t NumUses(const Node& n) {
    return static_cast<size_t>(
        std::count_if(n.out_edges().begin(), n.out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); }));
  }

  const ReplacedNodes replaced_;
  std::unique_ptr<Graph> body_;
  std::vector<const Node*> steps_;
  std::vector<PreparedKernel> kernels_;
  std::vector<KernelNode> described_;
  std::vector<std::vector<Operand>> operands_;  // by step and input
  math::ElementTape tape_;
  math::RowTape rows_;
  bool has_tape_ = false, has_rows_ = false;
};

TROUPE_KERNEL("_FusedElementwise").Device("CPU").Class<FusedElementwiseKernel>();

}  // namespace
}  // namespace troupe
