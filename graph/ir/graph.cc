#include "troupe/graph/ir/graph.h"

#include <algorithm>
#include <charconv>

#include "absl/container/flat_hash_set.h"

namespace troupe {
namespace {

const OpDef& SourceDef() {
  static const auto* def = [] {
    auto* d = new OpDef;
    d->name = "_SOURCE";
    return d;
  }();
  return *def;
}
const OpDef& SinkDef() {
  static const auto* def = [] {
    auto* d = new OpDef;
    d->name = "_SINK";
    return d;
  }();
  return *def;
}

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '\\' || c == '-' || c == '/' || c == '>';
}

}  // namespace

absl::Status CheckNodeName(std::string_view name) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("'", CEscape(name.substr(0, 200)), "' is not a valid node name: ", why);
  };
  if (name.empty()) return bad("it is empty");
  const char first = name[0];
  if (!(IsNameChar(first) && first != '\\' && first != '-' && first != '/' && first != '>')) {
    return bad("it must begin with a letter, a digit, '.' or '_'");
  }
  for (char c : name) {
    if (!IsNameChar(c)) return bad("only letters, digits and . _ \\ - / > may occur");
  }
  return absl::OkStatus();
}

Graph::Graph(const OpRegistry* ops) : ops_(ops) {
  for (const OpDef* def : {&SourceDef(), &SinkDef()}) {
    Node* n = NewNode();
    n->op_ = def;
    n->name_ = def->name;
    by_name_[n->name_] = n;
  }
  AddControlEdge(source(), sink());
}
Graph::~Graph() = default;

Node* Graph::NewNode() {
  Node* n = &node_store_.Add();
  n->id_ = static_cast<int>(nodes_.size());
  n->graph_ = this;
  nodes_.push_back(n);
  ++num_nodes_;
  ++version_;
  return n;
}

Edge* Graph::NewEdge(Node* src, int src_output, Node* dst, int dst_input) {
  Edge* e;
  if (free_edges_.empty()) {
    e = &edge_store_.Add();
    e->id = static_cast<int>(edge_store_.size()) - 1;
  } else {
    e = free_edges_.back();
    free_edges_.pop_back();
  }
  e->src = src;
  e->dst = dst;
  e->src_output = src_output;
  e->dst_input = dst_input;
  src->out_edges_.push_back(e);
  dst->in_edges_.push_back(e);
  ++num_edges_;
  ++version_;
  return e;
}

absl::StatusOr<Node*> Graph::AddNode(std::string_view name, std::string_view op, AttrMap attrs) {
  if (frozen_) return FailedPrecondition("the graph is frozen: node '", name, "' cannot be added");
  TROUPE_RETURN_IF_ERROR(CheckNodeName(name));
  if (by_name_.contains(name)) return AlreadyExists("there is already a node named '", name, "'");
  const OpDef* def = ops_->Find(op);
  if (def == nullptr) {
    return Annotate(ops_->LookUp(op).status(), StrCat("node '", name, "'"));
  }
  if (absl::Status s = ValidateAttrs(*def, &attrs); !s.ok()) return WithAddress(s, name, op, "", {});
  std::vector<DType> in, out;
  if (absl::Status s = ArgTypes(def->inputs, attrs, &in); !s.ok()) return WithAddress(s, name, op, "", {});
  if (absl::Status s = ArgTypes(def->outputs, attrs, &out); !s.ok()) return WithAddress(s, name, op, "", {});
  return AddCheckedNode(name, def, std::move(attrs), std::move(in), std::move(out));
}

Node* Graph::AddCheckedNode(std::string_view name, const OpDef* op, AttrMap attrs, std::vector<DType> input_types,
                            std::vector<DType> output_types) {
  Node* n = NewNode();
  n->name_ = name;
  n->op_ = op;
  n->attrs_ = std::move(attrs);
  n->input_types_ = std::move(input_types);
  n->output_types_ = std::move(output_types);
  n->inputs_.resize(n->input_types_.size());
  by_name_[n->name_] = n;
  return n;
}

void Graph::Reserve(int nodes) {
  nodes_.reserve(nodes_.size() + nodes);
  by_name_.reserve(by_name_.size() + nodes);
}

