// Which forward values are kept for the gradients, and which are computed again.
#include <algorithm>
#include <limits>
#include <utility>

#include "graph/autodiff/recompute.h"
#include "graph/core/log.h"

namespace troupe::autodiff {
namespace {

// More segments than these save nothing: what is kept between them is as much as what they hold.
constexpr int kMostSegments = 256;
// Of a tensor: the sum over all tensors of a graph does not overflow.
constexpr int64_t kMostBytes = int64_t{1} << 40;

bool IsBelow(std::string_view name, std::string_view scope) {
  return scope.empty() || (name.starts_with(scope) && (name.size() == scope.size() || name[scope.size()] == '/'));
}

}  // namespace

absl::Status Recompute::FindUses() {
  TROUPE_ASSIGN_OR_RETURN(order_, walk_.graph->TopologicalOrder());
  position_.assign(walk_.graph->num_node_ids(), 0);
  is_gradient_.assign(walk_.graph->num_node_ids(), 0);
  for (size_t i = 0; i < order_.size(); ++i) position_[order_[i]->id()] = static_cast<int>(i);
  of_shapes_.assign(walk_.graph->num_node_ids(), 0);
  weighs_ = may_be_dead_ = of_shapes_;
  for (Node* n : order_) {
    if (!n->IsOp()) continue;
    of_shapes_[n->id()] = IsOfShapes(*n);
    weighs_[n->id()] = FindWeight(*n);
    may_be_dead_[n->id()] = FindDead(*n);
    if (n->id() < walk_.first_new) continue;
    for (const Edge* e : n->in_edges()) {
      if (is_gradient_[e->src->id()] || (!e->IsControl() && walk_.seeds->contains({e->src, e->src_output})))
        is_gradient_[n->id()] = true;
    }
    // What enters the loop of a loop's gradient is read there.
    if (!is_gradient_[n->id()] && !n->IsEnter()) continue;
    for (int i = 0; i < n->num_inputs(); ++i) {
      // The back edge of a loop is no use of a forward value.
      if (const NodeOut in = n->input(i); in.valid() && !is_gradient_[in.node->id()] && !in.node->IsNextIteration())
        uses_.push_back({n, i, in, kNone});
    }
  }
  return absl::OkStatus();
}

bool Recompute::IsOfShapes(const Node& n) const {
  if (n.op().Has(OpTrait::kReadsOnlyShape)) return true;
  if (n.num_inputs() == 0 || n.op().stateful() || n.IsControlFlow()) return false;
  for (const DType t : n.output_types()) {
    if (t != DType::kInt32 && t != DType::kInt64) return false;
  }
  for (int i = 0; i < n.num_inputs(); ++i) {
    const NodeOut in = n.input(i);
    if (!in.valid() || (!in.node->IsConstant() && !of_shapes_[in.node->id()])) return false;
  }
  return true;
}

bool Recompute::MayCopy(const Node* n) const {
  const OpDef& op = n->op();
  if (of_shapes_[n->id()]) return false;
  if (!n->IsOp() || n->num_inputs() == 0 || op.stateful() || n->IsControlFlow() || n->IsSend() || n->IsRecv())
    return false;
  for (const OpTrait t : {OpTrait::kReadsVariable, OpTrait::kUnknown, OpTrait::kPlaceholder, OpTrait::kVariable,
                          OpTrait::kArgument, OpTrait::kResult, OpTrait::kMayBeFed}) {
    if (op.Has(t)) return false;
  }
  // In loops and branches all is kept: what is saved there has its own way to the gradients.
  const LoopFrame* frame = walk_.forward->FrameOf(n);
  if (frame == nullptr || frame->parent != nullptr || walk_.forward->GuardOf(n) != 0) return false;
  const auto has_state = [](DType t) { return IsRef(t) || t == DType::kResource || t == DType::kVariant; };
  bool varies = false;
  for (int i = 0; i < n->num_inputs(); ++i) {
    const NodeOut in = n->input(i);
    if (!in.valid() || has_state(in.dtype())) return false;  // a reference may be of another value later
    varies |= !in.node->IsConstant();
  }
  return varies && std::none_of(n->output_types().begin(), n->output_types().end(), has_state);
}

bool Recompute::FindWeight(const Node& n) const {
  if (n.op().Has(OpTrait::kForwardsInput) && n.num_inputs() > 0 && n.input(0).valid())
    return weighs_[n.input(0).node->id()];
  return n.num_inputs() > 0 && !n.op().Has(OpTrait::kReadsVariable) && !n.op().Has(OpTrait::kArgument) &&
         !of_shapes_[n.id()];
}

bool Recompute::FindDead(const Node& n) const {
  const ForwardGraph& forward = *walk_.forward;
  const LoopFrame* frame = forward.FrameOf(&n);
  if (frame == nullptr || frame->parent != nullptr) return true;
  const Node* of = &n;
  if (n.id() >= walk_.first_new) {
    const auto it = walk_.made_for->find(n.id());
    of = it == walk_.made_for->end() ? nullptr : it->second;
  }
  if (of == nullptr || forward.FrameOf(of)->parent != nullptr || forward.GuardOf(of) != 0) return true;
  if (of == &n) return false;
  // A gradient's node. Its Merge brings the sides together that its forward node has parted.
  if (n.IsMerge()) return false;
  for (const Edge* e : n.in_edges()) {
    if (e->src->IsOp() && (may_be_dead_[e->src->id()] || (!e->IsControl() && e->src->IsSwitch()))) return true;
  }
  return false;
}

int Recompute::SegmentOf(const Node* n, const std::vector<int>& segments) const {
  if (n->id() >= walk_.first_new) {
    const auto it = walk_.made_for->find(n->id());
    if (it == walk_.made_for->end() || it->second == nullptr) return kNone;
    n = it->second;
  }
  return n->id() < static_cast<int>(segments.size()) ? segments[n->id()] : kNone;
}

absl::Status Recompute::DivideByScopes(Plan* plan) {
  // The segments of a scope that ends in "/*" are the scopes in it; of "*", the outermost ones.
  plan->segments.assign(walk_.first_new, kNone);
  HashMap<std::string, int> by_name;
  for (const std::string& scope : options_.scopes) {
    const bool outermost = scope == "*", each = outermost || scope.ends_with("/*");
    const std::string_view above = std::string_view(scope).substr(0, scope.size() - (outermost ? 1 : each ? 2 : 0));
    if ((above.empty() && !outermost) || above.ends_with('/') || above.find('*') != std::string_view::npos) {
      return InvalidArgument("'", scope, "' names no scope to recompute: that is a name without a slash at its end, ",
                             "such as 'encoder/layer_1', 'encoder/*' for all scopes in it, or '*'");
    }
    bool any = false;
    for (const Node* n : order_) {
      if (n->id() >= walk_.first_new || !IsBelow(n->name(), above) || !MayCopy(n)) continue;
      std::string_view segment = above;
      if (each) {
        const std::string_view name = n->name();
        const size_t end = name.find('/', outermost ? 0 : above.size() + 1);
        if (end == std::string_view::npos) continue;  // a node of the scope itself
        segment = name.substr(0, end);
      }
      any = true;
      int& of = plan->segments[n->id()];
      if (of != kNone) continue;  // an earlier scope has it
      of = by_name.try_emplace(std::string(segment), plan->num_segments).first->second;
      if (of == plan->num_segments) ++plan->num_segments;
    }
    if (!any)
      return InvalidArgument("nothing below the scope '", scope,
                             "' can be recomputed: there are no forward nodes without state, outside of loops and "
                             "branches");
  }
  ChooseCopies(plan);
  return absl::OkStatus();
}

void Recompute::ChooseCopies(Plan* plan) {
  const auto in = [&](NodeOut v, int segment) {
    return segment != kNone && SegmentOf(v.node, plan->segments) == segment && MayCopy(v.node);
  };
  plan->kept.clear();
  for (Use& u : uses_) {
    u.reader_segment = is_gradient_[u.reader->id()] ? SegmentOf(u.reader, plan->segments) : kNone;
    if (!in(u.value, u.reader_segment)) plan->kept.insert(u.value);
  }
  // Twice: what is found to be kept at first needs no copy in the end.
  for (const bool last : {false, true}) {
    plan->copied.assign(walk_.graph->num_node_ids(), 0);
    std::vector<const Node*> stack;
    const auto visit = [&](NodeOut v) {
      if (!plan->kept.contains(v) && !std::exchange(plan->copied[v.node->id()], 1)) stack.push_back(v.node);
    };
    for (const Use& u : uses_) {
      if (in(u.value, u.reader_segment)) visit(u.value);
    }
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      const int segment = SegmentOf(n, plan->segments);
      for (int i = 0; i < n->num_inputs(); ++i) {
        const NodeOut v = n->input(i);
        if (in(v, segment)) {
          visit(v);
        } else if (!last) {
          plan->kept.insert(v);
        }
      }
    }
  }
}

