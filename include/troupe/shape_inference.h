// Shape inference: the context of an op's shape function, and the pass that runs the shape
// functions over a graph.
//
// Source of the semantics: TensorFlow's shape functions (InferenceContext).
//
// Thread rule: a context and a ShapeRefiner belong to one thread at a time, and no thread changes
// the graph meanwhile. One shape function may run on several threads at once.
#ifndef TROUPE_SHAPE_INFERENCE_H_
#define TROUPE_SHAPE_INFERENCE_H_

#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"

namespace TROUPE_EXPORT troupe {

// Shape and dtype of the object that a resource handle names.
struct HandleInfo {
  DType dtype = DType::kInvalid;
  PartialTensorShape shape;
};

class InferenceContext {
 public:
  InferenceContext(const Node& node, std::vector<PartialTensorShape> inputs);
  ~InferenceContext();

  const Node& node() const { return node_; }
  template <class T>
  absl::StatusOr<T> Attr(std::string_view name) const {
    return node_.Attr<T>(name);
  }
  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(outputs_.size()); }
  const PartialTensorShape& input(int i) const { return inputs_[i]; }
  DType input_type(int i) const { return node_.input_type(i); }
  void set_output(int i, PartialTensorShape s);
  const PartialTensorShape& output(int i) const { return outputs_[i]; }
  // The constant value of input i when it is known, else null.
  const Tensor* input_tensor(int i) const { return input_tensors_[i].valid() ? &input_tensors_[i] : nullptr; }
  // Input i (an int32 or int64 vector) read as a shape: exact when constant, partial when it comes
  // from Shape, Pack, Concat and the like.
  absl::StatusOr<PartialTensorShape> InputAsShape(int i) const;
  const HandleInfo& input_handle(int i) const { return input_handles_[i]; }
  void set_output_handle(int i, HandleInfo h);

  // INVALID_ARGUMENT "input 0 has shape [2,3], but must have rank 1"; the shape with that rank on
  // success.
  absl::StatusOr<PartialTensorShape> WithRank(int input, int rank) const;
  absl::StatusOr<PartialTensorShape> WithRankAtLeast(int input, int rank) const;

  // For the driver.
  void set_input_tensor(int i, Tensor t);
  void set_input_shape_value(int i, PartialTensorShape s);
  void set_input_handle(int i, HandleInfo h);
  const HandleInfo& output_handle(int i) const { return output_handles_[i]; }

 private:
  const Node& node_;
  std::vector<PartialTensorShape> inputs_, outputs_;
  std::vector<Tensor> input_tensors_;
  std::vector<PartialTensorShape> input_shape_values_;
  std::vector<HandleInfo> input_handles_, output_handles_;
};

// Dimension arithmetic with -1 = unknown.
int64_t AddDims(int64_t a, int64_t b);
int64_t MulDims(int64_t a, int64_t b);
// The common value of two dimensions; INVALID_ARGUMENT when both are known and differ.
absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b);
absl::StatusOr<PartialTensorShape> BroadcastPartialShapes(const PartialTensorShape& a, const PartialTensorShape& b);

// Shape functions that many ops share.
namespace shape_fn {
absl::Status Unknown(InferenceContext& c);
absl::Status NoOutputs(InferenceContext& c);
absl::Status Scalar(InferenceContext& c);     // every output is a scalar
absl::Status Unchanged(InferenceContext& c);  // every output has the shape of input 0
absl::Status UnchangedWithRank1(InferenceContext& c);
absl::Status BroadcastBinary(InferenceContext& c);  // inputs 0 and 1 broadcast
absl::Status MergeAll(InferenceContext& c);         // all inputs and the output have one shape
absl::Status Reduction(InferenceContext& c);        // input 1 = axes, attr keep_dims
absl::Status FromShapeAttr(InferenceContext& c);    // attr "shape"
absl::Status FromShapeInput0(InferenceContext& c);  // input 0 is the output's shape
}  // namespace shape_fn

// Shapes of every output of every node of a graph, kept up to date as nodes are added.
class ShapeRefiner {
 public:
  explicit ShapeRefiner(const Graph* graph) : graph_(graph) {}
  // Infers the outputs of `node` from its inputs (which must have been added, or are unknown, as
  // behind a back edge). Merges in attr "_output_shapes" where it is present. INVALID_ARGUMENT with
  // the node's address when the op's shape function refuses.
  absl::Status AddNode(const Node* node);
  // All nodes in topological order.
  absl::Status AddAll();
  PartialTensorShape shape(NodeOut out) const;
  const HandleInfo* handle(NodeOut out) const;
  // Overrides what was inferred (Tensor::set_shape of other systems); INVALID_ARGUMENT when it
  // contradicts.
  absl::Status SetShape(NodeOut out, const PartialTensorShape& shape);
  // The value of `out` when it is constant: a Const, or Shape/Rank/Size of a known shape, Pack,
  // Concat, ... of constants. Invalid tensor otherwise.
  Tensor ConstantValue(NodeOut out) const;

 private:
  struct Entry {
    bool known = false;
    std::vector<PartialTensorShape> shapes;
    std::vector<HandleInfo> handles;
  };
  PartialTensorShape ShapeValue(NodeOut out, int depth) const;
  Tensor ConstantValue(NodeOut out, int depth) const;
  const Graph* graph_;
  std::vector<Entry> entries_;  // by node id
};

}  // namespace troupe

#endif  // TROUPE_SHAPE_INFERENCE_H_