absl::StatusOr<Node*> Graph::CopyNode(const Node& other, std::string_view name) {
  if (frozen_) return FailedPrecondition("the graph is frozen: node '", name, "' cannot be added");
  Node* n = NewNode();
  n->name_ = name;
  // One look-up both checks the name and takes it: copying is most of what pruning a large graph costs.
  if (!by_name_.try_emplace(n->name_, n).second) {
    nodes_.pop_back();
    node_store_.Pop();
    --num_nodes_;
    return AlreadyExists("there is already a node named '", name, "'");
  }
  n->op_ = other.op_;
  n->attrs_ = other.attrs_;
  n->requested_device_ = other.requested_device_;
  n->assigned_device_ = other.assigned_device_;
  n->location_ = other.location_;
  n->input_types_ = other.input_types_;
  n->output_types_ = other.output_types_;
  n->inputs_.resize(n->input_types_.size());
  constexpr size_t kUsualDegree = 8;
  n->in_edges_.reserve(std::min(other.in_edges_.size(), kUsualDegree));
  n->out_edges_.reserve(std::min(other.out_edges_.size(), kUsualDegree));
  return n;
}

absl::StatusOr<Edge*> Graph::AddEdge(Node* src, int src_output, Node* dst, int dst_input) {
  if (frozen_) return FailedPrecondition("the graph is frozen");
  if (src_output == kControlSlot && dst_input == kControlSlot) return AddControlEdge(src, dst);
  if (src_output < 0 || src_output >= src->num_outputs()) {
    return InvalidArgument("node '", src->name(), "' (", src->op().name, ") has ", src->num_outputs(), " outputs, so '",
                           src->name(), ":", src_output, "' does not exist (input ", dst_input, " of node '",
                           dst->name(), "')");
  }
  if (dst_input < 0 || dst_input >= dst->num_inputs()) {
    return InvalidArgument("node '", dst->name(), "' (", dst->op().name, ") has ", dst->num_inputs(),
                           " inputs, so there is no input ", dst_input);
  }
  if (dst->inputs_[dst_input] != nullptr) {
    return InvalidArgument("input ", dst_input, " of node '", dst->name(), "' is already connected");
  }
  const DType from = src->output_type(src_output), to = dst->input_type(dst_input);
  if (from != to && !(IsRef(from) && BaseType(from) == to)) {
    return InvalidArgument("input ", dst_input, " of node '", dst->name(), "' (", dst->op().name, ") is ", Name(to),
                           ", but '", src->name(), ":", src_output, "' is ", Name(from));
  }
  Edge* e = NewEdge(src, src_output, dst, dst_input);
  dst->inputs_[dst_input] = e;
  return e;
}

Edge* Graph::AddControlEdge(Node* src, Node* dst) {
  // Look on the side with fewer edges.
  const auto& edges = src->out_edges_.size() < dst->in_edges_.size() ? src->out_edges_ : dst->in_edges_;
  for (Edge* e : edges) {
    if (e->IsControl() && e->src == src && e->dst == dst) return e;
  }
  return NewEdge(src, kControlSlot, dst, kControlSlot);
}

Edge* Graph::AddControlEdgeUnchecked(Node* src, Node* dst) { return NewEdge(src, kControlSlot, dst, kControlSlot); }

void Graph::RemoveEdge(Edge* e) {
  const auto drop = [e](std::vector<Edge*>& v) {
    const auto it = std::find(v.begin(), v.end(), e);
    if (it != v.end()) {
      *it = v.back();
      v.pop_back();
    }
  };
  drop(e->src->out_edges_);
  drop(e->dst->in_edges_);
  if (e->dst_input >= 0) e->dst->inputs_[e->dst_input] = nullptr;
  e->src = e->dst = nullptr;
  free_edges_.push_back(e);
  --num_edges_;
  ++version_;
}

void Graph::RemoveNode(Node* n) {
  while (!n->in_edges_.empty()) RemoveEdge(n->in_edges_.back());
  while (!n->out_edges_.empty()) RemoveEdge(n->out_edges_.back());
  by_name_.erase(n->name_);
  nodes_[n->id_] = nullptr;
  n->attrs_ = AttrMap();
  --num_nodes_;
  ++version_;
}

absl::Status Graph::UpdateEdge(NodeOut src, Node* dst, int input) {
  if (dst->inputs_[input] != nullptr) RemoveEdge(dst->inputs_[input]);
  return AddEdge(src, dst, input).status();
}

Node* Graph::Find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

std::string Graph::UniqueName(std::string_view base) {
  if (!by_name_.contains(base)) return std::string(base);
  int& counter = name_counters_[std::string(base)];
  for (;;) {
    std::string name = StrCat(base, "_", ++counter);
    if (!by_name_.contains(name)) return name;
  }
}

