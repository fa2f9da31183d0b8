// One variable: a value with updates that run one at a time, in the order in which they were asked
// for, and snapshot reads.
//
// A read gives a snapshot: a tensor that shares the value's buffer and that no later update
// changes. An update has the slot to itself from Begin to End and works on a buffer that no
// snapshot shares: in place when no snapshot is alive, otherwise on a copy. Whoever cannot have the
// slot at once takes a ticket, which is a place in its queue, and blocks no thread: the ticket
// calls back when its turn has come. Reads stand in the same queue, so a read sees every update
// that was asked for before it. An update of several variables takes its places in all their queues
// in one moment, so two updates stand in the same order wherever they meet, and none waits for one
// that waits for it.
//
//   free    Begin, or a read                   1 the slot is the update's; a read takes its snapshot    busy; free
//   busy    somebody asks                      2 a ticket: the last place in the queue                 busy
//   busy    End, and nobody waits              3 nothing else                                          free
//   busy    End, and tickets wait              4 reads at the head take snapshots; the first update
//                                                has the slot                                          free, or busy
//   busy    a ticket that waits is given up    5 its places are taken back; what it has is ended        busy, or as 4
//   busy    the update breaks off              6 the value is lost: DATA_LOSS until it is assigned       as 3, 4
//
// A snapshot of the session's state (Save) reads in this way, too. So it never holds half an
// update, and costs an update a copy while it lives.
//
// Thread rule: all methods are thread safe, except those that say who may call them.
//
// Tests of the edges, tests/state/waiting_test.cc:
//   1, 3  edges_1_and_3_who_comes_alone_waits_for_nothing
//   2, 4  edges_2_and_4_everybody_has_their_turn_in_the_order_of_asking
//   5     edge_5_a_ticket_that_is_given_up_leaves_no_trace
//   6     edge_6_an_update_that_breaks_off_loses_the_value
#ifndef TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_
#define TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/resource.h"
#include "troupe/status.h"
#include "troupe/tensor.h"

namespace troupe {

class SlotTicket;
struct KernelNode;

// Which step's node has a slot to itself, or is the next to have it, for those who wait.
struct SlotHolder {
  const KernelNode* node = nullptr;  // null: a thread that runs no step
  int64_t step_id = 0;
};

class VariableSlot : public Resource {
 public:
  VariableSlot(std::string name, DType dtype, PartialTensorShape shape)
      : name_(std::move(name)), dtype_(dtype), shape_(std::move(shape)) {}

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  // The shape that every value must fit: the shapes of all nodes that name the variable, merged.
  PartialTensorShape shape() const {
    const Lock lock(this);
    return shape_;
  }
  bool Fits(const TensorShape& shape) const {
    const Lock lock(this);
    return shape_.IsCompatibleWith(shape);
  }
  // Registers one more node that names the variable, with this type and shape. INVALID_ARGUMENT
  // when no value could fit both, or a value that is there, and that no update has in hand, does
  // not fit.
  absl::Status Join(DType dtype, const PartialTensorShape& shape);
  bool initialized() const { return initialized_.load(std::memory_order_acquire); }
  // Counts the successful updates and assignments.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Takes a snapshot. False when it must wait, for which there are tickets. The status is
  // FAILED_PRECONDITION naming the variable while it has no value, DATA_LOSS after a lost update.
  bool TryRead(absl::StatusOr<Tensor>* value) const {
    const Lock lock(this);
    if ((lock.state & ~kLocked) != 0) return false;
    *value = Snapshot();
    return true;
  }
  // Begins an update, whose methods are those below. False when it must wait.
  bool TryBegin() noexcept {
    uint32_t free = 0;
    return state_.compare_exchange_strong(free, kBusy, std::memory_order_acquire, std::memory_order_relaxed) ||
           TryBeginLocked();
  }
  // Says who has begun; it lives, and does not change, until End. Without it those who wait are
  // told the variable's name only.
  void SetHolder(const SlotHolder* holder) noexcept { holder_.store(holder, std::memory_order_release); }
  void End() noexcept {
    holder_.store(nullptr, std::memory_order_relaxed);
    if (lost_) [[unlikely]]
      initialized_.store(false, std::memory_order_release);
    uint32_t alone = kBusy;
    if (!state_.compare_exchange_strong(alone, 0, std::memory_order_release, std::memory_order_relaxed)) EndLocked();
  }

