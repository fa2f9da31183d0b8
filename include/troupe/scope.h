// Scope: the place where builders put new nodes, and the settings that these nodes share.
//
// Problem: a graph is built by many small functions (a layer, an optimizer, a user's helper). Each
// wants its nodes named under the caller's name, on the caller's device, after the caller's control
// dependencies, without a global "current graph". A Scope says all of that and is handed on by
// value.
//
//   troupe::Scope root = troupe::Scope::NewRootScope();
//   troupe::Scope fc1 = root.NewSubScope("fc1").WithDevice("/job:worker");
//   auto y = troupe::ops::MatMul(fc1, x, w);            // node "fc1/MatMul"
//   auto z = troupe::ops::Add(fc1.WithOpName("z"), y, b);  // node "fc1/z"
//   if (!root.ok()) std::cerr << root.status();         // names the line of the first bad call
//
// Names. A node is called prefix + op name (WithOpName) or prefix + op type; a taken name gets
// "_1", "_2", ... Sub-scopes get unique names in the same way, and nodes and sub-scopes share one
// set of names, so that two layers made by one helper are "fc" and "fc_1".
//
// Devices. Nested requests are merged field by field, the inner one winning ("/job:ps" outside,
// "/cpu:0" inside gives "/job:ps/device:CPU:0"); a device function is asked about each node with
// what the scopes inside of it have set, and its answer, unless empty, replaces it.
//
// Errors. The first error is kept with the line of the program that caused it; from then on every
// builder call on any scope of the graph does nothing and returns an invalid Output. No builder
// aborts or throws: an exception that a function of yours throws (a body of a While or Cond, a
// device function, a shape or gradient function of an op) becomes the scope's error, with what()
// and the line of the call or the node's address.
//
// Control flow. While and Cond (troupe/control_flow.h) call their functions with a scope that knows
// its loop or branch; nodes built in that scope become part of the loop or branch.
//
// Source of the semantics: tf.name_scope, tf.device, tf.control_dependencies, tf.colocate_with and
// tf.container of TensorFlow 1; section 4.3 of its white paper for device constraints, 4.7 for
// containers.
//
// Thread rule: all scopes of one graph belong to one thread at a time.
#ifndef TROUPE_SCOPE_H_
#define TROUPE_SCOPE_H_

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/export.h"
#include "troupe/graph.h"
#include "troupe/output.h"
#include "troupe/status.h"

namespace troupe::proto {
class GraphDef;
}

namespace TROUPE_EXPORT troupe {

class ShapeRefiner;

using DeviceFunction = std::function<std::string(const Node&)>;

class Scope {
 public:
  // There is no empty Scope: one that was moved from is a copy.
  Scope(const Scope&) = default;
  Scope& operator=(const Scope&) = default;
  // A scope over a new, empty graph, over a shared one, or over one that outlives all scopes (an
  // imported graph to be extended). Given no graph, a scope that has an error.
  static Scope NewRootScope();
  static Scope NewRootScope(std::shared_ptr<Graph> graph);
  static Scope NewRootScope(Graph* graph);

  // A scope whose names begin with this scope's prefix and `name` (made unique).
  Scope NewSubScope(std::string_view name) const;
  // The next nodes built with the returned scope are called `name`.
  Scope WithOpName(std::string_view name) const;
  // Merges a full or partial device name. An unreadable name is the scope's error.
  Scope WithDevice(std::string_view device, std::source_location here = std::source_location::current()) const;
  Scope WithDeviceFunction(DeviceFunction fn) const;
  // Forgets every device that was asked for so far.
  Scope WithNoDevice() const;
  // Stateful ops keep their state in this container.
  Scope WithContainer(std::string_view container) const;
  // On the same device as `op`, which must not be empty; replaces earlier colocation. An operation
  // of another graph is the scope's error.
  Scope ColocateWith(const Operation& op, std::source_location here = std::source_location::current()) const;
  Scope ColocateWith(const Output& out, std::source_location here = std::source_location::current()) const {
    return ColocateWith(Operation(out), here);
  }
  Scope WithNoColocation() const;
  // New nodes run after these, too. Invalid ones are ignored; those of another graph are the
  // scope's error.
  Scope WithControlDependencies(const std::vector<Operation>& ops,
                                std::source_location here = std::source_location::current()) const;
  Scope WithControlDependencies(const Operation& op,
                                std::source_location here = std::source_location::current()) const {
    return WithControlDependencies(std::vector<Operation>{op}, here);
  }
  Scope WithControlDependencies(const Output& out, std::source_location here = std::source_location::current()) const {
    return WithControlDependencies(Operation(out), here);
  }
  Scope WithNoControlDependencies() const;
  // Nodes built with the returned scope say they were created at `location`: for a helper that
  // builds many nodes for one line of its caller.
  Scope WithLocation(SourceLocation location) const;

  Graph* graph() const;
  const std::shared_ptr<Graph>& shared_graph() const;
  ShapeRefiner* refiner() const;
  // "" or "fc1/".
  const std::string& prefix() const;
  const std::vector<Node*>& control_dependencies() const;
  // The name a node of type `default_name` would get now; reserves nothing.
  std::string UniqueNodeName(std::string_view default_name) const;
  PartialTensorShape ShapeOf(const Output& out) const;
  // Tells more about the shape of `out` than inference can know. An error when it contradicts.
  void SetShape(const Output& out, const PartialTensorShape& shape,
                std::source_location here = std::source_location::current()) const;

  bool ok() const { return status().ok(); }
  const absl::Status& status() const;
  // Keeps `status` when it is the first error.
  void UpdateStatus(const absl::Status& status) const;
  // As UpdateStatus, with the line it happened at.
  void Fail(const absl::Status& status, SourceLocation location) const;

  // The graph in its wire form; the scope's error when there is one.
  absl::Status ToGraphDef(proto::GraphDef* def) const;

  // For builders.
  const std::shared_ptr<const internal::ScopeState>& state() const { return state_; }
  const std::string& op_name() const { return op_name_; }
  explicit Scope(std::shared_ptr<const internal::ScopeState> state, std::string op_name = {});

 private:
  std::shared_ptr<const internal::ScopeState> state_;
  std::string op_name_;
};

// A scope and the line that uses it: the first parameter of every builder. Converting a Scope
// captures the caller's line; a helper that takes a ScopeAt and hands it on makes its nodes say the
// line of its own caller.
class ScopeAt {
 public:
  ScopeAt(const Scope& scope, std::source_location here = std::source_location::current());  // NOLINT
  ScopeAt(const Scope& scope, SourceLocation location) : scope_(scope), location_(location) {}
  const Scope& scope() const { return scope_; }
  const SourceLocation& location() const { return location_; }
  const Scope* operator->() const { return &scope_; }
  bool ok() const { return scope_.ok(); }
  void Fail(const absl::Status& status) const { scope_.Fail(status, location_); }
  // Its sub-scope (named by WithOpName, else `name`), pinned to this line.
  Scope Sub(std::string_view name) const;

 private:
  Scope scope_;
  SourceLocation location_;
};

}  // namespace troupe

#endif  // TROUPE_SCOPE_H_
