// _FusedElementwise: a few element-wise nodes in one. Made by the pass that fuses nodes.
#include <algorithm>

#include "graph/core/hash_map.h"
#include "kernels/elementwise/element_tape.h"
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
    .Shape([](InferenceContext& c) -> absl::Status {
      PartialTensorShape shape = c.input(0);
      for (int i = 1; i < c.num_inputs(); ++i) {
        TROUPE_ASSIGN_OR_RETURN(shape, BroadcastPartialShapes(shape, c.input(i)));
      }
      c.set_output(0, std::move(shape));
      return absl::OkStatus();
    })
    .NotDifferentiable("gradients are built before nodes are fused")
    .Doc(
        "What the graph in body computes from args, which are its _Arg nodes. Its nodes are element-wise, and the last "
        "one's value is the output. body is a "
        "graph in text form, with the nodes' own names.");

class FusedElementwiseKernel {
 public:
  explicit FusedElementwiseKernel(KernelInit& init) {
    if (absl::Status s = Prepare(init); !s.ok()) init.Fail(s);
  }

  absl::Status Compute(KernelContext& ctx) {
    TensorShape shape;
    // The inputs lie one behind the other.
    if (!has_tape_ || !tape_.Fits(&ctx.input(0), &shape)) return OneByOne(ctx);
    int reuse = -1;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& in = ctx.input(i);
      if (reuse < 0 && in.rank() > 0 && in.dtype() == ctx.output_type(0) && in.BufferUnique()) reuse = i;
    }
    if (reuse >= 0) {
      // Shares the buffer with the input: a block of the output is written when that block of the
      // inputs has been read.
      ctx.set_output(0, ctx.input(reuse));
    } else {
      TROUPE_RETURN_IF_ERROR(ctx.AllocateOutput(0, shape).status());
    }
    Tensor* out = ctx.output(0);
    if (out->num_elements() > 0) tape_.Run(ctx.threads(), &ctx.input(0), out->num_elements(), out->raw());
    return absl::OkStatus();
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
      steps_.push_back(n);
    }
    if (kernels_.empty() || num_args != init.num_inputs() || steps_.back()->output_type(0) != init.output_type(0)) {
      return InvalidArgument("the body does not fit the node");
    }
    has_tape_ = tape_.Compile(nodes, kernels_);
    return absl::OkStatus();
  }

  // Shapes that broadcast, shapes that do not fit, types without loops: as if the nodes stood
  // alone.
  absl::Status OneByOne(KernelContext& ctx) {
    HashMap<const Node*, Tensor> values;
    std::vector<Tensor> in;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Node& n = *steps_[i];
      Tensor out;
      in.clear();
      for (int k = 0; k < n.num_inputs(); ++k) {
        const Node* from = n.input(k).node;
        if (from->op().Has(OpTrait::kArgument)) {
          in.push_back(ctx.input(static_cast<int>(*from->Attr<int64_t>("index"))));
        } else if (NumUses(*from) == 1) {
          in.push_back(std::move(values[from]));  // so that its buffer may be reused
        } else {
          in.push_back(values[from]);
        }
      }
      KernelContext here(&described_[i], in.data(), &out, ctx.step(), ctx.exchange());
      here.set_state(kernels_[i].state.get());
      TROUPE_RETURN_IF_ERROR(WithAddress(kernels_[i].compute(here), described_[i].name, described_[i].op,
                                         ctx.device()->name(), ctx.node().location));
      values[&n] = std::move(out);
    }
    ctx.set_output(0, std::move(values[steps_.back()]));
    return absl::OkStatus();
  }
  static size_t NumUses(const Node& n) {
    return static_cast<size_t>(
        std::count_if(n.out_edges().begin(), n.out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); }));
  }

  std::unique_ptr<Graph> body_;
  std::vector<const Node*> steps_;
  std::vector<PreparedKernel> kernels_;
  std::vector<KernelNode> described_;
  math::ElementTape tape_;
  bool has_tape_ = false;
};

TROUPE_KERNEL("_FusedElementwise").Device("CPU").Class<FusedElementwiseKernel>();

}  // namespace
}  // namespace troupe
