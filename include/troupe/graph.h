// The graph: nodes, data edges and control edges.
//
// Node 0 is SOURCE and node 1 is SINK; they belong to no op's definition and carry only control
// edges (kControlSlot), which the passes add where they need "everything". Edges may form cycles
// only through a node whose op has ControlFlow::kNextIteration.
//
// Copies of a node share what does not change (troupe/node_properties.h); a change to one of them
// is not seen by the others.
//
// Source of the semantics: section 2 of TensorFlow's white paper: nodes, edges that carry tensors,
// control dependencies.
//
// Thread rule: a Graph is a plain object: many readers or one writer. Graphs that share properties
// of nodes may be read and written independently. Node and Edge pointers stay valid until the node
// or edge is removed; references to a node's properties until the node is changed.
//
// A function that throws, because there is no memory, has not changed the graph: RemoveEdge and
// RemoveNode never do; ConnectSourceAndSink can be called again.
#ifndef TROUPE_GRAPH_H_
#define TROUPE_GRAPH_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "troupe/attr_value.h"
#include "troupe/export.h"
#include "troupe/node_properties.h"
#include "troupe/op_def.h"
#include "troupe/stable_store.h"
#include "troupe/status.h"

namespace troupe::proto {
class FunctionDefLibrary;
}

namespace TROUPE_EXPORT troupe {

inline constexpr int kControlSlot = -1;
inline constexpr int kGraphVersion = 24;  // what we produce: since 24 shape [] of a Placeholder means a scalar
class Node;
class Graph;
class TROUPE_HIDDEN GraphUndo;

struct Edge {
  Node* src;
  Node* dst;
  int src_output;  // kControlSlot for a control edge
  int dst_input;
  int id;
  bool IsControl() const { return src_output == kControlSlot; }

 private:
  friend class Graph;
  // Where the edge stands in src's out_edges() and dst's in_edges(): a node may have a million of
  // either.
  struct Places {
    unsigned out, in;
  };
  union {
    Places at_;
    Edge* next_free_;  // of an edge that was removed
  };
};

// One output of a node: the source of data edges.
struct NodeOut {
  Node* node = nullptr;
  int index = 0;
  bool valid() const { return node != nullptr; }
  // kInvalid of an output that is not there.
  inline DType dtype() const;
  std::string ToString() const;  // "name:index"; "" without a node
  friend bool operator==(const NodeOut& a, const NodeOut& b) { return a.node == b.node && a.index == b.index; }
  template <class H>
  friend H AbslHashValue(H h, const NodeOut& o) {
    return H::combine(std::move(h), o.node, o.index);
  }
};

// Most nodes have one or two edges on a side; these take no memory of their own.
using EdgeList = absl::InlinedVector<Edge*, 2>;

class Node {
 public:
  Node();
  ~Node();
  int id() const { return id_; }
  const std::string& name() const { return properties_->name; }
  const OpDef& op() const { return *op_; }
  Graph* graph() const { return graph_; }
  const AttrMap& attrs() const { return properties_->attrs; }
  void SetAttr(std::string_view name, AttrValue value);  // replaces
  template <class T>
  absl::StatusOr<T> Attr(std::string_view name) const {
    return GetAttr<T>(attrs(), name);
  }
  // What the node's copies share: kept by those who need a node's name or types when its graph is
  // gone.
  const SharedProperties& properties() const { return properties_; }

  // What the user asked for (may be partial or empty) and where the placer put it (full name, empty
  // before).
  const std::string& requested_device() const { return properties_->requested_device; }
  void set_requested_device(std::string_view d);
  const std::string& assigned_device() const { return *assigned_device_; }
  void set_assigned_device(std::string_view d);
  const std::string& device() const { return assigned_device().empty() ? requested_device() : assigned_device(); }
  const SourceLocation& location() const { return properties_->location; }
  void set_location(SourceLocation l);

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  int num_outputs() const { return static_cast<int>(output_types().size()); }
  DType input_type(int i) const { return input_types()[i]; }
  DType output_type(int i) const { return output_types()[i]; }
  const std::vector<DType>& input_types() const { return properties_->input_types; }
  const std::vector<DType>& output_types() const { return properties_->output_types; }

  // Data and control edges. in_edges() is unordered; input_edge(i) is the edge into input i, null
  // while unconnected.
  const EdgeList& in_edges() const { return in_edges_; }
  const EdgeList& out_edges() const { return out_edges_; }
  Edge* input_edge(int i) const { return inputs_[i]; }
  NodeOut input(int i) const { return inputs_[i] ? NodeOut{inputs_[i]->src, inputs_[i]->src_output} : NodeOut{}; }

