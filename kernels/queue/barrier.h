// A barrier: elements whose components come one by one, by keys; and who takes elements gets whole
// ones only.
//
// The rules are TensorFlow's. A key is incomplete until each component has come; then it is ready,
// and the key may be used anew. Elements leave in the order in which their keys were first named;
// all keys of one insertion have the same index.
//
//   barrier   request                 1st in line, and            action
//   open      insert                                              1 add; a key with all components is ready
//   closed    insert                  a key is new                2 CANCELLED, nothing is added
//   any       insert                  the component has come      3 INVALID_ARGUMENT, nothing is added
//   any       take n                  n are ready                 4 answer with the n first
//   closed    take n                  n can be ready no more      5 OUT_OF_RANGE
//   closed    take n, small batches   at least one is ready       6 answer with all that are ready
//   open      close                   (at once)                   7 closed; keys that are there go on
//   closed    close                                               8 CANCELLED
//   any       close, cancelling       (at once)                   9 closed; incomplete keys are dropped
//
// With `wait_for_incomplete`, row 6 waits until no key is incomplete. A take that is withdrawn
// gives back what it was given.
//
// Thread rule: as for StateMachine.
//
// Tests of the rows, tests/queue/barrier_test.cc:
//   1, 3, 4     rows_1_3_and_4_whole_elements_leave_in_order
//   2, 5, 6, 8  rows_2_5_6_and_8_a_closed_barrier
//   7, 9        rows_7_and_9_what_a_close_leaves
#ifndef TROUPE_KERNELS_QUEUE_BARRIER_H_
#define TROUPE_KERNELS_QUEUE_BARRIER_H_

#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/queue/queue.h"
#include "kernels/state/state_kind.h"

namespace troupe::queue {

struct BarrierEntry {
  int64_t index = 0;
  std::string key;
  Element components;  // those that have not come are invalid
  size_t missing = 0;
};

struct BarrierRequest : StateRequest {
  enum class Kind : uint8_t { kInsert, kTake, kClose, kCloseAndCancel, kReady, kIncomplete };
  Kind kind = Kind::kReady;
  // Of an insertion.
  size_t component = 0;
  std::vector<std::string> keys;
  std::vector<Tensor> values;
  // Of a take.
  int64_t wanted = 0;
  bool small_batches = false, wait_for_incomplete = false;
  std::vector<BarrierEntry> taken;
  int64_t number = 0;  // the answer of kReady and kIncomplete
};
using BarrierRequestPtr = std::shared_ptr<BarrierRequest>;

// Its spec is that of a queue: types, shapes, name.
class BarrierMachine : public StateMachine {
 public:
  explicit BarrierMachine(QueueSpec spec) : spec_(std::move(spec)) {}
  const QueueSpec& spec() const { return spec_; }

 protected:
  void Handle(const StateRequestPtr& request, StateAnswers* answers) override;
  void Withdraw(const StateRequestPtr& request, StateAnswers* answers) override;
  void AbortWaiting(const absl::Status& why, StateAnswers* answers) override;
  absl::StatusOr<ResourceState> Save() const override;
  void Visit(const std::function<void(const Tensor&)>& visit) const override;
  std::string What() const override { return spec_.What(); }
  std::string HowMuch() const override;

 private:
  friend absl::StatusOr<std::shared_ptr<Resource>> MakeSavedBarrier(const std::string&, const ResourceState&);
  absl::Status Insert(BarrierRequest* r);
  absl::Status Close(bool cancel);
  void Serve(StateAnswers* answers);
  // Whether the take is over, and how.
  bool ServeTake(BarrierRequest* r, absl::Status* status);
  void GiveBack(BarrierRequest* r);

  const QueueSpec spec_;
  std::map<std::string, BarrierEntry> incomplete_;
  std::multimap<int64_t, BarrierEntry> ready_;
  std::deque<BarrierRequestPtr> takes_;
  int64_t next_index_ = std::numeric_limits<int64_t>::min();
  bool closed_ = false, cancelled_ = false;
};

class Barrier : public StateResource {
 public:
  static absl::StatusOr<std::shared_ptr<Barrier>> Make(QueueSpec spec);
  const QueueSpec& spec() const { return spec_; }
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  explicit Barrier(std::shared_ptr<BarrierMachine> machine) : StateResource(machine), spec_(machine->spec()) {}
  const QueueSpec& spec_;
};

absl::StatusOr<std::shared_ptr<Resource>> MakeSavedBarrier(const std::string& name, const ResourceState& state);

}  // namespace troupe::queue

#endif  // TROUPE_KERNELS_QUEUE_BARRIER_H_
