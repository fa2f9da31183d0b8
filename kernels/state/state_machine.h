// State that is asked, not locked: queues, readers, and whatever else makes its askers wait.
//
// A StateMachine is the logic: it takes one request after the other, and answers each at once or
// when another request allows it. It knows neither threads nor actors, so a test calls it directly.
// A StateResource is the machine in a container, under a name. Its mailbox hands letters to the
// machine one at a time; in a runtime that is an actor (actors/state/state_actors.h), without one a
// PlainMailbox.
//
//   state of a request   what happens              what follows                              next
//   asked                Handle, and it is ready   1 the machine answers                     answered
//   asked                Handle, and it must wait  2 the machine keeps it                    waiting
//   waiting              a later request           3 the machine answers                     answered
//   asked, waiting       Withdraw                  4 the machine forgets it; what it had
//                                                    taken goes back                         gone
//   answered             Withdraw                  5 what was taken for it, and that nobody
//                                                    wants any more, goes back               gone
//   waiting              the actor dies            6 AbortWaiting: what it had taken goes
//                                                    back, and it is answered ABORTED        answered
//   waiting              the resource is dropped   7 as 6                                    answered
//   (new)                asked after that          8 it is answered ABORTED                  answered
//
// A resource is dropped when its entry leaves its container (kernels/device/droppable.h): it was
// destroyed, its container reset or restored, or its session has ended. Nobody else will find it,
// so whoever waits would wait for ever.
//
// A kernel asks by AskState. It nearly always has its answer when Ask returns, since an actor that
// nobody else asks runs on the asker's thread; otherwise the node waits (KernelContext::WaitFor),
// and no thread does. A step that is told to end destroys its waits, and so withdraws its requests.
//
// Thread rule: a machine is called by one thread at a time. All else is thread safe.
//
// Tests of the edges, tests/queue/machine_test.cc:
//   1, 2, 3  edges_1_to_3_a_request_is_answered_when_it_can_be
//   4, 5     edges_4_and_5_what_a_withdrawn_request_had_taken_goes_back
//   6        edge_6_what_an_aborted_request_had_taken_goes_back
//   7, 8     edges_7_and_8_who_asks_a_dropped_resource_is_aborted
#ifndef TROUPE_KERNELS_STATE_STATE_MACHINE_H_
#define TROUPE_KERNELS_STATE_STATE_MACHINE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "kernels/device/droppable.h"
#include "troupe/kernel.h"
#include "troupe/resource_state.h"

namespace troupe {

// One question. A machine derives a class for what it is asked and answers.
class StateRequest {
 public:
  StateRequest() = default;
  StateRequest(const StateRequest&) = delete;
  StateRequest& operator=(const StateRequest&) = delete;
  virtual ~StateRequest() = default;

  // The first answer counts. What the machine wrote into the request is there for who sees it.
  void Answer(absl::Status status);
  bool answered() const { return answered_.load(std::memory_order_acquire); }
  // REQUIRES: answered().
  const absl::Status& status() const { return status_; }
  // Calls `f` once when the request is answered: at once, or on the thread that answers.
  void WhenAnswered(std::function<void()> f);
  // The asker is gone: nothing is called any more, and nobody takes what is answered. A machine
  // drops such a request when it meets it, since the letter that withdraws it may be lost.
  void Leave();
  bool left() const { return left_.load(std::memory_order_acquire); }

 private:
  std::mutex mu_;
  std::function<void()> call_;
  absl::Status status_;
  std::atomic<bool> answered_{false}, left_{false};
};
using StateRequestPtr = std::shared_ptr<StateRequest>;

// What a machine answers in one call. The answers are given when the call is over.
class StateAnswers {
 public:
  // Before the machine changes anything, so that answering needs no memory.
  void Reserve(size_t n) { list_.reserve(list_.size() + n); }
  void Add(StateRequestPtr request, absl::Status status) { list_.emplace_back(std::move(request), std::move(status)); }
  // What the machine sets going: `f` is called when the answers have been given. It may ask other
  // machines, and this one.
  void Then(std::function<void()> f) { then_.push_back(std::move(f)); }
  void Give();

 private:
  absl::InlinedVector<std::pair<StateRequestPtr, absl::Status>, 4> list_;
  absl::InlinedVector<std::function<void()>, 1> then_;
};

struct StateLetter {
  enum class Kind : uint8_t { kAsk, kWithdraw, kSave, kDrop };
  Kind kind = Kind::kAsk;
  StateRequestPtr request;
};

class StateMachine {
 public:
  virtual ~StateMachine() = default;
  // Opens the letter, then answers. What a call throws becomes the answer of its request, which has
  // left then: what it has taken, or takes while it stands in a line, goes back.
  void Open(const StateLetter& letter);
  // All that wait hear `why`; what the machine holds stays. They would wait for ever otherwise, so
  // it is tried again each millisecond while memory is lacking.
  void AbortWaiting(const absl::Status& why) noexcept { AbortAll(&why); }
  // The tensors that it holds, unless it is at work.
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const;
  // "FIFOQueue 'q', 3 elements", without the number while it is at work.
  std::string DebugString() const;

