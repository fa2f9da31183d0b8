// The context of an op's gradient function, which adds nodes to the graph that compute
// d(loss)/d(input) from d(loss)/d(output).
//
// Rules: use Input() and Output() for forward values, never node().input(): the gradient of a node
// in a loop must read the values that the forward loop saved on a stack, and Input() and Output()
// stand for these. Build nodes with Op(). An input whose gradient is not set receives none. The
// first error sticks; status() returns it.
//
// Source of the semantics: section 4.1 of TensorFlow's white paper.
//
// Thread rule: a context and its graph belong to the calling thread. One gradient function may run
// on several threads at once, for different graphs.
#ifndef TROUPE_GRADIENT_FUNCTION_H_
#define TROUPE_GRADIENT_FUNCTION_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/node_builder.h"

namespace TROUPE_EXPORT troupe {

// One arg of GradientContext::Op: a single value, or a list.
struct GradArg {
  GradArg(NodeOut out);                   // NOLINT
  GradArg(std::vector<NodeOut> list_of);  // NOLINT
  GradArg(const GradArg&);
  GradArg(GradArg&&) noexcept;
  ~GradArg();
  std::vector<NodeOut> outs;
  bool list;
};

class GradientContext {
 public:
  virtual ~GradientContext();
  const Node& node() const { return *node_; }
  template <class T>
  T Attr(std::string_view name);  // T as for GetAttr
  int num_inputs() const { return node_->num_inputs(); }
  int num_outputs() const { return node_->num_outputs(); }
  DType input_type(int i) const { return BaseType(node_->input_type(i)); }

  // Forward values.
  virtual NodeOut Input(int i) = 0;
  virtual NodeOut Output(int i) = 0;
  // The gradient that arrives at output i; zeros of its shape when none does.
  virtual NodeOut Grad(int i) = 0;
  virtual bool HasGrad(int i) const = 0;
  // The statically known shape of input i.
  virtual PartialTensorShape InputShape(int i) const = 0;

  // Sets the gradient of input i.
  void Set(int i, NodeOut grad) { grads_[i] = grad; }

  // Adds a node and returns its output 0 (invalid after an error; then every further call is a
  // no-op).
  virtual NodeOut Op(std::string_view op, std::vector<GradArg> inputs, AttrMap attrs = {}) = 0;
  NodeOut Op(std::string_view op, std::initializer_list<NodeOut> inputs);
  NodeOut Op(std::string_view op, std::initializer_list<NodeOut> inputs, AttrMap attrs);
  // Makes the nodes built after it run after `node`.
  virtual void AddControl(Node* node) = 0;
  NodeOut Const(Tensor value);
  // A scalar of `dtype` (any numeric type) with value v.
  NodeOut Scalar(DType dtype, double v);
  NodeOut ScalarLike(NodeOut x, double v) { return Scalar(BaseType(x.dtype()), v); }
  // `grad`, computed for the broadcast shape of inputs 0 and 1, summed back to the shape of input
  // `i`.
  NodeOut SumToShapeOf(NodeOut grad, int i);

  void Fail(const absl::Status& s);
  const absl::Status& status() const { return status_; }
  const std::vector<NodeOut>& grads() const { return grads_; }

 protected:
  explicit GradientContext(const Node* node);
  const Node* node_;
  std::vector<NodeOut> grads_;
  absl::Status status_;
};

// For ops whose output counts as a constant, whatever their inputs are (StopGradient, ZerosLike,
// Floor): nothing flows back, and that is no error.
inline absl::Status NoGradientFlows(GradientContext&) { return absl::OkStatus(); }

}  // namespace troupe

#endif  // TROUPE_GRADIENT_FUNCTION_H_
