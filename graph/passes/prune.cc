#include "graph/ir/name_attrs.h"
#include "graph/passes/prune.h"

#include <algorithm>
#include <optional>

#include "graph/core/hash_map.h"
#include "graph/core/near_names.h"
#include "graph/ir/unknown_ops.h"
#include "troupe/shape_inference.h"

namespace troupe {
namespace {

constexpr int kMaxPlaceholdersNamed = 10;

// What is known of a node of the full graph.
enum Mark : uint8_t {
  kNeeded = 1,     // will be copied
  kFed = 2,        // one of its outputs is fed
  kTriggered = 4,  // a needed node has a control edge from it, and kFed is set
};

PartialTensorShape DeclaredShape(const Node& node) {
  if (!node.op().Has(OpTrait::kPlaceholder)) return {};
  // Older producers wrote [] for "unknown".
  absl::StatusOr<PartialTensorShape> shape = node.Attr<PartialTensorShape>("shape");
  if (!shape.ok() || (shape->rank() == 0 && node.graph()->producer < 24)) return {};
  return *std::move(shape);
}

class Pruner {
 public:
  Pruner(const Graph& graph, const PruneOptions& options)
      : graph_(graph), options_(options), wanted_(options.wanted), marks_(graph.num_node_ids(), 0) {}

  absl::StatusOr<PrunedGraph> Run(absl::Span<const std::string> feeds, absl::Span<const std::string> fetches,
                                  absl::Span<const std::string> targets) {
    TROUPE_RETURN_IF_ERROR(LookUp(feeds, fetches, targets));
    for (size_t i = 0; i < feeds_.size(); ++i) {
      if (!feed_index_.emplace(feeds_[i], static_cast<int>(i)).second) {
        return InvalidArgument("'", feeds_[i].ToString(), "' is fed twice");
      }
      marks_[feeds_[i].node->id()] |= kFed;
    }
    TROUPE_RETURN_IF_ERROR(FindNeeded());
    TROUPE_RETURN_IF_ERROR(CheckUnknown());
    TROUPE_RETURN_IF_ERROR(CheckPlaceholders());
    TROUPE_RETURN_IF_ERROR(CheckArguments());
    return Build();
  }

 private:
  absl::Status LookUp(absl::Span<const std::string> feeds, absl::Span<const std::string> fetches,
                      absl::Span<const std::string> targets) {
    std::vector<std::string> unknown, unknown_nodes;
    absl::Status bad = absl::OkStatus();
    const auto tensors = [&](std::string_view what, absl::Span<const std::string> names, std::vector<NodeOut>* outs) {
      for (const std::string& text : names) {
        const auto name = ParseTensorName(text);
        Node* node = name.ok() ? graph_.Find(name->first) : nullptr;
        absl::Status s = absl::OkStatus();
        if (text.empty()) {
          s = InvalidArgument(
              "a ", what,
              " has an empty name. An invalid Output has one: its builder failed, and the scope's status() says why; "
              "or its node has no such output");
        } else if (!name.ok()) {
          s = Annotate(name.status(), what);
        } else if (name->second == kControlSlot) {
          s = InvalidArgument(what, " '", text, "' is a control edge, which has no value");
        } else if (node == nullptr || !node->IsOp()) {
          unknown.push_back(StrCat(what, " '", text, "'"));
          unknown_nodes.push_back(name->first);
        } else if (name->second >= node->num_outputs()) {
          // A Variable reads behind its updates: what their Outputs are.
          const std::string read = StrCat(node->name(), "/Read");
          s = InvalidArgument(what, " '", text, "': node '", node->name(), "' (", node->op().name, ") has ",
                              node->num_outputs(), node->num_outputs() == 1 ? " output" : " outputs",
                              node->num_outputs() > 0 ? "" : "; it can be a target",
                              node->num_outputs() > 0 || graph_.Find(read) == nullptr
                                  ? ""
                                  : StrCat(", and the value behind it is '", read, "'"));
        } else {
          outs->push_back({node, name->second});
        }
        if (bad.ok()) bad = s;
      }
    };
    tensors("feed", feeds, &feeds_);
    tensors("fetch", fetches, &fetches_);
    for (const std::string& name : targets) {
      Node* node = graph_.Find(name);
      if (node == nullptr) {  // one of its outputs, which stands for the node
        const auto tensor = ParseTensorName(name);
        if (tensor.ok() && tensor->second >= 0) node = graph_.Find(tensor->first);
        if (node != nullptr && tensor->second >= node->num_outputs()) node = nullptr;
      }
      if (name.empty()) {
        bad.Update(
            InvalidArgument("a target has an empty name. An invalid Operation has one: its builder failed, and the "
                            "scope's status() says why; or it was made empty"));
      } else if (node == nullptr || !node->IsOp()) {
        unknown.push_back(StrCat("target '", name, "'"));
        unknown_nodes.push_back(name);
      } else {
        targets_.push_back(node);
      }
    }
    TROUPE_RETURN_IF_ERROR(bad);
    if (unknown.empty()) return absl::OkStatus();
    const std::string like = NamesLike(unknown_nodes);
    return NotFound("the graph has no node for ", StrJoin(unknown, ", "), like.empty() ? options_.unknown_hint : like);
  }

