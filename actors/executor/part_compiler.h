// Makes the compiled part of a partitioned graph: flat arrays of nodes, edges and kernels, in the
// order in which a step is likely to run them (compiled_part.h says what they mean).
//
// Thread rule: one thread.
#ifndef TROUPE_ACTORS_EXECUTOR_PART_COMPILER_H_
#define TROUPE_ACTORS_EXECUTOR_PART_COMPILER_H_

#include <memory>
#include <utility>
#include <vector>

#include "actors/executor/compiled_part.h"
#include "graph/core/hash_map.h"

namespace troupe {

class PartCompiler {
 public:
  PartCompiler(const Graph& graph, std::shared_ptr<Device> device, const SessionScope& session)
      : graph_(graph),
        device_(device.get()),
        session_(session),
        finder_(device->type()),
        part_(std::make_shared<CompiledPart>()) {
    part_->device = std::move(device);
    part_->syncs = device_->runs_kernels();
  }

  // Called once.
  absl::StatusOr<std::shared_ptr<const CompiledPart>> Run();

 private:
  // Where and in which order nodes run (part_order.cc).
  absl::Status FindFrames();
  // Without control flow they are numbered as they are likely to run (RunOrder): their counters,
  // edges and kernels are then read one after the other, where another order would wait for memory
  // as soon as a part no longer fits the cache.
  absl::Status NumberNodes();
  // Whether it matters for others when the node runs. An op that takes a reference may change what
  // that names.
  static bool HasState(const Node& n);
  // Stateful nodes of loops, and the loops that have such nodes or loops in them.
  void FindTurns();
  void FindRoots();
  void FindOrdering();

  // Each node, its kernel and its edges (part_nodes.cc).
  absl::Status PrepareNode(size_t i);
  // The end of an edge to another part.
  absl::Status NameEnd(size_t i);
  absl::Status PrepareKernelOf(size_t i);
  absl::Status ConnectNode(size_t i);
  // Where the node's values come from, and how many tokens it waits for.
  absl::Status CountInputs(size_t i);
  void ConnectOutputs(size_t i);
  // Nodes that change one variable and have no order between them run as soon as they are ready:
  // what they cost decides neither when nor where.
  void FindSharedUpdates();
  // The node that names the variable which `n` hands on; null when it cannot be told.
  const Node* VariableOf(const Node* n) const;
  // What is known of the shapes that users' kernels must give.
  void FindShapes();

  // Values that consumers see without a reference of their own (part_loans.cc).
  // Constants, arguments and what is handed on of them.
  void FindLoans();
  // Who may be handed a value without a reference: what only looks at its inputs, or hands them on.
  static bool TakesLoaned(const CompiledNode& n, int input);
  // The value of node i's `e` is loaned to its consumer. True: the edge carries a control token
  // instead, since the value is where the consumer finds it before the step begins.
  bool LoanTo(size_t i, const Edge& e);
  // A constant that waits for nothing, and whose consumers all have it pinned, is not run, and
  // nobody waits for it.
  void LeaveOutConstants();

  const Graph& graph_;
  Device* device_;
  const SessionScope& session_;
  KernelFinder finder_;
  std::shared_ptr<CompiledPart> part_;
  std::vector<uint32_t> frame_of_;      // by node id: where its inputs arrive
  HashMap<int, uint32_t> enter_frame_;  // by node id: where an Enter leads
  std::vector<Node*> order_;
  std::vector<uint32_t> number_;  // by node id
  std::vector<const Edge*> out_;
  std::vector<uint32_t> with_state_;  // the numbers of nodes for which HasState holds
  std::vector<bool> back_;            // by number: a Merge that a NextIteration leads back to
  std::vector<bool> left_out_;        // by number: a constant that is not run
  static constexpr uint32_t kNobody = ~0u;
  std::vector<uint32_t> owner_;  // by number: whose the output is, as in CompiledPart::owners
  HashSet<uint32_t> loaned_arguments_;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_PART_COMPILER_H_