  // For the update that has the slot.
  // FAILED_PRECONDITION without a value, DATA_LOSS after a lost update.
  absl::Status CheckReadable() const;
  Tensor& value() { return value_; }
  // Makes the value's buffer unique (a copy when a snapshot is out). RESOURCE_EXHAUSTED without
  // memory for the copy.
  absl::Status MakeUnique();
  // A tensor like the value, charged as it is, that holds nothing yet. RESOURCE_EXHAUSTED likewise.
  // REQUIRES: a value, of plain bytes.
  absl::StatusOr<Tensor> Another() const;
  // From here to Commit the value may be half written; an update that ends in between has lost it.
  void BeginWriting() {
    lost_ = true;
    state_number_ = ++last_number_;
  }
  void Commit() {
    lost_ = false;
    state_number_ = ++last_number_;
    initialized_.store(true, std::memory_order_release);
    version_.fetch_add(1, std::memory_order_release);
  }
  // The value that was there before, if any.
  Tensor Exchange(Tensor value) {
    value_.Swap(value);
    Commit();
    return value;
  }
  // Forgets the value.
  Tensor Forget() {
    initialized_.store(false, std::memory_order_release);
    lost_ = false;
    state_number_ = ++last_number_;
    return std::exchange(value_, Tensor());
  }
  // A change that its maker may take back. Noted before the change, with the value that there is
  // until then; closed when it is made, or has begun to be. While it lives it holds that value, so
  // the update works on a copy. Throws std::bad_alloc.
  class Change {
    friend class VariableSlot;
    Tensor before_;
    uint64_t version_ = 0;
    uint64_t from_ = 0, to_ = 0;  // numbers of the states before and after; equal: nothing to do
    bool lost_ = false;
  };
  std::shared_ptr<Change> Note();
  void Close(Change* change) { change->to_ = state_number_; }
  // The slot has what it had before the change, if nothing has happened to it since. What was made
  // of it since stays: another update, a value that was forgotten, or lost. If that is itself a
  // change that may be taken back, it then leads back to before this one.
  void TakeBack(Change* change);
  // True while the slot has never been changed, or all that was is taken back.
  bool untouched() const { return state_number_ == 0; }

  // For threads that may wait, which kernels must not (variable_access.h).
  absl::StatusOr<Tensor> Read();
  // INVALID_ARGUMENT when dtype or (with validate_shape) shape do not fit the variable's.
  absl::Status Assign(Tensor value, bool validate_shape = true);
  // Calls f(Tensor& value) -> absl::Status on the initialised value, whose buffer is unique. If f
  // returns an error, it must not have written.
  template <class F>
  absl::Status Update(F&& f) {
    return UpdateBy([&f](Tensor& value) { return f(value); });
  }
  void Clear();

  std::string DebugString() const override {
    return StrCat("variable '", name_, "' ", Name(dtype_), " ", shape().DebugString());
  }
  // The value, unless an update has it in hand.
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const override;
  // Stands in the queue of the slot as a read does. Saved as "value" (none: it is not initialised),
  // "dtype" (int32) and, when its rank is known, "shape" (int64, -1 for what is not known).
  void Save(const StateVisitor& visit) const override;
  // Takes over the shape that the nodes gave to `other`, which the value must fit.
  absl::Status TakePlaceOf(const Resource& other) override;

 private:
  friend class SlotTicket;
  // A ticket's place in the queue of one slot. Guarded by that slot's lock.
  struct Place {
    std::shared_ptr<SlotTicket> ticket;  // while it waits
    Place *before = nullptr, *after = nullptr;
    bool has = false;  // the ticket has the slot
  };
  static constexpr uint32_t kLocked = 1, kBusy = 2, kQueued = 4;

