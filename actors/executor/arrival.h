// What reaches the step of a part from outside of its executor's turn: messages of other parts and
// of the step itself (actors/wire/part_messages.h), and the ends of what the part has set going.
//
// Thread rule: an arrival belongs to whoever has it; a list, to one thread at a time.
#ifndef TROUPE_ACTORS_EXECUTOR_ARRIVAL_H_
#define TROUPE_ACTORS_EXECUTOR_ARRIVAL_H_

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/wire/part_messages.h"

namespace troupe {

struct AsyncCall;
struct Iteration;
struct WaitingNode;

// A node that ran outside of the turn has ended.
struct node_end {
  int64_t step = 0;
  AsyncCall* call = nullptr;
  uint32_t node = 0;
  Iteration* iteration = nullptr;
  absl::Status status;
  std::vector<Tensor> outputs;
  bool dead = false;
  bool job = false;                    // it ran as a job:
  int64_t start_nanos = 0, nanos = 0;  // from then on, and for so long
};
// What a node has waited for is there.
struct wait_end {
  int64_t step = 0;
  WaitingNode* waiting = nullptr;
  absl::Status status;  // an error: the wait was forgotten
};
struct Arrival {
  using Message = std::variant<node_end, wait_end, tensor_to_part, grant, abort_step, argument, question>;

  Arrival() = default;
  explicit Arrival(Message m) : message(std::move(m)) {}
  // The step that it is for. A question is for whatever step runs: 0.
  int64_t step() const {
    return std::visit(
        [](const auto& m) -> int64_t {
          if constexpr (std::is_same_v<std::decay_t<decltype(m)>, question>) {
            return 0;
          } else {
            return m.step;
          }
        },
        message);
  }

  Arrival* next = nullptr;
  Message message;
};

// A queue of arrivals, first in, first out. Owns them; allocates nothing.
class ArrivalList {
 public:
  ArrivalList() = default;
  ArrivalList(const ArrivalList&) = delete;
  ArrivalList& operator=(const ArrivalList&) = delete;
  ~ArrivalList() {
    while (Pop() != nullptr) {
    }
  }
  bool empty() const { return first_ == nullptr; }
  void Push(Arrival* a) noexcept {
    a->next = nullptr;
    (last_ != nullptr ? last_->next : first_) = a;
    last_ = a;
  }
  // Null when there is none.
  std::unique_ptr<Arrival> Pop() noexcept {
    Arrival* const a = first_;
    if (a != nullptr && (first_ = a->next) == nullptr) last_ = nullptr;
    return std::unique_ptr<Arrival>(a);
  }
  void Swap(ArrivalList& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
  }

 private:
  Arrival *first_ = nullptr, *last_ = nullptr;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_ARRIVAL_H_
