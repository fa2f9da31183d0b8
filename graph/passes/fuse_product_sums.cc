// The sum of products that one matrix's gradient is, where a step multiplies by it more than once.
#include <optional>

#include "graph/passes/fuse_rewrite.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// A product transpose(a) * b that nothing but `sum` uses; else null.
Node* Term(const Node& sum, int i) {
  Node* const product = OwnInput(sum, i);
  if (product == nullptr || product->op().name != "MatMul") return nullptr;
  const auto ta = product->Attr<bool>("transpose_a"), tb = product->Attr<bool>("transpose_b");
  return ta.ok() && tb.ok() && *ta && !*tb ? product : nullptr;
}

// True when the operands are known to be larger than the product: one product of all would keep
// them longer, and write them once more, for little.
bool TallOperands(const ShapeRefiner& shapes, const Node& product) {
  const PartialTensorShape a = shapes.shape(product.input(0)), b = shapes.shape(product.input(1));
  if (!a.IsFullyDefined() || !b.IsFullyDefined() || a.rank() != 2 || b.rank() != 2) return false;
  return a.num_elements() + b.num_elements() > a.dim(1) * b.dim(1);
}

absl::Status Try(Fuser* fuser, Node* sum, std::optional<ShapeRefiner>* shapes) {
  FusedNode f;
  f.op = "_SumOfProducts";
  const int n = sum->num_inputs();
  for (int i = 0; i < n; ++i) {
    Node* const product = Term(*sum, i);
    if (product == nullptr) return absl::OkStatus();
    f.parts.push_back(product);
  }
  // Only graphs that ask pay for this. What cannot be inferred is unknown.
  if (!*shapes) {
    shapes->emplace(fuser->graph());
    (void)(*shapes)->AddAll();
  }
  if (TallOperands(**shapes, *f.parts[0])) return absl::OkStatus();
  for (const int operand : {0, 1}) {
    for (int i = 0; i < n; ++i) f.inputs.push_back(f.parts[i]->input(operand));
  }
  f.attrs.Set("N", n);
  f.attrs.Set("T", DType::kFloat);
  if (!fuser->HasKernel(f.op, f.attrs, *sum)) return absl::OkStatus();
  f.parts.push_back(sum);
  f.outputs = {{sum, 0}};
  TROUPE_ASSIGN_OR_RETURN(const Node* fused, fuser->Replace(std::move(f)));
  (void)(*shapes)->AddNode(fused);
  return absl::OkStatus();
}

}  // namespace

absl::Status FuseProductSums(Fuser* fuser) {
  std::optional<ShapeRefiner> shapes;
  for (Node* n : fuser->graph()->op_nodes()) {
    TROUPE_RETURN_IF_ERROR(fuser->wanted());
    if (n->op().name == "AddN" && n->num_inputs() > 1 && n->output_type(0) == DType::kFloat)
      TROUPE_RETURN_IF_ERROR(Try(fuser, n, &shapes));
  }
  return absl::OkStatus();
}

}  // namespace troupe