  bool IsSource() const { return id_ == 0; }
  bool IsSink() const { return id_ == 1; }
  bool IsOp() const { return id_ > 1; }
  ControlFlow control_flow() const { return op_->control_flow; }
  bool IsSwitch() const { return op_->control_flow == ControlFlow::kSwitch; }
  bool IsMerge() const { return op_->control_flow == ControlFlow::kMerge; }
  bool IsEnter() const { return op_->control_flow == ControlFlow::kEnter; }
  bool IsExit() const { return op_->control_flow == ControlFlow::kExit; }
  bool IsNextIteration() const { return op_->control_flow == ControlFlow::kNextIteration; }
  bool IsLoopCond() const { return op_->control_flow == ControlFlow::kLoopCond; }
  bool IsControlFlow() const { return op_->control_flow != ControlFlow::kNone; }
  bool IsSend() const { return op_->Has(OpTrait::kSend); }
  bool IsRecv() const { return op_->Has(OpTrait::kRecv); }
  bool IsUnknown() const { return op_->Has(OpTrait::kUnknown); }  // its op does not exist here
  bool IsConstant() const { return op_->Has(OpTrait::kConstant); }

  // `status` with this node's address.
  absl::Status At(const absl::Status& status) const;

 private:
  friend class Graph;
  int id_ = 0;
  uint32_t name_hash_ = 0;
  const OpDef* op_ = nullptr;
  Graph* graph_ = nullptr;
  SharedProperties properties_;
  const std::string* assigned_device_;  // the graph's
  EdgeList inputs_, in_edges_, out_edges_;
};

DType NodeOut::dtype() const {
  return node != nullptr && index >= 0 && index < node->num_outputs() ? node->output_type(index) : DType::kInvalid;
}

class Graph {
 public:
  explicit Graph(const OpRegistry* ops = &OpRegistry::Global());
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Node* source() const { return nodes_[0]; }
  Node* sink() const { return nodes_[1]; }
  const OpRegistry& ops() const { return *ops_; }

  // Adds an unconnected node. Validates the name ([A-Za-z0-9.][A-Za-z0-9_.\\-/]*, also leading '_'
  // for nodes the runtime makes), the op and its attrs (defaults are filled in). INVALID_ARGUMENT /
  // NOT_FOUND / ALREADY_EXISTS (a name that is taken); FAILED_PRECONDITION on a frozen graph.
  absl::StatusOr<Node*> AddNode(std::string_view name, std::string_view op, AttrMap attrs);
  // As AddNode, for a copy of `other` (of any graph) without its edges: same attrs, types, devices
  // and location, under `name`. Under the same name it shares its properties.
  absl::StatusOr<Node*> CopyNode(const Node& other, std::string_view name);
  // As AddNode, for the importer, which has checked everything before and may not fail half way.
  // REQUIRES: a valid name that is free, valid attrs with defaults filled in, the types that follow
  // from them, and a graph that is not frozen.
  Node* AddCheckedNode(std::string_view name, const OpDef* op, AttrMap attrs, std::vector<DType> input_types,
                       std::vector<DType> output_types);
  // As AddCheckedNode, of an op that is in no registry and that the node keeps alive.
  Node* AddUnknownNode(std::string_view name, std::shared_ptr<const OpDef> op, AttrMap attrs,
                       std::vector<DType> input_types, std::vector<DType> output_types);
  // Gives the node of an unknown op these outputs, when more of them turn out to be used. REQUIRES:
  // a graph that is not frozen, at least as many outputs as the node has, and the same types for
  // those that something takes.
  void SetUnknownOutputs(Node* node, std::vector<DType> types);
  // Makes room for so many more nodes.
  void Reserve(int nodes);
  // Connects. INVALID_ARGUMENT when a node is another graph's, an index is out of range, the input
  // is already connected or the types differ (a reference output may feed a value input, never the
  // other way).
  absl::StatusOr<Edge*> AddEdge(Node* src, int src_output, Node* dst, int dst_input);
  absl::StatusOr<Edge*> AddEdge(NodeOut src, Node* dst, int dst_input) {
    return AddEdge(src.node, src.index, dst, dst_input);
  }
  // Adds src -> dst unless it is there already; returns the edge. REQUIRES: nodes of this graph. No
  // check for cycles here (validation does that).
  Edge* AddControlEdge(Node* src, Node* dst);
  // As AddControlEdge without looking for an equal edge (linear in the degree): for bulk builders.
  Edge* AddControlEdgeUnchecked(Node* src, Node* dst);
  // In constant time, whatever the degrees. The last edge of either list takes the place of the one
  // that goes.
  void RemoveEdge(Edge* edge);
  // Removes the node and its edges, in time linear in its own degree. REQUIRES: not SOURCE or SINK.
  void RemoveNode(Node* node);
  // Replaces the edge into `input` of `dst` by one from `src`.
  absl::Status UpdateEdge(NodeOut src, Node* dst, int input);

