// What the parts of a step and the step itself tell each other: plain values, which leave the
// process when the step runs in several.
//
//   from        to      message          means
//   step        part    run_step         these are your arguments: begin
//   step        part    argument         of a partial run: an argument that comes later
//   part        part    tensor_to_part   the value of an edge in one iteration, or that it is dead
//   part        part    grant            the value of that edge may come
//   step, part  part    abort_step       the step has failed elsewhere, or was told to end
//   step        part    question         what do you wait for?
//   part        step    result           of a partial run: a result that is there before the end
//   part        step    part_failed      the part has met an error, and is not done yet
//   part        step    part_done        nothing of the part is left; its results and statistics
//   part        step    stall_report     the answer to a question
//
// An edge is a number, on which the session and the parts agree when the parts are registered
// (EdgeTable); its name is the key of the rendezvous (TensorFlow white paper, 3.2.2), which says
// sender, receiver and tensor. An iteration is told by its numbers (IterationPath).
//
// Who sends a message and who handles it do not know how it travels; the transport does. Within a
// process it travels by reference: tensors share their buffers, and run_step and part_done name the
// step's memory, in which the parts work, instead of carrying values. With
// SessionOptions.wire_messages each message passes through its bytes.
//
// Thread rule: a message belongs to whoever has it.
#ifndef TROUPE_ACTORS_WIRE_PART_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_PART_MESSAGES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "actors/wire/iteration_path.h"
#include "actors/wire/step_report.h"
#include "actors/wire/wire.h"
#include "troupe/resource_container.h"

namespace troupe {

struct NumericsCheck;
class UpdateLog;
struct StepContext;

// A part of a graph: which task it stands on, and which of the graph's parts it is.
struct PartAddress {
  uint32_t task = 0;
  uint32_t part = 0;
  friend bool operator==(const PartAddress&, const PartAddress&) = default;
};

// Of the name of an edge: the tensor, and the device that sends it.
std::string_view EdgeTensor(std::string_view name);
std::string_view EdgeSender(std::string_view name);

// One run of a node, for RunMetadata.
struct node_run {
  uint32_t node = 0;
  uint32_t thread = 0;  // its row (executor/run_rows.h)
  int64_t start_nanos = 0, end_nanos = 0;
};
// How a part works on a step, and where: its arguments, its results and the step's context.
struct StepInput {
  std::shared_ptr<StepContext> context;
  const Tensor* arguments = nullptr;  // by index; read only
  Tensor* results = nullptr;          // by index; each is written by one part
  bool partial = false;               // arguments come one by one, results are told one by one
  bool token_messages = false;        // every token is a message (a debugging mode)
  bool check_kernels = false;         // all outputs of all kernels are checked (a debugging mode)
  bool measure = false;               // the step is timed, whatever its number
  std::vector<node_run>* timings = nullptr;
  std::shared_ptr<const NumericsCheck> numerics;  // null: the step does not check itself
};
// By reference it is `input`, whose memory is the step's own. Bytes carry the arguments, and the
// part that they reach works in memory of its own (MakeMemory).
struct run_step {
  StepInput input;
  uint32_t num_arguments = 0;  // that the part takes
  // Of a message that has come through bytes, until MakeMemory:
  int64_t step = 0;
  bool cancelled = false;  // the step was told to end before it began
  bool timed = false, checks_numerics = false;
  std::string numerics_folder;
  std::vector<Tensor> arguments;
};
struct argument {
  int64_t step = 0;
  uint32_t index = 0;
  Tensor value;
};
struct tensor_to_part {
  int64_t step = 0;
  uint32_t edge = 0;
  IterationPath iteration;
  bool dead = false;
  Tensor value;
  uint64_t incarnation = 0;  // of the sender's device, as the edge's name bears it
};
struct grant {
  int64_t step = 0;
  uint32_t edge = 0;
  IterationPath iteration;
  uint64_t incarnation = 0;  // as in tensor_to_part
};
struct abort_step {
  int64_t step = 0;
  absl::Status status;
};
struct result {
  int64_t step = 0;
  uint32_t index = 0;
  Tensor value;
};
// By reference the results lie in the step's memory already (`input`, of the run_step).
struct part_done {
  int64_t step = 0;
  absl::Status status;
  StepInput input;
  uint32_t num_results = 0;  // places in it
  // Of a message that has come through bytes:
  std::vector<std::pair<uint32_t, Tensor>> results;  // by index
  std::vector<node_run> statistics;
};
struct part_failed {
  int64_t step = 0;
  absl::Status status;
};
// What does your step wait for? Answered by stall_report with this number.
struct question {
  int64_t number = 0;
};
struct stall_report {
  int64_t number = 0;
  StepReport report;
};

// What a part may be sent while its step runs, and what it says to the step.
using part_message = std::variant<tensor_to_part, grant, abort_step, argument, question>;
using step_message = std::variant<part_done, part_failed, result, stall_report>;

// The edges between the parts of one compiled graph, by number.
//
// Thread rule: made by one thread, then read by all; Renew from any.
class EdgeTable {
 public:
  struct Edge {
    std::string name;  // the rendezvous key
    PartAddress receiver;
    // The value stays with its sender until the receiver grants it (graph/passes/recv_schedule.h).
    bool granted = false;
    PartAddress sender;  // of one that is granted
    // Of the sender's device, as the name bears it; and whether it is over.
    uint64_t incarnation = 0;
    mutable bool over = false;
    bool Lives() const { return !std::atomic_ref<bool>(over).load(std::memory_order_relaxed); }
  };
  // The number of the edge with this name; a new one when there is none.
  uint32_t Add(const std::string& name);
  // Negative when there is no such edge.
  int64_t Find(const std::string& name) const;
  bool Has(uint32_t number) const { return number < edges_.size(); }
  Edge& operator[](uint32_t number) { return edges_[number]; }
  const Edge& operator[](uint32_t number) const { return edges_[number]; }
  size_t size() const { return edges_.size(); }
  // Whether the names of all edges bear incarnations that live, as far as is known here.
  bool Live() const;
  // Takes note of which incarnation of a device lives. From any thread.
  void Renew(std::string_view device, uint64_t incarnation) const;
  // ABORTED for a message whose edge bears an incarnation that is over, or that bears another one
  // than its edge.
  absl::Status Refuse(const part_message& message) const {
    if (const auto* t = std::get_if<tensor_to_part>(&message)) return RefuseOf(t->edge, t->incarnation);
    if (const auto* g = std::get_if<grant>(&message)) return RefuseOf(g->edge, g->incarnation);
    return absl::OkStatus();
  }

