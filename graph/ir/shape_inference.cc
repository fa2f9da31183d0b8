// The driver: runs shape functions over a graph. The functions that ops share stand in shape_fn.cc.
#include "troupe/shape_inference.h"

#include "graph/core/guarded.h"
#include "graph/core/summed_dimensions.h"

namespace troupe {
namespace {

constexpr int kMaxDepth = 16;  // how far a shape value is followed backwards

// Elements of an int32 or int64 tensor.
bool ReadInts(const Tensor& t, std::vector<int64_t>* out) {
  const int64_t n = t.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    if (t.dtype() == DType::kInt32) {
      out->push_back(t.data<int32_t>()[i]);
    } else if (t.dtype() == DType::kInt64) {
      out->push_back(t.data<int64_t>()[i]);
    } else {
      return false;
    }
  }
  return true;
}

Tensor MakeInts(DType dtype, absl::Span<const int64_t> values, bool scalar) {
  Tensor t(dtype, scalar ? TensorShape() : TensorShape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kInt32) {
      t.data<int32_t>()[i] = static_cast<int32_t>(values[i]);
    } else {
      t.data<int64_t>()[i] = values[i];
    }
  }
  return t;
}

}  // namespace

InferenceContext::InferenceContext(const Node& node, std::vector<PartialTensorShape> inputs)
    : node_(node),
      inputs_(std::move(inputs)),
      outputs_(node.num_outputs()),
      input_tensors_(node.num_inputs()),
      input_shape_values_(node.num_inputs()),
      input_handles_(node.num_inputs()),
      output_handles_(node.num_outputs()) {}
InferenceContext::~InferenceContext() = default;

void InferenceContext::set_output(int i, PartialTensorShape s) { outputs_[i] = std::move(s); }
void InferenceContext::set_output_handle(int i, HandleInfo h) { output_handles_[i] = std::move(h); }
void InferenceContext::set_input_tensor(int i, Tensor t) { input_tensors_[i] = std::move(t); }
void InferenceContext::set_input_shape_value(int i, PartialTensorShape s) { input_shape_values_[i] = std::move(s); }
void InferenceContext::set_input_handle(int i, HandleInfo h) { input_handles_[i] = std::move(h); }

absl::StatusOr<PartialTensorShape> InferenceContext::InputAsShape(int i) const {
  if (const Tensor* t = input_tensor(i)) {
    std::vector<int64_t> dims;
    if (t->rank() > 1 || !ReadInts(*t, &dims)) {
      return InvalidArgument("input ", i, " must be an int32 or int64 vector to be read as a shape, not ",
                             t->TypeAndShape());
    }
    if (t->rank() == 0) return dims[0] == -1 ? PartialTensorShape() : PartialTensorShape::Make(dims);
    return PartialTensorShape::Make(dims);
  }
  if (input_shape_values_[i].known_rank()) return input_shape_values_[i];
  const PartialTensorShape& s = inputs_[i];
  if (s.known_rank() && s.rank() == 1 && s.dim(0) >= 0) {
    if (s.dim(0) > kMaxRank) return InvalidArgument("input ", i, " has ", s.dim(0), " elements, too many for a shape");
    return PartialTensorShape::OfRank(static_cast<int>(s.dim(0)));
  }
  return PartialTensorShape();
}

absl::StatusOr<PartialTensorShape> InferenceContext::WithRank(int i, int rank) const {
  const PartialTensorShape& s = inputs_[i];
  if (!s.known_rank()) return PartialTensorShape::OfRank(rank);
  if (s.rank() == rank) return s;
  return InvalidArgument("input ", i, " has shape ", s.DebugString(), ", but must have rank ", rank);
}

absl::StatusOr<PartialTensorShape> InferenceContext::WithRankAtLeast(int i, int rank) const {
  const PartialTensorShape& s = inputs_[i];
  if (!s.known_rank() || s.rank() >= rank) return s;
  return InvalidArgument("input ", i, " has shape ", s.DebugString(), ", but must have at least rank ", rank);
}

