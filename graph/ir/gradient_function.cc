#include "troupe/gradient_function.h"

namespace troupe {

GradArg::GradArg(NodeOut out) : outs{out}, list(false) {}
GradArg::GradArg(std::vector<NodeOut> list_of) : outs(std::move(list_of)), list(true) {}
GradArg::GradArg(const GradArg&) = default;
GradArg::GradArg(GradArg&&) noexcept = default;
GradArg::~GradArg() = default;

GradientContext::GradientContext(const Node* node) : node_(node), grads_(node->num_inputs()) {}
GradientContext::~GradientContext() = default;

void GradientContext::Fail(const absl::Status& s) {
  if (status_.ok()) status_ = s;
}

template <class T>
T GradientContext::Attr(std::string_view name) {
  absl::StatusOr<T> v = node_->Attr<T>(name);
  if (v.ok()) return *std::move(v);
  Fail(v.status());
  return T{};
}
#define TROUPE_INSTANTIATE(...) template __VA_ARGS__ GradientContext::Attr(std::string_view);
TROUPE_INSTANTIATE(int32_t)
TROUPE_FOR_ATTR_TYPES(TROUPE_INSTANTIATE)
#undef TROUPE_INSTANTIATE

NodeOut GradientContext::Op(std::string_view op, std::initializer_list<NodeOut> inputs) {
  return Op(op, inputs, AttrMap());
}
NodeOut GradientContext::Op(std::string_view op, std::initializer_list<NodeOut> inputs, AttrMap attrs) {
  return Op(op, std::vector<GradArg>(inputs.begin(), inputs.end()), std::move(attrs));
}
NodeOut GradientContext::Const(Tensor value) {
  return Op("Const", std::vector<GradArg>{}, {{"dtype", value.dtype()}, {"value", value}});
}

NodeOut GradientContext::Scalar(DType dtype, double v) {
  Tensor t(dtype, TensorShape());
  const bool ok = t.valid() && VisitNumeric(dtype, false, [&]<class T>() {
                    *t.data<T>() = static_cast<T>(v);
                    return true;
                  });
  if (!ok) {
    Fail(InvalidArgument("a gradient needs a number of type ", Name(dtype)));
    return {};
  }
  return Const(std::move(t));
}

NodeOut GradientContext::SumToShapeOf(NodeOut grad, int i) {
  const PartialTensorShape a = InputShape(0), b = InputShape(1);
  // The usual case needs no nodes at all.
  if (a.IsFullyDefined() && b.IsFullyDefined() && a == b) return grad;
  if (!status_.ok()) return {};
  const NodeOut sa = Op("Shape", {Input(0)}), sb = Op("Shape", {Input(1)});
  const NodeOut args = Op("BroadcastGradientArgs", {sa, sb});
  if (!status_.ok()) return {};
  const NodeOut sum = Op("Sum", {grad, NodeOut{args.node, i}});
  return Op("Reshape", {sum, i == 0 ? sa : sb});
}

}  // namespace troupe