int64_t Recompute::Bytes(NodeOut v) const {
  int64_t bytes = static_cast<int64_t>(SizeOf(BaseType(v.dtype())));
  const PartialTensorShape shape = shapes_->shape(v);
  if (!shape.known_rank())
    return std::min(kMostBytes, bytes * std::min(options_.assumed_dimension, kMostBytes / bytes));
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t more = MultiplyWithoutOverflow(bytes, shape.dim(i) < 0 ? options_.assumed_dimension : shape.dim(i));
    bytes = more < 0 ? kMostBytes : std::min(more, kMostBytes);
  }
  return bytes;
}

int Recompute::ForwardPosition(const Node* n) const {
  if (n->id() < walk_.first_new) return position_[n->id()];
  const auto it = walk_.made_for->find(n->id());
  return it == walk_.made_for->end() || it->second == nullptr ? 0 : position_[it->second->id()];
}

int64_t Recompute::PeakBytes(const Plan& plan) const {
  std::vector<int64_t> kept_at(order_.size() + 1, 0), copies(plan.num_segments, 0);
  for (const NodeOut v : plan.kept) {
    if (Weighs(v.node)) kept_at[ForwardPosition(v.node)] += Bytes(v);
  }
  HashSet<NodeOut> counted;
  for (const Use& u : uses_) {
    if (ReadsCopy(u, plan) && counted.insert(u.value).second) copies[u.reader_segment] += Bytes(u.value);
  }
  // Gradients come in the reverse order, and what they have used is not held any more.
  std::vector<int> end(plan.num_segments, 0);
  for (size_t id = 0; id < plan.segments.size(); ++id) {
    if (const int s = plan.segments[id]; s != kNone) end[s] = std::max(end[s], position_[id]);
  }
  for (size_t p = 1; p < kept_at.size(); ++p) kept_at[p] += kept_at[p - 1];
  int64_t peak = kept_at.back();
  for (int s = 0; s < plan.num_segments; ++s) peak = std::max(peak, kept_at[end[s]] + copies[s]);
  return peak;
}

