// The mailroom of a part: tensors that pass between it and other parts, while one end is not ready
// for them. The table of a rendezvous (TensorFlow white paper, 3.2.2), one for each part.
//
// A place is an edge in one iteration of the loops around it, told exactly (IterationPath). Each
// place is used once in a step:
//
//   state    event                          action                                    next
//   empty    the tensor comes            1 keep it                                   there
//   empty    a Recv asks                 2 keep who asks                             asked
//   there    a Recv asks                 3 it gets the tensor                        empty
//   asked    the tensor comes            4 who has asked gets it                     empty
//   asked    another Recv asks           5 INVALID_ARGUMENT to that one              asked
//   there    another tensor comes        6 INVALID_ARGUMENT: the first one stays     there
//   empty    a Send whose receiver grants, before the grant
//                                        7 hold the value                            held
//   empty    the grant comes             8 keep it                                   granted
//   held     the grant comes             9 the value may be sent                     empty
//   granted  a Send                     10 the value may be sent                     empty
//   held     another Send               11 INVALID_ARGUMENT to that one              held
//   any      the step ends              12 all of it is dropped                      empty
//
// Messages for a step that has not begun here (its run_step may be overtaken) lie in a list of
// their own until it begins.
//
// What others can send unasked is bounded: tensors that nobody has asked for, grants that came
// early, and messages of steps to come. A message beyond the bound is refused with
// RESOURCE_EXHAUSTED, which names its edge and its sender; that is the step's error.
//
// Thread rule: one thread at a time.
//
// Tests of the edges, tests/actors/mailroom_test.cc:
//   1, 3    edges_1_and_3_an_early_tensor_waits_for_its_recv
//   2, 4    edges_2_and_4_a_recv_waits_for_its_tensor
//   5, 6    edges_5_and_6_a_place_has_one_recv_and_one_tensor
//   7, 9    edges_7_and_9_a_held_value_goes_when_it_is_granted
//   8, 10   edges_8_and_10_a_grant_may_come_first
//   11      edge_11_a_place_has_one_held_value
//   12      edge_12_the_end_of_a_step_drops_all
#ifndef TROUPE_ACTORS_EXECUTOR_MAILROOM_H_
#define TROUPE_ACTORS_EXECUTOR_MAILROOM_H_

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "actors/executor/arrival.h"

namespace troupe {

class Mailroom {
 public:
  struct Place {
    uint32_t edge = 0;
    IterationPath iteration;
    friend bool operator==(const Place&, const Place&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Place& p) {
      return H::combine(std::move(h), p.edge, p.iteration);
    }
  };
  // A tensor, or the news that it is dead.
  struct Mail {
    Tensor value;
    bool dead = false;
  };
  // A node that has asked for a tensor.
  struct Waiter {
    std::function<void(absl::Status, Tensor, bool dead)> done;
    uint32_t node = 0;
    const Iteration* iteration = nullptr;
  };
  struct Held {
    Tensor value;
    int64_t since = 0;  // nanoseconds by the device's clock
  };
  // So many messages may lie here that nobody has asked for.
  static constexpr size_t kMost = size_t{1} << 20;

  // `edges` outlives this.
  explicit Mailroom(const EdgeTable* edges, size_t most = kMost) : edges_(*edges), most_(most) {}

  // The tensor, if it has come.
  std::optional<Mail> Take(const Place& place);
  // Keeps who asks for a tensor that has not come. When this fails, `waiter` is as it was.
  absl::Status Ask(const Place& place, Waiter&& waiter);
  // Keeps who asks for what nobody sends.
  void AskInVain(Waiter waiter) { waiters_.in_vain.push_back(std::move(waiter)); }
  // A tensor has come: who has asked for it, and is to get it; or nobody, and it is kept.
  absl::StatusOr<std::optional<Waiter>> Came(const Place& place, Mail* mail);
  // Everybody who still waits. Needs no memory.
  struct Waiters {
    std::unordered_map<Place, Waiter, absl::Hash<Place>> asked;
    std::vector<Waiter> in_vain;
  };
  Waiters TakeWaiters() noexcept { return std::exchange(waiters_, Waiters()); }

  // Whether the value may be sent: its grant has come, and is used up.
  bool TakeGrant(const Place& place) { return grants_.erase(place) != 0; }
  absl::Status Hold(const Place& place, Tensor value, int64_t since);
  // A grant has come: the value that was held for it, or nothing, and the grant is kept.
  absl::StatusOr<std::optional<Tensor>> Granted(const Place& place);
  // Drops the values that are held back.
  void DropHeld() { held_.clear(); }
  size_t num_held() const { return held_.size(); }

  // Keeps what is for a later step. Needs no memory, except for its error. Tensors and grants,
  // which other parts send, are refused beyond the bound. The others are never refused: they are
  // the set's own, few of each, its arguments, its end, and questions about it.
  absl::Status KeepEarly(std::unique_ptr<Arrival> arrival);
  bool has_early() const { return !early_.empty(); }
  // Gives what is kept, the oldest first. What still comes too early is to be kept again.
  void TakeEarly(ArrivalList* list) noexcept;

  // The step ends.
  void Clear();

  // For reports: f(place, waiter), f(place, held), f(place, mail).
  template <class F>
  void ForEachWaiter(F f) const {
    for (const auto& [place, waiter] : waiters_.asked) f(place, waiter);
  }
  template <class F>
  void ForEachMail(F f) const {
    for (const auto& [place, mail] : mail_) f(place, mail);
  }
  template <class F>
  void ForEachHeld(F f) const {
    for (const auto& [place, held] : held_) f(place, held);
  }

 private:
  absl::Status CheckRoom(uint32_t edge) const;

  const EdgeTable& edges_;
  const size_t most_;
  // The standard's maps: absl's are broken for good by an insertion that finds no memory.
  std::unordered_map<Place, Mail, absl::Hash<Place>> mail_;
  Waiters waiters_;
  std::unordered_map<Place, Held, absl::Hash<Place>> held_;
  std::unordered_set<Place, absl::Hash<Place>> grants_;
  ArrivalList early_;
  size_t num_early_ = 0;
};

}  // namespace troupe

#endif  // TROUPE_ACTORS_EXECUTOR_MAILROOM_H_
