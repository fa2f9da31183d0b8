#include "graph/passes/step_memory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "graph/passes/run_order.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

// No machine has more; and the sum over all tensors of a graph does not overflow.
constexpr int64_t kMostBytes = int64_t{1} << 48;

// Whether output 0 may be written into an input: it says so, or it computes each element from the
// same element of its inputs, by the shape functions that such ops have.
bool ReusesInput(const Node& n) {
  const ShapeFn shape = n.op().shape_fn;
  return n.op().Has(OpTrait::kReusesInput) ||
         (n.num_outputs() == 1 &&
          (shape == shape_fn::Unchanged || shape == shape_fn::BroadcastBinary || shape == shape_fn::MergeAll));
}

// What a loop's variable is like: as it enters. The shape function does not know what comes back.
void FollowLoop(const Node& n, ShapeRefiner* shapes) {
  const NodeOut out{const_cast<Node*>(&n), 0};
  if (!n.IsMerge() || n.num_inputs() == 0 || !n.input(0).valid() || !n.input(0).node->IsEnter()) return;
  shapes->SetShape(out, shapes->shape(n.input(0))).IgnoreError();
}

// Goes through a step's nodes and keeps account of the blocks that are held.
class Simulation {
 public:
  Simulation(const Graph& graph, const KnownShapes& known, int64_t assumed_dimension)
      : graph_(graph), known_(known), assumed_dimension_(assumed_dimension), shapes_(&graph) {}

  absl::StatusOr<StepMemory> Run() {
    TROUPE_ASSIGN_OR_RETURN(std::vector<Node*> order, graph_.TopologicalOrder());
    bool flows = false;
    for (const Node* n : order) {
      if (n->IsOp()) Infer(*n);
      flows |= n->IsControlFlow();
      result_.has_loops |= n->IsEnter();
    }
    if (!flows) order = RunOrder(graph_);
    // Once to find the peak, and once to see who holds memory then.
    RunAll(order);
    const StepMemory found = result_;
    result_ = {};
    result_.has_loops = found.has_loops;
    now_ = 0;
    peak_place_ = found_place_;
    RunAll(order);
    return std::move(result_);
  }

 private:
  void RunAll(const std::vector<Node*>& order) {
    blocks_.assign(graph_.num_node_ids(), {});
    held_.clear();
    place_ = 0;
    for (Node* n : order) {
      if (n->IsOp()) RunNode(n);
      ++place_;
    }
  }

  struct Block {
    int64_t bytes = 0;
    int readers = 0;  // that have not run
    const Node* maker = nullptr;
    int place = 0;  // in held_
  };

  void Infer(const Node& n) {
    // What cannot be inferred is not known; the step will tell why.
    shapes_.AddNode(&n).IgnoreError();
    const auto it = known_.find(n.name());
    FollowLoop(n, &shapes_);
    for (int i = 0; it != known_.end() && i < std::min<int>(n.num_outputs(), static_cast<int>(it->second.size()));
         ++i) {
      const NodeOut out{const_cast<Node*>(&n), i};
      if (!shapes_.shape(out).known_rank()) shapes_.SetShape(out, it->second[i]).IgnoreError();
    }
  }

  int64_t Bytes(NodeOut out) {
    const DType type = out.dtype();
    if (IsRef(type) || type == DType::kResource || type == DType::kVariant) return 0;
    const PartialTensorShape shape = shapes_.shape(out);
    if (!shape.known_rank()) {
      ++result_.num_unknown;
      return 0;
    }
    int64_t bytes = static_cast<int64_t>(SizeOf(type));
    for (int i = 0; i < shape.rank(); ++i) {
      bytes = MultiplyWithoutOverflow(bytes, shape.dim(i) < 0 ? assumed_dimension_ : shape.dim(i));
      if (bytes < 0 || bytes > kMostBytes) {
        ++result_.num_unknown;
        return 0;
      }
    }
    result_.num_assumed += !shape.IsFullyDefined();
    return bytes;
  }

  // What is there whether the step runs or not.
  static bool IsThere(const Node& n) {
    const OpDef& op = n.op();
    return n.IsConstant() || op.Has(OpTrait::kArgument) || op.Has(OpTrait::kVariable) ||
           op.Has(OpTrait::kReadsVariable);
  }

  // The block of the input, when no other reader of it is left.
  Block* OnlyReadHere(NodeOut in, int64_t bytes) {
    const std::shared_ptr<Block>& block = BlockOf(in);
    if (block == nullptr || block->readers != 1 || block->bytes != bytes || IsRef(in.dtype())) return nullptr;
    return block.get();
  }
  const std::shared_ptr<Block>& BlockOf(NodeOut out) {
    static const std::shared_ptr<Block> none;
    const auto& of_node = blocks_[out.node->id()];
    return out.index < static_cast<int>(of_node.size()) ? of_node[out.index] : none;
  }

