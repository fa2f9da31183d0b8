#include "troupe/graph.h"

#include <algorithm>
#include <charconv>

#include "graph/core/hash_map.h"
#include "graph/ir/graph_undo.h"

namespace troupe {
namespace {

// Of SOURCE and SINK, which are the same in all graphs.
SharedProperties EndProperties(std::string_view name) {
  auto def = std::make_unique<OpDef>();
  def->name = name;
  SharedProperties p = SharedProperties::Make();
  NodeProperties* own = p.Own();
  own->name = name;
  own->op = def.release();
  return p;
}
const SharedProperties& SourceProperties() {
  static const auto* p = new SharedProperties(EndProperties("_SOURCE"));
  return *p;
}
const SharedProperties& SinkProperties() {
  static const auto* p = new SharedProperties(EndProperties("_SINK"));
  return *p;
}

const std::string& NoDevice() {
  static const auto* none = new std::string;
  return *none;
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

struct Graph::Names {
  HashIndex nodes;                                                        // by name; entries are ids
  HashMap<std::string_view, std::unique_ptr<const std::string>> devices;  // that nodes were assigned to
  HashMap<std::string, int> counters;
};

Node::Node() : assigned_device_(&NoDevice()) {}
Node::~Node() = default;

void Node::SetAttr(std::string_view name, AttrValue value) { properties_.Own()->attrs.Set(name, std::move(value)); }
void Node::set_requested_device(std::string_view d) {
  if (properties_->requested_device != d) properties_.Own()->requested_device = d;
}
void Node::set_assigned_device(std::string_view d) { assigned_device_ = graph_->DeviceNamed(d); }
void Node::set_location(SourceLocation l) {
  const SourceLocation& now = properties_->location;
  if (now.file != l.file || now.line != l.line) properties_.Own()->location = l;
}

Graph::Graph(const OpRegistry* ops) : ops_(ops), names_(std::make_unique<Names>()), last_device_(&NoDevice()) {
  for (const SharedProperties* p : {&SourceProperties(), &SinkProperties()}) NewNode(*p, HashName((*p)->name));
  AddControlEdge(source(), sink());
}
Graph::~Graph() = default;

// Not the standard library's, which is the same in each process (graph/core/hash_map.h).
uint32_t Graph::HashName(std::string_view name) {
  return static_cast<uint32_t>(absl::HashOf(absl::string_view(name.data(), name.size())));
}

const std::string* Graph::DeviceNamed(std::string_view name) {
  // Nodes that were placed one after the other are mostly on one device.
  if (*last_device_ == name) return last_device_;
  if (name.empty()) return &NoDevice();
  auto it = names_->devices.find(name);
  if (it == names_->devices.end()) {
    auto kept = std::make_unique<const std::string>(name);
    const std::string_view key = *kept;
    it = names_->devices.try_emplace(key, std::move(kept)).first;
  }
  return last_device_ = it->second.get();
}

Node* Graph::NewNode(SharedProperties properties, uint32_t name_hash) {
  if (Find(properties->name, name_hash) != nullptr) return nullptr;
  names_->nodes.Reserve(static_cast<size_t>(num_nodes_) + 1);
  Node* n = &node_store_.Add();
  try {
    n->inputs_.resize(properties->input_types.size());
    nodes_.push_back(n);
  } catch (...) {
    node_store_.Pop();
    throw;
  }
  n->name_hash_ = name_hash;
  n->properties_ = std::move(properties);
  n->id_ = static_cast<int>(nodes_.size()) - 1;
  n->graph_ = this;
  n->op_ = n->properties_->op;
  names_->nodes.Add(name_hash, static_cast<uint32_t>(n->id_));
  ++num_nodes_;
  ++version_;
  return n;
}

Edge* Graph::NewEdge(Node* src, int src_output, Node* dst, int dst_input) {
  for (EdgeList* list : {&src->out_edges_, &dst->in_edges_}) {
    // Grows by more than that. A call of reserve for nothing is a quarter of this function's time.
    if (list->size() == list->capacity()) list->reserve(list->size() + 1);
  }
  Edge* e = free_edges_;
  if (e == nullptr) {
    e = &edge_store_.Add();
    e->id = static_cast<int>(edge_store_.size()) - 1;
  } else {
    free_edges_ = e->next_free_;
  }
  e->src = src;
  e->dst = dst;
  e->src_output = src_output;
  e->dst_input = dst_input;
  e->at_ = {static_cast<unsigned>(src->out_edges_.size()), static_cast<unsigned>(dst->in_edges_.size())};
  src->out_edges_.push_back(e);
  dst->in_edges_.push_back(e);
  ++num_edges_;
  ++version_;
  return e;
}

absl::StatusOr<Node*> Graph::AddNode(std::string_view name, std::string_view op, AttrMap attrs) {
  if (frozen_) return FailedPrecondition("the graph is frozen: node '", name, "' cannot be added");
  TROUPE_RETURN_IF_ERROR(CheckNodeName(name));
  if (Find(name) != nullptr) return AlreadyExists("there is already a node named '", name, "'");
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
  SharedProperties p = SharedProperties::Make();
  NodeProperties* own = p.Own();
  own->name = name;
  own->op = op;
  own->attrs = std::move(attrs);
  own->input_types = std::move(input_types);
  own->output_types = std::move(output_types);
  return NewNode(std::move(p), HashName(name));
}

Node* Graph::AddUnknownNode(std::string_view name, std::shared_ptr<const OpDef> op, AttrMap attrs,
                            std::vector<DType> input_types, std::vector<DType> output_types) {
  SharedProperties p = SharedProperties::Make();
  NodeProperties* own = p.Own();
  own->name = name;
  own->op = op.get();
  own->unknown_op = std::move(op);
  own->attrs = std::move(attrs);
  own->input_types = std::move(input_types);
  own->output_types = std::move(output_types);
  return NewNode(std::move(p), HashName(name));
}

void Graph::SetUnknownOutputs(Node* node, std::vector<DType> types) {
  node->properties_.Own()->output_types = std::move(types);
  ++version_;
}

void Graph::Reserve(int nodes) {
  const size_t all = nodes_.size() + static_cast<size_t>(nodes);
  if (all > nodes_.capacity()) nodes_.reserve(std::max(all, 2 * nodes_.capacity()));
  names_->nodes.Reserve(static_cast<size_t>(num_nodes_ + nodes));
}

absl::StatusOr<Node*> Graph::CopyNode(const Node& other, std::string_view name) {
  if (frozen_) return FailedPrecondition("the graph is frozen: node '", name, "' cannot be added");
  SharedProperties p = other.properties_;
  uint32_t hash = other.name_hash_;
  if (name != other.name()) {
    p.Own()->name = name;
    hash = HashName(name);
  }
  const std::string* const device = DeviceNamed(other.assigned_device());
  Node* n = NewNode(std::move(p), hash);
  if (n == nullptr) return AlreadyExists("there is already a node named '", name, "'");
  n->assigned_device_ = device;
  return n;
}

absl::StatusOr<Edge*> Graph::AddEdge(Node* src, int src_output, Node* dst, int dst_input) {
  if (frozen_) return FailedPrecondition("the graph is frozen");
  if (src->graph_ != this || dst->graph_ != this) {
    return InvalidArgument("node '", src->graph_ != this ? src->name() : dst->name(), "' belongs to another graph");
  }
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
  const auto drop = [](EdgeList& v, unsigned Edge::Places::*at, unsigned where) {
    v[where] = v.back();
    v[where]->at_.*at = where;
    v.pop_back();
  };
  drop(e->src->out_edges_, &Edge::Places::out, e->at_.out);
  drop(e->dst->in_edges_, &Edge::Places::in, e->at_.in);
  if (e->dst_input >= 0) e->dst->inputs_[e->dst_input] = nullptr;
  e->src = e->dst = nullptr;
  e->next_free_ = free_edges_;
  free_edges_ = e;
  --num_edges_;
  ++version_;
}

void Graph::RemoveNode(Node* n) {
  while (!n->in_edges_.empty()) RemoveEdge(n->in_edges_.back());
  while (!n->out_edges_.empty()) RemoveEdge(n->out_edges_.back());
  names_->nodes.Remove(n->name_hash_, static_cast<uint32_t>(n->id_));
  nodes_[n->id_] = nullptr;
  if (n->properties_.alone()) n->properties_.Own()->attrs = AttrMap();
  --num_nodes_;
  ++version_;
}

GraphUndo::GraphUndo(Graph* graph) : graph_(graph), nodes_(graph->nodes_.size()), version_(graph->version_) {}

GraphUndo::~GraphUndo() {
  if (graph_ == nullptr) return;
  for (size_t i = graph_->nodes_.size(); i > nodes_; --i) {
    Node* const n = graph_->nodes_[i - 1];
    while (!n->in_edges().empty()) graph_->RemoveEdge(n->in_edges().back());
  }
  for (; graph_->nodes_.size() > nodes_; --graph_->num_nodes_) {
    const Node* const n = graph_->nodes_.back();
    graph_->names_->nodes.Remove(Graph::HashName(n->name()), static_cast<uint32_t>(n->id()));
    graph_->nodes_.pop_back();
    graph_->node_store_.Pop();
  }
  for (auto& [node, types] : types_) graph_->SetUnknownOutputs(node, std::move(types));  // nobody shares them now
  if (const auto it = graph_->names_->counters.find(base_); it != graph_->names_->counters.end()) it->second = counter_;
  graph_->version_ = version_;
}

std::string GraphUndo::UniqueName(const std::string& base) {
  const auto it = graph_->names_->counters.find(base);
  counter_ = it == graph_->names_->counters.end() ? 0 : it->second;
  base_ = base;
  return graph_->UniqueName(base);
}

void GraphUndo::SetUnknownOutputs(Node* node, std::vector<DType> types) {
  types_.emplace_back(node, node->output_types());
  try {
    graph_->SetUnknownOutputs(node, std::move(types));
  } catch (...) {
    types_.pop_back();
    throw;
  }
}

absl::Status Graph::UpdateEdge(NodeOut src, Node* dst, int input) {
  if (src.node != nullptr) src.node->out_edges_.reserve(src.node->out_edges_.size() + 1);
  if (dst->inputs_[input] != nullptr) RemoveEdge(dst->inputs_[input]);
  return AddEdge(src, dst, input).status();
}

Node* Graph::Find(std::string_view name) const { return Find(name, HashName(name)); }

Node* Graph::Find(std::string_view name, uint32_t hash) const {
  const auto same = [&](uint32_t id) { return nodes_[id]->name() == name; };
  const uint32_t id = names_->nodes.Find(hash, same);
  return id == HashIndex::kNone ? nullptr : nodes_[id];
}

std::string Graph::UniqueName(std::string_view base) {
  if (Find(base) == nullptr) return std::string(base);
  int& counter = names_->counters[base];
  for (;;) {
    std::string name = StrCat(base, "_", counter + 1);
    ++counter;
    if (Find(name) == nullptr) return name;
  }
}

std::string NodeOut::ToString() const { return valid() ? StrCat(node->name(), ":", index) : std::string(); }

absl::Status Node::At(const absl::Status& status) const {
  return WithAddress(status, name(), op_->name, device(), location());
}

std::vector<Node*> Graph::op_nodes() const {
  std::vector<Node*> list;
  list.reserve(nodes_.size());
  for (size_t i = 2; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) list.push_back(nodes_[i]);
  }
  return list;
}

std::vector<std::string>& Graph::collection(std::string_view name) {
  const auto it = collections_.find(name);
  return it != collections_.end() ? it->second : collections_.try_emplace(std::string(name)).first->second;
}

std::unique_ptr<Graph> Graph::Clone(std::vector<Node*>* map) const {
  auto copy = std::make_unique<Graph>(ops_);
  std::vector<Node*> to(nodes_.size(), nullptr);
  to[0] = copy->source();
  to[1] = copy->sink();
  copy->names_->nodes.Reserve(static_cast<size_t>(num_nodes_));
  for (size_t i = 2; i < nodes_.size(); ++i) {
    if (nodes_[i] != nullptr) to[i] = *copy->CopyNode(*nodes_[i], nodes_[i]->name());
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
  HashSet<const Node*> seen;
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
