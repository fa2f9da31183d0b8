#include "graph/passes/fold.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// Of more than these a constant does not wait: each node that depends on it would have to wait for
// all of them itself.
constexpr size_t kMaxWaits = 32;

// What a node is known to give, and the nodes that a constant in its place must wait for.
struct Known {
  std::vector<Tensor> values;
  std::vector<Node*> waits;
};

bool MayBeFolded(const Node& n) {
  if (n.num_outputs() == 0 || n.IsControlFlow() || n.op().stateful() || n.IsSend() || n.IsRecv() || n.IsConstant() ||
      n.op().Has(OpTrait::kPlaceholder) || n.op().Has(OpTrait::kVariable)) {
    return false;
  }
  for (DType t : n.output_types()) {
    if (IsRef(t) || t == DType::kResource || t == DType::kVariant) return false;
  }
  for (DType t : n.input_types()) {
    if (IsRef(t)) return false;
  }
  return true;
}

// dims as a tensor of int32 or int64; invalid when a number does not fit.
Tensor Ints(DType type, absl::Span<const int64_t> dims, bool scalar) {
  Tensor t(type, scalar ? TensorShape() : TensorShape({static_cast<int64_t>(dims.size())}));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (type == DType::kInt64) {
      t.data<int64_t>()[i] = dims[i];
    } else if (type == DType::kInt32 && dims[i] <= std::numeric_limits<int32_t>::max()) {
      t.data<int32_t>()[i] = static_cast<int32_t>(dims[i]);
    } else {
      return Tensor();
    }
  }
  return t;
}

class Folder {
 public:
  Folder(Graph* graph, ConstantEvaluator* evaluator, const FoldOptions& options)
      : graph_(*graph), evaluator_(evaluator), options_(options) {}

  absl::StatusOr<FoldStats> Run() {
    TROUPE_ASSIGN_OR_RETURN(const std::vector<Node*> order, graph_.TopologicalOrder());
    known_.resize(graph_.num_node_ids());
    conditional_.assign(graph_.num_node_ids(), false);
    WantedCheck wanted(options_.wanted);
    TROUPE_RETURN_IF_ERROR(InferShapes(order));
    std::vector<Node*> folded;
    for (Node* n : order) {
      if (!n->IsOp()) continue;
      TROUPE_RETURN_IF_ERROR(wanted());
      conditional_[n->id()] = IsConditional(*n);
      if (n->IsConstant()) {
        const AttrValue* v = n->attrs().Find("value");
        const Tensor* t = v == nullptr ? nullptr : v->As<Tensor>();
        if (t == nullptr || !t->valid()) continue;
        if (Known known{{*t}, {}}; AddControlWaits(*n, &known.waits)) known_[n->id()] = std::move(known);
      } else if (MayBeFolded(*n) && (FoldShape(*n) || Evaluate(*n))) {
        ++stats_.evaluated;
        if (HasConsumers(*n)) folded.push_back(n);
      }
    }
    TROUPE_RETURN_IF_ERROR(wanted.Now());
    std::erase_if(folded, [this](const Node* n) { return FillsState(*n); });
    vanishing_.assign(graph_.num_node_ids(), false);
    for (const Node* n : folded) vanishing_[n->id()] = true;
    std::vector<int> losers;
    for (Node* n : folded) {
      for (const Edge* e : n->in_edges()) {
        if (!vanishing_[e->src->id()]) losers.push_back(e->src->id());
      }
    }
    for (Node* n : folded) {
      TROUPE_RETURN_IF_ERROR(wanted());
      TROUPE_RETURN_IF_ERROR(Replace(n));
    }
    RemoveUnneeded(std::move(losers));
    return stats_;
  }

 private:
  static bool HasConsumers(const Node& n) {
    return std::any_of(n.out_edges().begin(), n.out_edges().end(), [](const Edge* e) { return e->dst->IsOp(); });
  }