  // Some few instructions of one thread. While it is held, nobody else changes the state.
  struct Lock {
    explicit Lock(const VariableSlot* slot) : slot(slot) {
      uint32_t free = 0;
      if (!slot->state_.compare_exchange_strong(free, kLocked, std::memory_order_acquire, std::memory_order_relaxed))
        free = slot->Spin();
      state = free;
    }
    ~Lock() { slot->state_.store(state, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    const VariableSlot* const slot;
    uint32_t state;  // without kLocked
  };
  uint32_t Spin() const noexcept;
  absl::StatusOr<Tensor> Snapshot() const {
    if (lost_ || !value_.valid()) [[unlikely]]
      return CheckReadable();
    return value_;
  }
  bool TryBeginLocked() noexcept;
  void EndLocked() noexcept;
  absl::Status NoMemoryForCopy() const;
  absl::Status UpdateBy(const std::function<absl::Status(Tensor&)>& f);
  // Blocks until the slot is the caller's.
  void BeginBlocking();
  // ", held by node 'a' (AssignAdd) of step 6"; empty when that is not known, or nobody has it but
  // who asks.
  std::string HeldBy(const Place* asks) const;
  // Under the lock.
  void Append(Place* place, std::shared_ptr<SlotTicket> ticket) noexcept;
  std::shared_ptr<SlotTicket> Unlink(Place* place) noexcept;

  const std::string name_;
  const DType dtype_;
  mutable std::atomic<uint32_t> state_{0};
  bool lost_ = false;
  // Of the update that has the slot. Each change gives the slot a state with a number of its own;
  // taking it back gives the state before, with its number.
  uint64_t state_number_ = 0, last_number_ = 0;
  std::vector<std::weak_ptr<Change>> changes_;
  size_t look_through_ = 16;  // at this size those that are gone are dropped
  Place *first_ = nullptr, *last_ = nullptr;
  PartialTensorShape shape_;
  Tensor value_;
  // Of the update that has the slot. It goes only after End, which waits for the lock: whoever has
  // that may look at it.
  std::atomic<const SlotHolder*> holder_{nullptr};
  std::atomic<bool> initialized_{false};
  std::atomic<uint64_t> version_{0};
};

// Places in the queues of one to four variables. Whoever asks owns the ticket, and gives it up or,
// of an update, takes the slots.
class SlotTicket : public std::enable_shared_from_this<SlotTicket> {
 public:
  static constexpr int kMaxSlots = 4;
  // Asks for an update of these variables, which differ, or for a snapshot of one.
  static std::shared_ptr<SlotTicket> ForUpdate(VariableSlot* const* slots, int n, const SlotHolder& asker = {});
  static std::shared_ptr<SlotTicket> ForRead(VariableSlot* slot);

  // Calls `f` when all slots are the ticket's, or the snapshot is taken: at once, or on the thread
  // of who had the last of them. Called once.
  void WhenAdmitted(std::function<void()> f);
  bool admitted() const { return missing_.load(std::memory_order_acquire) == 0; }
  // The slots are the caller's, who ends each (SetHolder). REQUIRES: an update that is admitted.
  void Take(const SlotHolder* holder = nullptr);
  // REQUIRES: a read that is admitted.
  absl::StatusOr<Tensor> TakeSnapshot() { return std::move(snapshot_); }
  // Gives places back, and ends slots that were not taken. A thread that has just admitted the
  // ticket may still be calling what WhenAdmitted was given; nobody calls it later than that.
  void GiveUp();
  // What is waited for: the variables, and who has each that the ticket has not.
  std::string What() const;

 private:
  friend class VariableSlot;
  SlotTicket() = default;
  void Admitted();
  // Calls Admitted of each, in order.
  static void AdmitAll(std::shared_ptr<SlotTicket> first);

  int n_ = 0;
  bool reads_ = false;
  SlotHolder asker_;
  VariableSlot* slots_[kMaxSlots] = {};
  VariableSlot::Place places_[kMaxSlots];
  std::atomic<int> missing_{0};  // slots, or the snapshot
  absl::StatusOr<Tensor> snapshot_ = absl::UnknownError("");
  std::shared_ptr<SlotTicket> next_;  // of those that are admitted at once
  std::mutex mu_;                     // guards:
  std::function<void()> call_;
  bool told_ = false;
};

}  // namespace troupe

#endif  // TROUPE_KERNELS_STATE_VARIABLE_SLOT_H_
