#include "troupe/graph/ir/gradient.h"

namespace troupe {

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