  // Shapes are inferred only when something asks for them.
  absl::Status InferShapes(const std::vector<Node*>& order) {
    if (!options_.fold_shapes ||
        std::none_of(order.begin(), order.end(), [](const Node* n) { return n->op().Has(OpTrait::kReadsOnlyShape); })) {
      return absl::OkStatus();
    }
    WantedCheck wanted(options_.wanted);
    shapes_.emplace(&graph_);
    // A node that its shape function refuses has unknown shapes here; whether it is an error is
    // decided elsewhere.
    for (const Node* n : order) {
      TROUPE_RETURN_IF_ERROR(wanted());
      shapes_->AddNode(n).IgnoreError();
    }
    return absl::OkStatus();
  }

  // True when the node's token may be dead, or comes in some iteration of a loop: a constant in its
  // place must then follow it.
  bool IsConditional(const Node& n) const {
    if (n.IsControlFlow() || n.IsRecv()) return true;
    return std::any_of(n.in_edges().begin(), n.in_edges().end(),
                       [&](const Edge* e) { return conditional_[e->src->id()] != 0; });
  }

  // The next three are false when there are too many.
  static bool AddWait(Node* n, std::vector<Node*>* waits) {
    if (!n->IsOp() || std::find(waits->begin(), waits->end(), n) != waits->end()) return true;
    waits->push_back(n);
    return waits->size() <= kMaxWaits;
  }

  // Waiting for a node whose value is known is waiting for what it waits for.
  bool AddWaitsFor(Node* n, std::vector<Node*>* waits) const {
    if (!known_[n->id()]) return AddWait(n, waits);
    for (Node* w : known_[n->id()]->waits) {
      if (!AddWait(w, waits)) return false;
    }
    return true;
  }

  bool AddControlWaits(const Node& n, std::vector<Node*>* waits) const {
    for (const Edge* e : n.in_edges()) {
      if (e->IsControl() && !AddWaitsFor(e->src, waits)) return false;
    }
    return true;
  }

  bool FoldShape(Node& n) {
    if (!shapes_ || !n.op().Has(OpTrait::kReadsOnlyShape)) return false;
    Known result;
    if (!AddControlWaits(n, &result.waits)) return false;
    std::vector<PartialTensorShape> shapes;
    for (int i = 0; i < n.num_inputs(); ++i) {
      const NodeOut in = n.input(i);
      if (!in.valid()) return false;
      // A control edge of a Switch does not say which branch was taken.
      if (in.node->IsSwitch()) return false;
      shapes.push_back(shapes_->shape(in));
      if (conditional_[in.node->id()] && !AddWaitsFor(in.node, &result.waits)) return false;
    }
    const OpDef& op = n.op();
    const bool defined = std::all_of(shapes.begin(), shapes.end(), [](const auto& s) { return s.IsFullyDefined(); });
    if (op.Has(OpTrait::kRank) && shapes[0].known_rank()) {  // also of a shape with unknown dimensions
      result.values = {Ints(n.output_type(0), {int64_t{shapes[0].rank()}}, true)};
    } else if (!defined) {
      return false;
    } else if (op.Has(OpTrait::kSize)) {
      result.values = {Ints(n.output_type(0), {shapes[0].num_elements()}, true)};
    } else if (op.Has(OpTrait::kShape)) {
      for (int i = 0; i < n.num_inputs(); ++i) result.values.push_back(Ints(n.output_type(i), shapes[i].dims(), false));
    } else if (!EvaluateForShapes(n, shapes, &result.values)) {
      return false;
    }
    for (const Tensor& t : result.values) {
      if (!t.valid()) return false;
    }
    known_[n.id()] = std::move(result);
    return true;
  }