std::string NodeOut::ToString() const { return StrCat(node->name(), ":", index); }

absl::Status Node::At(const absl::Status& status) const {
  return WithAddress(status, name_, op_->name, device(), location_);
}

std::vector<Node*> Graph::op_nodes() const {
  std::vector<Node*> list;
  list.reserve(nodes_.size());
  for (size_t i = 2; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) list.push_back(nodes_[i]);
  }
  return list;
}

std::vector<std::string>& Graph::collection(std::string_view name) { return collections_[std::string(name)]; }

std::unique_ptr<Graph> Graph::Clone(std::vector<Node*>* map) const {
  auto copy = std::make_unique<Graph>(ops_);
  std::vector<Node*> to(nodes_.size(), nullptr);
  to[0] = copy->source();
  to[1] = copy->sink();
  copy->by_name_.reserve(by_name_.size());
  for (size_t i = 2; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) to[i] = *copy->CopyNode(*nodes_[i], nodes_[i]->name_);
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr) continue;
    for (const Edge* e : nodes_[i]->out_edges_) {
      if (e->src->IsSource() && e->dst->IsSink()) continue;
      Edge* c = copy->NewEdge(to[e->src->id_], e->src_output, to[e->dst->id_], e->dst_input);
      if (e->dst_input >= 0) c->dst->inputs_[e->dst_input] = c;
    }
  }
  copy->producer = producer;
  copy->min_consumer = min_consumer;
  copy->collections_ = collections_;
  copy->library_ = library_;
  if (map != nullptr) *map = std::move(to);
  return copy;
}

absl::StatusOr<std::vector<Node*>> Graph::TopologicalOrder() const {
  std::vector<int> missing(nodes_.size(), 0);
  std::vector<Node*> order;
  order.reserve(num_nodes_);
  for (Node* n : nodes_) {
    if (n == nullptr) continue;
    int count = 0;
    for (const Edge* e : n->in_edges_) count += !e->src->IsNextIteration();
    missing[n->id_] = count;
    if (count == 0) order.push_back(n);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i]->IsNextIteration()) continue;
    for (const Edge* e : order[i]->out_edges_) {
      if (--missing[e->dst->id_] == 0) order.push_back(e->dst);
    }
  }
  if (static_cast<int>(order.size()) == num_nodes_) return order;
  // Walk backwards along unfinished inputs: this must enter the cycle.
  Node* n = nullptr;
  for (Node* m : nodes_) {
    if (m != nullptr && missing[m->id_] > 0) n = m;
  }
  absl::flat_hash_set<const Node*> seen;
  while (seen.insert(n).second) {
    for (const Edge* e : n->in_edges_) {
      if (missing[e->src->id_] > 0 && !e->src->IsNextIteration()) {
        n = e->src;
        break;
      }
    }
  }
  return InvalidArgument("the graph has a cycle without NextIteration through node '", n->name(), "' (", n->op().name,
                         ")");
}

absl::Status Graph::Validate() const {
  for (const Node* n : nodes_) {
    if (n == nullptr) continue;
    for (int i = 0; i < n->num_inputs(); ++i) {
      if (n->inputs_[i] == nullptr) {
        return n->At(InvalidArgument("input ", i, " of ", n->num_inputs(), " is not connected"));
      }
    }
  }
  return TopologicalOrder().status();
}

void Graph::ConnectSourceAndSink() {
  for (size_t i = 2; i < nodes_.size(); ++i) {
    if (nodes_[i] == nullptr) continue;
    if (nodes_[i]->in_edges_.empty()) NewEdge(source(), kControlSlot, nodes_[i], kControlSlot);
    if (nodes_[i]->out_edges_.empty()) NewEdge(nodes_[i], kControlSlot, sink(), kControlSlot);
  }
}

absl::StatusOr<std::pair<std::string, int>> ParseTensorName(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return InvalidArgument("'", CEscape(text.substr(0, 200)), "' is not a tensor name: ", why);
  };
  if (text.empty()) return bad("it is empty");
  if (text[0] == '^') {
    if (text.size() == 1) return bad("there is no name after '^'");
    return std::make_pair(std::string(text.substr(1)), kControlSlot);
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::make_pair(std::string(text), 0);
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data() + colon + 1, end, port);
  if (ec != std::errc() || stop != end || port < 0) return bad("after ':' must come an output number");
  if (colon == 0) return bad("there is no name before ':'");
  return std::make_pair(std::string(text.substr(0, colon)), port);
}

}  // namespace troupe
