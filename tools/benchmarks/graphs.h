// The graphs that the runtime is timed on, by name.
//
// Problem: figures compare only when both sides run the same graph. So each graph is made here
// once, from its name alone, the same on every machine; the programs of this folder and the tests
// of instruction counts build it, and the program graphs writes it as a GraphDef for whoever else
// reads those.
//
//   null_WxD            NoOps and control edges only: D rounds; a round joins a random part of the loose ends and fans out again to 1..W nodes (about two edges a node).
//                       The shapes are those of TensorFlow's own executor benchmark: tall and thin, short and fat
//   const_identity_WxF  W constants with F Identities each
//   treeN               a random binary tree of scalar Adds over N leaves
//   chainN              N scalar Adds, one after the other
//   whileNxV            N iterations of a loop with V float variables beside its counter
//   mlpN                N layers of an 8x8 MatMul, an Add and a Tanh; layer i's result is the node "layer<i>"
//   branchesN           two independent chains of eight NxN MatMuls
//   e5xB                the network 784-200-100-60-30-10 (experiment E5 of docs/measurements) with constant weights, B images a step
//   queueN              N enqueues of a scalar, each followed by a dequeue
//   add1                z = x + y
//
// Convention: the node "done", if there is one, is the target; "z", if there is one, the fetch; "x"
// and "y", if there are, float placeholders of a known shape.
//
// Thread rule: plain functions.
#ifndef TROUPE_TOOLS_BENCHMARKS_GRAPHS_H_
#define TROUPE_TOOLS_BENCHMARKS_GRAPHS_H_

#include <string>
#include <vector>

#include "troupe/troupe.h"

namespace troupe::bench {

// Those of the table, smallest first within a family.
const std::vector<std::string>& GraphNames();

// Adds the graph `name` to an empty graph. INVALID_ARGUMENT for a name of no such form.
absl::Status BuildGraph(const std::string& name, const std::shared_ptr<Graph>& graph);

// The placeholders that `graph` has, each with a value full of 0.001.
Feeds FeedsOf(const Graph& graph);
Names FetchesOf(const Graph& graph);
Names TargetsOf(const Graph& graph);

// The same nodes, edges and order without any runtime, and the loop over them that is as short as
// one can be: consumers in CSR form, one counter a node. Each edge counts; nothing is computed.
// Only for graphs without loops.
class BareGraph {
 public:
  explicit BareGraph(const Graph& graph);
  // Runs every node once; returns how many ran.
  size_t Run();
  size_t num_nodes() const { return counts_.size(); }

 private:
  std::vector<unsigned> first_, consumers_, counts_, left_, ready_, roots_;
};

}  // namespace troupe::bench

#endif  // TROUPE_TOOLS_BENCHMARKS_GRAPHS_H_