absl::Status ShapeRefiner::AddNode(const Node* n) {
  if (n->id() >= static_cast<int>(entries_.size())) entries_.resize(graph_->num_node_ids());
  Entry& entry = entries_[n->id()];
  std::vector<PartialTensorShape> inputs(n->num_inputs());
  for (int i = 0; i < n->num_inputs(); ++i) {
    if (n->input_edge(i) != nullptr) inputs[i] = shape(n->input(i));
  }
  InferenceContext c(*n, std::move(inputs));
  for (int i = 0; i < n->num_inputs(); ++i) {
    if (n->input_edge(i) == nullptr) continue;
    const NodeOut in = n->input(i);
    if (const HandleInfo* h = handle(in)) c.set_input_handle(i, *h);
    const DType t = n->input_type(i);
    // Only integers (and whatever is a constant itself) are worth following: they are shapes, axes
    // and sizes.
    if (in.node->IsConstant() || t == DType::kInt32 || t == DType::kInt64) {
      Tensor v = ConstantValue(in, 0);
      if (v.valid()) {
        c.set_input_tensor(i, std::move(v));
      } else if (t == DType::kInt32 || t == DType::kInt64) {
        c.set_input_shape_value(i, ShapeValue(in, 0));
      }
    }
  }
  if (n->op().shape_fn != nullptr) {
    absl::Status s = Guarded("the op's shape function", [&] { return n->op().shape_fn(c); });
    if (!s.ok()) return n->At(s);
  }
  Entry result;
  result.known = true;
  for (int i = 0; i < n->num_outputs(); ++i) {
    result.shapes.push_back(c.output(i));
    result.handles.push_back(c.output_handle(i));
  }
  if (const AttrValue* v = n->attrs().Find("_output_shapes")) {
    if (const auto* shapes = v->As<std::vector<PartialTensorShape>>();
        shapes != nullptr && static_cast<int>(shapes->size()) == n->num_outputs()) {
      for (int i = 0; i < n->num_outputs(); ++i) {
        if (auto merged = result.shapes[i].MergeWith((*shapes)[i]); merged.ok()) result.shapes[i] = *merged;
      }
    }
  }
  entry = std::move(result);
  return absl::OkStatus();
}

absl::Status ShapeRefiner::AddAll() {
  TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_->TopologicalOrder());
  entries_.resize(graph_->num_node_ids());
  for (const Node* n : order) TROUPE_RETURN_IF_ERROR(AddNode(n));
  return absl::OkStatus();
}

PartialTensorShape ShapeRefiner::shape(NodeOut out) const {
  if (out.node->id() >= static_cast<int>(entries_.size())) return {};
  const Entry& e = entries_[out.node->id()];
  return e.known && out.index >= 0 && out.index < static_cast<int>(e.shapes.size()) ? e.shapes[out.index]
                                                                                    : PartialTensorShape();
}

const HandleInfo* ShapeRefiner::handle(NodeOut out) const {
  if (out.node->id() >= static_cast<int>(entries_.size())) return nullptr;
  const Entry& e = entries_[out.node->id()];
  return e.known && out.index >= 0 && out.index < static_cast<int>(e.handles.size()) ? &e.handles[out.index] : nullptr;
}

absl::Status ShapeRefiner::SetShape(NodeOut out, const PartialTensorShape& s) {
  if (out.index < 0 || out.index >= out.node->num_outputs())
    return out.node->At(InvalidArgument("SetShape of '", out.ToString(), "', which does not exist"));
  if (out.node->id() >= static_cast<int>(entries_.size())) entries_.resize(graph_->num_node_ids());
  Entry& e = entries_[out.node->id()];
  if (!e.known) {
    e.known = true;
    e.shapes.resize(out.node->num_outputs());
    e.handles.resize(out.node->num_outputs());
  }
  absl::StatusOr<PartialTensorShape> merged = e.shapes[out.index].MergeWith(s);
  if (!merged.ok()) return out.node->At(merged.status());
  e.shapes[out.index] = *std::move(merged);
  return absl::OkStatus();
}

Tensor ShapeRefiner::ConstantValue(NodeOut out) const { return ConstantValue(out, 0); }