  // The values of another op that reads only shapes: its kernel is given tensors of these shapes,
  // with zeros.
  bool EvaluateForShapes(Node& n, const std::vector<PartialTensorShape>& shapes, std::vector<Tensor>* values) {
    std::vector<Tensor> inputs;
    int64_t left = options_.max_result_bytes;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const DType type = n.input_type(static_cast<int>(i));
      if (type == DType::kResource || type == DType::kVariant) return false;
      const int64_t bytes = MultiplyWithoutOverflow(shapes[i].num_elements(), static_cast<int64_t>(SizeOf(type)));
      if (bytes < 0 || bytes > left) return false;
      left -= bytes;
      inputs.emplace_back(type, shapes[i].AsTensorShape());
      if (!inputs.back().valid()) return false;
      std::memset(inputs.back().raw(), 0, type == DType::kString ? 0 : static_cast<size_t>(bytes));
    }
    return Compute(n, inputs, values);
  }

  // The outputs of `n` for these inputs. False when there are none, or they are too large.
  bool Compute(Node& n, const std::vector<Tensor>& inputs, std::vector<Tensor>* values) {
    // What is computed here may take long.
    if (!WantedCheck(options_.wanted).Now().ok()) return false;
    if (evaluator_ == nullptr || !evaluator_->CanEvaluate(n)) return false;
    if (PredictBytes(n, inputs) > options_.max_result_bytes) return false;
    absl::StatusOr<std::vector<Tensor>> computed = evaluator_->Evaluate(n, inputs);
    if (!computed.ok() || static_cast<int>(computed->size()) != n.num_outputs()) return false;
    int64_t bytes = 0;
    for (int i = 0; i < n.num_outputs(); ++i) {
      const Tensor& t = (*computed)[i];
      if (!t.valid() || t.dtype() != n.output_type(i)) return false;
      bytes += static_cast<int64_t>(t.bytes());
    }
    if (bytes > options_.max_result_bytes) return false;
    *values = *std::move(computed);
    return true;
  }

  // Bytes that the outputs will have, as far as the op's shape function says.
  int64_t PredictBytes(const Node& n, const std::vector<Tensor>& inputs) const {
    if (n.op().shape_fn == nullptr) return 0;
    std::vector<PartialTensorShape> shapes;
    for (const Tensor& t : inputs) shapes.push_back(t.shape());
    InferenceContext c(n, std::move(shapes));
    for (size_t i = 0; i < inputs.size(); ++i) c.set_input_tensor(static_cast<int>(i), inputs[i]);
    if (!n.op().shape_fn(c).ok()) return 0;
    int64_t bytes = 0;
    for (int i = 0; i < n.num_outputs(); ++i) {
      const int64_t elements = c.output(i).num_elements();
      if (elements < 0) continue;
      const int64_t size = MultiplyWithoutOverflow(elements, static_cast<int64_t>(SizeOf(n.output_type(i))));
      if (size < 0 || size > options_.max_result_bytes) return std::numeric_limits<int64_t>::max();
      bytes += size;
    }
    return bytes;
  }

  bool Evaluate(Node& n) {
    std::vector<Tensor> inputs;
    Known result;
    for (int i = 0; i < n.num_inputs(); ++i) {
      const NodeOut in = n.input(i);
      if (!in.valid() || !known_[in.node->id()]) return false;
      const Known& known = *known_[in.node->id()];
      inputs.push_back(known.values[in.index]);
      for (Node* w : known.waits) {
        if (!AddWait(w, &result.waits)) return false;
      }
    }
    if (!AddControlWaits(n, &result.waits)) return false;
    if (!Compute(n, inputs, &result.values)) return false;
    known_[n.id()] = std::move(result);
    return true;
  }

  // Whether the value of `n`, which is known, is large and the same number everywhere, of small
  // inputs, and is read by nodes with state alone: the zeros, say, with which an optimizer's slots
  // begin. They are made once, and a constant would lie in memory as long as the signature. Where a
  // node runs again and again in a step, it is a constant all the same.
  bool FillsState(const Node& n) const {
    constexpr size_t kLarge = 128 << 10, kSmaller = 16;
    const std::vector<Tensor>& values = known_[n.id()]->values;
    if (values.size() != 1 || conditional_[n.id()] || values[0].bytes() <= kLarge || !IsPlainBytes(values[0].dtype()))
      return false;
    for (const Edge* e : n.out_edges()) {
      if (!e->dst->IsOp() || e->IsControl() || known_[e->dst->id()]) continue;
      if (!e->dst->op().stateful() && !IsRef(e->dst->input_type(0))) return false;
    }
    size_t read = 0;
    for (int i = 0; i < n.num_inputs(); ++i) {
      const std::optional<Known>& in = known_[n.input(i).node->id()];
      if (!in) return false;
      read += in->values[n.input(i).index].bytes();
    }
    const size_t size = SizeOf(values[0].dtype());
    const char* const bytes = static_cast<const char*>(values[0].raw());
    return read <= values[0].bytes() / kSmaller && std::memcmp(bytes, bytes + size, values[0].bytes() - size) == 0;
  }

  // Puts constants where `n` was.
  absl::Status Replace(Node* n) {
    struct Use {
      Node* dst;
      int input;
    };
    std::vector<std::vector<Use>> uses(n->num_outputs());
    std::vector<Node*> after;
    for (const Edge* e : n->out_edges()) {
      if (!e->dst->IsOp() || vanishing_[e->dst->id()]) continue;
      if (e->IsControl()) {
        after.push_back(e->dst);
      } else {
        uses[e->src_output].push_back({e->dst, e->dst_input});
      }
    }
    const Known known = *std::move(known_[n->id()]);
    const std::string name = n->name(), requested = n->requested_device(), assigned = n->assigned_device();
    const SourceLocation location = n->location();
    AttrMap attrs;
    if (const AttrValue* colocation = n->attrs().Find("_class")) attrs.Set("_class", *colocation);
    graph_.RemoveNode(n);
    for (Node* dst : after) {
      for (Node* w : known.waits) graph_.AddControlEdge(w, dst);
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i].empty()) continue;
      attrs.Set("dtype", known.values[i].dtype());
      attrs.Set("value", known.values[i]);
      TROUPE_ASSIGN_OR_RETURN(
          Node* const constant,
          graph_.AddNode(graph_.UniqueName(i == 0 ? name : StrCat(name, "_output_", i)), "Const", attrs));
      constant->set_requested_device(requested);
      constant->set_assigned_device(assigned);
      constant->set_location(location);
      for (Node* w : known.waits) graph_.AddControlEdgeUnchecked(w, constant);
      for (const Use& use : uses[i]) {
        TROUPE_RETURN_IF_ERROR(graph_.AddEdge(constant, 0, use.dst, use.input).status());
      }
      ++stats_.replaced;
    }
    ++stats_.removed;
    return absl::OkStatus();
  }

  // `losers`: ids of nodes that lost a consumer.
  void RemoveUnneeded(std::vector<int> losers) {
    while (!losers.empty()) {
      Node* n = graph_.node(losers.back());
      losers.pop_back();
      if (n == nullptr || !n->IsOp() || n->op().stateful() || HasConsumers(*n)) continue;
      for (const Edge* e : n->in_edges()) losers.push_back(e->src->id());
      graph_.RemoveNode(n);
      ++stats_.removed;
    }
  }

  Graph& graph_;
  ConstantEvaluator* evaluator_;
  const FoldOptions& options_;
  std::optional<ShapeRefiner> shapes_;
  std::vector<std::optional<Known>> known_;  // by node id, as the next two
  std::vector<char> conditional_, vanishing_;
  FoldStats stats_;
};

}  // namespace

absl::StatusOr<FoldStats> FoldConstants(Graph* graph, ConstantEvaluator* evaluator, const FoldOptions& options) {
  return Folder(graph, evaluator, options).Run();
}

}  // namespace troupe