 protected:
  virtual void Handle(const StateRequestPtr& request, StateAnswers* answers) = 0;
  // Forgets the request if it waits. What was taken for it goes back.
  virtual void Withdraw(const StateRequestPtr& request, StateAnswers* answers) = 0;
  // Done again when it throws std::bad_alloc: it goes on from what it has done by then.
  virtual void AbortWaiting(const absl::Status& why, StateAnswers* answers) = 0;
  virtual absl::StatusOr<ResourceState> Save() const = 0;
  virtual void Visit(const std::function<void(const Tensor&)>& visit) const = 0;
  virtual std::string What() const = 0;
  virtual std::string HowMuch() const = 0;

 private:
  // Null: it is dropped.
  void AbortAll(const absl::Status* why) noexcept;
  // Held while a call is at work, for those who only look.
  mutable std::mutex at_work_;
  absl::Status dropped_;  // what those hear who ask later; OK while it stands in a container
};

// Hands letters to a machine, one at a time.
class StateMailbox {
 public:
  virtual ~StateMailbox() = default;
  // The machine may have handled the letter when this returns.
  virtual void Send(StateLetter letter) = 0;
};

// A mailbox without an actor: whoever sends when nobody is at it opens the letters.
class PlainMailbox : public StateMailbox {
 public:
  explicit PlainMailbox(std::shared_ptr<StateMachine> machine) : machine_(std::move(machine)) {}
  void Send(StateLetter letter) override;

 private:
  const std::shared_ptr<StateMachine> machine_;
  std::mutex mu_;
  std::deque<StateLetter> letters_;
  bool open_ = false;
};

// Who gives the machines of one device their mailboxes.
class StateHost {
 public:
  virtual ~StateHost() = default;
  // The mailbox lives as long as the resource that has it.
  virtual std::unique_ptr<StateMailbox> Open(std::shared_ptr<StateMachine> machine) = 0;
};
// Sets, and tells, the host of the resources in these containers. To be set back to null before
// they go; then the resources have PlainMailboxes.
void SetStateHost(const ResourceContainers* containers, std::shared_ptr<StateHost> host);
std::shared_ptr<StateHost> StateHostOf(const ResourceContainers* containers);

class StateResource : public Resource, public Droppable {
 public:
  explicit StateResource(std::shared_ptr<StateMachine> machine);
  // From now on the containers' host has its mailbox. REQUIRES: nobody has asked.
  void LiveIn(const ResourceContainers* containers);
  void Ask(StateRequestPtr request) const { mailbox_->Send({StateLetter::Kind::kAsk, std::move(request)}); }
  // The asker is gone. Throws std::bad_alloc when there is no memory for the letter.
  void Withdraw(StateRequestPtr request) const {
    request->Leave();
    mailbox_->Send({StateLetter::Kind::kWithdraw, std::move(request)});
  }
  void Drop() const noexcept override;
  StateMailbox* mailbox() const { return mailbox_.get(); }
  const std::shared_ptr<StateMachine>& machine() const { return machine_; }

  std::string DebugString() const override { return machine_->DebugString(); }
  void VisitTensors(const std::function<void(const Tensor&)>& visit) const override { machine_->VisitTensors(visit); }
  // A letter like the others, so it sees the state between two requests.
  void Save(const StateVisitor& visit) const override;

 private:
  const std::shared_ptr<StateMachine> machine_;
  std::unique_ptr<StateMailbox> mailbox_;
};

// A node that waits for its answer.
class StateWait : public KernelWait {
 public:
  StateWait(std::shared_ptr<const StateResource> resource, StateRequestPtr request, std::string what)
      : resource_(std::move(resource)), request_(std::move(request)), what_(std::move(what)) {}
  ~StateWait() override;
  void Await(std::function<void()> go_on) override { request_->WhenAnswered(std::move(go_on)); }
  std::string What() const override { return what_; }
  StateRequestPtr Take() { return std::exchange(request_, nullptr); }

 private:
  const std::shared_ptr<const StateResource> resource_;
  StateRequestPtr request_;
  const std::string what_;
};

// In Compute: the answered request of the resource behind input `i`, or the status to return, also
// that of WaitFor. `make` makes the request, at the first call only.
template <class F>
auto AskState(KernelContext& ctx, int i, const StateResource& resource, F&& make)
    -> absl::StatusOr<typename std::invoke_result_t<F>::value_type> {
  using Pointer = typename std::invoke_result_t<F>::value_type;  // a shared pointer to a request
  if (ctx.wait() != nullptr) [[unlikely]] {
    const std::unique_ptr<KernelWait> wait = ctx.TakeWait();
    auto request = std::static_pointer_cast<typename Pointer::element_type>(static_cast<StateWait&>(*wait).Take());
    TROUPE_RETURN_IF_ERROR(request->status());
    return request;
  }
  absl::StatusOr<Pointer> request = make();
  if (!request.ok()) return request.status();
  std::unique_ptr<KernelWait> wait;
  try {
    resource.Ask(*request);
    if (!(*request)->answered()) [[unlikely]] {
      const auto& handle = *static_cast<const ResourceHandle*>(ctx.input(i).raw());
      wait = std::make_unique<StateWait>(std::dynamic_pointer_cast<const StateResource>(handle.object()), *request,
                                         resource.DebugString());
    }
  } catch (...) {
    // No memory. Nobody would take the answer.
    (*request)->Leave();
    resource.Withdraw(*request);
    throw;
  }
  if (wait != nullptr) [[unlikely]] {
    return ctx.WaitFor(std::move(wait));
  }
  TROUPE_RETURN_IF_ERROR((*request)->status());
  return *std::move(request);
}

}  // namespace troupe

#endif  // TROUPE_KERNELS_STATE_STATE_MACHINE_H_
