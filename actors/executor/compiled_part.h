// One part of a graph, compiled for execution into flat arrays that every executor of the part
// reads and none writes.
//
// Nodes are numbered frame by frame, and so are their inputs ("slots"), so that the counters and
// values of one iteration of a frame are contiguous. A part without control flow has one frame, and
// its executor runs a loop that never looks up a frame.
//
// A counter is 32 bits. For most nodes: missing inputs, data and control, in the low 31 bits; bit
// 31 says that one of them was dead. For a Merge: missing control inputs in bits 0..14, data inputs
// that may still come alive in bits 15..29, bit 30 "a live value is there", bit 31 "it was made
// ready" (TensorFlow white paper, 4.4: any live input makes a Merge ready, only all dead inputs
// make it dead).
//
// Thread rule: immutable after Compile, except the measured costs, which are relaxed atomics.
#ifndef TROUPE_ACTORS_EXECUTOR_COMPILED_PART_H_
#define TROUPE_ACTORS_EXECUTOR_COMPILED_PART_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/core/hash_map.h"
#include "troupe/graph.h"
#include "troupe/kernel.h"

namespace troupe {

struct PartEdges;

inline constexpr uint32_t kMergeControlUnit = 1;
inline constexpr uint32_t kMergeDataUnit = 1u << 15;
inline constexpr uint32_t kMergeControlMask = kMergeDataUnit - 1;
inline constexpr uint32_t kMergeLive = 1u << 30;
inline constexpr uint32_t kMergeDataMask = (kMergeLive - 1) & ~kMergeControlMask;
inline constexpr uint32_t kMergeFired = 1u << 31;
inline constexpr uint32_t kDeadInput = 1u << 31;  // of any other node

// How the executor handles a ready node; follows from the traits of its op and the form of its
// kernel.
enum class Handling : uint8_t {
  kKernel,
  kAsyncKernel,
  kNothing,  // no values, no state, no effect: it only orders others
  kForward,  // output 0 is input 0 as it is
  kSwitch,   // input 0 becomes the output that input 1 names
  kMerge,    // the input that came becomes output 0
  kConstant,
  kArgument,
  kResult,
};

// How the node at the end of an edge counts its tokens.
enum class Consumer : uint8_t {
  kPlain,
  kMerge,
  // An Exit or NextIteration: deadness means nothing to it, a frame's end tells which Exits never
  // came alive.
  kIgnoresDead,
};

// An edge that carries a value. The edges of one output are contiguous.
struct OutEdge {
  uint32_t dst;          // node
  int32_t slot;          // input of dst; -1 in a token that stands for a control edge
  uint32_t shares;       // of an output's first edge: how many more it has
  uint16_t output : 15;  // of the source
  uint16_t loaned : 1;   // the value is loaned (tensor_bits.h), not given
  bool last;             // last use of that output: the value is moved
  Consumer consumer;
};
static_assert(sizeof(OutEdge) == 16);
inline constexpr int kMaxOutputs = (1 << 15) - 1;  // of a node
// A loaned value's owner, by the slot that it is loaned to: a constant's number, or an argument's
// index with this bit.
inline constexpr uint32_t kLoanedArgument = 1u << 31;
inline constexpr int kMaxLoanedInputs = 16;

// The flow of a stateful node of a loop, in a compiled part: like kNone, but its runs follow the
// order of the iterations (StaticFrame::in_turn).
inline constexpr ControlFlow kInTurn = static_cast<ControlFlow>(255);

// A control edge is its target, with this bit when that is a Merge.
inline constexpr uint32_t kControlToMerge = 1u << 31;

struct CompiledNode {
  ComputeFn compute = nullptr;
  void* state = nullptr;
  uint32_t first_slot = 0;
  uint32_t first_edge = 0, last_edge = 0;
  uint32_t first_control = 0, last_control = 0;
  // Of the argument, result or constant; of an Exit: among those of its frame; of a node whose flow
  // is kInTurn: in StaticFrame::in_turn.
  uint32_t index = 0;
  uint32_t num_inputs = 0;
  uint16_t num_outputs = 0;
  uint16_t frame = 0;   // of an Enter: the frame it leads into
  uint16_t loaned = 0;  // by input: the slot's value is loaned
  uint16_t pinned = 0;  // by input: loaned for good: the slot always holds a constant, and its edge is a control edge
  Handling handling = Handling::kKernel;
  ControlFlow flow = ControlFlow::kNone;
  bool deref : 1 = false;           // some input is a reference that must be read
  bool dead_aware : 1 = false;      // runs even when dead, to hand the deadness on
  bool measured : 1 = false;        // its cost depends on shapes
  bool unused_outputs : 1 = false;  // some output has no consumer
  bool constant_enter : 1 = false;
  bool uses_index : 1 = false;  // of a Merge: its index output has a consumer
  bool loans : 1 = false;       // its output is a constant or argument
};
static_assert(sizeof(CompiledNode) <= 64);

// A loop as the part sees it.
struct StaticFrame {
  std::string name;  // "" for the root
  uint32_t parent = 0;
  uint32_t first_node = 0, num_nodes = 0;
  uint32_t first_slot = 0, num_slots = 0;
  uint32_t num_enters = 0;                            // tokens that must come before iteration 0 can end
  std::vector<uint32_t> exits;                        // nodes
  std::vector<std::pair<uint32_t, uint32_t>> pinned;  // (slot, constant)
  uint32_t parallel_iterations = 10;
  // Nodes that run in the order of the iterations, whatever their cost and on any thread: stateful
  // nodes, whose counters are one higher than the number of missing inputs, and, with kLoopInTurn,
  // nested loops that contain such nodes.
  std::vector<uint32_t> in_turn;
  uint32_t place = kNoPlace;  // in its parent's in_turn
  static constexpr uint32_t kNoPlace = ~0u, kLoopInTurn = 1u << 31;
};

class CompiledPart {
 public:
  // Compiles `graph`, whose nodes must all be placed on `device`, and prepares its kernels. Errors
  // have the node's address.
  static absl::StatusOr<std::shared_ptr<const CompiledPart>> Compile(const Graph& graph, std::shared_ptr<Device> device,
                                                                     const SessionScope& session);
  // With a device that outlives the part.
  static absl::StatusOr<std::shared_ptr<const CompiledPart>> Compile(const Graph& graph, Device* device,
                                                                     const SessionScope& session) {
    return Compile(graph, std::shared_ptr<Device>(std::shared_ptr<void>(), device), session);
  }

