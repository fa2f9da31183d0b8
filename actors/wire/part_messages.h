// What the parts of a step and the step itself tell each other: plain values, which could leave the
// process.
//
//   from        to      message          means
//   step        part    begin_step       these are your arguments: begin
//   step        part    argument         of a partial run: an argument that comes later
//   part        part    tensor_to_part   the value of an edge in one iteration, or that it is dead
//   part        part    grant            the value of that edge may come
//   step, part  part    abort_step       the step has failed elsewhere, or was told to end
//   part        step    result           of a partial run: a result that is there before the end
//   part        step    part_done        nothing of the part is left; its results and statistics
//
// An edge is a number, on which the session and the parts agree when the parts are registered
// (EdgeTable); its name is the key of the rendezvous (TensorFlow white paper, 3.2.2), which says
// sender, receiver and tensor. An iteration is told by its numbers (IterationPath). Within a process
// a part takes the arguments from the step's memory and leaves its results there, so begin_step and
// part_done have short forms: run_step (executor/step_state.h) and a call. With
// SessionOptions.wire_messages each of these messages passes through its bytes.
//
// Thread rule: a message belongs to whoever has it.
#ifndef TROUPE_ACTORS_WIRE_PART_MESSAGES_H_
#define TROUPE_ACTORS_WIRE_PART_MESSAGES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "actors/wire/wire.h"
#include "troupe/resource_container.h"

namespace troupe {

// A part of a graph: which task it stands on, and which of the graph's parts it is.
struct PartAddress {
  uint32_t task = 0;
  uint32_t part = 0;
  friend bool operator==(const PartAddress&, const PartAddress&) = default;
};

// One iteration, exactly: its number in each loop around it, the outermost loop first; none outside
// of loops. Which loops these are is not said: an edge lies in the same ones in every part.
struct IterationPath {
  absl::InlinedVector<int64_t, 2> numbers;

  friend bool operator==(const IterationPath& a, const IterationPath& b) { return a.numbers == b.numbers; }
  friend bool operator<(const IterationPath& a, const IterationPath& b) { return a.numbers < b.numbers; }
  template <class H>
  friend H AbslHashValue(H h, const IterationPath& p) {
    return H::combine(std::move(h), p.numbers);
  }
};

// Of the name of an edge: the tensor, and the device that sends it.
std::string_view EdgeTensor(std::string_view name);
std::string_view EdgeSender(std::string_view name);

struct begin_step {
  int64_t step = 0;
  // The step was told to end before it began.
  bool cancelled = false;
  bool partial = false, token_messages = false, check_kernels = false, measure = false, timed = false;
  std::vector<Tensor> arguments;  // by index; those that the part does not take have no value
  uint32_t num_results = 0;
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
// One run of a node, for RunMetadata.
struct node_run {
  uint32_t node = 0;
  uint32_t thread = 0;  // 0 = the executor's turn, 1 = a job
  int64_t start_nanos = 0, end_nanos = 0;
};
struct part_done {
  int64_t step = 0;
  absl::Status status;
  std::vector<std::pair<uint32_t, Tensor>> results;  // by index
  std::vector<node_run> statistics;
};

// What a part may be sent while its step runs.
using part_message = std::variant<tensor_to_part, grant, abort_step, argument>;

// The edges between the parts of one compiled graph, by number.
//
// Thread rule: made by one thread, then read by all.
class EdgeTable {
 public:
  struct Edge {
    std::string name;  // the rendezvous key
    PartAddress receiver;
    // The value stays with its sender until the receiver grants it (graph/passes/recv_schedule.h).
    bool granted = false;
    PartAddress sender;  // of one that is granted
    // Of the sender's device: the one that the name bears, and the one that lives now. Null: it is
    // not known here.
    uint64_t incarnation = 0;
    const std::atomic<uint64_t>* living = nullptr;
    bool Lives() const { return living == nullptr || living->load(std::memory_order_relaxed) == incarnation; }
  };
  // The number of the edge with this name; a new one when there is none.
  uint32_t Add(const std::string& name);
  // Negative when there is no such edge.
  int64_t Find(const std::string& name) const;
  bool Has(uint32_t number) const { return number < edges_.size(); }
  Edge& operator[](uint32_t number) { return edges_[number]; }
  const Edge& operator[](uint32_t number) const { return edges_[number]; }
  size_t size() const { return edges_.size(); }
  // Whether the names of all edges bear incarnations that live.
  bool Live() const;
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

// The one way from part to part. Local delivery implements it; a link to another process will.
class PartTransport {
 public:
  virtual ~PartTransport() = default;
  // An error when there is no such part, or the message cannot be sent. From any thread.
  virtual absl::Status Deliver(PartAddress to, part_message message) = 0;
};

caf::error inspect(caf::serializer& f, IterationPath& x);
caf::error inspect(caf::deserializer& f, IterationPath& x);
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, begin_step& x) {
  return f(x.step, x.cancelled, x.partial, x.token_messages, x.check_kernels, x.measure, x.timed, x.arguments,
           x.num_results);
}
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

// The message after a journey through bytes (wire.h).
absl::StatusOr<part_message> ThroughBytes(caf::actor_system& system, part_message message);

// A resource crosses as its name; here its handle gets the object again. Handles that know no
// object any more stay unbound. `find` gives the containers of a device by name, or null.
void BindResources(Tensor* value, const std::function<ResourceContainers*(const std::string& device)>& find);

}  // namespace troupe

#endif  // TROUPE_ACTORS_WIRE_PART_MESSAGES_H_