 private:
  absl::Status RefuseOf(uint32_t edge, uint64_t incarnation) const {
    // Who receives a number that does not exist drops the message.
    if (!Has(edge) || (edges_[edge].Lives() && edges_[edge].incarnation == incarnation)) [[likely]]
      return absl::OkStatus();
    return Outdated(edges_[edge], incarnation);
  }
  static absl::Status Outdated(const Edge& edge, uint64_t incarnation);

  std::vector<Edge> edges_;
  absl::flat_hash_map<std::string, uint32_t> numbers_;
};

// The one way from part to part, from the step to its parts and from them to the step. Senders make
// messages of values; how these travel is decided here. LocalTransport implements it, and hands
// what is for another process to its RemoteLink (step/local_transport.h).
class PartTransport {
 public:
  virtual ~PartTransport() = default;
  // Makes a part ready to begin, which is the last thing that may fail. Throws std::bad_alloc.
  virtual absl::Status Prepare(PartAddress part, run_step&& message) = 0;
  // An error when there is no such part, or the message cannot be sent. From any thread.
  virtual absl::Status Deliver(PartAddress to, part_message message) = 0;
  // From a part, in its turn or when its actor is gone. What cannot be sent is the step's error.
  virtual void ToStep(PartAddress from, step_message&& message) noexcept = 0;
};

caf::error inspect(caf::serializer& f, run_step& x);
caf::error inspect(caf::deserializer& f, run_step& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, argument& x) {
  return f(x.step, x.index, x.value);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, tensor_to_part& x) {
  return f(x.step, x.edge, x.iteration, x.dead, x.value, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, grant& x) {
  return f(x.step, x.edge, x.iteration, x.incarnation);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, result& x) {
  return f(x.step, x.index, x.value);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, node_run& x) {
  return f(x.node, x.thread, x.start_nanos, x.end_nanos);
}
caf::error inspect(caf::serializer& f, abort_step& x);
caf::error inspect(caf::deserializer& f, abort_step& x);
caf::error inspect(caf::serializer& f, part_done& x);
caf::error inspect(caf::deserializer& f, part_done& x);
caf::error inspect(caf::serializer& f, part_failed& x);
caf::error inspect(caf::deserializer& f, part_failed& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, question& x) {
  return f(x.number);
}
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, stall_report& x) {
  return f(x.number, x.report);
}

// The message after a journey through bytes (wire.h).
absl::StatusOr<part_message> ThroughBytes(caf::actor_system& system, part_message message);
absl::StatusOr<step_message> ThroughBytes(caf::actor_system& system, step_message message);

// Gives a part whose run_step has come through bytes memory of its own, with room for so many
// results. `updates`: where a step that checks itself notes its updates; null: the part does by
// itself. Throws std::bad_alloc.
void MakeMemory(run_step* message, uint32_t num_results, std::shared_ptr<UpdateLog> updates = nullptr);

// A resource crosses as its name; here its handle gets the object again. Handles that know no
// object any more stay unbound. `find` gives the containers of a device by name, or null.
void BindResources(Tensor* value, const std::function<ResourceContainers*(const std::string& device)>& find);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_PART_MESSAGES_H_