  // A share, because a kernel that answers late keeps its part after the runtime has ended.
  // Destroyed last.
  std::shared_ptr<Device> device;
  bool syncs = false;             // the device runs kernels by itself (Device::Run) and is waited for at a step's end
  bool prints = false;            // a kernel writes to a stream, whose reader may be slow, or stopped
  bool has_user_kernels = false;  // of KernelOrigin::kUser: nothing is known of when they return
  bool has_control_flow = false;  // frames, switches, merges or dead tokens can occur
  std::vector<CompiledNode> nodes;
  std::vector<OutEdge> edges;
  std::vector<uint32_t> controls;
  // Of a part without control flow, by node and one more: twice the number of the node's first
  // control edge, and one if the node only orders others. Empty when no node does.
  std::vector<uint32_t> ordering;
  std::vector<uint32_t> counts;     // initial, by node
  std::vector<StaticFrame> frames;  // [0] is the root
  std::vector<uint32_t> roots;  // nodes that wait for nothing; all in the root frame; those to start first come last
  uint32_t num_slots = 0;
  std::vector<uint32_t> owners;            // by slot; only of loaned ones
  std::vector<uint32_t> loaned_arguments;  // indices
  uint32_t max_outputs = 0;
  uint32_t num_arguments = 0, num_results = 0;  // highest index + 1
  std::vector<Tensor> constants;
  std::vector<KernelNode> info;
  std::vector<SharedProperties> properties;  // by node
  std::vector<bool> user_kernels;            // by node; empty when there is none
  bool IsUserKernel(uint32_t node) const { return !user_kernels.empty() && user_kernels[node]; }
  std::vector<bool> sent;  // by node: another device waits for what it makes; empty when there is none
  // Of nodes whose outputs are checked and whose op tells their shapes: what is known of them, by
  // output.
  HashMap<uint32_t, std::vector<PartialTensorShape>> shapes;
  absl::Span<const PartialTensorShape> ShapesOf(uint32_t node) const {
    const auto it = shapes.find(node);
    return it == shapes.end() ? absl::Span<const PartialTensorShape>() : absl::MakeConstSpan(it->second);
  }
  std::vector<AsyncComputeFn> async;  // by node; empty when no kernel is asynchronous
  std::vector<std::shared_ptr<void>> states;
  std::vector<std::pair<uint32_t, uint32_t>> producers;        // by slot: (node, output), for reports
  std::vector<std::pair<std::string, uint32_t>> recvs, sends;  // key and node of the part's Recvs and Sends
  // Keys whose value stays with its sender until the receiver grants it
  // (graph/passes/recv_schedule.h).
  HashSet<std::string> granted_sends, granted_recvs;
  // Measured mean nanoseconds of a run by node; 0 = not yet.
  std::unique_ptr<std::atomic<uint32_t>[]> cost;
  mutable std::atomic<bool> answered_again{false};  // a kernel has called its `done` twice, which was logged
  mutable std::atomic<bool> has_heavy{false};       // some node ever cost more than kHeavyNanos

  // About what a change of threads costs: beyond it a node is worth a thread of its own.
  static constexpr uint32_t kHeavyNanos = 50000;

  // Recomputes has_heavy: a kernel that was slow once may have become cheap since.
  void LookForHeavy() const {
    bool heavy = false;
    for (size_t i = 0; i < nodes.size(); ++i) heavy |= cost[i].load(std::memory_order_relaxed) > kHeavyNanos;
    if (has_heavy.load(std::memory_order_relaxed) != heavy) has_heavy.store(heavy, std::memory_order_relaxed);
  }
  // `first`: one of an executor's first steps. There the fastest run counts, since preparations
  // that a kernel makes once are not a cost of each run.
  void RecordCost(uint32_t node, uint64_t nanos, bool first) const {
    std::atomic<uint32_t>& c = cost[node];
    const uint32_t old = c.load(std::memory_order_relaxed);
    const auto now = static_cast<uint32_t>(std::clamp<uint64_t>(nanos, 1, 4000000000u));
    // One slow run (a page fault, another process) is forgotten faster than it was learnt.
    const uint32_t mean = old == 0        ? now
                          : first         ? std::min(old, now)
                          : now < old / 2 ? old / 2
                                          : std::max<uint32_t>(1u, old - old / 8 + now / 8);
    if (mean != old) c.store(mean, std::memory_order_relaxed);
    if (mean > kHeavyNanos && !has_heavy.load(std::memory_order_relaxed))
      has_heavy.store(true, std::memory_order_relaxed);
  }
};

// The ends of the part's edges.
PartEdges EdgesOf(const CompiledPart& part);

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_COMPILED_PART_H_