  void RunNode(Node* n) {
    const OpDef& op = n->op();
    auto& outputs = blocks_[n->id()];
    outputs.resize(n->num_outputs());
    std::vector<int> readers(n->num_outputs(), 0);
    for (const Edge* e : n->out_edges()) {
      // A back edge's reader has run already.
      if (!e->IsControl() && !n->IsNextIteration()) ++readers[e->src_output];
    }
    const bool hands_on = op.Has(OpTrait::kForwardsInput) || op.Has(OpTrait::kSharesInput) || n->IsControlFlow();
    for (int i = 0; i < n->num_outputs(); ++i) {
      if (IsThere(*n)) continue;
      if (hands_on && n->num_inputs() > 0 && n->input(0).valid()) {
        // None where it is there without the step. Of a Merge's inputs, the largest.
        for (int k = 0; k < (n->IsMerge() ? n->num_inputs() : 1); ++k) {
          const std::shared_ptr<Block> block = n->input(k).valid() ? BlockOf(n->input(k)) : nullptr;
          if (block != nullptr && (outputs[i] == nullptr || block->bytes > outputs[i]->bytes)) outputs[i] = block;
        }
        if (outputs[i] != nullptr) outputs[i]->readers += readers[i];
        continue;
      }
      const int64_t bytes = Bytes({n, i});
      if (bytes == 0) continue;
      Block* place = nullptr;
      for (int k = 0; i == 0 && ReusesInput(*n) && k < n->num_inputs() && place == nullptr; ++k) {
        if (!n->input(k).valid() || n->input(k).dtype() != n->output_type(i)) continue;
        if ((place = OnlyReadHere(n->input(k), bytes)) != nullptr) outputs[i] = BlockOf(n->input(k));
      }
      if (place != nullptr) {
        place->readers += readers[i];
        place->maker = n;
        continue;
      }
      outputs[i] = Hold(n, bytes, readers[i]);
    }
    if (now_ > result_.peak_bytes) NotePeak(*n);
    for (int k = 0; k < n->num_inputs(); ++k) {
      const NodeOut in = n->input(k);
      if (!in.valid()) continue;
      // The caller keeps what is fetched.
      if (const std::shared_ptr<Block> block = BlockOf(in); block != nullptr && !op.Has(OpTrait::kResult))
        Release(block);
    }
    for (const std::shared_ptr<Block>& block : outputs) {
      if (block != nullptr && block->readers == 0) Drop(block);
    }
  }

  std::shared_ptr<Block> Hold(const Node* n, int64_t bytes, int readers) {
    auto block = std::make_shared<Block>();
    *block = {bytes, readers, n, static_cast<int>(held_.size())};
    held_.push_back(block.get());
    now_ += bytes;
    return block;
  }
  void Release(const std::shared_ptr<Block>& block) {
    if (--block->readers == 0) Drop(block);
  }
  void Drop(const std::shared_ptr<Block>& block) {
    if (block->place < 0) return;
    now_ -= block->bytes;
    held_.back()->place = block->place;
    held_[block->place] = held_.back();
    held_.pop_back();
    block->place = -1;
  }

  void NotePeak(const Node& n) {
    result_.peak_bytes = now_;
    result_.peak_node = n.name();
    found_place_ = place_;
    if (place_ != peak_place_) return;
    for (const Block* b : held_) peak_.emplace_back(b->bytes, b->maker);
  }

 public:
  // Of the peak.
  std::vector<StepMemory::Holder> Largest() {
    std::stable_sort(peak_.begin(), peak_.end(), [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second->id() < b.second->id();
    });
    std::vector<StepMemory::Holder> list;
    for (size_t i = 0; i < std::min<size_t>(peak_.size(), 10); ++i) {
      list.push_back(
          {StrCat("node '", peak_[i].second->name(), "' (", peak_[i].second->op().name, ")"), peak_[i].first});
    }
    return list;
  }

 private:
  const Graph& graph_;
  const KnownShapes& known_;
  const int64_t assumed_dimension_;
  ShapeRefiner shapes_;
  std::vector<std::vector<std::shared_ptr<Block>>> blocks_;  // by node number and output
  std::vector<Block*> held_;
  int64_t now_ = 0;
  int64_t place_ = 0, found_place_ = -1, peak_place_ = -1;  // in the order
  StepMemory result_;
  std::vector<std::pair<int64_t, const Node*>> peak_;
};

}  // namespace

KnownShapes InferKnownShapes(const Graph& graph) {
  KnownShapes known;
  const absl::StatusOr<std::vector<Node*>> order = graph.TopologicalOrder();
  if (!order.ok()) return known;
  ShapeRefiner shapes(&graph);
  for (Node* n : *order) {
    if (!n->IsOp() || !shapes.AddNode(n).ok()) continue;
    FollowLoop(*n, &shapes);
    std::vector<PartialTensorShape>& of_node = known[n->name()];
    for (int i = 0; i < n->num_outputs(); ++i) of_node.push_back(shapes.shape({n, i}));
  }
  return known;
}

absl::StatusOr<StepMemory> SimulateStep(const Graph& step, const KnownShapes& known, int64_t assumed_dimension) {
  Simulation simulation(step, known, assumed_dimension);
  TROUPE_ASSIGN_OR_RETURN(StepMemory result, simulation.Run());
  result.holders = simulation.Largest();
  return result;
}

}  // namespace troupe