void Recompute::Divide(int parts, Plan* plan) const {
  plan->segments.assign(walk_.first_new, kNone);
  plan->num_segments = parts - 1;
  // By position: the bytes that gradients use of what is made up to it, and the bytes that later
  // nodes use.
  std::vector<int64_t> saved(order_.size() + 1, 0), crossing(order_.size() + 1, 0);
  HashSet<NodeOut> counted;
  for (const Use& u : uses_) {
    if (Weighs(u.value.node) && counted.insert(u.value).second) saved[ForwardPosition(u.value.node)] += Bytes(u.value);
  }
  for (const Node* n : order_) {
    if (n->id() >= walk_.first_new || !n->IsOp() || !Weighs(n)) continue;
    std::vector<int> last(n->num_outputs(), 0);
    for (const Edge* e : n->out_edges()) {
      if (!e->IsControl() && e->dst->id() < walk_.first_new)
        last[e->src_output] = std::max(last[e->src_output], position_[e->dst->id()]);
    }
    for (int i = 0; i < n->num_outputs(); ++i) {
      const int made = position_[n->id()];
      if (last[i] <= made) continue;
      const int64_t bytes = Bytes({const_cast<Node*>(n), i});
      crossing[made] += bytes;
      crossing[last[i]] -= bytes;
    }
  }
  for (size_t p = 1; p < saved.size(); ++p) {
    saved[p] += saved[p - 1];
    crossing[p] += crossing[p - 1];
  }
  const double share = static_cast<double>(saved.back()) / parts;
  size_t at = 0;
  for (int part = 0; part + 1 < parts; ++part) {
    // Anywhere within half a share around the part's end.
    size_t best = order_.size();
    for (size_t p = at; p < order_.size() && static_cast<double>(saved[p]) <= (part + 1.5) * share; ++p) {
      if (static_cast<double>(saved[p]) < (part + 0.5) * share) continue;
      if (best == order_.size() || crossing[p] < crossing[best]) best = p;
    }
    if (best == order_.size()) continue;  // one value is more than a share
    for (; at <= best; ++at) {
      const Node* n = order_[at];
      if (n->id() < walk_.first_new && MayCopy(n)) plan->segments[n->id()] = part;
    }
  }
}

absl::Status Recompute::DivideByBudget(Plan* plan) {
  shapes_ = std::make_unique<ShapeRefiner>(walk_.graph);
  // A shape function that refuses leaves sizes unknown; the step will say so.
  for (const Node* n : order_) shapes_->AddNode(n).IgnoreError();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int parts = 1; parts <= kMostSegments; parts += std::max(1, parts / 4)) {
    Plan next;
    Divide(parts, &next);
    ChooseCopies(&next);
    if (const int64_t peak = PeakBytes(next); peak < least) {
      least = peak;
      *plan = std::move(next);
    }
    if (least <= options_.budget_bytes) break;
  }
  ChooseCopies(plan);  // uses_ are those of the last plan that was tried
  if (least > options_.budget_bytes) {
    LogPieces(LogLevel::kWarning, "gradients '", walk_.prefix, "': they need ", least,
              " bytes of forward values at once, also when these are recomputed, more than the budget of ",
              options_.budget_bytes);
  }
  return absl::OkStatus();
}

}  // namespace troupe::autodiff