  // "; did you mean 'a', 'b'?" with names of nodes; "" when none is near.
  std::string NamesLike(const std::vector<std::string>& names) const {
    std::vector<std::string> like;
    const std::vector<Node*> nodes = graph_.op_nodes();
    for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) {
      NearNames near(names[i]);
      for (const Node* n : nodes) near.Offer(n->name());
      for (std::string& name : near.Best(3)) {
        if (std::find(like.begin(), like.end(), name) == like.end()) like.push_back(std::move(name));
      }
    }
    return like.empty() ? "" : StrCat("; did you mean '", StrJoin(like, "', '"), "'?");
  }

  int FeedOf(const Node* node, int output) const {
    if ((marks_[node->id()] & kFed) == 0) return -1;
    const auto it = feed_index_.find(NodeOut{const_cast<Node*>(node), output});
    return it == feed_index_.end() ? -1 : it->second;
  }

  void Need(const Node* node, const Node* by) {
    uint8_t& mark = marks_[node->id()];
    if ((mark & kNeeded) != 0 || !node->IsOp()) return;
    mark |= kNeeded;
    needed_.push_back(node);
    if (node->op().Has(OpTrait::kPlaceholder)) missing_.push_back({node, by});
  }

  absl::Status FindNeeded() {
    arg_needed_.assign(feeds_.size(), false);
    for (const NodeOut& f : fetches_) {
      if (const int feed = FeedOf(f.node, f.index); feed >= 0) {
        arg_needed_[feed] = true;
      } else {
        Need(f.node, nullptr);
      }
    }
    for (const Node* t : targets_) {
      if ((marks_[t->id()] & kFed) != 0 && t->op().Has(OpTrait::kPlaceholder)) {
        marks_[t->id()] |= kTriggered;
      } else {
        Need(t, nullptr);
      }
    }
    for (size_t i = 0; i < needed_.size(); ++i) {
      const Node* n = needed_[i];
      TROUPE_RETURN_IF_ERROR(wanted_());
      for (const Edge* e : n->in_edges()) {
        if (e->IsControl() && (marks_[e->src->id()] & kFed) != 0) {
          marks_[e->src->id()] |= kTriggered;
        } else if (const int feed = e->IsControl() ? -1 : FeedOf(e->src, e->src_output); feed >= 0) {
          arg_needed_[feed] = true;
        } else {
          Need(e->src, n);
        }
      }
    }
    // A fed node that only control edges ask for is stood for by its first feed.
    for (size_t i = feeds_.size(); i-- > 0;) {
      const Node* n = feeds_[i].node;
      if ((marks_[n->id()] & (kTriggered | kNeeded)) != kTriggered) continue;
      stand_in_[n] = static_cast<int>(i);
    }
    for (const auto& [node, feed] : stand_in_) arg_needed_[feed] = true;
    // Of several inputs that need a node the search meets one after the other; the copy keeps the
    // order of the graph.
    if (needed_.size() < marks_.size() / 8) {
      std::sort(needed_.begin(), needed_.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
      return absl::OkStatus();
    }
    needed_.clear();
    for (size_t id = 0; id < marks_.size(); ++id) {
      if ((marks_[id] & kNeeded) != 0) needed_.push_back(graph_.node(static_cast<int>(id)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnknown() const {
    std::vector<std::pair<std::string, std::string>> unknown;
    for (const Node* n : needed_) {
      if (n->IsUnknown()) unknown.emplace_back(n->op().name, n->name());
    }
    return unknown.empty() ? absl::OkStatus() : UnknownOpsError("the step needs", unknown, graph_.library());
  }

  // The copy gets arguments and results of its own: the indexes of others would be taken for
  // theirs.
  absl::Status CheckArguments() const {
    for (const Node* n : needed_) {
      if (!n->op().Has(OpTrait::kArgument) && !n->op().Has(OpTrait::kResult)) continue;
      return n->At(InvalidArgument(
          "the op stands for an argument or a result of a function; a graph that is run cannot have such a node"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPlaceholders() const {
    if (missing_.empty()) return absl::OkStatus();
    std::string text;
    int named = 0;
    for (const auto& [node, by] : missing_) {
      if (named++ == kMaxPlaceholdersNamed) {
        StrAppend(&text, "; and ", missing_.size() - kMaxPlaceholdersNamed, " more");
        break;
      }
      const PartialTensorShape shape = DeclaredShape(*node);
      StrAppend(&text, named > 1 ? "; " : "", "placeholder '", node->name(), "' (", Name(node->output_type(0)),
                shape.known_rank() ? " " + shape.DebugString() : "", ") must be fed; ");
      if (by == nullptr) {
        text += "it is asked for itself";
      } else {
        StrAppend(&text, "node '", by->name(), "' needs it");
      }
      if (node->location().known()) StrAppend(&text, "; defined at ", node->location().ToString());
    }
    return absl::Status(absl::StatusCode::kInvalidArgument, text);
  }

  // A name that neither graph has.
  std::string NewName(std::string base) {
    while (graph_.Find(base) != nullptr) base += "_";
    return result_.graph->UniqueName(base);
  }

  // What the nodes that would compute `fed` tell about its shape. Whoever built on it counts on
  // that: gradients, reshapes.
  absl::StatusOr<PartialTensorShape> KnownShape(NodeOut fed) {
    if (fed.node->op().Has(OpTrait::kPlaceholder)) return DeclaredShape(*fed.node);
    if (!shapes_.has_value()) shapes_.emplace(&graph_);
    // Inputs first. What comes around a loop is not known when its Merge is met.
    std::vector<std::pair<const Node*, int>> stack;
    const auto visit = [&](const Node* n) {
      if (n->IsOp() && inferred_.insert(n).second) stack.emplace_back(n, 0);
    };
    visit(fed.node);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node->num_inputs()) {
        const NodeOut in = node->input(next++);
        if (in.valid() && !in.node->IsNextIteration()) visit(in.node);
        continue;
      }
      TROUPE_RETURN_IF_ERROR(wanted_());
      // A node that contradicts itself tells nothing: whether it is run is another question.
      shapes_->AddNode(node).IgnoreError();
      stack.pop_back();
    }
    return shapes_->shape(fed);
  }

  absl::Status AddArgs() {
    result_.args.assign(feeds_.size(), nullptr);
    for (size_t i = 0; i < feeds_.size(); ++i) {
      const Node& fed = *feeds_[i].node;
      const DType type = BaseType(feeds_[i].dtype());
      result_.feed_types.push_back(type);
      TROUPE_ASSIGN_OR_RETURN(PartialTensorShape shape, KnownShape(feeds_[i]));
      result_.feed_shapes.push_back(std::move(shape));
      if (!arg_needed_[i]) continue;
      AttrMap attrs{{"T", type}, {"index", static_cast<int64_t>(i)}};
      if (options_.trust_feed_shapes && result_.feed_shapes.back().known_rank()) {
        attrs.Set("_output_shapes", std::vector<PartialTensorShape>{result_.feed_shapes.back()});
      }
      TROUPE_ASSIGN_OR_RETURN(
          Node* const arg,
          result_.graph->AddNode(NewName(StrCat("_arg_", fed.name(), "_", feeds_[i].index)), kArgOp, std::move(attrs)));
      arg->set_location(fed.location());
      result_.args[i] = arg;
    }
    return absl::OkStatus();
  }

  absl::Status Connect(const Node* from, Node* to) {
    for (const Edge* e : from->in_edges()) {
      if (!e->src->IsOp()) continue;
      if (e->IsControl()) {
        const auto stand_in = stand_in_.find(e->src);
        Node* src = stand_in == stand_in_.end() ? copies_[e->src->id()] : result_.args[stand_in->second];
        result_.graph->AddControlEdgeUnchecked(src, to);
      } else if (const int feed = FeedOf(e->src, e->src_output); feed < 0) {
        TROUPE_RETURN_IF_ERROR(result_.graph->AddEdge(copies_[e->src->id()], e->src_output, to, e->dst_input).status());
      } else if (IsRef(to->input_type(e->dst_input))) {
        return to->At(InvalidArgument("the node writes to '", e->src->name(), ":", e->src_output,
                                      "'; that tensor is fed, and a fed value cannot be written to"));
      } else {
        TROUPE_RETURN_IF_ERROR(result_.graph->AddEdge(result_.args[feed], 0, to, e->dst_input).status());
      }
    }
    return absl::OkStatus();
  }

  void RunAfter(const Node* from, Node* to) {
    const AttrValue* value = from->attrs().Find(kAfterAttr);
    const auto* names = value == nullptr ? nullptr : value->As<std::vector<std::string>>();
    if (names == nullptr) return;
    HashSet<const Node*> waits_for;
    for (const Edge* e : to->in_edges()) waits_for.insert(e->src);
    for (const std::string& name : *names) {
      const Node* n = graph_.Find(name);
      Node* const copy = n == nullptr ? nullptr : copies_[n->id()];
      if (copy == nullptr || !waits_for.insert(copy).second) continue;
      result_.graph->AddControlEdgeUnchecked(copy, to);
      ordered_by_name_ = true;
    }
  }

  absl::Status AddRetvals() {
    for (size_t i = 0; i < fetches_.size(); ++i) {
      const NodeOut f = fetches_[i];
      const int feed = FeedOf(f.node, f.index);
      const NodeOut value = feed >= 0 ? NodeOut{result_.args[feed], 0} : NodeOut{copies_[f.node->id()], f.index};
      const DType type = BaseType(f.dtype());
      TROUPE_ASSIGN_OR_RETURN(Node* const retval,
                              result_.graph->AddNode(NewName(StrCat("_retval_", f.node->name(), "_", f.index)),
                                                     kRetvalOp, {{"T", type}, {"index", static_cast<int64_t>(i)}}));
      retval->set_location(f.node->location());
      TROUPE_RETURN_IF_ERROR(result_.graph->AddEdge(value, retval, 0).status());
      result_.retvals.push_back(retval);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PrunedGraph> Build() {
    result_.graph = std::make_unique<Graph>(&graph_.ops());
    Graph& out = *result_.graph;
    out.producer = graph_.producer;
    out.min_consumer = graph_.min_consumer;
    out.set_library(graph_.shared_library());
    out.Reserve(static_cast<int>(needed_.size() + feeds_.size() + fetches_.size()));
    TROUPE_RETURN_IF_ERROR(AddArgs());
    copies_.assign(graph_.num_node_ids(), nullptr);
    for (const Node* n : needed_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      TROUPE_ASSIGN_OR_RETURN(copies_[n->id()], out.CopyNode(*n, n->name()));
    }
    for (const Node* n : needed_) {
      TROUPE_RETURN_IF_ERROR(wanted_());
      TROUPE_RETURN_IF_ERROR(Connect(n, copies_[n->id()]));
      if (n->num_inputs() == 0 && n->num_outputs() == 0) RunAfter(n, copies_[n->id()]);
    }
    // The graph was valid without these edges.
    if (ordered_by_name_)
      TROUPE_RETURN_IF_ERROR(Annotate(out.TopologicalOrder().status(), StrCat("with attr '", kAfterAttr, "'")));
    TROUPE_RETURN_IF_ERROR(AddRetvals());
    return std::move(result_);
  }

  const Graph& graph_;
  const PruneOptions& options_;
  WantedCheck wanted_;
  std::vector<uint8_t> marks_;  // by node id
  std::vector<NodeOut> feeds_, fetches_;
  std::vector<const Node*> targets_;
  HashMap<NodeOut, int> feed_index_;
  std::vector<char> arg_needed_;        // by feed
  HashMap<const Node*, int> stand_in_;  // fed node -> the feed that its control edges leave from
  std::vector<const Node*> needed_;
  struct Missing {
    const Node *placeholder, *by;
  };
  std::vector<Missing> missing_;
  std::vector<Node*> copies_;           // by node id
  bool ordered_by_name_ = false;        // kAfterAttr has added an edge
  std::optional<ShapeRefiner> shapes_;  // of what fed nodes are computed from
  HashSet<const Node*> inferred_;       // those of shapes_
  PrunedGraph result_;
};

}  // namespace

absl::StatusOr<PrunedGraph> PruneForExecution(const Graph& graph, absl::Span<const std::string> feeds,
                                              absl::Span<const std::string> fetches,
                                              absl::Span<const std::string> targets, const PruneOptions& options) {
  return Pruner(graph, options).Run(feeds, fetches, targets);
}

}  // namespace troupe
