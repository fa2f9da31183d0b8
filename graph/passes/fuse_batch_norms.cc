// A batch normalisation with the activation behind it, and the gradients of both.
#include <string>
#include <string_view>

#include "graph/passes/fuse_rewrite.h"

namespace troupe {
namespace {

// Where the type is named by an op's attr, it is float32.
bool IsFloat(const Node& n, const char* attr) {
  const auto type = n.Attr<DType>(attr);
  return !type.ok() || *type == DType::kFloat;
}

// Whether it is of images, in float32.
bool IsOfImages(const Node& n) {
  const auto format = n.Attr<std::string>("data_format");
  return IsFloat(n, "T") && IsFloat(n, "U") && format.ok() && (*format == "NHWC" || *format == "NCHW");
}

void CopyAttrs(const Node& from, AttrMap* to) {
  for (const char* name : {"T", "epsilon", "exponential_avg_factor", "data_format", "is_training"}) {
    if (const AttrValue* v = from.attrs().Find(name)) to->Set(name, *v);
  }
  to->Set("U", DType::kFloat);
}

template <class T>
bool SameAttr(const Node& a, const Node& b, const char* name) {
  const auto x = a.Attr<T>(name), y = b.Attr<T>(name);
  return x.ok() && y.ok() && *x == *y;
}

// The activation that alone reads what `norm` normalises, and waits for nothing else; else null.
Node* ActivationBehind(const Node& norm) {
  Node* found = nullptr;
  for (const Edge* e : norm.out_edges()) {
    if (!e->dst->IsOp() || e->IsControl() || e->src_output != 0) continue;
    if (found != nullptr) return nullptr;
    found = e->dst;
  }
  if (found == nullptr || (found->op().name != "Relu" && found->op().name != "Relu6")) return nullptr;
  if (!SameDevice(norm, *found)) return nullptr;
  for (const Edge* e : found->in_edges()) {
    if (e->IsControl() && e->src->IsOp()) return nullptr;
  }
  return found;
}

absl::Status Fuse(Fuser* fuser, Node* norm) {
  Node* const activation = IsOfImages(*norm) ? ActivationBehind(*norm) : nullptr;
  if (activation == nullptr) return absl::OkStatus();
  FusedNode f;
  f.op = "_FusedBatchNormEx";
  CopyAttrs(*norm, &f.attrs);
  f.attrs.Set("activation_mode", activation->op().name);
  if (!fuser->HasKernel(f.op, f.attrs, *norm)) return absl::OkStatus();
  for (int i = 0; i < 5; ++i) f.inputs.push_back(norm->input(i));
  f.parts = {norm, activation};
  f.outputs = {{activation, 0}};
  for (int i = 1; i < norm->num_outputs(); ++i) f.outputs.push_back({norm, i});
  return fuser->Replace(std::move(f)).status();
}

// Whether `grad` is the gradient of the normalisation in the fused node `norm`. Where that read a
// variable by reference, the gradient would find another value.
bool IsGradientOf(const Node& grad, Node* norm) {
  for (int i = 0; i < 5; ++i) {
    if (IsRef(norm->input(i).dtype())) return false;
  }
  if (grad.num_inputs() > 5 && !(grad.input(5) == NodeOut{norm, 5})) return false;
  const auto training = grad.Attr<bool>("is_training");
  if (!training.ok() || !SameAttr<bool>(grad, *norm, "is_training") || !SameAttr<float>(grad, *norm, "epsilon") ||
      !SameAttr<std::string>(grad, *norm, "data_format"))
    return false;
  const NodeOut mean = *training ? NodeOut{norm, 3} : norm->input(3),
                variance = *training ? NodeOut{norm, 4} : norm->input(4);
  return grad.input(1) == norm->input(0) && grad.input(2) == norm->input(1) && grad.input(3) == mean &&
         grad.input(4) == variance;
}

absl::Status FuseGradient(Fuser* fuser, Node* grad) {
  Node* const through = IsOfImages(*grad) ? OwnInput(*grad, 0) : nullptr;
  if (through == nullptr || (through->op().name != "ReluGrad" && through->op().name != "Relu6Grad"))
    return absl::OkStatus();
  const NodeOut y = through->input(1);
  if (y.node->op().name != "_FusedBatchNormEx" || y.index != 0 || !IsGradientOf(*grad, y.node)) return absl::OkStatus();
  const auto mode = y.node->Attr<std::string>("activation_mode");
  if (!mode.ok() || StrCat(*mode, "Grad") != through->op().name) return absl::OkStatus();
  FusedNode f;
  f.op = "_FusedBatchNormGradEx";
  CopyAttrs(*grad, &f.attrs);
  f.attrs.Set("activation_mode", *mode);
  if (!fuser->HasKernel(f.op, f.attrs, *grad)) return absl::OkStatus();
  f.inputs = {through->input(0), grad->input(1),     grad->input(2),   grad->input(3),
              grad->input(4),    NodeOut{y.node, 5}, y.node->input(2), y};
  f.parts = {through, grad};
  for (int i = 0; i < grad->num_outputs(); ++i) f.outputs.push_back({grad, i});
  return fuser->Replace(std::move(f)).status();
}

}  // namespace

absl::Status FuseBatchNorms(Fuser* fuser) {
  const auto for_each = [fuser](std::string_view beginning, auto fuse) -> absl::Status {
    for (Node* n : fuser->graph()->op_nodes()) {
      const std::string_view op = n->op().name;
      if (!op.starts_with(beginning)) continue;
      const std::string_view version = op.substr(beginning.size());
      if (!version.empty() && version != "V2" && version != "V3") continue;
      TROUPE_RETURN_IF_ERROR(fuser->wanted());
      TROUPE_RETURN_IF_ERROR(fuse(fuser, n));
    }
    return absl::OkStatus();
  };
  TROUPE_RETURN_IF_ERROR(for_each("FusedBatchNorm", Fuse));
  return for_each("FusedBatchNormGrad", FuseGradient);
}

}  // namespace troupe