// Which ops read shapes is said by traits. How tf.stack and tf.concat put shapes together is the
// meaning of these two ops, Pack and ConcatV2; over what gradients are summed, that of
// BroadcastGradientArgs. The refiner runs no kernels.
Tensor ShapeRefiner::ConstantValue(NodeOut out, int depth) const {
  const Node& n = *out.node;
  if (n.IsConstant()) {
    const AttrValue* v = n.attrs().Find("value");
    const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
    return t == nullptr ? Tensor() : *t;
  }
  if (depth > kMaxDepth) return {};
  const DType t = out.dtype();
  if (t != DType::kInt32 && t != DType::kInt64) return {};
  const std::string& op = n.op().name;
  if (op == "BroadcastGradientArgs") {
    std::vector<int64_t> shapes[2];
    for (int i = 0; i < 2; ++i) {
      if (!n.input_edge(i)) return {};
      const Tensor v = ConstantValue(n.input(i), depth + 1);
      if (!v.valid() || v.rank() != 1 || !ReadInts(v, &shapes[i])) return {};
    }
    const auto summed = SummedDimensions(shapes[0], shapes[1]);
    return summed ? MakeInts(t, (*summed)[out.index], false) : Tensor();
  }
  if (out.index != 0) return {};
  const auto input_shape = [&] {
    return n.num_inputs() > 0 && n.input_edge(0) ? shape(n.input(0)) : PartialTensorShape();
  };
  if (n.op().Has(OpTrait::kShape)) {
    const PartialTensorShape s = input_shape();
    return s.IsFullyDefined() ? MakeInts(t, s.dims(), false) : Tensor();
  }
  if (n.op().Has(OpTrait::kRank)) {
    const PartialTensorShape s = input_shape();
    const int64_t r = s.rank();
    return s.known_rank() ? MakeInts(t, {r}, true) : Tensor();
  }
  if (n.op().Has(OpTrait::kSize)) {
    const int64_t size = input_shape().num_elements();
    return size >= 0 ? MakeInts(t, {size}, true) : Tensor();
  }
  if (op == "Pack") {
    std::vector<int64_t> values;
    for (int i = 0; i < n.num_inputs(); ++i) {
      if (!n.input_edge(i)) return {};
      Tensor v = ConstantValue(n.input(i), depth + 1);
      if (!v.valid() || v.rank() != 0 || !ReadInts(v, &values)) return {};
    }
    return MakeInts(t, values, false);
  }
  if (op == "ConcatV2") {
    std::vector<int64_t> values;
    for (int i = 0; i + 1 < n.num_inputs(); ++i) {
      if (!n.input_edge(i)) return {};
      Tensor v = ConstantValue(n.input(i), depth + 1);
      if (!v.valid() || v.rank() != 1 || !ReadInts(v, &values)) return {};
    }
    return MakeInts(t, values, false);
  }
  return {};
}

PartialTensorShape ShapeRefiner::ShapeValue(NodeOut out, int depth) const {
  const Node& n = *out.node;
  if (depth > kMaxDepth || out.index != 0) return {};
  const std::string& op = n.op().name;
  if (Tensor v = ConstantValue(out, depth); v.valid()) {
    std::vector<int64_t> dims;
    if (v.rank() != 1 || !ReadInts(v, &dims)) return {};
    auto s = PartialTensorShape::Make(dims);
    return s.ok() ? *s : PartialTensorShape();
  }
  if (n.op().Has(OpTrait::kShape)) return n.input_edge(0) ? shape(n.input(0)) : PartialTensorShape();
  if (op == "Pack") {
    std::vector<int64_t> dims;
    for (int i = 0; i < n.num_inputs(); ++i) {
      if (!n.input_edge(i)) return {};
      Tensor v = ConstantValue(n.input(i), depth + 1);
      if (!v.valid() || v.rank() != 0 || !ReadInts(v, &dims)) dims.push_back(-1);
    }
    auto s = PartialTensorShape::Make(dims);
    return s.ok() ? *s : PartialTensorShape();
  }
  if (op == "ConcatV2") {
    std::vector<int64_t> dims;
    for (int i = 0; i + 1 < n.num_inputs(); ++i) {
      if (!n.input_edge(i)) return {};
      const PartialTensorShape part = ShapeValue(n.input(i), depth + 1);
      if (!part.known_rank()) return {};
      dims.insert(dims.end(), part.dims().begin(), part.dims().end());
    }
    auto s = PartialTensorShape::Make(dims);
    return s.ok() ? *s : PartialTensorShape();
  }
  return {};
}

}  // namespace troupe