  // Null when there is none.
  Node* Find(std::string_view name) const;
  // `base`, or base_1, base_2, ...: a name no node has.
  std::string UniqueName(std::string_view base);

  // Nodes by id; removed ones are null. The first two are SOURCE and SINK.
  int num_node_ids() const { return static_cast<int>(nodes_.size()); }
  Node* node(int id) const { return nodes_[id]; }
  int num_nodes() const { return num_nodes_; }  // with SOURCE and SINK
  int num_edges() const { return num_edges_; }
  // All nodes but SOURCE and SINK, by id.
  std::vector<Node*> op_nodes() const;

  // After Freeze every change is refused (FAILED_PRECONDITION).
  void Freeze() { frozen_ = true; }
  bool frozen() const { return frozen_; }
  // Grows with every change; a session extends by what is new since the version it has seen.
  int64_t version() const { return version_; }

  // The producer version and the least consumer version of the GraphDef this came from.
  int producer = kGraphVersion;
  int min_consumer = 0;

  // Named lists of node or tensor names, as in MetaGraphDef ("variables", "trainable_variables",
  // ...).
  using Collections = std::map<std::string, std::vector<std::string>, std::less<>>;
  std::vector<std::string>& collection(std::string_view name);
  const Collections& collections() const { return collections_; }

  // Kept as read; null when there is none.
  const proto::FunctionDefLibrary* library() const { return library_.get(); }
  void set_library(std::shared_ptr<const proto::FunctionDefLibrary> l) { library_ = std::move(l); }
  const std::shared_ptr<const proto::FunctionDefLibrary>& shared_library() const { return library_; }

  // A deep copy; node ids are compacted, order is kept. `map` (optional) receives old id -> new
  // node.
  std::unique_ptr<Graph> Clone(std::vector<Node*>* map = nullptr) const;
  // INVALID_ARGUMENT when an input is unconnected (names it) or there is a cycle without
  // NextIteration (names a node on it).
  absl::Status Validate() const;
  // Nodes in an order in which every node comes after its inputs (edges out of NextIteration do not
  // count); includes SOURCE and SINK. INVALID_ARGUMENT on any other cycle.
  absl::StatusOr<std::vector<Node*>> TopologicalOrder() const;

  // Wires every node without inputs to SOURCE and every node without outputs to SINK by control
  // edges.
  void ConnectSourceAndSink();

  // What the Scopes over this graph share, as long as one of them lives; else null. Operators build
  // there when their operands know no scope: those that an import returned.
  std::shared_ptr<void> scopes() const { return scopes_.lock(); }
  void set_scopes(const std::shared_ptr<void>& scopes) { scopes_ = scopes; }

 private:
  friend class Node;
  friend class GraphUndo;
  struct Names;
  static uint32_t HashName(std::string_view name);
  Node* Find(std::string_view name, uint32_t hash) const;
  // Null, and nothing has changed, when there is a node of that name.
  Node* NewNode(SharedProperties properties, uint32_t name_hash);
  const std::string* DeviceNamed(std::string_view name);
  Edge* NewEdge(Node* src, int src_output, Node* dst, int dst_input);

  const OpRegistry* ops_;
  StableStore<Node> node_store_;
  std::vector<Node*> nodes_;
  StableStore<Edge> edge_store_;
  Edge* free_edges_ = nullptr;
  std::unique_ptr<Names> names_;
  const std::string* last_device_;  // the last of the devices that nodes were assigned to
  Collections collections_;
  std::shared_ptr<const proto::FunctionDefLibrary> library_;
  std::weak_ptr<void> scopes_;
  int num_nodes_ = 0, num_edges_ = 0;
  int64_t version_ = 0;
  bool frozen_ = false;
};

// INVALID_ARGUMENT with the reason when `name` cannot be a node's name.
absl::Status CheckNodeName(std::string_view name);

// "name:3" -> {name, 3}; "name" -> {name, 0}; "^name" -> {name, kControlSlot}. INVALID_ARGUMENT for
// anything else.
absl::StatusOr<std::pair<std::string, int>> ParseTensorName(std::string_view text);

}  // namespace troupe

#endif  // TROUPE_GRAPH_H_
